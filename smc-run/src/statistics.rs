//! Connections by carrier and reason, and bytes, counted by every process of a program.
//!
//! A table is a memory file of `smcx run` that each preloaded process maps. A process
//! claims a [`Counter`] when it starts and another one in the child after a fork, and counts
//! there by atomic additions: without an allocation, a lock or a system call, so also
//! inside a signal handler, and without anything left to flush when it is killed.
//!
//! All processes of a table have the rights of the user who started it. What they write is
//! nevertheless untrusted to the reader: counts are numbers, and names are bounded bytes.

mod slot;
mod table;

#[cfg(test)]
mod tests;

pub use slot::{Carried, Counts, Wanted};
pub use table::{Counter, SLOTS, Table};
