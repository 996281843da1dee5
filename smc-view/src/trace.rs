//! Events that a process writes down while others ask for them.
//!
//! ```text
//!   process                                        readers
//!   TraceWriter ── notes ──► ring in a memory file ──► TraceReader: each has a place of its own
//!      ▲                          │
//!      └── wanted() ◄── a number that each reader raises every second
//! ```
//!
//! The file is made with the view, and named `smc-trace`. Readers map it for writing, but write
//! only the number that says that they are there; a process for which it has not changed for
//! [`LEASE`] writes nothing. Neither side waits for the other or relies on what the other writes: the
//! process reads nothing of the ring back, and a reader takes notes as whatever bytes they are.

mod layout;
mod note;
mod reader;
mod set;
mod writer;

use std::time::Duration;

pub use layout::SLOTS;
pub use note::{Note, NotedConnection, NotedEvent};
pub use reader::{TraceReader, Unread};
pub use set::TraceSet;
pub use writer::TraceWriter;

/// Time for which a process writes events after a reader was last there.
pub const LEASE: Duration = Duration::from_secs(3);

/// Longest time that a reader lets pass before it renews its request ([`TraceReader::renew`]).
pub const RENEWAL: Duration = Duration::from_secs(1);

/// Variable with the path of the rings in which a program and its children write from their first
/// event on, see [`TraceSet`].
pub const VARIABLE: &str = "SMC_TRACE";

#[cfg(test)]
mod tests;
