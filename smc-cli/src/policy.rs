//! The policy that a command goes by.

#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod learn;

use std::io::Write;

use smc_sockets::Policy;

use crate::cli::PolicyArgument;
use crate::output::Failure;

/// The policy of a file that was named, or the one of this process. A warning goes to the
/// standard error if the file of the latter is wrong.
///
/// # Errors
/// What is wrong with it, in one sentence.
pub fn load(argument: &PolicyArgument) -> Result<Policy, Failure> {
    let policy = match &argument.policy {
        Some(path) => Policy::read(path),
        None => Policy::find(),
    };
    let policy = policy.map_err(|error| Failure::Problem(format!("policy: {error}")))?;
    if let Some(warning) = policy.warning() {
        let mut stderr = std::io::stderr();
        // A closed standard error changes nothing of what the command does.
        let _ = writeln!(stderr, "smcx: policy: {warning}; every connection is TCP");
    }
    Ok(policy)
}
