//! Makes channel after channel and reads nothing of them, so that the descriptors which the
//! victim sends stay in flight.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::neighbour::{self, bells, kind};

/// Arguments: the victim's address, how many channels. Prints `done MADE`, and keeps the
/// channels until the line `end`.
pub(super) fn run(arguments: &[String]) -> io::Result<()> {
    let address = super::address(arguments)?;
    let channels = super::number(arguments, 1)?;
    let mut kept = Vec::new();
    for gid in 0..channels {
        // A victim that will not make one more takes the connection for TCP.
        if let Ok(channel) = join(address, 0xdea0_0000 + gid) {
            kept.push(channel);
        }
    }
    println!("done {}", kept.len());
    crate::roles::await_line("end")
}

/// Pairs a connection, whose first message over the channel is left unread.
fn join(address: SocketAddr, gid: u64) -> io::Result<OwnedFd> {
    let tcp = neighbour::unconnected(address)?;
    let cookie = rustix::net::sockopt::socket_cookie(&tcp)?;
    let channel = neighbour::call()?;
    neighbour::send(&channel, (kind::ANNOUNCE, [cookie, gid, 0, 0, 0]), None)?;
    rustix::net::connect(&tcp, &address)?;
    let ((mine, _), _) = neighbour::receive(&channel, Duration::from_secs(5))?;
    if mine != kind::MINE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    neighbour::send(&channel, (kind::GO, [1, 0, 0, 0, 0]), None)?;
    let hello = (kind::HELLO, [gid, 0, 0, 0, 0]);
    neighbour::send(&channel, hello, Some(bells()?.as_fd()))?;
    // The victim has sent its own by the time there is something to read.
    let mut polled = [rustix::event::PollFd::new(
        &channel,
        rustix::event::PollFlags::IN,
    )];
    let second = Duration::from_secs(1)
        .try_into()
        .map_err(io::Error::other)?;
    rustix::event::poll(&mut polled, Some(&second))?;
    Ok(channel)
}
