//! Thousands of connections between two processes: the other one is this test program once
//! more.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::alone;
use crate::common::{many_descriptors, settings};
use smc_sockets::{SmcListener, SmcStream, Stack};

const ROLE: &str = "SMC_SOCKETS_THOUSANDS";

/// A stack whose table holds all of these connections.
fn stack() -> Stack {
    let mut settings = settings();
    settings.connections = 16_384;
    Stack::with(settings).unwrap()
}

/// What a connection carries there and back.
fn byte(number: usize) -> u8 {
    (number % 251) as u8
}

/// The other process; does nothing in the test run itself.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (count, address) = role.split_once(' ').unwrap();
    many_descriptors();
    let stack = stack();
    let connect = |number| {
        let stream = SmcStream::connect_on(&stack, address).unwrap();
        assert!(stream.carrier().is_smc(), "{number}: {}", stream.carrier());
        stream
    };
    let mut all: Vec<_> = (0..count.parse().unwrap()).map(connect).collect();
    for (number, stream) in all.iter_mut().enumerate() {
        stream.write_all(&[byte(number)]).unwrap();
    }
    for (number, stream) in all.iter_mut().enumerate() {
        let mut back = [0];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, [byte(number)], "{number}");
    }
}

fn are_all_smc(count: usize) {
    many_descriptors();
    let listener = SmcListener::bind_on(&stack(), "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["thousands::child", "--exact"])
        .env(ROLE, format!("{count} {address}"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let accept = |number| {
        let (stream, _) = listener.accept().unwrap();
        assert!(stream.carrier().is_smc(), "{number}: {}", stream.carrier());
        stream
    };
    let mut all: Vec<_> = (0..count).map(accept).collect();
    for stream in all.iter_mut().rev() {
        let mut octet = [0];
        stream.read_exact(&mut octet).unwrap();
        stream.write_all(&octet).unwrap();
    }
    assert!(child.wait().unwrap().success());
    // Each ends, as its peer has gone.
    for stream in &mut all {
        assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    }
}

/// Each process needs as many descriptors, and some.
//= SHM-073 test
#[test]
fn ten_thousand_connections_of_two_processes_are_smc() {
    if !alone(&ten_thousand_connections_of_two_processes_are_smc) {
        return;
    }
    are_all_smc(10_000);
}
