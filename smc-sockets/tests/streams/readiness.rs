//! Streams and listeners that do not wait, and what `poll` says of them.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::common::alone::alone;
use crate::common::{listener, octets, pair, stack};
use rustix::event::{PollFd, PollFlags};
use smc_sockets::SmcStream;

/// What `poll` says within a time.
fn poll(of: impl AsFd, flags: PollFlags, time: Duration) -> PollFlags {
    let mut polled = [PollFd::new(&of, flags)];
    let time = rustix::time::Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    rustix::event::poll(&mut polled, Some(&time)).unwrap();
    polled[0].revents()
}

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_stream_that_does_not_wait_can_be_polled_both_ways() {
    let (mut client, mut server) = pair();
    client.set_nonblocking(true).unwrap();
    server.set_nonblocking(true).unwrap();
    let both = PollFlags::IN | PollFlags::OUT;
    let error = server.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(poll(&server, both, NOW), PollFlags::OUT);

    // Everything that fits.
    let message = octets(4 << 20);
    let mut written = 0;
    let full = loop {
        match client.write(&message[written..]) {
            Ok(len) => written += len,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    assert_eq!(poll(&client, both, NOW), PollFlags::empty());
    assert_eq!(poll(&server, PollFlags::IN, LONG), PollFlags::IN);

    // An event loop of one thread: both wait for nothing but readiness.
    let mut read = vec![0; message.len()];
    let mut at = 0;
    while at < message.len() {
        match server.read(&mut read[at..]) {
            Ok(len) => at += len,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                assert_eq!(poll(&client, PollFlags::OUT, LONG), PollFlags::OUT);
                match client.write(&message[written..]) {
                    Ok(len) => written += len,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                assert_eq!(poll(&server, PollFlags::IN, LONG), PollFlags::IN);
            }
        }
    }
    assert!(read == message);
    let error = server.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(poll(&server, PollFlags::IN, NOW), PollFlags::empty());

    // The end of the stream is something to read.
    drop(client);
    assert!(poll(&server, PollFlags::IN, LONG).contains(PollFlags::IN));
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn bytes_that_came_before_the_first_poll_are_reported() {
    let (mut client, mut server) = pair();
    client.write_all(b"early").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(poll(&server, PollFlags::IN, LONG), PollFlags::IN);
    server.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn a_listener_can_be_polled() {
    let (listener, address) = listener();
    listener.set_nonblocking(true).unwrap();
    let error = listener.accept().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(poll(&listener, PollFlags::IN, NOW), PollFlags::empty());
    let client = SmcStream::connect_on(&stack(), address).unwrap();
    assert_eq!(poll(&listener, PollFlags::IN, LONG), PollFlags::IN);
    let (_, from) = listener.accept().unwrap();
    assert_eq!(from, client.local_addr().unwrap());
    assert_eq!(poll(&listener, PollFlags::IN, NOW), PollFlags::empty());
}

#[test]
fn who_is_idle_takes_no_time() {
    // Other tests of this process would be counted.
    if !alone(&who_is_idle_takes_no_time) {
        return;
    }
    let (client, server) = pair();
    let (listener, address) = listener();
    let spent = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let spent = std::thread::scope(|scope| {
        for mut end in [&client, &server] {
            scope.spawn(move || {
                // Busy first, then both wait for the other.
                end.write_all(&octets(100_000)).unwrap();
                end.read_exact(&mut vec![0; 100_000]).unwrap();
                end.read_exact(&mut [0; 1]).unwrap();
            });
        }
        scope.spawn(|| listener.accept().unwrap());
        std::thread::sleep(Duration::from_millis(300));
        let before = spent();
        std::thread::sleep(Duration::from_secs(2));
        let spent = spent() - before;
        (&client).write_all(b"x").unwrap();
        (&server).write_all(b"x").unwrap();
        std::net::TcpStream::connect(address).unwrap();
        spent
    });
    assert!(spent < Duration::from_millis(5), "{spent:?}");
}

/// What a stream is ready for: readable, writable, read ended, ended.
fn state(of: &SmcStream) -> [bool; 4] {
    of.poll_device().unwrap();
    let state = of.poll_state().unwrap().expect("SMC");
    assert!(!state.error && !state.urgent);
    [
        state.readable,
        state.writable,
        state.read_ended,
        state.ended,
    ]
}

/// Waits until a stream is ready for this and no more.
fn becomes(of: &SmcStream, wanted: [bool; 4]) {
    let end = std::time::Instant::now() + LONG;
    while state(of) != wanted {
        let now = std::time::Instant::now();
        assert!(now < end, "{:?}, not {wanted:?}", state(of));
        std::thread::yield_now();
    }
}

#[test]
fn the_state_of_a_stream_follows_what_both_ends_do() {
    const IDLE: [bool; 4] = [false, true, false, false];
    let (mut client, mut server) = pair();
    for end in [&client, &server] {
        end.set_nonblocking(true).unwrap();
        assert_eq!(state(end), IDLE);
    }
    client.write_all(b"1").unwrap();
    becomes(&server, [true, true, false, false]);
    assert_eq!(server.read(&mut [0; 2]).unwrap(), 1);
    assert_eq!(state(&server), IDLE);

    let mut written = 0;
    while let Ok(len) = client.write(&[7; 1 << 16]) {
        written += len;
    }
    assert_eq!(state(&client), [false; 4]);
    let mut left = written;
    let mut into = vec![0; 1 << 16];
    while left > 0 {
        left -= server.read(&mut into).unwrap_or(0);
    }
    becomes(&client, IDLE);
    assert_eq!(state(&server), IDLE);

    client.shutdown(std::net::Shutdown::Write).unwrap();
    becomes(&server, [true, true, true, false]);
    server.shutdown(std::net::Shutdown::Write).unwrap();
    becomes(&client, [true, true, true, true]);
    becomes(&server, [true, true, true, true]);
}
