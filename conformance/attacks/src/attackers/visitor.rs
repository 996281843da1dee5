//! Joins a channel to the victim by hand, and goes: the least an attack does.

use std::io;

use crate::neighbour::Neighbour;

/// Arguments: the victim's address, how many times.
pub(super) fn run(arguments: &[String]) -> io::Result<()> {
    let address = super::address(arguments)?;
    let times: u64 = arguments
        .get(1)
        .and_then(|times| times.parse().ok())
        .unwrap_or(1);
    for time in 0..times {
        let neighbour = Neighbour::join(address, 0xa77a_c000 + time)?;
        drop(neighbour);
    }
    println!("done");
    Ok(())
}
