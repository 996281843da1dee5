//! A thread that is held up by its own memory while it reads or writes holds up no connection
//! but its own.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::stack;
use smc_sockets::{SmcListener, SmcStream, Stack};

/// Longest time that anything may take on a busy machine.
const LONG: Duration = Duration::from_secs(20);
const PAGE: usize = 4096;
/// Faults of this process only, which takes no privilege.
const USER_MODE_ONLY: libc::c_int = 1;

/// A page without memory: a thread that touches it waits until [`Missing::supply`].
struct Missing {
    uffd: OwnedFd,
    address: usize,
}

impl Missing {
    fn page() -> Self {
        const API: libc::c_ulong = 0xc018_aa3f;
        const REGISTER: libc::c_ulong = 0xc020_aa00;
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: it takes a number; the descriptor is new.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        assert!(fd >= 0, "userfaultfd: {}", std::io::Error::last_os_error());
        // SAFETY: the descriptor is new.
        let uffd = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) };
        let (access, map) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: the kernel chooses where.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, access, map, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        let address = page.expose_provenance();
        let mut api = [0xaa_u64, 0, 0];
        let mut register = [address as u64, PAGE as u64, 1, 0];
        for (request, argument) in [(API, &mut api[..]), (REGISTER, &mut register[..])] {
            // SAFETY: each request reads and writes a structure of this length.
            let done = unsafe { libc::ioctl(uffd.as_raw_fd(), request, argument.as_mut_ptr()) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        }
        Self { uffd, address }
    }

    /// The memory of the page.
    fn bytes(&self) -> &'static mut [u8] {
        let start = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: each test takes it once, and the mapping stays.
        unsafe { std::slice::from_raw_parts_mut(start, PAGE) }
    }

    /// Waits until a thread has touched the page.
    fn await_touch(&self) {
        use rustix::event::{PollFd, PollFlags};
        let mut polled = [PollFd::new(&self.uffd, PollFlags::IN)];
        let time = LONG.try_into().unwrap();
        assert_eq!(rustix::event::poll(&mut polled, Some(&time)), Ok(1));
    }

    /// Has the page there, filled with a byte.
    fn supply(&self, byte: u8) {
        const COPY: libc::c_ulong = 0xc028_aa03;
        let from = [byte; PAGE];
        let source = from.as_ptr().expose_provenance() as u64;
        let mut copy = [self.address as u64, source, PAGE as u64, 0, 0];
        // SAFETY: the request reads a page of a local variable, and writes its last word.
        let done = unsafe { libc::ioctl(self.uffd.as_raw_fd(), COPY, copy.as_mut_ptr()) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Two stacks, and connections between them.
struct Pairs {
    near: Stack,
    listener: SmcListener,
    _far: Stack,
}

impl Pairs {
    fn new() -> Self {
        let (near, far) = (stack(), stack());
        let listener = SmcListener::bind_on(&far, "127.0.0.1:0").unwrap();
        Self {
            near,
            listener,
            _far: far,
        }
    }

    fn pair(&self) -> (SmcStream, SmcStream) {
        let address = self.listener.local_addr().unwrap();
        let client = SmcStream::connect_on(&self.near, address).unwrap();
        let (server, _) = self.listener.accept().unwrap();
        assert!(client.carrier().is_smc() && server.carrier().is_smc());
        (client, server)
    }
}

/// Whether a message goes there and back, again and again: in a thread of its own, as it may
/// hang.
fn goes_there_and_back(client: &SmcStream, server: &SmcStream) -> bool {
    let (client, server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    completes(move || {
        for round in 0..100_u8 {
            let mut message = [0; 64];
            (&client).write_all(&[round; 64]).unwrap();
            (&server).read_exact(&mut message).unwrap();
            (&server).write_all(&message).unwrap();
            (&client).read_exact(&mut message).unwrap();
            assert_eq!(message, [round; 64]);
        }
    })
}

fn completes(work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    is_done.recv_timeout(LONG).is_ok()
}

/// The others go on, one of them is new, and one of them ends.
fn others_go_on(pairs: Pairs, (client, server): (SmcStream, SmcStream)) -> bool {
    goes_there_and_back(&client, &server)
        && completes(move || {
            let (new, mut accepted) = pairs.pair();
            drop(new);
            assert_eq!(accepted.read(&mut [0; 1]).unwrap(), 0);
            drop(client);
            assert_eq!((&server).read(&mut [0; 1]).unwrap(), 0);
        })
}

/// Whether the reader has waited before or not.
fn a_reader_faults(waits: bool) {
    let pairs = Pairs::new();
    let (mut client, mut server) = pairs.pair();
    let others = pairs.pair();
    let missing = Missing::page();
    let into = missing.bytes();
    if !waits {
        server.write_all(&[7; PAGE]).unwrap();
    }
    let reader = thread::spawn(move || {
        client.read_exact(into).unwrap();
        let all_came = into.iter().all(|byte| *byte == 7);
        // The peer has ended meanwhile.
        let end = client.read(&mut [0; 1]).unwrap();
        (all_came, end)
    });
    if waits {
        // The thread is asleep by then, most often.
        thread::sleep(Duration::from_millis(50));
        server.write_all(&[7; PAGE]).unwrap();
    }
    missing.await_touch();
    drop(server);
    let go_on = others_go_on(pairs, others);
    missing.supply(0);
    assert!(go_on, "another connection was held up");
    assert_eq!(reader.join().unwrap(), (true, 0));
}

#[test]
fn a_page_fault_of_a_reader_stops_no_other_connection() {
    a_reader_faults(false);
}

#[test]
fn a_page_fault_of_a_reader_that_waited_stops_no_other_connection() {
    a_reader_faults(true);
}

#[test]
fn a_page_fault_of_a_writer_stops_no_other_connection() {
    let pairs = Pairs::new();
    let (mut client, mut server) = pairs.pair();
    let others = pairs.pair();
    let missing = Missing::page();
    let from = missing.bytes();
    let writer = thread::spawn(move || client.write_all(from).unwrap());
    missing.await_touch();
    let go_on = others_go_on(pairs, others);
    missing.supply(9);
    assert!(go_on, "another connection was held up");
    writer.join().unwrap();
    let mut read = Vec::new();
    server.read_to_end(&mut read).unwrap();
    assert!(read.len() == PAGE && read.iter().all(|byte| *byte == 9));
}
