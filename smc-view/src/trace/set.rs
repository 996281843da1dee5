//! Rings for a program that is started to be read, and for its children.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::layout::{MAGIC, Rings, SET_NAME};
use super::note::Note;
use super::reader::{Place, Unread};
use crate::handed;
use crate::memory::Memory;

/// Processes of a set; further ones have no ring.
pub(super) const SET: usize = 32;

/// Rings that a reader makes, and of which each process takes one: nothing of theirs is lost with
/// them, however short they live.
pub struct TraceSet {
    file: OwnedFd,
    memory: Memory<Rings<SET>>,
    places: Vec<Place>,
}

impl TraceSet {
    /// Makes the rings, with a descriptor that programs of root inherit: what becomes another user
    /// before it executes a server is traced, too.
    ///
    /// # Errors
    /// What keeps the kernel from making the memory.
    pub fn create() -> io::Result<Self> {
        let (file, memory) = Memory::<Rings<SET>>::create(SET_NAME, false)?;
        let file = handed::inheritable(file);
        for ring in &memory.rings {
            ring.requests.number.store(1, Ordering::Relaxed);
        }
        memory.start.magic.store(MAGIC, Ordering::Release);
        Ok(Self {
            file,
            memory,
            places: vec![Place::default(); SET],
        })
    }

    /// The path for [`VARIABLE`](super::VARIABLE), for programs that this process starts, as long as
    /// the value lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        handed::path_of(&self.file)
    }

    /// Asks the processes to go on.
    pub fn renew(&self) {
        for ring in &self.memory.rings {
            ring.requests.number.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reads what each process has written since this was last called, at most `most` notes of one,
    /// and gives each note with its process. Returns whether there is more.
    pub fn read(&mut self, most: usize, mut take: impl FnMut(u32, Note)) -> (Unread, bool) {
        let mut all = Unread::default();
        let mut more = false;
        for (ring, place) in self.memory.rings.iter().zip(&mut self.places) {
            let process = ring.head.process.load(Ordering::Relaxed);
            if process != 0 {
                let (unread, rest) = place.read(ring, most, |note| take(process, note));
                all.add(unread);
                more |= rest;
            }
        }
        (all, more)
    }

    /// Processes that found no free ring.
    #[must_use]
    pub fn refused(&self) -> u32 {
        self.memory.start.refused.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for TraceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSet").finish_non_exhaustive()
    }
}
