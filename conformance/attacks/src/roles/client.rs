//! The program that is attacked by a server to which it connects, while it uses an honest one.

use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::time::Duration;

use smc_sockets::{SmcStream, Stack};

use super::honest::round_trip;

/// Arguments: the address of an honest echo server, to which one connection is kept. Prints
/// `connected CARRIER`, and does what the lines of its standard input ask for until that ends:
///
/// - `visit ADDRESS TIMES MILLISECONDS`: connects so often to a server, with this time for
///   each. Prints `visited`, whatever their outcome.
/// - `check`: uses the connection that is kept and a new one to the honest server. Prints
///   `checked CARRIER`: what carries the new one.
///
/// # Errors
/// The operating system's, or the first failure at the honest server.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let [honest] = arguments else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let stack = super::stack()?;
    let mut kept = SmcStream::connect_on(&stack, honest)?;
    println!("connected {}", kept.carrier());
    for line in io::stdin().lock().lines() {
        let line = line?;
        match *line.split_whitespace().collect::<Vec<_>>() {
            ["visit", address, times, time] => {
                let address: SocketAddr = address.parse().map_err(io::Error::other)?;
                let times: u64 = times.parse().map_err(io::Error::other)?;
                let time = Duration::from_millis(time.parse().map_err(io::Error::other)?);
                for _ in 0..times {
                    drop(SmcStream::connect_timeout_on(&stack, &address, time));
                }
                println!("visited");
            }
            ["check"] => {
                round_trip(&mut kept, 1, 10_000)?;
                println!("checked {}", check(&stack, honest)?);
            }
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(())
}

/// Uses a new connection; what carries it.
fn check(stack: &Stack, honest: &str) -> io::Result<String> {
    let mut stream = SmcStream::connect_on(stack, honest)?;
    round_trip(&mut stream, 2, 10_000)?;
    Ok(stream.carrier().to_string())
}
