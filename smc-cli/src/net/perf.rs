//! `smcx perf`: how fast connections are, between hosts or within one.

mod client;
mod histogram;
mod json;
mod local;
mod protocol;
mod report;
mod server;
mod times;
mod work;

use std::io::Write;

use crate::cli::PerfArguments;
use crate::output::Failure;

/// Runs the command.
///
/// # Errors
/// What the user is to know.
pub fn run(
    arguments: &PerfArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    match &arguments.client {
        Some(host) => client::run(arguments, host, stdout),
        None if arguments.server => server::run(arguments, stdout, stderr),
        None => local::run(arguments, stdout),
    }
}
