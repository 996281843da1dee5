//! The writing side.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::layout::{MAGIC, NAME, Ring, Rings};
use super::note::Note;
use super::set::SET;
use crate::memory::Memory;

/// The ring of a process, for as long as it lives.
pub struct TraceWriter {
    ring: &'static Ring,
    /// Notes written so far. What readers see of it may be changed by any of them.
    written: Mutex<u64>,
}

impl TraceWriter {
    /// Makes a ring, which nobody reads yet. The memory stays as long as the process: make one
    /// of them only. Readers find it for as long as the descriptor is open.
    ///
    /// # Errors
    /// What keeps the kernel from making the memory.
    pub fn start() -> io::Result<(OwnedFd, Self)> {
        let (file, memory) = Memory::<Rings<1>>::create(NAME, false)?;
        let rings = memory.leak();
        let [ring] = &rings.rings;
        ring.head
            .process
            .store(std::process::id(), Ordering::Relaxed);
        rings.start.magic.store(MAGIC, Ordering::Release);
        Ok((file, Self::of(ring)))
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
            of.compare_exchange(0, process, order, order).is_ok()
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
            written: Mutex::new(0),
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

    /// Writes a note, in place of the oldest one if the ring is full.
    pub fn write(&self, note: &Note) {
        let words = note.encode();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = self.ring.slot(*written) else {
            return;
        };
        *written = written.wrapping_add(1);
        slot.write(*written, &words);
        self.ring.head.written.store(*written, Ordering::Release);
    }
}

impl fmt::Debug for TraceWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceWriter").finish_non_exhaustive()
    }
}
