//! The handshake of RFC 7609 3.5 and of version 2, explored to the last state: two real
//! engines, and everything that TCP, links, devices, clocks and applications can do while
//! they decide whether SMC carries a connection, in any order, within bounds.
//!
//! ```text
//!   client ── bytes of TCP, each with its origin ───► server
//!     │  ◄───────────────────────────────────────────  │
//!     └── LLC and CDC messages, or signals of ISM ─────┘
//! ```
//!
//! Three things are proven of each [`Scenario`]. No byte of a CLC message ever reaches an
//! application, and no byte of an application is ever taken for CLC: every byte carries its
//! writer. Nothing gets stuck. And both sides end with the same answer: SMC, TCP, or an
//! error that both are notified of; a side that was given SMC or TCP while the other one was
//! given another outcome loses the connection.
//!
//! What carries the rendezvous is bounded by [`Bounds`]. Clocks of the two hosts are
//! independent: any timer of a host may fire before anything else happens, unless it is
//! further off than all of a rendezvous; such a one waits until nothing else moves.

mod action;
mod adapter;
mod agreement;
mod all;
mod host;
mod ism;
mod rdma;
mod scenario;
mod tcp;
mod world;

pub use action::Action;
pub use all::{Summary, explore_all, explore_working};
pub use host::Outcome;
pub use scenario::{Condition, Held, Scenario, Transport};
pub use world::World;

use crate::explore::{self, Fault, Found, Progress};

/// What is bounded, so that the exploration ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bounds {
    /// How often a piece of what TCP carries arrives ahead of its rest.
    pub cuts: u8,
    /// How often a link, or the way through the ISM devices, fails.
    pub failures: u8,
    /// How often TCP fails, or sends a FIN of its own accord.
    pub breaks: u8,
    /// How often an application closes or aborts.
    pub endings: u8,
}

/// Visits every state of a scenario; `progress` gets the number of states, now and then.
///
/// # Errors
/// The first thing that must not be, with the shortest way there.
pub fn explore(
    scenario: &Scenario,
    bounds: Bounds,
    mut see: impl FnMut(&World),
    progress: impl FnMut(Progress),
) -> Result<Found, Fault<Action>> {
    explore::explore(World::new(scenario, bounds), &mut see, progress)
}
