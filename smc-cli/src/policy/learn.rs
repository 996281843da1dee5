//! `smcx policy learn`: a policy proposed by what running programs do.

pub mod proposal;
pub mod seen;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::PolicyLearnArguments;
use crate::output::{Failure, Screen, grouped};
use seen::{Observed, Seen, Threshold};

/// Time between two samples.
const PAUSE: Duration = Duration::from_millis(500);

/// Reads what programs do for a while, and writes the proposal.
///
/// # Errors
/// `/proc` cannot be read, there is nothing to propose, or the output cannot be written.
pub fn run(
    arguments: &PolicyLearnArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let users = match arguments.user.is_empty() {
        true => vec![rustix::process::geteuid().as_raw()],
        false => arguments.user.clone(),
    };
    let began = Instant::now();
    let end = began + Duration::from_secs(arguments.seconds);
    let shows_progress = screen.progress && arguments.seconds > 0;
    let mut observed = Observed::default();
    loop {
        let found = crate::processes::all()?;
        let wanted = found.filter(|found| users.contains(&found.user));
        // One process at a time: hostile ones have as many connections as there is room for.
        wanted.for_each(|found| observed.add(&Seen::all(&found)));
        let left = end.saturating_duration_since(Instant::now());
        if shows_progress {
            let (passed, all) = (began.elapsed().as_secs(), arguments.seconds);
            let seen = grouped(observed.count() as u64);
            // A closed error stream keeps nothing from being learnt.
            let _ = write!(
                stderr,
                "\r{} of {all} s, {seen} connections seen",
                passed.min(all)
            );
            let _ = stderr.flush();
        }
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(PAUSE));
    }
    if shows_progress {
        let _ = writeln!(stderr);
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
