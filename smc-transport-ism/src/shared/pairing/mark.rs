//! The mark of a TCP socket, which the kernel reports together with its cookie.
//!
//! ```text
//!   listener    a process that accepts its connections may pair them
//!   accepted    a process that holds it may still call its client; cleared: it is plain TCP
//!   client      it listens at its own name for that call
//!   announced   a client with no name yet: it opens one if no process answers its announcement
//! ```
//!
//! An option that means nothing to a socket that has its port: `IP_BIND_ADDRESS_NO_PORT`; for the
//! last of these, `IP_MULTICAST_ALL` switched off, which means nothing to TCP. Only a
//! process that has a socket can set it, every process that shares the socket sees it, the sockets
//! that are accepted from a listener begin with the listener's, and it ends with the socket. So
//! nothing is to be kept by a process, or handed on when it forks.

use std::io;
use std::os::fd::AsFd;

use super::own_user;
use crate::sys::{set_bind_address_no_port, set_multicast_all};

/// Marks a listening socket: a process that accepts its connections, this process or one that has
/// inherited the socket, may pair them ([`Answer::call_back`](super::Answer::call_back)). Does
/// nothing in a process of the user that pairs with no process ([`own_user`]).
///
/// # Errors
/// The operating system's.
//= SHM-076
pub fn mark_listener(listener: impl AsFd) -> io::Result<()> {
    match own_user() {
        Ok(_) => set_bind_address_no_port(listener, true),
        Err(_) => Ok(()),
    }
}

/// Takes back what [`mark_listener`] has set, for every process that shares the socket.
///
/// # Errors
/// The operating system's.
pub fn unmark_listener(listener: impl AsFd) -> io::Result<()> {
    set_bind_address_no_port(listener, false)
}

/// Lets the client of an accepted connection go on over plain TCP: nothing will call it.
///
/// # Errors
/// The operating system's. The client goes on by itself then, when its time is up.
//= SHM-077
pub fn let_go(accepted: impl AsFd) -> io::Result<()> {
    set_bind_address_no_port(accepted, false)
}

/// Shows that a client that has announced its connection takes calls if no process answers: it
/// opens its name then ([`Call::listen`](super::Call::listen)). A process that finds none yet calls
/// again.
///
/// # Errors
/// The operating system's.
//= SHM-080
pub fn mark_announced(tcp: impl AsFd) -> io::Result<()> {
    set_multicast_all(tcp, false)
}

/// Takes back all that shows that a client takes calls: it goes on over plain TCP.
///
/// # Errors
/// The operating system's. Processes that would call find no name.
//= SHM-080
pub fn unmark_client(tcp: impl AsFd) -> io::Result<()> {
    set_multicast_all(&tcp, true)?;
    set_bind_address_no_port(tcp, false)
}

/// Shows that a client listens at its own name.
pub(super) fn mark_client(tcp: impl AsFd) -> io::Result<()> {
    set_bind_address_no_port(tcp, true)
}
