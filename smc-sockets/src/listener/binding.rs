//! Creation of TCP listeners whose SYN-ACKs have SMC's TCP option. The option has to be requested
//! between `bind` and `listen`, where std offers no access to the socket.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::discovery::OptionNotSent;
use crate::opt_in::OptIn;

/// Backlog of listeners, which the kernel reduces to its own limit (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Listens at the first of the addresses that can be bound. Returns the listener, and why it does
/// not send the option if it does not.
///
/// # Errors
/// The error of the last address, or [`io::ErrorKind::InvalidInput`] if there is none.
pub(super) fn bind(
    opt_in: &OptIn,
    address: impl ToSocketAddrs,
) -> io::Result<(TcpListener, Result<(), OptionNotSent>)> {
    // Where the option cannot be requested, std makes the listener.
    if let Err(why) = opt_in.marks() {
        return Ok((TcpListener::bind(address)?, Err(why)));
    }
    let mut last = io::ErrorKind::InvalidInput.into();
    for address in address.to_socket_addrs()? {
        match bind_one(opt_in, address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Listens at one address, and requests the option before `listen`.
fn bind_one(
    opt_in: &OptIn,
    address: SocketAddr,
) -> io::Result<(TcpListener, Result<(), OptionNotSent>)> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    let option_sent = opt_in.before_listen(&socket, address.port());
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((TcpListener::from(socket), option_sent))
}
