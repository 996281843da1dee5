//! Offers one memory file as thousands of DMBs, over as many channels as a user can have,
//! each under a GID of its own: as a client, and as a server of the victim's. No TCP connection
//! stays.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::neighbour::{self, Host, Neighbour};

/// DMBs that a device can have.
const DMBS: u64 = 1024;
/// Bytes of the memory file.
const LEN: u64 = 4096;

/// Arguments: the victim's address, how many channels. Prints `done OFFERS`, and keeps the
/// channels until the line `end`.
pub(super) fn run(arguments: &[String]) -> io::Result<()> {
    let address = super::address(arguments)?;
    let channels = super::number(arguments, 1)?;
    let file = neighbour::dmb(LEN)?;
    let mut kept = Vec::new();
    for gid in 0..channels {
        let neighbour = Neighbour::join(address, 0xa77a_c000 + gid)?;
        let _ = neighbour.tcp.shutdown(std::net::Shutdown::Both);
        kept.push(neighbour);
    }
    let mut offers = 0;
    for (number, neighbour) in (0..).zip(&kept) {
        offers += offer_all(neighbour, number, &file)?;
    }
    println!("done {offers}");
    crate::roles::await_line("end")
}

/// Arguments: how many connections to accept, each under a GID of its own. Prints
/// `listening ADDRESS`, and `done CHANNELS OFFERS` behind the last, and keeps the channels
/// until the line `end`.
pub(super) fn serve(arguments: &[String]) -> io::Result<()> {
    let connections = super::number(arguments, 0)?;
    let file = neighbour::dmb(LEN)?;
    let host = Host::open()?;
    println!("listening {}", host.address()?);
    let mut kept = Vec::new();
    let mut offers = 0;
    for number in 0..connections {
        let gid = 0xa77a_c000 + number;
        // A client may have given up, or make no further channel.
        if let Ok((mut neighbour, true)) = host.accept(gid) {
            neighbour.greet(gid)?;
            offers += offer_all(&neighbour, number, &file)?;
            let _ = neighbour.tcp.shutdown(std::net::Shutdown::Both);
            kept.push(neighbour);
        }
    }
    println!("done {} {offers}", kept.len());
    crate::roles::await_line("end")
}

/// Offers as many DMBs as a device can have; how many the channel took.
fn offer_all(to: &Neighbour, number: u64, file: &OwnedFd) -> io::Result<u64> {
    let mut offers = 0;
    for slot in 0..DMBS {
        let token = (number << 32) | slot | 1 << 20;
        offers += u64::from(offer(to, token, slot, file)?);
    }
    Ok(offers)
}

/// Offers one DMB as soon as there is room; whether the channel took it.
fn offer(to: &Neighbour, token: u64, slot: u64, file: impl AsFd) -> io::Result<bool> {
    loop {
        match to.offer(token, LEN, slot, file.as_fd()) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut polled = [PollFd::new(&to.channel, PollFlags::OUT)];
                let second = Duration::from_secs(1)
                    .try_into()
                    .map_err(io::Error::other)?;
                if rustix::event::poll(&mut polled, Some(&second))? == 0 {
                    return Ok(false);
                }
            }
            Err(_) => return Ok(false),
        }
    }
}
