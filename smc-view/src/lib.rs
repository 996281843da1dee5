//! State that a process publishes for others to read: connections, link groups, links, stacks and
//! statistics.
//!
//! ```text
//!   process that publishes                     process that reads
//!   Publisher ── writes ──► memory file ◄── maps, read only ── View
//!                                │
//!                 /proc/PID/fd/N ─► "/memfd:smc-view (deleted)"
//! ```
//!
//! Each row has two copies behind a sequence number: the writer changes one while readers use the
//! other, so that a writer that is stopped in the middle of a write withholds nothing. Counters of
//! bytes are single words, which one thread at a time adds to.
//!
//! Events are written while others ask for them, see [`trace`].
//!
//! [`Publisher`] is for the process itself; [`processes`] finds those that publish, and
//! [`View::read`] reads one of them.
#![cfg(target_os = "linux")]

mod counters;
pub mod handed;
mod latch;
mod layout;
mod memory;
mod processes;
mod publish;
mod read;
mod record;
mod sentence;
mod statistics;
mod text;
pub mod trace;

pub use memory::{Access, Atomics, Memory};
pub use processes::{Found, MAX_DESCRIPTORS, Unlisted, WhyUnlisted, processes, started, unlisted};
pub use publish::{ConnectionRow, GroupRow, LinkRow, Publisher, StackRow};
pub use read::{Counted, Snapshot, View};
pub use record::{
    Connection, GroupRecord, Label, LinkRecord, Name, Progress, Role, StackRecord, Technology,
    state,
};
pub use sentence::{Sentence, key_of};
pub use statistics::{Extra, Fallback, KEYS, Side, Statistics, Traffic, deciding_code};
pub use text::printable;

#[cfg(test)]
mod tests;
