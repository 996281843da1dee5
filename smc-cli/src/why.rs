//! `smcx why`: would a connection use SMC, and if not, why.

mod report;

use std::io::{self, Write};

use smc_sockets::why::Why;
use smc_sockets::{Settings, SmcStream, Stack};

use crate::cli::WhyArguments;
use crate::output::{Failure, reason};
use crate::policy;

/// A connection that was made, or why it could not be.
type Attempt = io::Result<SmcStream>;

/// Runs the command.
///
/// # Errors
/// [`Failure::Problem`] if there is no such host, the policy is wrong, or a connection is
/// not what was expected. That a connection would be TCP is an answer.
pub fn run(arguments: &WhyArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let place = arguments.target.to_connect().map_err(Failure::Usage)?;
    let problem = |error: io::Error| Failure::Problem(format!("{place}: {}", reason(&error)));
    let mut settings = Settings::default();
    settings.policy = policy::load(&arguments.policy)?;
    let addresses = place.resolve().map_err(problem)?;
    let stack = Stack::with(settings).map_err(problem)?;
    let mut surprise = None;
    for (at, address) in addresses.into_iter().enumerate() {
        let why = Why::walk(&stack, address);
        let attempt = arguments
            .connect
            .then(|| SmcStream::connect_on(&stack, address));
        if arguments.json {
            report::json(&why, attempt.as_ref(), stdout)?;
        } else {
            if at > 0 {
                writeln!(stdout)?;
            }
            report::text(&why, attempt.as_ref(), stdout)?;
        }
        if let Some(attempt) = attempt.filter(|attempt| !is_expected(&why, attempt)) {
            surprise = surprise.or(Some(difference(&why, &attempt)));
        }
    }
    match surprise {
        None => Ok(()),
        Some(sentence) => Err(Failure::Problem(sentence)),
    }
}

fn is_expected(why: &Why, attempt: &Attempt) -> bool {
    match attempt {
        Ok(stream) => why.is_met_by(stream.carrier()),
        Err(error) => why.is_refused_by(error),
    }
}

fn difference(why: &Why, attempt: &Attempt) -> String {
    let found = match attempt {
        Ok(stream) => stream.carrier().to_string(),
        Err(error) => reason(error),
    };
    format!("{}: expected {}, found {found}", why.to, why.outcome)
}
