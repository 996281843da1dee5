//! Listeners that ask for SMC's TCP option.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::discovery::OptionNotSent;
use crate::opt_in::OptIn;

/// Backlog of listeners, that of std: the kernel cuts it to its own limit.
const BACKLOG: i32 = 4096;

/// Listens at the first address that can be had, and whether the listener asked.
pub(super) fn bind(
    opt_in: &OptIn,
    address: impl ToSocketAddrs,
) -> io::Result<(TcpListener, Result<(), OptionNotSent>)> {
    // The usual way, where there is nothing to ask.
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

/// The socket has to ask before it listens.
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
