//! The reading side.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::layout::{MAGIC, NAME, Ring, Rings, SLOTS};
use super::note::Note;
use crate::memory::{Access, Memory};
use crate::processes::{Identity, candidates, is_of};

/// Notes that a reader did not get.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Unread {
    /// Written over before they were read.
    pub lost: u64,
    /// Of no kind that this version knows.
    pub unknown: u64,
}

impl Unread {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.lost = self.lost.saturating_add(other.lost);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lost == 0 && self.unknown == 0
    }
}

/// How far a ring was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    next: u64,
}

impl Place {
    /// Behind all that is written.
    fn behind(ring: &Ring) -> Self {
        let next = ring.head.written.load(Ordering::Acquire);
        Self { next }
    }

    /// Gives at most `most` notes. Whatever the numbers in the ring are, no more slots are read
    /// than it has. Returns whether there are more.
    pub(super) fn read(
        &mut self,
        ring: &Ring,
        most: usize,
        mut take: impl FnMut(Note),
    ) -> (Unread, bool) {
        let mut unread = Unread::default();
        let written = ring.head.written.load(Ordering::Acquire);
        let Some(behind) = written.checked_sub(self.next) else {
            // No process does so that keeps the rules.
            self.next = written;
            return (unread, false);
        };
        let over = behind.saturating_sub(SLOTS as u64);
        self.next += over;
        unread.lost = over;
        let left = behind - over;
        let now = left.min(most as u64);
        for _ in 0..now {
            let number = self.next.saturating_add(1);
            match ring.slot(self.next).map(|slot| slot.read(number)) {
                Some(Some(words)) => match Note::decode(&words) {
                    Some(note) => take(note),
                    None => unread.unknown += 1,
                },
                // A newer one is there, or is being written.
                _ => unread.lost = unread.lost.saturating_add(1),
            }
            self.next = number;
        }
        (unread, now < left)
    }
}

/// The ring of a process, mapped to be read.
pub struct TraceReader {
    memory: Memory<Rings<1>>,
    place: Place,
}

impl TraceReader {
    /// The ring of a process, which begins to write as soon as it does something.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such process,
    /// [`io::ErrorKind::PermissionDenied`] if it is another user's, and
    /// [`io::ErrorKind::Unsupported`] if it has no ring.
    pub fn of(process: u32) -> io::Result<Self> {
        let identity = Identity::of(process)?;
        let found = candidates(&identity.root, NAME)?.filter_map(|path| Self::open(&path).ok());
        let mut found = found.filter(|reader| reader.is_of(&identity));
        let reader = found.next().ok_or(io::ErrorKind::Unsupported)?;
        reader.renew();
        Ok(reader)
    }

    /// Whether the ring is that of a process, and made by its user. A hostile process may have a
    /// file of another one, which is not to be written to.
    pub(super) fn is_of(&self, process: &Identity) -> bool {
        let [ring] = &self.memory.rings;
        ring.head.process.load(Ordering::Relaxed) == process.own
            && is_of(self.memory.owner(), process.user)
    }

    /// Maps the ring that a path names. What is written from now on is read.
    ///
    /// # Errors
    /// It cannot be opened or mapped, or is no ring of this version of the layout.
    pub fn open(path: &Path) -> io::Result<Self> {
        let memory = Memory::<Rings<1>>::open(path, Access::Write)?;
        if memory.start.magic.load(Ordering::Acquire) != MAGIC {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let [ring] = &memory.rings;
        let place = Place::behind(ring);
        Ok(Self { memory, place })
    }

    /// Asks the process to go on, for [`LEASE`](super::LEASE).
    pub fn renew(&self) {
        let [ring] = &self.memory.rings;
        ring.requests.number.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads what was written since this was last called, at most `most` notes. Returns whether
    /// there is more.
    pub fn read(&mut self, most: usize, take: impl FnMut(Note)) -> (Unread, bool) {
        let [ring] = &self.memory.rings;
        self.place.read(ring, most, take)
    }

    #[cfg(test)]
    pub(super) fn ring(&self) -> &Ring {
        let [ring] = &self.memory.rings;
        ring
    }
}

impl fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceReader").finish_non_exhaustive()
    }
}
