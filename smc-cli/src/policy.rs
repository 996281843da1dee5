//! The policy that a command goes by.

use smc_sockets::Policy;

use crate::cli::PolicyArgument;
use crate::output::Failure;

/// The policy of a file that was named, or the one of this process.
///
/// # Errors
/// What is wrong with it, in one sentence.
pub fn load(argument: &PolicyArgument) -> Result<Policy, Failure> {
    let policy = match &argument.policy {
        Some(path) => Policy::read(path),
        None => Policy::find(),
    };
    policy.map_err(|error| Failure::Problem(format!("policy: {error}")))
}
