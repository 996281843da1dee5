//! Why a connection would or would not use SMC: every condition, from the option to the
//! link, and whose it is, without making the connection.

mod rdma;
mod walk;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use smc_proto::version::Technology;

use crate::carrier::{Carrier, Side};
use crate::stack::Stack;

/// What would become of a connection to an address, as far as this side can know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Why {
    /// The address that was asked for. The conditions of an unspecified one are those of this host's
    /// address that the kernel connects to in its place.
    pub to: SocketAddr,
    /// The conditions, in the order in which a connection meets them.
    pub conditions: Vec<Condition>,
    /// What they come to.
    pub outcome: Expected,
}

/// A condition of SMC.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Condition {
    /// What it is about.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// Whose it is.
    pub side: Side,
    /// What was found, as a sentence without its stop.
    pub found: String,
    /// What to do, if it does not hold.
    pub remedy: Option<String>,
}

/// How a condition is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The condition holds.
    Holds,
    /// The condition does not hold.
    Fails,
    /// Only the peer knows.
    Open,
    /// The condition does not matter here.
    Idle,
}

/// Outcome of the conditions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// No listener would accept the connection.
    NoListener,
    /// Shared memory.
    SharedMemory,
    /// RDMA, if the peer has what it takes.
    Rdma,
    /// TCP.
    Tcp,
}

impl Why {
    /// Walks through all conditions of a connection from this stack to an address. No other
    /// host is asked.
    #[must_use]
    pub fn walk(stack: &Stack, to: SocketAddr) -> Self {
        // In a child that cannot open one of its own, the parent's can still be examined.
        let own = stack.idle();
        walk::walk(own.as_ref().unwrap_or(stack).shard(), to)
    }

    /// The first condition that does not hold, and that decides.
    #[must_use]
    pub fn decisive(&self) -> Option<&Condition> {
        let fails = |at: &&Condition| at.state == State::Fails;
        self.conditions.iter().find(fails)
    }
}

#[allow(non_upper_case_globals)]
impl Expected {
    /// Old name of [`Self::NoListener`].
    #[deprecated(note = "renamed to `NoListener`")]
    pub const Nobody: Self = Self::NoListener;
}

impl Why {
    /// Whether a connection that was made is what was expected. What only the peer knows
    /// does not count.
    #[must_use]
    pub fn is_met_by(&self, carrier: &Carrier) -> bool {
        match (self.outcome, carrier) {
            (Expected::SharedMemory, Carrier::Smc(terms)) => terms.technology == Technology::SmcD,
            (Expected::Rdma, Carrier::Smc(terms)) => terms.technology == Technology::SmcR,
            (Expected::Rdma, Carrier::Tcp(why)) => why.decided_by() == Side::Peer,
            (Expected::Tcp, Carrier::Tcp(_)) => true,
            (Expected::NoListener, _)
            | (Expected::SharedMemory, Carrier::Tcp(_))
            | (Expected::Tcp, Carrier::Smc(_)) => false,
        }
    }

    /// Whether this error of a connection was expected.
    #[must_use]
    pub fn is_refused_by(&self, error: &io::Error) -> bool {
        self.outcome == Expected::NoListener && error.kind() == io::ErrorKind::ConnectionRefused
    }
}

impl Condition {
    fn new(name: &'static str, state: State, side: Side, found: impl Into<String>) -> Self {
        Self {
            name,
            state,
            side,
            found: found.into(),
            remedy: None,
        }
    }

    fn with(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// One of this side.
    fn here(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self::new(name, state, Side::Here, found)
    }

    /// One of the peer.
    fn peer(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self::new(name, state, Side::Peer, found)
    }
}

/// One word.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Open => "open",
            Self::Idle => "idle",
        })
    }
}

/// Part of a sentence.
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoListener => "refused: no process listens there",
            Self::SharedMemory => "SMC-D, through shared memory",
            Self::Rdma => "SMC-R, if the peer has what it takes",
            Self::Tcp => "TCP",
        })
    }
}
