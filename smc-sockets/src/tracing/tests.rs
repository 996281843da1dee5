//! Tests of when events are written.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use smc_proto::trace::{Kind, Record, Subject};
use smc_view::trace::{LEASE, Note, TraceReader, TraceWriter};

use crate::{SmcListener, SmcStream, Stack};

/// The longest that anything here may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Two streams of stacks of their own.
struct Pair {
    near: SmcStream,
    far: SmcStream,
    client: Stack,
    _server: Stack,
}

/// A pair of which the client's events are written to a ring.
fn pair(writer: &'static TraceWriter) -> Pair {
    let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
    let mut state = client.shard().lock();
    state.engine.observer().set_writer(writer);
    drop(state);
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let near = SmcStream::connect_on(&client, listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc() && far.carrier().is_smc());
    Pair {
        near,
        far,
        client,
        _server: server,
    }
}

impl Pair {
    fn turn(&mut self) {
        self.near.write_all(b"!").unwrap();
        self.far.read_exact(&mut [0]).unwrap();
        self.far.write_all(b"!").unwrap();
        self.near.read_exact(&mut [0]).unwrap();
    }

    fn number(&self) -> u16 {
        let state = self.client.shard().lock();
        u16::try_from(state.stack_number()).unwrap()
    }

    fn is_traced(&self) -> bool {
        self.client.shard().lock().is_traced()
    }
}

/// Kinds of what a stack has written since this was last asked.
fn kinds(reader: &mut TraceReader, stack: u16) -> Vec<Kind> {
    let mut kinds = Vec::new();
    reader.read(usize::MAX, |note| {
        if let Note::Event(event) = note
            && event.stack == stack
        {
            let entry = Record::from_octets(event.record).decode().unwrap();
            kinds.push(entry.event.kind());
        }
    });
    kinds
}

#[test]
fn events_are_written_while_a_reader_is_there() {
    let (file, writer) = TraceWriter::start().unwrap();
    let writer: &'static TraceWriter = Box::leak(Box::new(writer));
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut pair = pair(writer);
    let stack = pair.number();
    for _ in 0..1000 {
        pair.turn();
    }
    assert!(!pair.is_traced());
    let mut reader = TraceReader::open(path.as_ref()).unwrap();
    assert_eq!(kinds(&mut reader, stack), []);
    // Also of a connection whose data path was lent to its thread before.
    let deadline = Instant::now() + LIMIT;
    let mut seen = Vec::new();
    while !(seen.contains(&Kind::CdcSent) && seen.contains(&Kind::Consumed)) {
        assert!(Instant::now() < deadline, "{seen:?}");
        reader.renew();
        pair.turn();
        seen.extend(kinds(&mut reader, stack));
    }
    assert!(pair.is_traced());
    // From now on each message is there.
    let _ = kinds(&mut reader, stack);
    (0..100).for_each(|_| pair.turn());
    let seen = kinds(&mut reader, stack);
    let count = |kind| seen.iter().filter(|at| **at == kind).count();
    assert_eq!((count(Kind::Produced), count(Kind::Received)), (100, 100));
    assert!(!seen.contains(&Kind::Lent));
    // A connection that begins is named.
    reader.renew();
    let mut named = Vec::new();
    let mut established = Vec::new();
    let second = self::pair(writer);
    let number = second.number();
    let ends = (
        second.near.local_addr().unwrap(),
        second.near.peer_addr().unwrap(),
    );
    let deadline = Instant::now() + LIMIT;
    while named.is_empty() || established.is_empty() {
        assert!(Instant::now() < deadline);
        reader.read(usize::MAX, |note| match note {
            Note::Connection(of) if of.stack == number => named.push(of),
            Note::Event(of) if of.stack == number => {
                let entry = Record::from_octets(of.record).decode().unwrap();
                if entry.event.kind() == Kind::Established {
                    established.push(entry.subject);
                }
            }
            _ => {}
        });
    }
    assert_eq!((named[0].local, named[0].peer), ends);
    let Subject::Conn(conn) = established[0] else {
        panic!("{established:?}");
    };
    assert_eq!(named[0].conn, crate::viewing::number_of_conn(conn));
    // The last reader has ended.
    drop(reader);
    std::thread::sleep(LEASE + Duration::from_millis(100));
    let deadline = Instant::now() + LIMIT;
    while pair.is_traced() {
        assert!(
            Instant::now() < deadline,
            "events are written for no reader"
        );
        pair.turn();
    }
}
