//! Connects, takes the call of the process that accepts, and never answers it.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use smc_sockets::{SmcStream, Stack};

/// Arguments: the victim's address, how many connections to hold at a time, and for how many
/// milliseconds. Prints `holding` once it holds so many, and `done` with their whole number.
pub(super) fn run(arguments: &[String]) -> io::Result<()> {
    let address = super::address(arguments)?;
    let most = usize::try_from(super::number(arguments, 1)?).map_err(io::Error::other)?;
    let time = Duration::from_millis(super::number(arguments, 2)?);
    let stack = Stack::open()?;
    let begin = Instant::now();
    let (mut held, mut count) = (VecDeque::new(), 0_usize);
    while begin.elapsed() < time || count <= most {
        held.push_back(SmcStream::begin_connect(&stack, address)?);
        if held.len() > most {
            held.pop_front();
        }
        count += 1;
        if count == most {
            println!("holding");
        }
    }
    println!("done {count}");
    crate::roles::await_line("go")
}
