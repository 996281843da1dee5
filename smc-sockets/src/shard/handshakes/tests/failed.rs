//! Connections that were announced, and that the kernel does not make: nothing is left of them.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::workers::Server;
use super::{LONG, paired_before, stack, until_announced, works};
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
        assert!(client.shard().known_servers.get(address).is_some());
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
    let (listener, address, client) = paired_before();
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

/// The program has connected the socket to something else.
//= SHM-066 test
#[test]
fn nothing_is_left_of_a_connection_whose_socket_is_connected() {
    let (listener, address, client) = paired_before();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = TcpStream::connect(other.local_addr().unwrap()).unwrap();
    connected.set_nonblocking(true).unwrap();
    let before = left(&client);
    let begun = SmcStream::begin_connect_listed(&client, connected.into(), address);
    let error = begun.map(drop).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ISCONN.raw_os_error()));
    assert_eq!(left(&client), before);
    drop(listener);
}

/// Whether a socket shows that processes may call for its connection, see
/// [`mark_announced`](smc_transport_ism::shared::pairing::mark_announced).
#[allow(unsafe_code)]
fn takes_calls(socket: impl AsFd) -> bool {
    let (mut all, mut size) = (-1, 4);
    // SAFETY: the value and its size are this function's own.
    let got = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_ALL,
            (&raw mut all).cast(),
            &raw mut size,
        )
    };
    assert_eq!((got, size), (0, 4));
    all == 0
}

/// The program may use the socket for another connection, of which no process is to call.
//= SHM-080 test
#[test]
fn a_socket_whose_announced_connection_is_refused_takes_no_calls() {
    let mut server = Server::new(stack(), 2);
    let (address, client) = (server.address, server.client.clone());
    server.close();
    let socket = crate::connecting::socket(address).unwrap();
    let programs = socket.try_clone().unwrap();
    let before = left(&client);
    let connecting = SmcStream::begin_connect_with(&client, socket, address).unwrap();
    assert_eq!(left(&client).1, 1, "it is announced");
    assert!(takes_calls(&programs));
    let end = Instant::now() + LONG;
    let error = loop {
        match connecting.finish() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => assert!(Instant::now() < end),
            outcome => break outcome.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    // The program still has what it would finish.
    assert!(!takes_calls(&programs));
    assert_eq!(left(&client), before);
    drop(connecting);
}
