//! What can be set and asked of a stream: each test runs over TCP and over RNICs, too.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common;
use common::ends::{End, LONG, is_readable, over_all};
use rustix::net::{AddressFamily, SocketType};
use smc_sockets::SmcStream;

const SHORT: Duration = Duration::from_millis(60);

over_all! {
    what_is_set_can_be_asked
    a_read_that_waits_too_long_ends
    looking_takes_nothing
    slices_keep_their_order
    clones_are_the_same_connection
    a_cork_holds_what_is_small
    a_cork_holds_nothing_for_long
    who_wants_no_delay_draws_the_cork_once
    the_error_of_a_connection_is_reported_once
    a_reader_gets_a_reset_once
    to_linger_no_time_is_a_reset
    who_lingers_does_not_wait_for_a_reader
    connecting_ends_in_time
}

fn what_is_set_can_be_asked<E: End>() {
    let (client, server) = E::pair();
    assert_eq!(client.read_timeout().unwrap(), None);
    let second = Some(Duration::from_secs(1));
    client.set_read_timeout(second).unwrap();
    assert_eq!(client.read_timeout().unwrap(), second);
    assert_eq!(client.write_timeout().unwrap(), None);
    client.set_write_timeout(second).unwrap();
    assert_eq!(client.write_timeout().unwrap(), second);
    for error in [
        client.set_read_timeout(Some(Duration::ZERO)).unwrap_err(),
        client.set_write_timeout(Some(Duration::ZERO)).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(client.read_timeout().unwrap(), second);
    for on in [true, false] {
        client.set_nodelay(on).unwrap();
        assert_eq!(client.nodelay().unwrap(), on);
        client.set_cork(on).unwrap();
        assert_eq!(client.cork().unwrap(), on);
    }
    client.set_ttl(17).unwrap();
    assert_eq!(client.ttl().unwrap(), 17);
    assert_eq!(client.linger().unwrap(), None);
    client.set_linger(second).unwrap();
    assert_eq!(client.linger().unwrap(), second);
    client.set_linger(None).unwrap();
    assert_eq!(client.linger().unwrap(), None);
    assert_eq!(client.peer_addr().unwrap(), server.local_addr().unwrap());
    assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
    assert!(client.take_error().unwrap().is_none());
}

fn a_read_that_waits_too_long_ends<E: End>() {
    let (client, server) = E::pair();
    client.set_read_timeout(Some(SHORT)).unwrap();
    for peeks in [true, false] {
        let begin = Instant::now();
        let outcome = match peeks {
            true => client.peek(&mut [0; 8]),
            false => client.get(&mut [0; 8]),
        };
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(begin.elapsed() > SHORT / 2 && begin.elapsed() < LONG);
    }
    server.put(b"x").unwrap();
    assert_eq!(client.get(&mut [0; 8]).unwrap(), 1);
}

fn looking_takes_nothing<E: End>() {
    let (client, server) = E::pair();
    client.put(b"octets").unwrap();
    let mut octets = [0; 16];
    for most in [3, 16] {
        let len = server.peek(&mut octets[..most]).unwrap();
        assert_eq!(&octets[..len], &b"octets"[..most.min(6)]);
    }
    assert_eq!(server.get(&mut octets[..2]).unwrap(), 2);
    assert_eq!(server.peek(&mut octets).unwrap(), 4);
    assert_eq!(server.get(&mut octets).unwrap(), 4);
    assert_eq!(&octets[..4], b"tets");
    server.set_nonblocking(true).unwrap();
    let error = server.peek(&mut octets).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    client.shutdown(Shutdown::Write).unwrap();
    assert!(is_readable(&server, LONG));
    assert_eq!(server.peek(&mut octets).unwrap(), 0);
    assert_eq!(server.get(&mut octets).unwrap(), 0);
}

fn slices_keep_their_order<E: End>() {
    let (client, server) = E::pair();
    let slices = [&b"one"[..], b"", b", two", b" and three"].map(IoSlice::new);
    assert_eq!(client.put_slices(&slices).unwrap(), 18);
    client.shutdown(Shutdown::Write).unwrap();
    let (mut first, mut second, mut third) = ([0; 2], [0; 0], [0; 100]);
    let mut all = Vec::new();
    loop {
        let mut slices = [
            IoSliceMut::new(&mut first),
            IoSliceMut::new(&mut second),
            IoSliceMut::new(&mut third),
        ];
        let len = server.get_slices(&mut slices).unwrap();
        if len == 0 {
            break;
        }
        all.extend_from_slice(&first[..len.min(2)]);
        all.extend_from_slice(&third[..len.saturating_sub(2)]);
    }
    assert_eq!(all, b"one, two and three");
    let slices = &mut [IoSliceMut::new(&mut second)];
    assert_eq!(server.get_slices(slices).unwrap(), 0);
    // More than fits, on a stream that does not wait.
    server.set_nonblocking(true).unwrap();
    let large = vec![7; 4 << 20];
    let written = server.put_slices(&[IoSlice::new(&large), IoSlice::new(&large)]);
    assert!((1..8 << 20).contains(&written.unwrap()));
}

fn clones_are_the_same_connection<E: End>() {
    let (client, server) = E::pair();
    let clone = client.try_clone().unwrap();
    client.put(b"one").unwrap();
    drop(client);
    clone.put(b" two").unwrap();
    let mut octets = [0; 16];
    let mut len = 0;
    while len < 7 {
        len += server.get(&mut octets[len..]).unwrap();
    }
    assert_eq!(&octets[..len], b"one two");
    let other = server.try_clone().unwrap();
    other.set_nonblocking(true).unwrap();
    let error = server.get(&mut octets).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    other.set_nonblocking(false).unwrap();
    drop(other);
    drop(clone);
    assert_eq!(server.get(&mut octets).unwrap(), 0);
}

fn a_cork_holds_what_is_small<E: End>() {
    let (client, server) = E::pair();
    client.set_cork(true).unwrap();
    client.put(b"head").unwrap();
    assert!(!is_readable(&server, SHORT));
    client.put(b" and body").unwrap();
    assert!(!is_readable(&server, Duration::from_millis(10)));
    client.set_cork(false).unwrap();
    let mut octets = [0; 32];
    let len = server.get(&mut octets).unwrap();
    assert_eq!(&octets[..len], b"head and body");
    client.put(b"more").unwrap();
    assert_eq!(server.get(&mut octets).unwrap(), 4);
    // Large writes are sent, and so is the rest when the stream ends.
    client.set_cork(true).unwrap();
    client.put(&vec![7; 150_000]).unwrap();
    assert!(is_readable(&server, SHORT));
    client.shutdown(Shutdown::Write).unwrap();
    let (mut read, mut octets) = (0, vec![0; 1 << 20]);
    loop {
        match server.get(&mut octets).unwrap() {
            0 => break,
            len => read += len,
        }
    }
    assert_eq!(read, 150_000);
}

fn a_cork_holds_nothing_for_long<E: End>() {
    let (client, server) = E::pair();
    client.set_cork(true).unwrap();
    let begin = Instant::now();
    client.put(b"held").unwrap();
    assert_eq!(server.get(&mut [0; 8]).unwrap(), 4);
    let held = begin.elapsed();
    assert!(held > Duration::from_millis(150) && held < LONG);
}

fn who_wants_no_delay_draws_the_cork_once<E: End>() {
    let (client, server) = E::pair();
    client.set_cork(true).unwrap();
    client.put(b"head").unwrap();
    client.set_nodelay(true).unwrap();
    assert!(is_readable(&server, SHORT));
    assert!(client.cork().unwrap());
}

/// A connection that the peer has reset; the reset may not have arrived at this end.
fn reset<E: End>() -> E {
    let (client, server) = E::pair();
    client.put(b"unread").unwrap();
    assert!(is_readable(&server, LONG));
    drop(server);
    assert!(is_readable(&client, LONG));
    client
}

fn the_error_of_a_connection_is_reported_once<E: End>() {
    let client = reset::<E>();
    let error = client.take_error().unwrap().unwrap();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(client.take_error().unwrap().is_none());
    assert_eq!(client.get(&mut [0; 8]).unwrap(), 0);
    let error = client.put(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    let error = client.shutdown(Shutdown::Write).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
}

fn a_reader_gets_a_reset_once<E: End>() {
    let client = reset::<E>();
    let error = client.get(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(client.take_error().unwrap().is_none());
    for _ in 0..2 {
        assert_eq!(client.get(&mut [0; 8]).unwrap(), 0);
    }
}

fn to_linger_no_time_is_a_reset<E: End>() {
    let (client, server) = E::pair();
    client.set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    let error = server.get(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

fn who_lingers_does_not_wait_for_a_reader<E: End>() {
    let (client, server) = E::pair();
    client.set_linger(Some(LONG)).unwrap();
    client.put(b"the last words").unwrap();
    let begin = Instant::now();
    drop(client);
    assert!(begin.elapsed() < LONG / 2);
    let mut octets = [0; 32];
    assert_eq!(server.get(&mut octets).unwrap(), 14);
    assert_eq!(server.get(&mut octets).unwrap(), 0);
}

fn connecting_ends_in_time<E: End>() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = unused.local_addr().unwrap();
    drop(unused);
    let kind = |outcome: std::io::Result<E>| outcome.err().unwrap().kind();
    assert_eq!(
        kind(E::connect_in(&refused, LONG)),
        ErrorKind::ConnectionRefused
    );
    let zero = Duration::ZERO;
    assert_eq!(kind(E::connect_in(&refused, zero)), ErrorKind::InvalidInput);
}

#[test]
fn a_listener_that_accepts_nothing_is_not_waited_for() {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&socket, &any).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let _first = TcpStream::connect(address).unwrap();
    for _ in 0..2 {
        // The kernel may still take a second one.
        let (begin, time) = (Instant::now(), Duration::from_millis(200));
        match (
            TcpStream::connect_timeout(&address, time),
            SmcStream::connect_timeout(&address, time),
        ) {
            (_, Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                assert!(begin.elapsed() < LONG);
                return;
            }
            (_, Ok(stream)) => std::mem::forget(stream),
        }
    }
    panic!("a listener without room took every client in");
}

#[test]
fn a_tcp_connection_becomes_a_stream_and_itself_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let client = SmcStream::from(client);
    assert!(!client.carrier().is_smc());
    client.put(b"question").unwrap();
    let mut octets = [0; 16];
    assert_eq!(server.get(&mut octets).unwrap(), 8);
    let clone = client.try_clone().unwrap();
    let client = client.try_into_tcp().unwrap_err();
    drop(clone);
    let client: TcpStream = client.try_into_tcp().unwrap();
    server.put(b"answer").unwrap();
    assert_eq!(client.get(&mut octets).unwrap(), 6);
    let (smc, _peer) = common::pair();
    assert!(smc.try_into_tcp().unwrap_err().carrier().is_smc());
}
