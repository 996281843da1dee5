//! By what means connections are made.

use smc_sockets::policy::Transport as Carried;
use smc_sockets::{Settings, Stack};

use crate::cli::{PolicyArgument, Transport};
use crate::output::{Failure, reason};
use crate::policy;

/// By what means connections are made.
pub(crate) enum Means {
    /// A stack, which uses SMC where it can.
    Smc(Stack),
    /// Plain sockets.
    Tcp,
}

impl Means {
    /// The means of a transport, by a policy.
    ///
    /// # Errors
    /// What is wrong with the policy, or keeps a stack from being made.
    pub(crate) fn of(transport: Transport, argument: &PolicyArgument) -> Result<Self, Failure> {
        let only = match transport {
            Transport::Tcp => return Ok(Self::Tcp),
            Transport::Auto => None,
            Transport::Verbs => Some(Carried::Verbs),
            Transport::Ism => Some(Carried::Ism),
        };
        let mut settings = Settings::default();
        settings.policy = policy::load(argument)?;
        if let Some(only) = only {
            // What the policy forbids stays forbidden.
            settings.policy.transports.retain(|of| *of == only);
        }
        let stack = Stack::with(settings);
        let problem = |error| Failure::Problem(format!("no SMC stack: {}", reason(&error)));
        stack.map(Self::Smc).map_err(problem)
    }
}
