//! Calls at the rendezvous of listeners, by clients that never connect: they are taken in as they
//! come, and bounded for all listeners of a stack.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::alone;
use crate::common::{many_descriptors, possessions, settles, stack};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use smc_sockets::{SmcListener, SmcStream, Stack};

/// Limit of each wait. The kernel waits longer for space in a queue, so a failing test fails here.
const SOON: Duration = Duration::from_secs(10);
/// More than the kernel keeps for a rendezvous, and fewer than a stack keeps.
const CALLS: usize = 200;

/// A listener, its address, and the name at which it is called.
fn listener(stack: &Stack) -> (SmcListener, SocketAddr, SocketAddrUnix) {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let cookie = sockopt::socket_cookie(&tcp).unwrap();
    let name = format!("smc-d.3.{cookie:016x}");
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let listener = SmcListener::on(stack, tcp).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address, name)
}

/// Calls without an announcement, as soon as the kernel's queue has space.
fn call(name: &SocketAddrUnix) -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SOON)).unwrap();
    rustix::net::connect(&socket, name).expect("room for a call");
    socket
}

fn descriptors() -> usize {
    possessions().0
}

//= SHM-007 test
/// No connection follows the calls, so that nothing else makes the server poll for them.
#[test]
fn calls_that_fill_the_kernels_queue_keep_no_client_on_tcp() {
    if !alone(&calls_that_fill_the_kernels_queue_keep_no_client_on_tcp) {
        return;
    }
    many_descriptors();
    let (listener, address, name) = listener(&stack());
    let before = descriptors();
    let callers: Vec<_> = (0..CALLS).map(|_| call(&name)).collect();
    // Both ends of each are of this process.
    assert!(settles(SOON, || descriptors() >= before + 2 * CALLS));
    let stream = SmcStream::connect_on(&stack(), address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    listener.accept().unwrap();
    drop(callers);
}

//= SHM-007 test
#[test]
fn calls_at_several_listeners_of_a_stack_are_bounded_together() {
    const MOST: usize = 256;
    if !alone(&calls_at_several_listeners_of_a_stack_are_bounded_together) {
        return;
    }
    many_descriptors();
    let stack = stack();
    let listeners = [listener(&stack), listener(&stack)];
    let before = descriptors();
    let mut callers = Vec::new();
    for (_, _, name) in listeners.iter().cycle().take(4 * MOST) {
        callers.push(call(name));
    }
    // The last calls are taken in, and the place of the oldest is theirs.
    let taken = || descriptors() - before - callers.len();
    let closed = || {
        let is_closed = |caller: &&OwnedFd| {
            let flags = rustix::net::RecvFlags::DONTWAIT;
            rustix::net::recv(caller, &mut [0; 1], flags).is_ok()
        };
        callers.iter().filter(is_closed).count()
    };
    assert!(settles(SOON, || closed() == 3 * MOST), "{}", closed());
    assert_eq!(taken(), MOST);
}
