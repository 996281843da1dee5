//! Sockets: ours, and what processes of one host use otherwise. All are measured by the
//! same code.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use smc_sockets::{PairingTimeouts, Settings, SmcListener, SmcStream, Stack};

use crate::{Pieces, apart};

pub(crate) fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let two = listener.accept().unwrap().0;
    one.set_nodelay(true).unwrap();
    two.set_nodelay(true).unwrap();
    (one, two)
}

pub(crate) fn unix() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

/// Streams of two stacks, as if they were two processes.
pub(crate) fn smc() -> (SmcStream, SmcStream) {
    smc_with(Settings::default())
}

/// A pair of connected sockets, with buffers as Linux has them.
pub(crate) fn smc_short() -> (SmcStream, SmcStream) {
    let mut settings = Settings::default();
    settings.buffer = Some(64 << 10);
    smc_with(settings)
}

/// A pair of connected sockets of threads that sleep at once when they have to wait.
pub(crate) fn smc_asleep() -> (SmcStream, SmcStream) {
    let mut settings = Settings::default();
    settings.spin = Duration::ZERO;
    smc_with(settings)
}

fn smc_with(mut settings: Settings) -> (SmcStream, SmcStream) {
    const LONG: Duration = Duration::from_secs(30);
    settings.pairing_timeouts = PairingTimeouts {
        accept: LONG,
        grace: LONG,
        go: LONG,
    };
    let stack = || Stack::with(settings.clone()).unwrap();
    let listener = SmcListener::on(&stack(), TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let one = SmcStream::connect_on(&stack(), listener.local_addr().unwrap()).unwrap();
    let (two, _) = listener.accept().unwrap();
    assert!(one.carrier().is_smc() && two.carrier().is_smc());
    (one, two)
}

/// Gigabytes a second in writes of 64 KiB.
pub(crate) fn stream<S: Read + Write + Send>(pair: fn() -> (S, S), total: usize) -> f64 {
    transfer(pair, total, 65536)
}

/// Gigabytes a second in writes of 64 bytes, each a system call.
pub(crate) fn messages<S: Read + Write + Send>(pair: fn() -> (S, S), count: usize) -> f64 {
    transfer(pair, count * 64, 64)
}

fn transfer<S: Read + Write + Send>(pair: fn() -> (S, S), total: usize, size: usize) -> f64 {
    let (mut from, mut to) = pair();
    apart(
        move || {
            let source = vec![7; size];
            let mut pieces = Pieces::begin();
            for _ in 0..total / PIECE {
                for _ in 0..PIECE / size {
                    from.write_all(&source).unwrap();
                }
                pieces.done();
            }
            from.read_exact(&mut [0]).unwrap();
            PIECE as f64 / pieces.median()
        },
        move || {
            let (mut into, mut got) = (vec![0; 65536], 0);
            while got < total / PIECE * PIECE {
                got += to.read(&mut into).unwrap();
                black_box(&mut into);
            }
            to.write_all(&[1]).unwrap();
        },
    )
}

/// Bytes timed at a time: more than any of these keeps on the way, or the time of a
/// piece would not include the reader's.
const PIECE: usize = 2 << 20;

/// Nanoseconds for 64 bytes there and back where one thread has both ends: what is done
/// for a message, and nothing of waiting.
pub(crate) fn alone<S: Read + Write>(pair: fn() -> (S, S), rounds: u32) -> f64 {
    let (mut one, mut two) = pair();
    let mut message = [0; 64];
    let mut pieces = Pieces::begin();
    for _ in 0..rounds / 100 {
        for _ in 0..100 {
            one.write_all(&message).unwrap();
            two.read_exact(&mut message).unwrap();
            two.write_all(&message).unwrap();
            one.read_exact(&mut message).unwrap();
        }
        pieces.done();
    }
    pieces.median() / 100.0
}

/// Nanoseconds for 64 bytes there and back.
pub(crate) fn ping_pong<S: Read + Write + Send>(pair: fn() -> (S, S), rounds: u32) -> f64 {
    let (mut one, mut two) = pair();
    apart(
        move || {
            let mut message = [0; 64];
            let mut pieces = Pieces::begin();
            for _ in 0..rounds / 10 {
                for _ in 0..10 {
                    one.write_all(&message).unwrap();
                    one.read_exact(&mut message).unwrap();
                }
                pieces.done();
            }
            pieces.median() / 10.0
        },
        move || {
            let mut message = [0; 64];
            for _ in 0..rounds / 10 * 10 {
                two.read_exact(&mut message).unwrap();
                two.write_all(&message).unwrap();
            }
        },
    )
}
