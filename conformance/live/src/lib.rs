//! Scripts of the conformance suite against live sockets.
//!
//! The peer of the scripts has a TCP socket and queue pairs of its own here, and sends over
//! them what scripts name; the other end are sockets of a stack that is used as it is.
//!
//! ```text
//!   script ─► conformance::scripts::play
//!                 │ Wire                              │ Host
//!                 ▼                                   ▼
//!   names, TCP sockets, any Rnic ◄── the wire ──► Sockets: a stack under test
//! ```
//!
//! What scripts call GIDs, queue pairs and memory has other names on this wire, which are
//! exchanged in every message ([`Live`]). Which scripts no live peer can be asked to follow
//! is decided by their content ([`unfit`]).
#![cfg(target_os = "linux")]

mod auto_reply;
mod farewell;
mod fit;
mod held;
mod host;
mod link;
mod names;
mod remote;
mod rmb;
mod run;
mod sockets;
mod soft;
mod stack;
mod summary;
mod taken;
mod tcp;
mod wanted;
mod wire;

pub use auto_reply::names_withdrawals;
pub use fit::{Abilities, Unfit, unfit};
pub use remote::{Remote, serve};
pub use run::{Choice, Tried, run, tried};
pub use sockets::{Ending, Sockets};
pub use stack::{Below, OurSockets};
pub use summary::Summary;
pub use taken::{Taken, all_taken};
pub use tcp::Mark;
pub use wanted::Wanted;
pub use wire::{Live, Nic};
