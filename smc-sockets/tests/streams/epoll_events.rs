//! The descriptor of a stream reports what that of a TCP connection does: the same steps are
//! taken over both, and the events of an epoll compared after each.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::common::pair;
use rustix::event::epoll::{self, EventData, EventFlags};
use smc_sockets::SmcStream;

/// What both kinds of streams can do.
trait Stream: AsFd {
    fn read(&self, into: &mut [u8]) -> std::io::Result<usize>;
    fn write(&self, bytes: &[u8]) -> std::io::Result<usize>;
    fn shutdown(&self, how: Shutdown);
    fn reset(self);
}

macro_rules! stream {
    ($of:ty, $reset:expr) => {
        impl Stream for $of {
            fn read(&self, into: &mut [u8]) -> std::io::Result<usize> {
                (&mut &*self).read(into)
            }
            fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
                (&mut &*self).write(bytes)
            }
            fn shutdown(&self, how: Shutdown) {
                Self::shutdown(self, how).unwrap();
            }
            fn reset(self) {
                $reset(&self);
            }
        }
    };
}

stream!(SmcStream, |at: &SmcStream| at
    .set_linger(Some(Duration::ZERO))
    .unwrap());
stream!(TcpStream, |at: &TcpStream| {
    rustix::net::sockopt::set_socket_linger(at, Some(Duration::ZERO)).unwrap()
});

/// A step of this side, or of the peer.
#[derive(Clone, Copy, Debug)]
enum Step {
    Nothing,
    /// Reads so many bytes.
    Read(usize),
    /// Reads until it would wait, or to the end.
    Drain,
    /// Writes until it would wait, and has done so for [`SETTLED`].
    Fill,
    Shutdown(Shutdown),
    PeerWrites(usize),
    PeerDrains,
    PeerShutsDown(Shutdown),
    PeerCloses,
    PeerResets,
}

use Step::*;

/// Longer than TCP makes room after a write that would wait: acknowledgements are delayed for 40 ms,
/// and longer on a busy machine. Such room is an edge that no step has caused.
const SETTLED: Duration = Duration::from_millis(100);

const SEQUENCES: &[&[Step]] = &[
    // Bytes that arrive are an edge each time, those that are left are none.
    &[
        PeerWrites(10),
        Read(4),
        PeerWrites(6),
        Read(4),
        Read(8),
        Drain,
        PeerWrites(1),
        Drain,
    ],
    // Without reading in between.
    &[PeerWrites(1), PeerWrites(1), PeerWrites(1), Drain],
    // Room to write.
    &[Fill, PeerDrains, Fill, PeerDrains],
    &[PeerWrites(3), Fill, PeerWrites(3), Drain, PeerDrains],
    // The peer ends its direction, with and without unread bytes.
    &[
        PeerShutsDown(Shutdown::Write),
        Drain,
        Shutdown(Shutdown::Write),
    ],
    &[
        PeerWrites(5),
        PeerShutsDown(Shutdown::Write),
        Read(2),
        Drain,
    ],
    &[Fill, PeerShutsDown(Shutdown::Write), PeerDrains],
    // This side ends first.
    &[
        Shutdown(Shutdown::Write),
        PeerWrites(4),
        Drain,
        PeerShutsDown(Shutdown::Write),
    ],
    &[Shutdown(Shutdown::Read)],
    &[Shutdown(Shutdown::Both)],
    // The peer closes.
    &[PeerCloses, Drain],
    &[PeerWrites(7), PeerCloses, Drain],
    &[PeerResets, Drain],
    &[PeerWrites(7), PeerResets, Drain],
    &[Fill, PeerResets, Drain],
];

fn would_block(outcome: &std::io::Result<usize>) -> bool {
    matches!(outcome, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

struct Run<S> {
    this: S,
    peer: Option<S>,
    /// Bytes in flight to the peer.
    written: usize,
    epoll: OwnedFd,
}

impl<S: Stream> Run<S> {
    fn take(&mut self, step: Step) {
        let mut chunk = [0; 65_536];
        match step {
            Nothing => {}
            Read(len) => assert_eq!(self.this.read(&mut chunk[..len]).unwrap(), len),
            Drain => while self.this.read(&mut chunk).is_ok_and(|len| len > 0) {},
            Fill => {
                let mut last = Instant::now();
                while last.elapsed() < SETTLED {
                    match self.this.write(&chunk) {
                        Ok(len) => (self.written, last) = (self.written + len, Instant::now()),
                        outcome => {
                            assert!(would_block(&outcome), "{outcome:?}");
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            }
            Step::Shutdown(how) => self.this.shutdown(how),
            PeerWrites(len) => assert_eq!(self.peer().write(&chunk[..len]).unwrap(), len),
            PeerDrains => {
                while self.written > 0 {
                    match self.peer().read(&mut chunk) {
                        Ok(len) => self.written -= len,
                        outcome => assert!(would_block(&outcome), "{outcome:?}"),
                    }
                }
            }
            PeerShutsDown(how) => self.peer().shutdown(how),
            PeerCloses => drop(self.peer.take()),
            PeerResets => self.peer.take().unwrap().reset(),
        }
    }

    fn peer(&self) -> &S {
        self.peer.as_ref().unwrap()
    }

    /// The events that the epoll reports now, all together.
    fn events(&self) -> EventFlags {
        let (mut all, mut events) = (EventFlags::empty(), Vec::with_capacity(8));
        let now = rustix::time::Timespec::default();
        let room = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&self.epoll, room, Some(&now)).unwrap();
        for event in events {
            all |= event.flags;
        }
        all
    }
}

/// The events after each step, as soon as they are those that are `expected`, or after a while.
fn run<S: Stream>(
    (this, peer): (S, S),
    mode: EventFlags,
    sequence: &[Step],
    expected: Option<&[EventFlags]>,
) -> Vec<EventFlags> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let all = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::PRI;
    epoll::add(&epoll, &this, EventData::new_u64(0), all | mode).unwrap();
    let mut run = Run {
        this,
        peer: Some(peer),
        written: 0,
        epoll,
    };
    let mut seen = Vec::new();
    for (number, step) in [Nothing].iter().chain(sequence).enumerate() {
        run.take(*step);
        let wanted = expected.map(|all| all[number]);
        let begin = Instant::now();
        let mut events = EventFlags::empty();
        loop {
            let now = run.events();
            events = if mode.contains(EventFlags::ET) {
                events | now
            } else {
                now
            };
            // An event too many would come within this time.
            let waits = match wanted {
                Some(wanted) if wanted != events => Duration::from_secs(10),
                Some(_) => Duration::from_millis(5),
                None => Duration::from_millis(50),
            };
            if begin.elapsed() > waits {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        seen.push(events);
    }
    seen
}

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let this = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    for end in [&this, &peer] {
        end.set_nonblocking(true).unwrap();
    }
    (this, peer)
}

fn smc() -> (SmcStream, SmcStream) {
    let (this, peer) = pair();
    for end in [&this, &peer] {
        end.set_nonblocking(true).unwrap();
    }
    (this, peer)
}

fn are_those_of_tcp(mode: EventFlags) {
    for sequence in SEQUENCES {
        let over_tcp = run(tcp(), mode, sequence, None);
        let over_smc = run(smc(), mode, sequence, Some(&over_tcp));
        assert_eq!(over_smc, over_tcp, "{sequence:?}");
    }
}

#[test]
fn edges_are_those_of_tcp() {
    are_those_of_tcp(EventFlags::ET);
}

#[test]
fn levels_are_those_of_tcp() {
    are_those_of_tcp(EventFlags::empty());
}

/// A program writes to the descriptor in place of the stream: the peer gets none of it, and the
/// stream goes on.
#[test]
fn a_write_to_the_descriptor_itself_is_counted_and_dropped() {
    let (mut this, mut peer) = pair();
    assert_eq!(this.stray_writes(), 0);
    for number in 1..=20 {
        rustix::io::write(this.as_fd(), b"stray").unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while this.stray_writes() < number {
            assert!(Instant::now() < end, "{number}: it is not noticed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    this.write_all(b"true").unwrap();
    let mut bytes = [0; 4];
    peer.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"true");
    peer.write_all(b"too").unwrap();
    this.read_exact(&mut bytes[..3]).unwrap();
}
