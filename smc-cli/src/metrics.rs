//! `smcx metrics`: what programs do over SMC, as OpenMetrics text.

pub mod counters;
pub mod http;
mod server;
pub mod sums;
pub mod text;

use std::io::Write;

use crate::cli::MetricsArguments;
use crate::output::{Failure, Screen};
use sums::{Seen, Sums};

/// Shows the metrics once, or answers requests for them.
///
/// # Errors
/// `/proc` cannot be read, the address cannot be listened at, or the output cannot be written.
pub fn run(
    arguments: &MetricsArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    if let Some(address) = arguments.listen {
        return server::run(address, arguments, screen, stderr);
    }
    let mut sums = Sums::new(own_user());
    let seen = seen()?;
    sums.observe(&seen, smc_view::started);
    stdout.write_all(text::of(&sums).as_bytes())?;
    Ok(())
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What the processes that publish have published now.
fn seen() -> Result<Vec<Seen>, Failure> {
    let found = crate::processes::all()?;
    Ok(found.map(|found| Seen::of(&found)).collect())
}
