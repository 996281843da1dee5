//! The close and abort machine of RFC 7609 4.8, explored to the last state: two real
//! connections, everything that applications, links and clocks can do to them in any
//! order, within bounds.
//!
//! ```text
//!   World ── every Action that is possible ──► World ── fingerprint ──► seen before?
//!     two Connections                            │ new: a number, how it was reached
//!     messages under way                         ▼
//!     what is left of the links              checked, and explored in its turn
//! ```
//!
//! States are kept as hashes of 128 bits with the way there, so that a state in which
//! something is wrong is told as the list of actions that leads to it.
//!
//! Explored is the state of both ends *together*: a cell of the close table counts as
//! reached only if the peer can make it happen.

mod action;
mod explore;
mod side;
mod world;

pub use action::Action;
pub use explore::{Explored, Fault, Progress, explore};
pub use world::World;

/// What is bounded, so that the exploration ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// CDC messages under way in each direction; a connection with more to say waits.
    pub queue: usize,
    /// Octets that each application writes, one at a time.
    pub octets: u8,
    /// Links of the group, each of which may fail; the last one takes the connection along.
    pub links: u8,
    /// Messages overtake each other, as over several links; none overtakes a failover
    /// validation or is overtaken by one, which the adapter sees to.
    pub reorder: bool,
    /// A completion may come any time after the message it is about has arrived, or be lost
    /// with the link; else the two are one.
    pub late_completions: bool,
}
