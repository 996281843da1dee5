//! Connecting without waiting.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::common::alone::alone;
use crate::common::{listener, possessions, settles, stack};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use smc_sockets::{Connecting, SmcStream, Stack};

/// Finishes as a program that polls does; returns the stream and how many calls that took.
fn finish(connecting: &Connecting) -> (std::io::Result<SmcStream>, usize) {
    let end = Instant::now() + Duration::from_secs(30);
    for turn in 1.. {
        match connecting.finish() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            outcome => return (outcome, turn),
        }
        assert!(Instant::now() < end);
        let mut polled = [PollFd::from_borrowed_fd(connecting.as_fd(), PollFlags::IN)];
        let second = rustix::time::Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut polled, Some(&second)).unwrap();
    }
    unreachable!()
}

fn begin(stack: &Stack, to: SocketAddr) -> Connecting {
    SmcStream::begin_connect(stack, to).unwrap()
}

#[test]
fn a_connection_is_made_while_something_else_goes_on() {
    let (listener, address) = listener();
    let connecting = begin(&stack(), address);
    let (stream, turns) = finish(&connecting);
    let mut stream = stream.unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    assert!(turns < 100, "{turns} turns");
    // A second call has no stream left to return.
    assert_eq!(
        connecting.finish().unwrap_err().kind(),
        ErrorKind::NotConnected
    );
    let (mut server, _) = listener.accept().unwrap();
    stream.write_all(b"hello").unwrap();
    let mut text = [0; 5];
    server.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"hello");
}

#[test]
fn a_plain_server_is_connected_to_without_waiting() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connecting = begin(&stack(), listener.local_addr().unwrap());
    let mut stream = finish(&connecting).0.unwrap();
    assert!(!stream.carrier().is_smc());
    let (mut server, _) = listener.accept().unwrap();
    // Reading waits, as with every new stream.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            server.write_all(b"hello").unwrap();
        });
        let mut text = [0; 5];
        stream.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
    });
}

#[test]
fn connecting_where_nothing_listens_is_an_error() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let outcome = SmcStream::begin_connect(&stack(), address.unwrap());
    let error = outcome.and_then(|at| finish(&at).0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn what_is_given_up_half_way_leaves_nothing() {
    // Other tests of this process would be counted.
    if !alone(&what_is_given_up_half_way_leaves_nothing) {
        return;
    }
    let (listener, address) = listener();
    listener.set_nonblocking(true).unwrap();
    let stack = stack();
    // The first makes the channel, which stays.
    let (first, _) = finish(&begin(&stack, address));
    let mut accepted = None;
    assert!(settles(Duration::from_secs(5), || listener
        .accept()
        .is_ok()));
    drop((first, accepted.take() as Option<SmcStream>));
    let mut counts = Vec::new();
    for turns in 0..40 {
        let connecting = begin(&stack, address);
        for _ in 0..turns % 8 {
            let _ = connecting.finish();
            std::thread::sleep(Duration::from_micros(turns * 50));
        }
        drop(connecting);
        while listener.accept().is_ok() {}
        counts.push(possessions());
    }
    let least = *counts.iter().min().unwrap();
    let back = || {
        while listener.accept().is_ok() {}
        possessions() <= least
    };
    assert!(
        settles(Duration::from_secs(20), back),
        "{least:?}, now {:?}",
        possessions()
    );
}

#[test]
fn a_stream_that_was_finished_is_the_only_one() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let connecting = begin(&stack(), tcp.local_addr().unwrap());
    let (mut server, _) = tcp.accept().unwrap();
    drop(finish(&connecting).0.unwrap());
    let time = Duration::from_secs(5);
    server.set_read_timeout(Some(time)).unwrap();
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
    drop(connecting);
}

// The listener's process answers the call, and leaves the connection in the queue.
#[test]
fn who_is_called_early_does_not_keep_the_caller_busy() {
    let kind = SocketType::STREAM;
    let tcp = rustix::net::socket(AddressFamily::INET, kind, None).unwrap();
    rustix::net::bind(&tcp, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&tcp, 0).unwrap();
    let cookie = rustix::net::sockopt::socket_cookie(&tcp).unwrap();
    let tcp = TcpListener::from(tcp);
    let address = tcp.local_addr().unwrap();
    // One connection fills the queue.
    let queued = std::net::TcpStream::connect(address).unwrap();
    let name = format!("smc-d.3.{cookie:016x}");
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let door = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&door, &name).unwrap();
    rustix::net::listen(&door, 8).unwrap();
    let (sender, spent) = std::sync::mpsc::channel();
    let stack = stack();
    let connecting = std::thread::spawn(move || {
        let clock = rustix::time::ClockId::ThreadCPUTime;
        let outcome = SmcStream::connect_on(&stack, address);
        let spent = rustix::time::clock_gettime(clock);
        let _ = sender.send(Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32));
        outcome
    });
    drop(rustix::net::accept(&door).unwrap());
    std::thread::sleep(Duration::from_millis(500));
    drop((tcp.accept().unwrap(), queued));
    let spent = spent.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(spent < Duration::from_millis(100), "{spent:?}");
    drop(connecting.join().unwrap());
}
