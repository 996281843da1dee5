//! Streams over shared memory: what a program sees of them.
#![cfg(target_os = "linux")]

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::common;
use common::{listener, octets, pair, scenarios, stack};
use smc_sockets::SmcStream;

#[test]
fn every_octet_comes_back() {
    let (client, server) = pair();
    scenarios::every_octet_comes_back(client, server, &octets(8 << 20));
}

#[test]
fn after_half_a_close_the_other_half_goes_on() {
    let (client, server) = pair();
    scenarios::after_half_a_close_the_other_half_goes_on(client, server);
}

#[test]
fn a_stream_closed_both_ways_reports_it() {
    let (mut client, mut server) = pair();
    client.shutdown(Shutdown::Both).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    let error = client.write(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
    server.shutdown(Shutdown::Both).unwrap();
    // Also when nothing of the connection is left.
    std::thread::sleep(Duration::from_millis(50));
    for end in [&mut client, &mut server] {
        assert_eq!(end.read(&mut [0; 1]).unwrap(), 0);
        let error = end.write(b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}

#[test]
fn who_drops_unread_octets_resets_the_peer() {
    let (client, server) = pair();
    scenarios::who_drops_unread_octets_resets_the_peer(client, server);
}

#[test]
fn a_blocking_write_takes_everything() {
    // W10: a program may rely on it, as with TCP.
    let (mut client, mut server) = pair();
    let sent = octets(3 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(client.write(&sent).unwrap(), sent.len()));
        let mut received = vec![0; sent.len()];
        server.read_exact(&mut received).unwrap();
        assert!(received == sent);
    });
}

#[test]
fn a_read_waits_as_long_as_it_may() {
    let (mut client, mut server) = pair();
    let time = Duration::from_millis(50);
    server.set_read_timeout(Some(time)).unwrap();
    let begin = Instant::now();
    let error = server.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(begin.elapsed() >= time);
    client.set_write_timeout(Some(time)).unwrap();
    // Nothing more fits after that.
    let sent = octets(2 << 20);
    let written = client.write(&sent).unwrap();
    assert!(written > 0 && written < sent.len());
    let error = client.write(&sent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let mut received = vec![0; written];
    server.read_exact(&mut received).unwrap();
    assert!(received == sent[..written]);
}

#[test]
fn a_sleeping_reader_wakes() {
    let (mut client, mut server) = pair();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(20));
                client.write_all(b"wake").unwrap();
            }
        });
        let mut text = [0; 4];
        for _ in 0..5 {
            server.read_exact(&mut text).unwrap();
            assert_eq!(&text, b"wake");
        }
    });
}

/// Threads that spin take the core from those they wait for; they must see that.
#[test]
fn more_busy_threads_than_cores_get_on() {
    const PAIRS: usize = 8;
    const LEN: usize = 2 << 20;
    let (listener, address) = listener();
    let stack = stack();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for at in 0..PAIRS {
            // Before the threads: none of them waits for a connection that fails.
            let mut client = SmcStream::connect_on(&stack, address).unwrap();
            assert!(client.carrier().is_smc(), "{}", client.carrier());
            let (mut server, _) = listener.accept().unwrap();
            scope.spawn(move || {
                let sent = octets(LEN);
                // Half of them in pieces that are answered one by one.
                let piece = if at % 2 == 0 { LEN } else { 1000 };
                for piece in sent.chunks(piece) {
                    client.write_all(piece).unwrap();
                    client.read_exact(&mut [0; 1]).unwrap();
                }
            });
            scope.spawn(move || {
                let (mut received, mut chunk) = (Vec::new(), vec![0; 30_000]);
                while received.len() < LEN {
                    let len = server.read(&mut chunk).unwrap();
                    received.extend_from_slice(&chunk[..len]);
                    // Of long pieces one answer counts, of short ones each.
                    if len < 1001 || received.len() == LEN {
                        server.write_all(b"x").unwrap();
                    }
                }
                assert!(received == octets(LEN));
                while server.read(&mut chunk).is_ok_and(|len| len > 0) {}
            });
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_thousand_connections_live_side_by_side() {
    const MANY: usize = 1000;
    let (listener, address) = listener();
    let stack = stack();
    let serving = std::thread::spawn(move || {
        let accept = |_| listener.accept().unwrap().0;
        let streams: Vec<_> = (0..MANY).map(accept).collect();
        for (at, mut stream) in streams.iter().enumerate() {
            let mut text = [0; 8];
            stream.read_exact(&mut text).unwrap();
            assert_eq!(text, (at as u64).to_be_bytes());
            stream.write_all(&text).unwrap();
        }
    });
    let connect = |_| SmcStream::connect_on(&stack, address).unwrap();
    let streams: Vec<_> = (0..MANY).map(connect).collect();
    for (at, stream) in streams.iter().enumerate() {
        assert!(stream.carrier().is_smc(), "{at}: {}", stream.carrier());
    }
    for (at, mut stream) in streams.iter().enumerate() {
        stream.write_all(&(at as u64).to_be_bytes()).unwrap();
    }
    for (at, mut stream) in streams.iter().enumerate() {
        let mut text = [0; 8];
        stream.read_exact(&mut text).unwrap();
        assert_eq!(text, (at as u64).to_be_bytes());
    }
    serving.join().unwrap();
}

#[test]
fn addresses_are_as_with_tcp_in_either_family() {
    let tcp = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let listener = smc_sockets::SmcListener::on(&stack(), tcp).unwrap();
    let stack = stack();
    for (to, seen) in [
        ("[::1]", "[::1]"),
        ("127.0.0.1", "[::ffff:127.0.0.1]"),
        ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
    ] {
        let mut client = SmcStream::connect_on(&stack, format!("{to}:{port}")).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert!(client.carrier().is_smc(), "{to}: {}", client.carrier());
        let near = client.local_addr().unwrap();
        assert_eq!(
            client.peer_addr().unwrap().to_string(),
            format!("{to}:{port}")
        );
        assert_eq!(from.to_string(), format!("{seen}:{}", near.port()));
        assert_eq!(server.peer_addr().unwrap(), from);
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0; 1]).unwrap();
    }
}

/// Clones of a listener accept from one queue; the address is free when the last clone is dropped.
#[test]
fn clones_of_a_listener_share_its_connections() {
    let (listener, address) = common::listener();
    let clone = listener.try_clone().unwrap();
    listener.set_ttl(9).unwrap();
    assert_eq!(clone.ttl().unwrap(), 9);
    assert!(clone.take_error().unwrap().is_none());
    listener.set_nonblocking(true).unwrap();
    assert_eq!(
        clone.accept().unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock
    );
    listener.set_nonblocking(false).unwrap();
    let client = common::stack();
    let mut accepted = Vec::new();
    let mut kept = Vec::new();
    for at in 0..4 {
        kept.push(smc_sockets::SmcStream::connect_on(&client, address).unwrap());
        let from = if at % 2 == 0 { &listener } else { &clone };
        accepted.push(from.accept().unwrap().0);
    }
    drop(listener);
    kept.push(smc_sockets::SmcStream::connect_on(&client, address).unwrap());
    let mut incoming = clone.into_incoming();
    accepted.push(incoming.next().unwrap().unwrap());
    assert!(
        accepted
            .iter()
            .chain(&kept)
            .all(|end| end.carrier().is_smc())
    );
    drop(incoming);
    let refused = std::net::TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// What has come counts as unread even if it was neither polled for nor rang.
//= SHM-075 test
#[test]
fn a_stream_that_is_dropped_with_unread_bytes_is_a_reset_although_none_rang() {
    let (mut client, mut server) = pair();
    for _ in 0..100 {
        client.write_all(b"there").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        server.write_all(b"and back").unwrap();
        client.read_exact(&mut [0; 8]).unwrap();
    }
    client.write_all(b"unread").unwrap();
    drop(server);
    let error = client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// One thread waits to read most of the time while another one writes on the same connection.
#[test]
fn a_reader_is_woken_while_another_thread_writes_on_the_same_connection() {
    const ROUNDS: u32 = 3000;
    let (client, mut server) = pair();
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    server
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let echo = std::thread::spawn(move || {
        let mut message = [0; 64];
        for round in 0..ROUNDS {
            server.read_exact(&mut message).unwrap();
            if round % 64 == 0 {
                // The reader falls asleep at times.
                std::thread::sleep(Duration::from_millis(1));
            }
            server.write_all(&message).unwrap();
        }
    });
    let reads = client.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut message = [0; 64];
        for round in 0..ROUNDS {
            (&reads).read_exact(&mut message).unwrap();
            assert_eq!(message, [round as u8; 64]);
        }
    });
    for round in 0..ROUNDS {
        (&client).write_all(&[round as u8; 64]).unwrap();
    }
    reader.join().unwrap();
    echo.join().unwrap();
}
