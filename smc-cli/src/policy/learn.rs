//! `smcx policy learn`: a policy proposed by what running programs do.

pub mod proposal;
pub mod seen;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::PolicyLearnArguments;
use crate::output::Failure;
use seen::{Observed, Seen, Threshold};

/// Time between two samples.
const PAUSE: Duration = Duration::from_millis(500);

/// Reads what programs do for a while, and writes the proposal.
///
/// # Errors
/// `/proc` cannot be read, there is nothing to propose, or the output cannot be written.
pub fn run(arguments: &PolicyLearnArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let users = match arguments.user.is_empty() {
        true => vec![rustix::process::geteuid().as_raw()],
        false => arguments.user.clone(),
    };
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut observed = Observed::default();
    loop {
        let found = crate::processes::all()?;
        let wanted = found.filter(|found| users.contains(&found.user));
        // One process at a time: hostile ones have as many connections as there is room for.
        wanted.for_each(|found| observed.add(&Seen::all(&found)));
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(PAUSE));
    }
    let threshold = Threshold {
        bytes: arguments.bytes,
        calls: arguments.calls,
    };
    let proposal = proposal::of(&observed.ends(threshold), threshold);
    let Some(proposal) = proposal else {
        return Err(Failure::Problem(
            "nothing to propose: no connection over SMC for which it pays, and none that ended \
             at TCP after a handshake; take samples for longer with --for"
                .to_owned(),
        ));
    };
    stdout.write_all(proposal.as_bytes())?;
    Ok(())
}
