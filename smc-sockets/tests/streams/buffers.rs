//! Sizes of buffers, set before a socket connects or listens.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::common;
use common::ends::is_readable;
use common::{listener, stack};
use smc_sockets::{SmcSocket, SmcStream};

const ANY: &str = "127.0.0.1:0";

/// What is set, and what is rounded up to.
const SIZES: [(u32, usize); 4] = [
    (4096, 16 << 10),
    (20_000, 32 << 10),
    (64 << 10, 64 << 10),
    (100_000, 128 << 10),
];

fn any() -> SocketAddr {
    ANY.parse().unwrap()
}

/// Bytes that `from` can write while its peer reads nothing.
fn room(from: &SmcStream) -> usize {
    from.set_nonblocking(true).unwrap();
    let octets = vec![7; 1 << 20];
    let mut written = 0;
    while let Ok(len) = (&*from).write(&octets) {
        written += len;
    }
    written
}

/// The ring of a buffer is a little smaller.
fn is_about(room: usize, size: usize) -> bool {
    (size - 64..=size).contains(&room)
}

#[test]
fn a_client_receives_as_much_as_it_wants() {
    for (set, size) in SIZES {
        let (listener, address) = listener();
        let socket = SmcSocket::new_v4_on(&stack()).unwrap();
        socket.set_recv_buffer_size(set).unwrap();
        socket.bind(any()).unwrap();
        let client = socket.connect(address).unwrap();
        let (server, from) = listener.accept().unwrap();
        assert_eq!(client.local_addr().unwrap(), from);
        assert!(client.carrier().is_smc());
        assert!(is_about(client.recv_buffer_size().unwrap(), size));
        assert_eq!(
            server.send_buffer_size().unwrap(),
            client.recv_buffer_size().unwrap()
        );
        assert!(is_about(room(&server), size));
        // The other direction is as the stack has it.
        assert!(is_about(room(&client), 1 << 20));
    }
}

#[test]
fn a_listener_hands_its_sizes_on() {
    for (set, size) in SIZES {
        let socket = SmcSocket::new_v4_on(&stack()).unwrap();
        socket.set_recv_buffer_size(set).unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(any()).unwrap();
        let listener = socket.listen(16).unwrap();
        let address = listener.local_addr().unwrap();
        let client = SmcStream::connect_on(&stack(), address).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(server.carrier().is_smc());
        assert!(is_about(server.recv_buffer_size().unwrap(), size));
        assert!(is_about(room(&client), size));
    }
}

#[test]
fn plain_tcp_has_what_was_set() {
    let listener = TcpListener::bind(ANY).unwrap();
    let socket = SmcSocket::new_v4_on(&stack()).unwrap();
    socket.set_recv_buffer_size(20_000).unwrap();
    socket.set_send_buffer_size(30_000).unwrap();
    socket.set_nodelay(true).unwrap();
    let both = (
        socket.recv_buffer_size().unwrap(),
        socket.send_buffer_size().unwrap(),
    );
    assert_eq!(both, (40_000, 60_000));
    let client = socket.connect(listener.local_addr().unwrap()).unwrap();
    assert!(!client.carrier().is_smc());
    assert_eq!(client.recv_buffer_size().unwrap(), 40_000);
    assert_eq!(client.send_buffer_size().unwrap(), 60_000);
    assert!(client.nodelay().unwrap());
    let socket = SmcSocket::new_v4_on(&stack()).unwrap();
    socket.bind(any()).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"x").unwrap();
    assert!(is_readable(&server, common::ends::LONG));
    server.read_exact(&mut [0]).unwrap();
}
