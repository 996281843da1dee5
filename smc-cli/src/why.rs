//! `smcx why`: would a connection use SMC, and if not, why.

mod report;

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};

use smc_sockets::why::Why;
use smc_sockets::{Settings, SmcStream, Stack};

use crate::cli::WhyArguments;
use crate::output::{Failure, reason};
use crate::policy;

/// What came of a connection: its stream, or the error in words.
type Attempt = Result<SmcStream, String>;

/// Runs the command.
///
/// # Errors
/// What the user is to be told: there is no such host, or the policy is wrong. That a
/// connection would be TCP is an answer.
pub fn run(arguments: &WhyArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let name = arguments.target.address();
    let problem = |error: std::io::Error| Failure::Problem(format!("{name}: {}", reason(&error)));
    let mut settings = Settings::default();
    settings.policy = policy::load(&arguments.policy)?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in name.to_socket_addrs().map_err(problem)? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let stack = Stack::with(settings).map_err(problem)?;
    for (at, address) in addresses.into_iter().enumerate() {
        let why = Why::walk(&stack, address);
        let attempt = arguments.connect.then(|| attempt(&stack, address));
        if arguments.json {
            report::json(&why, attempt.as_ref(), stdout)?;
        } else {
            if at > 0 {
                writeln!(stdout)?;
            }
            report::text(&why, attempt.as_ref(), stdout)?;
        }
    }
    Ok(())
}

fn attempt(stack: &Stack, address: SocketAddr) -> Attempt {
    SmcStream::connect_on(stack, address).map_err(|error| reason(&error))
}
