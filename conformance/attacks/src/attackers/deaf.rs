//! Makes channel after channel and reads nothing of them, so that the descriptors which the
//! victim sends stay in flight: as a client, and as a server of the victim's.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::neighbour::{self, Host, doorbells, kind};

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

/// Arguments: how many connections to accept, each under a GID of its own. Prints
/// `listening ADDRESS`, and `done CHANNELS` behind the last: those on which the client has sent
/// its first message, which is not read and not answered. Keeps them until the line `end`.
pub(super) fn serve(arguments: &[String]) -> io::Result<()> {
    let connections = super::number(arguments, 0)?;
    let host = Host::open()?;
    println!("listening {}", host.address()?);
    let (mut kept, mut channels) = (Vec::new(), 0);
    for number in 0..connections {
        // A client may have given up.
        if let Ok((neighbour, makes_channel)) = host.accept(0xdea0_0000 + number) {
            channels += u64::from(makes_channel);
            kept.push(neighbour);
        }
    }
    println!("done {channels}");
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
    neighbour::send(&channel, hello, Some(doorbells()?.as_fd()))?;
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
