//! The close and abort machine of RFC 7609 4.8, explored to the last state: two real
//! connections, everything that applications, links and clocks can do to them in any
//! order, within bounds.
//!
//! Explored is the state of both ends *together*: a cell of the close table counts as
//! reached only if the peer can make it happen.

mod action;
pub mod comparison;
pub mod model;
pub mod projection;
pub mod rules;
mod side;
mod world;

use std::collections::HashSet;
use std::fmt;

use smc_proto::connection::CloseState;

pub use action::Action;
pub use comparison::{Comparison, compare};
pub use world::World;

use crate::explore::{self, Fault, Found, Progress};

/// What is bounded, so that the exploration ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// CDC messages in flight in each direction; a connection with more to send waits.
    pub queue: usize,
    /// Bytes that each application writes, one at a time.
    pub bytes: u8,
    /// Links of the group, each of which may fail; the last one takes the connection along.
    pub links: u8,
    /// Messages overtake each other, as over several links; none overtakes a failover
    /// validation or is overtaken by one, which the adapter sees to.
    pub reorder: bool,
    /// A completion may come any time after the message it is about has arrived, or be lost
    /// with the link; else the two are one.
    pub late_completions: bool,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explored {
    /// How many states there are.
    pub found: Found,
    /// Pairs of states of the close handshake that were seen together.
    pub pairs: Vec<[CloseState; 2]>,
}

/// Visits every state within the bounds; `progress` gets the progress, now and then.
///
/// # Errors
/// The first thing that must not be, with the shortest way there.
pub fn explore(bounds: Bounds, progress: impl FnMut(Progress)) -> Result<Explored, Fault<Action>> {
    let mut pairs = HashSet::new();
    let see = |world: &World| {
        pairs.insert(world.states());
    };
    let found = explore::explore(World::new(bounds), see, progress)?;
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort();
    Ok(Explored { found, pairs })
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} pairs of close states; no end is left open, and from everywhere there is \
             a way to CLOSED",
            self.found,
            self.pairs.len()
        )
    }
}
