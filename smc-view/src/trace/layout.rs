//! The memory of rings.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::memory::Atomics;

/// Name of the memory file of a process, as `/proc/PID/fd` has it after `/memfd:`.
pub(super) const NAME: &str = "smc-trace";

/// Name of the memory file of a set.
pub(super) const SET_NAME: &str = "smc-traces";

/// First bytes of the memory, with the version of its layout.
pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"smctrac\x01");

/// Notes that a ring holds.
pub const SLOTS: usize = 1 << 15;

/// Words of a note.
pub(super) const WORDS: usize = 7;

/// A place for a note: a cache line.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// Number of the note, from 1; 0 while it is written.
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Slot {
    /// Writes a note. Callers exclude each other.
    pub(super) fn write(&self, number: u64, words: &[u64; WORDS]) {
        self.number.store(0, Ordering::Relaxed);
        // A reader that sees a word of this note sees that the one before is gone.
        fence(Ordering::Release);
        for (to, word) in self.words.iter().zip(words) {
            to.store(*word, Ordering::Relaxed);
        }
        self.number.store(number, Ordering::Release);
    }

    /// The note of a number, if it is there.
    pub(super) fn read(&self, number: u64) -> Option<[u64; WORDS]> {
        if self.number.load(Ordering::Acquire) != number {
            return None;
        }
        let words = self.words.each_ref().map(|at| at.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.number.load(Ordering::Relaxed) == number).then_some(words)
    }
}

/// What the process polls all the time, apart from what it writes.
#[repr(C, align(64))]
pub(super) struct Requests {
    /// Readers raise it.
    pub(super) number: AtomicU32,
}

/// The process that writes, and how far.
#[repr(C, align(64))]
pub(super) struct Head {
    /// Whose ring it is; 0 while it is free.
    pub(super) process: AtomicU32,
    /// Notes that were ever written.
    pub(super) written: AtomicU64,
}

/// A ring of notes, of which the newest replace the oldest.
#[repr(C, align(64))]
pub(crate) struct Ring {
    pub(super) requests: Requests,
    pub(super) head: Head,
    pub(super) slots: [Slot; SLOTS],
}

impl Ring {
    /// Where a note lies: the one of this number, from 0.
    pub(super) fn slot(&self, number: u64) -> Option<&Slot> {
        self.slots.get((number % SLOTS as u64) as usize)
    }
}

/// What is before the rings.
#[repr(C, align(64))]
pub(super) struct Start {
    /// Set last.
    pub(super) magic: AtomicU64,
    /// Processes that found no free ring.
    pub(super) refused: AtomicU32,
}

/// The whole of the memory. Pages that were never written take no memory.
#[repr(C, align(64))]
pub(crate) struct Rings<const N: usize> {
    pub(super) start: Start,
    pub(super) rings: [Ring; N],
}

// SAFETY: `Rings` and all that is in it are atomic integers in arrays, aligned to 64 bytes.
unsafe impl<const N: usize> Atomics for Rings<N> {}

const _: () = assert!(size_of::<Slot>() == 64);
const _: () = assert!(size_of::<Ring>() == 64 * (SLOTS + 2));
