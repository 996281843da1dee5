//! The writing side.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::layout::{MAGIC, NAME, Ring, Rings, SLOTS};
use super::note::Note;
use super::set::SET;
use crate::memory::{Memory, back_part, back_places};

/// The ring of a process, for as long as it lives.
pub struct TraceWriter {
    ring: &'static Ring,
    written: Mutex<Written>,
}

/// How far a ring is written. What readers see of it may be changed by any of them.
#[derive(Default)]
struct Written {
    /// Notes so far.
    notes: u64,
    /// Places that have memory, from the first one on.
    backed: usize,
}

impl TraceWriter {
    /// Makes a ring, which no process reads yet. The memory stays as long as the process: make one
    /// of them only. Readers find it for as long as the descriptor is open.
    ///
    /// # Errors
    /// What keeps the kernel from making the memory.
    pub fn start() -> io::Result<(OwnedFd, Self)> {
        let (file, memory) = Memory::<Rings<1>>::create(NAME, false)?;
        Ok((file, Self::of_process(memory)?))
    }

    /// The writer of a ring of this process.
    pub(super) fn of_process(memory: Memory<Rings<1>>) -> io::Result<Self> {
        let [ring] = &memory.rings;
        back_part(&memory.start)?;
        back_part(&ring.requests)?;
        back_part(&ring.head)?;
        let rings = memory.leak();
        let [ring] = &rings.rings;
        ring.head
            .process
            .store(std::process::id(), Ordering::Relaxed);
        rings.start.magic.store(MAGIC, Ordering::Release);
        Ok(Self::of(ring))
    }

    /// Takes a free ring of the [`TraceSet`](super::TraceSet) that a path names, or that this
    /// process has inherited under the number in that path.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, is no set of rings, or has no free one.
    pub fn join(path: &Path) -> io::Result<Self> {
        let memory = Memory::<Rings<SET>>::open_handed(path)?;
        if memory.start.magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let process = std::process::id();
        let order = Ordering::Relaxed;
        let take = |ring: &Ring| {
            let of = &ring.head.process;
            let taken = || of.compare_exchange(0, process, order, order).is_ok();
            back_part(&ring.head).is_ok() && taken()
        };
        let Some(free) = memory.rings.iter().position(take) else {
            memory.start.refused.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::QuotaExceeded.into());
        };
        let rings = memory.leak();
        let ring = rings.rings.get(free).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self::of(ring))
    }

    fn of(ring: &'static Ring) -> Self {
        Self {
            ring,
            written: Mutex::default(),
        }
    }

    /// A number that changes as long as a reader is there, and is 0 before the first one. Any
    /// reader may give it any value.
    #[inline(always)]
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.ring.requests.number.load(Ordering::Relaxed)
    }

    /// Where [`Self::requests`] lies.
    #[must_use]
    pub fn requests_word(&self) -> &'static AtomicU32 {
        &self.ring.requests.number
    }

    /// Writes a note, in place of the oldest one if the ring is full. A note for which the kernel has
    /// no memory is lost.
    pub fn write(&self, note: &Note) {
        let words = note.encode();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.notes == written.backed as u64 && written.backed < SLOTS {
            written.backed += back_places(&self.ring.slots, written.backed);
            if written.notes == written.backed as u64 {
                return;
            }
        }
        let Some(slot) = self.ring.slot(written.notes) else {
            return;
        };
        written.notes = written.notes.wrapping_add(1);
        slot.write(written.notes, &words);
        self.ring
            .head
            .written
            .store(written.notes, Ordering::Release);
    }
}

impl fmt::Debug for TraceWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceWriter").finish_non_exhaustive()
    }
}
