//! Connections that were announced, and that the kernel does not make: nothing is left of them.

use std::io::ErrorKind;
use std::net::SocketAddr;

use rustix::net::{AddressFamily, SocketType, sockopt};

use super::{met, stack, until_announced, works};
use crate::{SmcListener, SmcStream, Stack};

/// Connections and handshakes of a client.
fn left(client: &Stack) -> (usize, usize) {
    let state = client.shard().lock();
    let connections = state.sockets.iter().flatten().count();
    (connections, state.handshakes.len())
}

/// The server's process is there, and listens no more.
//= SHM-066 test
#[test]
fn nothing_is_left_of_connections_that_are_refused() {
    let (server, client) = (stack(), stack());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let near = SmcStream::connect_on(&client, address).unwrap();
    let (far, _) = listener.accept().unwrap();
    until_announced(&client, address);
    drop(listener);
    let before = left(&client);
    for _ in 0..20 {
        assert!(client.shard().met.at(address).is_some());
        let refused = SmcStream::connect_on(&client, address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(left(&client), before);
    }
    works(near, far);
}

/// All ports are in use, for one.
//= SHM-066 test
#[test]
fn nothing_is_left_of_connections_that_the_kernel_does_not_begin() {
    let (listener, address, client) = met();
    let own = SocketAddr::from(([127, 0, 0, 1], 0));
    let bound = |to: SocketAddr| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_reuseaddr(&socket, true).unwrap();
        rustix::net::bind(&socket, &to).unwrap();
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        socket
    };
    let socket = bound(own);
    let taken = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    let again = bound(taken);
    let connecting = SmcStream::begin_connect_with(&client, socket, address).unwrap();
    let before = left(&client);
    let failed = SmcStream::begin_connect_with(&client, again, address).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::AddrNotAvailable);
    assert_eq!(left(&client), before);
    drop((connecting, listener));
}
