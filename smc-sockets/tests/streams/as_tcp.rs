//! What a program that knows std's `TcpStream` relies on: each test runs over TCP and over RNICs, too.
#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common;
use common::ends::{End, LONG, over_all, poll, timespec};
use rustix::event::PollFlags;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

over_all! {
    a_shutdown_releases_who_waits_to_write
    a_shutdown_releases_who_waits_to_read
    shutting_both_ways_loses_nothing
    what_both_have_ended_is_not_connected
    a_reset_behind_the_end_is_one_for_who_writes
    a_write_that_gets_on_slowly_ends_in_time
    a_short_read_is_followed_by_an_edge
    a_short_write_is_followed_by_an_edge
    bytes_received_while_the_descriptor_is_made_are_reported
    a_writer_that_waits_gets_the_reset
    an_answer_is_read_before_the_reset
    an_answer_that_is_left_alone_stays
    an_answer_of_a_server_that_ends_in_order_stays
}

/// Writes without waiting until nothing more fits.
fn fill(end: &impl End) {
    while end.put(&[7; 100_000]).is_ok() {}
}

/// The outcome of a thread that must end in time.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, outcome) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    outcome
}

fn a_shutdown_releases_who_waits_to_write<E: End>() {
    for how in [Shutdown::Write, Shutdown::Both] {
        let (client, _server) = E::pair();
        let client = std::sync::Arc::new(client);
        let writer = client.clone();
        let outcome = in_time(move || {
            loop {
                if let Err(error) = writer.put(&[7; 100_000]) {
                    return error.kind();
                }
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        client.shutdown(how).unwrap();
        assert_eq!(outcome.recv_timeout(LONG), Ok(ErrorKind::BrokenPipe));
    }
}

fn a_shutdown_releases_who_waits_to_read<E: End>() {
    for how in [Shutdown::Read, Shutdown::Both] {
        let (client, _server) = E::pair();
        let client = std::sync::Arc::new(client);
        let reader = client.clone();
        let outcome = in_time(move || reader.get(&mut [0; 8]).map_err(|error| error.kind()));
        std::thread::sleep(Duration::from_millis(50));
        client.shutdown(how).unwrap();
        assert_eq!(outcome.recv_timeout(LONG), Ok(Ok(0)));
    }
}

fn shutting_both_ways_loses_nothing<E: End>() {
    let (client, server) = E::pair();
    client.put(b"question").unwrap();
    assert!(poll(&server, PollFlags::IN, LONG).contains(PollFlags::IN));
    server.put(b"answer").unwrap();
    server.shutdown(Shutdown::Both).unwrap();
    let mut octets = [0; 16];
    assert_eq!(client.get(&mut octets).unwrap(), 6);
    assert_eq!(client.get(&mut octets).unwrap(), 0);
    assert_eq!(server.get(&mut octets).unwrap(), 8);
    assert_eq!(server.get(&mut octets).unwrap(), 0);
    let error = server.put(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

fn what_both_have_ended_is_not_connected<E: End>() {
    let (client, server) = E::pair();
    for end in [&client, &server] {
        end.shutdown(Shutdown::Write).unwrap();
    }
    for end in [&client, &server] {
        assert_eq!(end.get(&mut [0; 8]).unwrap(), 0);
        // The acknowledgement of the end may be on its way.
        let begin = Instant::now();
        while end.shutdown(Shutdown::Write).is_ok() {
            assert!(begin.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(1));
        }
        let error = end.shutdown(Shutdown::Both).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        assert!(end.take_error().unwrap().is_none());
    }
}

fn a_reset_behind_the_end_is_one_for_who_writes<E: End>() {
    let (client, server) = E::pair();
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.get(&mut [0; 8]).unwrap(), 0);
    server.set_linger(Some(Duration::ZERO)).unwrap();
    drop(server);
    assert!(poll(&client, PollFlags::RDHUP, LONG).contains(PollFlags::RDHUP));
    let begin = Instant::now();
    let error = loop {
        match client.take_error().unwrap() {
            None if begin.elapsed() < LONG => std::thread::sleep(Duration::from_millis(1)),
            error => break error.expect("an error"),
        }
    };
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert!(client.take_error().unwrap().is_none());
    assert_eq!(client.get(&mut [0; 8]).unwrap(), 0);
}

fn a_write_that_gets_on_slowly_ends_in_time<E: End>() {
    let (client, server) = E::pair();
    client
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    std::thread::spawn(move || {
        let mut octets = vec![0; 32 << 10];
        while server.get(&mut octets).is_ok_and(|len| len > 0) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let octets = vec![7; 64 << 20];
    let begin = Instant::now();
    let written = client.put(&octets).unwrap();
    assert!(written < octets.len() && begin.elapsed() < LONG);
}

/// Waits for an edge.
struct Edges(std::os::fd::OwnedFd);

impl Edges {
    fn of(of: impl AsFd, flags: EventFlags) -> Self {
        let poller = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let flags = flags | EventFlags::ET;
        epoll::add(&poller, of, EventData::new_u64(0), flags).unwrap();
        Self(poller)
    }

    fn wait(&self, time: Duration) -> bool {
        let mut events = [std::mem::MaybeUninit::uninit(); 4];
        let (events, _) = epoll::wait(&self.0, &mut events, Some(&timespec(time))).unwrap();
        !events.is_empty()
    }
}

// `epoll(7)`: a caller that got less than it asked for may wait for the next edge.
fn a_short_read_is_followed_by_an_edge<E: End>() {
    let (client, server) = E::pair();
    server.set_nonblocking(true).unwrap();
    let edges = Edges::of(&server, EventFlags::IN);
    for _ in 0..3 {
        client.put(b"octets").unwrap();
        assert!(edges.wait(LONG));
        assert_eq!(server.get(&mut [0; 16]).unwrap(), 6);
        assert_eq!(
            poll(&server, PollFlags::IN, Duration::ZERO),
            PollFlags::empty()
        );
    }
}

fn a_short_write_is_followed_by_an_edge<E: End>() {
    let (client, server) = E::pair();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let edges = Edges::of(&client, EventFlags::OUT);
    let octets = vec![7; 64 << 20];
    let mut left = vec![0; 1 << 20];
    for _ in 0..3 {
        // At first it is writable.
        assert!(edges.wait(LONG));
        let written = client.put(&octets).unwrap();
        assert!(written < octets.len());
        let mut read = 0;
        while read < written {
            match server.get(&mut left) {
                Ok(len) => read += len,
                Err(_) => drop(poll(&server, PollFlags::IN, LONG)),
            }
        }
    }
}

fn bytes_received_while_the_descriptor_is_made_are_reported<E: End>() {
    for _ in 0..20 {
        let (client, server) = E::pair();
        server.set_nonblocking(true).unwrap();
        let error = server.get(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        client.put(b"x").unwrap();
        assert_eq!(poll(&server, PollFlags::IN, LONG), PollFlags::IN);
    }
}

fn a_writer_that_waits_gets_the_reset<E: End>() {
    let (client, server) = E::pair();
    client.set_nonblocking(true).unwrap();
    fill(&client);
    assert_eq!(
        poll(&client, PollFlags::OUT, Duration::ZERO),
        PollFlags::empty()
    );
    drop(server);
    assert!(poll(&client, PollFlags::OUT, LONG).contains(PollFlags::OUT));
    assert!(client.put(b"x").is_err());
}

/// A server that answers while the client floods it, and is then dropped.
fn refuse<E: End>(server: &E, reads: usize, reads_all: bool) {
    let mut octets = [0; 4096];
    for _ in 0..reads {
        server.get(&mut octets).unwrap();
    }
    if reads_all {
        server.set_nonblocking(true).unwrap();
        while server.get(&mut octets).is_ok_and(|len| len > 0) {}
    }
    server.put(ANSWER).unwrap();
}

const ANSWER: &[u8] = b"-ERR max number of clients reached\r\n";

fn an_answer_is_read_before_the_reset<E: End>() {
    for round in 0..100 {
        let (client, server) = E::pair();
        let refuses = std::thread::spawn(move || refuse(&server, 1 + round % 3, round % 2 == 0));
        // Until the server has gone.
        while client.put(&[7; 1000]).is_ok() {}
        refuses.join().unwrap();
        let mut read = Vec::new();
        let mut octets = [0; 10];
        while let Ok(len @ 1..) = client.get(&mut octets) {
            read.extend_from_slice(&octets[..len]);
        }
        assert_eq!(read, ANSWER, "round {round}");
        assert!(client.put(b"x").is_err());
    }
}

/// The server has reset the connection, as bytes of the client were left unread, for longer than it
/// keeps anything for the next connection.
fn an_answer_that_is_left_alone_stays<E: End>() {
    for reads_all in [false, true] {
        let (client, server) = E::pair();
        let refuses = std::thread::spawn(move || {
            refuse(&server, 1, reads_all);
            // A server that has read everything would end the stream in order.
            assert!(poll(&server, PollFlags::IN, LONG).contains(PollFlags::IN));
        });
        while client.put(&[7; 1000]).is_ok() {}
        refuses.join().unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let flags = poll(&client, PollFlags::IN, LONG);
        assert!(flags.contains(PollFlags::IN | PollFlags::HUP), "{flags:?}");
        is_read_behind_the_failed_write(&client);
    }
}

/// The server has read everything, and closes in order. Over SMC the client knows that nothing it
/// writes will be read, and its next write fails, although its own direction has not ended: there is
/// no reset, and no `HUP`. Over TCP that write is answered by a reset.
fn an_answer_of_a_server_that_ends_in_order_stays<E: End>() {
    let (client, server) = E::pair();
    client.put(b"question").unwrap();
    refuse(&server, 1, true);
    drop(server);
    let end = PollFlags::IN | PollFlags::RDHUP;
    assert!(poll(&client, PollFlags::RDHUP, LONG).contains(PollFlags::RDHUP));
    while client.put(&[7; 1000]).is_ok() {}
    let flags = poll(&client, end, LONG);
    assert!(flags.contains(end), "{flags:?}");
    is_read_behind_the_failed_write(&client);
}

/// The answer can be peeked at and read. Then comes the end: the write that failed has said why.
fn is_read_behind_the_failed_write(client: &impl End) {
    let mut octets = [0; 100];
    let first = client.peek(&mut octets).unwrap();
    assert_eq!(&octets[..first], ANSWER);
    let len = client.get(&mut octets).unwrap();
    assert_eq!(&octets[..len], ANSWER);
    assert_eq!(client.get(&mut octets).unwrap(), 0);
}
