//! What processes do: each role is a function of its arguments.

pub mod client;
pub mod honest;
pub mod passer;
pub mod victim;

use std::io::{self, BufRead};

use rustix::process::{Resource, getrlimit, setrlimit};
use std::time::Duration;

use smc_sockets::{PairingTimeouts, Policy, Settings, Stack};

/// Variable with which stacks wait long for their peers.
pub(crate) const PATIENT: &str = "SMC_ATTACKS_PATIENT";

/// Runs the role that the arguments name: limit of descriptors, limit of a file's bytes
/// (`-` for none), the role, its arguments.
///
/// # Errors
/// The role's.
pub fn run(mut arguments: impl Iterator<Item = String>) -> io::Result<()> {
    let mut next = || arguments.next().ok_or(io::ErrorKind::InvalidInput);
    let (descriptors, file, role) = (next()?, next()?, next()?);
    let rest: Vec<_> = arguments.collect();
    await_line("begin")?;
    limit(Resource::Nofile, &descriptors)?;
    limit(Resource::Fsize, &file)?;
    match role.as_str() {
        "victim" => victim::run(&rest),
        "client" => client::run(&rest),
        "passer" => passer::run(),
        "honest" => honest::run(&rest),
        attacker => crate::attackers::run(attacker, &rest),
    }
}

/// A stack with the policy that the environment names, or the default one.
///
/// # Errors
/// The operating system's, or what is wrong with the policy.
pub fn stack() -> io::Result<Stack> {
    let mut settings = Settings::default();
    // What carries a connection is to depend on the attack, not on how busy the machine is.
    settings.pairing_timeouts.grace = Duration::from_millis(50);
    if std::env::var_os(PATIENT).is_some() {
        let timeout = Duration::from_secs(10);
        settings.pairing_timeouts = PairingTimeouts {
            accept: timeout,
            grace: timeout,
            go: timeout,
        };
    }
    settings.policy = Policy::find()?;
    Stack::with(settings)
}

/// Waits for a line on standard input; an error if that ends before.
///
/// # Errors
/// The operating system's, or [`io::ErrorKind::UnexpectedEof`].
pub fn await_line(wanted: &str) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.trim() == wanted {
            return Ok(());
        }
    }
}

fn limit(resource: Resource, value: &str) -> io::Result<()> {
    let Ok(value) = value.parse() else {
        return Ok(());
    };
    let mut limit = getrlimit(resource);
    limit.current = Some(value);
    limit.maximum = Some(limit.maximum.map_or(value, |most| most.max(value)));
    Ok(setrlimit(resource, limit)?)
}
