//! The rules by their numbers.

use std::fmt;

use smc_proto::time::Instant;

use crate::fabric::{HostId, Violation};

/// An invariant of the reliability goals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// I1: what can be read fits the ring, what is sent fits the peer's ring.
    Window,
    /// I2: what is read is the beginning of what was written.
    Prefix,
    /// I3: no WRITE outside the granted window, none after our last message.
    Granted,
    /// I4: no element is cleared or given back while the peer may write to it.
    Reuse,
    /// I5: what was posted is completed once, or outstanding.
    Posted,
    /// I7: whatever waits for the network has a timer.
    Timer,
    /// I8: no lost wake.
    Wake,
    /// I9: exactly one terminal event for each connection.
    Terminal,
    /// I11: after everything ended nothing is left.
    Left,
    /// I12: both ends agree on SMC-R or TCP.
    Agree,
    /// I13: the work of a call is bounded.
    Steps,
    /// The seam: one control command for each object at a time.
    Contract,
}

impl Rule {
    /// Number of the rule.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "I1",
            Self::Prefix => "I2",
            Self::Granted => "I3",
            Self::Reuse => "I4",
            Self::Posted => "I5",
            Self::Timer => "I7",
            Self::Wake => "I8",
            Self::Terminal => "I9",
            Self::Left => "I11",
            Self::Agree => "I12",
            Self::Steps => "I13",
            Self::Contract => "contract",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A rule that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach {
    /// Which.
    pub rule: Rule,
    /// When, whose and how; the words begin with the number of the rule.
    pub violation: Violation,
}

impl Breach {
    /// A rule that a host broke.
    #[must_use]
    pub fn new(at: Instant, host: HostId, rule: Rule, what: &str) -> Self {
        let what = format!("{rule}: {what}");
        Self {
            rule,
            violation: Violation { at, host, what },
        }
    }
}
