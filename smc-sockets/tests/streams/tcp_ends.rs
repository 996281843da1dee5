//! The TCP connection that SMC came from ends as it does without SMC: the side that ends first sends
//! FIN first, so that TIME-WAIT is there.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use crate::common;
use common::{listener, settings, stack};
use smc_sockets::{SmcListener, SmcStream, Stack};

const SOON: Duration = Duration::from_secs(20);

/// Connections of a server with these clients that are in TIME-WAIT, at its end and at theirs.
fn in_time_wait(server: SocketAddr, clients: &[SocketAddr]) -> (usize, usize) {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = |end: &str| u16::from_str_radix(end.split_once(':').unwrap().1, 16).unwrap();
    let is_client = |at: u16| clients.iter().any(|client| client.port() == at);
    let ends = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        (fields[3] == "06").then(|| (port(fields[1]), port(fields[2])))
    });
    // A table that changes meanwhile may have a line twice.
    let ends: BTreeSet<_> = ends.collect();
    let own = ends
        .iter()
        .filter(|at| at.0 == server.port() && is_client(at.1));
    let theirs = ends
        .iter()
        .filter(|at| at.1 == server.port() && is_client(at.0));
    (own.count(), theirs.count())
}

/// Both ends of an SMC connection.
fn connected(client: &Stack, listener: &SmcListener, to: SocketAddr) -> (SmcStream, SmcStream) {
    let near = SmcStream::connect_on(client, to).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc() && far.carrier().is_smc());
    (near, far)
}

/// A server that closes first does not use up the ports of its clients.
#[test]
fn time_wait_is_with_the_side_that_closes_first() {
    const COUNT: usize = 40;
    for (server_first, half) in [(true, false), (true, true), (false, false)] {
        let (listener, address) = listener();
        let (client, mut clients) = (stack(), Vec::new());
        for _ in 0..COUNT {
            let (near, far) = connected(&client, &listener, address);
            clients.push(near.local_addr().unwrap());
            let (first, mut second) = match server_first {
                true => (far, near),
                false => (near, far),
            };
            (&first).write_all(b"answer").unwrap();
            let first = match half {
                true => {
                    first.shutdown(Shutdown::Write).unwrap();
                    Some(first)
                }
                false => {
                    drop(first);
                    None
                }
            };
            let mut received = Vec::new();
            second.read_to_end(&mut received).unwrap();
            assert_eq!(received, b"answer");
            drop((second, first));
        }
        let expected = |(server, clients): (usize, usize)| {
            let (right, wrong) = match server_first {
                true => (server, clients),
                false => (clients, server),
            };
            // On a busy machine a FIN may be under way when that of the peer is sent.
            right >= COUNT * 9 / 10 && wrong <= COUNT / 10
        };
        let begin = Instant::now();
        while !expected(in_time_wait(address, &clients)) && begin.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(10));
        }
        let found = in_time_wait(address, &clients);
        assert!(
            expected(found),
            "{found:?}, server first: {server_first}, half: {half}"
        );
    }
}

/// A client may have sent its last message of CLC, its bytes and FIN before the server looks at the
/// connection.
#[test]
fn a_client_that_ends_at_once_loses_nothing() {
    for (new_stacks, late) in [(true, false), (true, true), (false, false), (false, true)] {
        let (listener, address) = listener();
        let client = stack();
        let begin = Instant::now();
        for round in 0..100 {
            let sender = std::thread::scope(|scope| {
                let sender = scope.spawn(|| {
                    let fresh = new_stacks.then(|| Stack::with(settings()).unwrap());
                    let stack = fresh.as_ref().unwrap_or(&client);
                    let near = SmcStream::connect_on(stack, address).unwrap();
                    (&near).write_all(b"question").unwrap();
                    match round % 2 {
                        0 => {
                            drop(near);
                            None
                        }
                        _ => {
                            near.shutdown(Shutdown::Write).unwrap();
                            Some(near)
                        }
                    }
                });
                if late {
                    std::thread::sleep(Duration::from_micros(round * 20));
                }
                let (mut far, _) = listener.accept().unwrap();
                let mut received = Vec::new();
                far.read_to_end(&mut received).unwrap();
                assert_eq!(received, b"question", "round {round}, late: {late}");
                assert!(far.carrier().is_smc(), "round {round}, late: {late}");
                if round % 2 == 1 {
                    far.write_all(b"answer").unwrap();
                }
                drop(far);
                sender.join().unwrap()
            });
            if let Some(mut near) = sender {
                let mut received = Vec::new();
                near.read_to_end(&mut received).unwrap();
                assert_eq!(received, b"answer", "round {round}, late: {late}");
            }
            if begin.elapsed() > SOON {
                assert!(round >= 20, "{round} rounds in {SOON:?}");
                break;
            }
        }
    }
}
