//! Calls the only rendezvous of its network namespace, again and again, and connects to nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::neighbour;

/// How long a call waits for room in the kernel's queue.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Argument: how many calls. Prints `calling MADE`: fewer if the kernel's queue is full and
/// stays so. Keeps the calls until the line `end`.
pub(super) fn run(arguments: &[String]) -> io::Result<()> {
    let calls = super::number(arguments, 0)?;
    let names = neighbour::names()?;
    let name = names.first().ok_or(io::ErrorKind::NotFound)?;
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let made: Vec<_> = (0..calls).map_while(|_| call(&name).ok()).collect();
    println!("calling {}", made.len());
    crate::roles::await_line("end")
}

fn call(name: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(TIMEOUT))?;
    rustix::net::connect(&socket, name)?;
    Ok(socket)
}
