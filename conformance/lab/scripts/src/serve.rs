//! The end with the sockets under test.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;

use smc_lab::orders::LISTENING;
use smc_live::{Wanted, serve as serve_sockets};

use crate::kernel::{KernelSockets, second_rnic};
use crate::order::{Order, SmcOption, Whose};
use crate::ours;

/// Seconds of silence until a kernel tests a link, and a number that turns it off.
const TEST_LINK: &str = "/proc/sys/net/smc/smcr_testlink_time";
const NEVER: &str = "0";

/// Serves sockets for one script after the other, until the other end is gone.
pub(crate) fn serve(order: &Order) -> io::Result<()> {
    let option = match order.whose {
        Whose::Kernel => None,
        Whose::Ours => Some(SmcOption::attach()?),
    };
    if order.whose == Whose::Kernel {
        // No script counts on a test that comes by itself; slow guests may get one.
        std::fs::write(TEST_LINK, NEVER)?;
    }
    let listener = TcpListener::bind(order.at)?;
    println!("{LISTENING}");
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut answers = stream.try_clone()?;
    let mut calls = BufReader::new(stream);
    let mut line = String::new();
    while calls.read_line(&mut line)? > 0 {
        let wanted: Wanted = serde_json::from_str(&line)?;
        line.clear();
        second_rnic(wanted.rnics)?;
        match &option {
            None => {
                let mut sockets = KernelSockets::new(order.at, &wanted, order.v2)?;
                serve_sockets(&mut sockets, &mut calls, &mut answers)?;
            }
            Some(option) => {
                let mut sockets = ours::sockets(order.at, &wanted, order.v2, option)?;
                serve_sockets(&mut sockets, &mut calls, &mut answers)?;
            }
        }
        answers.flush()?;
    }
    Ok(())
}
