//! Sockets: what processes of one host use otherwise.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

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

/// Gigabytes a second in writes of 64 KiB.
pub(crate) fn stream<S: Read + Write + Send>(pair: fn() -> (S, S), total: usize) -> f64 {
    transfer(pair, total, 65536)
}

/// Gigabytes a second in writes of 64 octets, each a system call.
pub(crate) fn messages<S: Read + Write + Send>(pair: fn() -> (S, S), count: usize) -> f64 {
    transfer(pair, count * 64, 64)
}

fn transfer<S: Read + Write + Send>(pair: fn() -> (S, S), total: usize, size: usize) -> f64 {
    let (mut from, mut to) = pair();
    apart(
        move || {
            let source = vec![7; size];
            let piece = piece(size);
            let mut pieces = Pieces::begin();
            for _ in 0..total / piece {
                for _ in 0..piece / size {
                    from.write_all(&source).unwrap();
                }
                pieces.done();
            }
            from.read_exact(&mut [0]).unwrap();
            piece as f64 / pieces.median()
        },
        move || {
            let (mut into, mut got) = (vec![0; 65536], 0);
            while got < total / piece(size) * piece(size) {
                got += to.read(&mut into).unwrap();
            }
            to.write_all(&[1]).unwrap();
        },
    )
}

/// Octets in a piece of writes of this size.
fn piece(size: usize) -> usize {
    if size > 4096 { 2 << 20 } else { 1000 * size }
}

/// Nanoseconds for 64 octets there and back.
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
