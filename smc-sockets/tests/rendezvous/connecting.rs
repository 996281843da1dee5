//! Connecting without waiting.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::common::alone::alone;
use crate::common::{listener, possessions, settings, settles, stack};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use smc_sockets::{Connecting, Policy, SmcListener, SmcSocket, SmcStream, Stack};

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

/// A listener with a stack of its own at an address, and the address at which it is reached.
fn listening_at(address: &str) -> (SmcListener, u16) {
    let tcp = TcpListener::bind(address).unwrap();
    let listener = SmcListener::on(&stack(), tcp).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

//= SHM-005 test
#[test]
fn a_client_that_connects_to_the_unspecified_address_pairs_with_a_server_of_this_host() {
    for (at, to, reached) in [
        ("127.0.0.1:0", "0.0.0.0", "127.0.0.1"),
        ("0.0.0.0:0", "0.0.0.0", "127.0.0.1"),
        ("0.0.0.0:0", "::ffff:0.0.0.0", "::ffff:127.0.0.1"),
        ("[::1]:0", "::", "::1"),
        ("[::]:0", "::", "::1"),
        ("[::]:0", "0.0.0.0", "127.0.0.1"),
    ] {
        let (listener, port) = listening_at(at);
        let to = SocketAddr::new(to.parse().unwrap(), port);
        let client = stack();
        // The second one is announced to a server that is known.
        for _ in 0..2 {
            let stream = SmcStream::connect_on(&client, to).unwrap();
            assert!(stream.carrier().is_smc(), "{to}: {}", stream.carrier());
            let peer = stream.peer_addr().unwrap();
            assert_eq!(peer, SocketAddr::new(reached.parse().unwrap(), port));
            let begun = finish(&begin(&client, to)).0.unwrap();
            assert!(begun.carrier().is_smc(), "{to}: {}", begun.carrier());
            drop([listener.accept().unwrap(), listener.accept().unwrap()]);
        }
    }
}

//= SHM-005 test
#[test]
fn the_unspecified_address_is_over_ipv4_that_of_a_bound_socket() {
    let (listener, port) = listening_at("127.0.0.5:0");
    let to = SocketAddr::from(([0, 0, 0, 0], port));
    let bound = || {
        let socket = SmcSocket::new_v4_on(&stack()).unwrap();
        socket.bind(([127, 0, 0, 5], 0).into()).unwrap();
        socket
    };
    let waited = bound().connect(to).unwrap();
    let begun = finish(&bound().begin_connect(to).unwrap()).0.unwrap();
    for stream in [waited, begun] {
        assert!(stream.carrier().is_smc(), "{}", stream.carrier());
        let peer = stream.peer_addr().unwrap();
        assert_eq!(peer, SocketAddr::from(([127, 0, 0, 5], port)));
        drop(listener.accept().unwrap());
    }
}

#[test]
fn a_stack_reaches_its_own_listener_by_the_unspecified_address() {
    let stack = stack();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = SmcListener::on(&stack, tcp).unwrap();
    let port = listener.local_addr().unwrap().port();
    let to = SocketAddr::from(([0, 0, 0, 0], port));
    let stream = SmcStream::connect_on(&stack, to).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    drop(listener.accept().unwrap());
}

#[test]
fn a_policy_that_excludes_loopback_excludes_what_the_unspecified_address_reaches() {
    let (listener, port) = listening_at("127.0.0.1:0");
    let mut settings = settings();
    settings.policy = Policy::parse("exclude = [\"127.0.0.0/8\"]").unwrap();
    let client = Stack::with(settings).unwrap();
    let to = SocketAddr::from(([0, 0, 0, 0], port));
    let stream = SmcStream::connect_on(&client, to).unwrap();
    let why = stream.carrier().to_string();
    assert!(why.contains("127.0.0.0/8"), "{why}");
    drop(listener.accept().unwrap());
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
