//! The memory that a process publishes.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::counters::{Counters, Totals};
use crate::latch::Latch;
use crate::memory::Atomics;
use crate::sentence::Sentence;

/// Name of the memory file, as `/proc/PID/fd` has it after `/memfd:`.
pub(crate) const NAME: &str = "smc-view";

/// First bytes of the memory, with the version of its layout.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"smcview\x04");

/// Most connections and listeners; further ones are counted alone.
pub(crate) const CONNECTIONS: usize = 16_384;
/// Most connections among them that the process does not note the end of; the oldest make room.
pub(crate) const UNATTENDED: usize = 1024;
/// Most link groups.
pub(crate) const GROUPS: usize = 1024;
/// Most links.
pub(crate) const LINKS: usize = 1024;
/// Most stacks.
pub(crate) const STACKS: usize = 64;
/// Most distinct sentences.
pub(crate) const SENTENCES: usize = 128;

/// Words of the rows.
pub(crate) const CONNECTION_WORDS: usize = 18;
pub(crate) const GROUP_WORDS: usize = 16;
pub(crate) const LINK_WORDS: usize = 16;
pub(crate) const STACK_WORDS: usize = 16;

/// A connection. The counters come first: they have cache lines of their own.
#[repr(C, align(64))]
pub(crate) struct ConnectionSlot {
    pub(crate) counters: Counters,
    pub(crate) row: Latch<CONNECTION_WORDS>,
}

const _: () = assert!(size_of::<ConnectionSlot>() == 576);

/// The process that publishes, and how many rows were ever used.
#[repr(C, align(64))]
pub(crate) struct Head {
    /// Set last.
    pub(crate) magic: AtomicU64,
    pub(crate) process: AtomicU32,
    pub(crate) connections: AtomicU32,
    pub(crate) groups: AtomicU32,
    pub(crate) links: AtomicU32,
    pub(crate) stacks: AtomicU32,
    /// Rows for which no place was left.
    pub(crate) hidden: AtomicU32,
    /// When it began to publish, in nanoseconds since 1970.
    pub(crate) began: AtomicU64,
}

/// The whole of the memory. Pages of rows that were never used take no memory.
#[repr(C, align(64))]
pub(crate) struct Layout {
    pub(crate) head: Head,
    pub(crate) totals: Totals,
    pub(crate) sentences: [Sentence; SENTENCES],
    pub(crate) stacks: [Latch<STACK_WORDS>; STACKS],
    pub(crate) groups: [Latch<GROUP_WORDS>; GROUPS],
    pub(crate) links: [Latch<LINK_WORDS>; LINKS],
    pub(crate) connections: [ConnectionSlot; CONNECTIONS],
}

// SAFETY: `Layout` and all that is in it are atomic integers in arrays, aligned to 64 bytes.
unsafe impl Atomics for Layout {}
