//! Gives pages of files back that another user can lock.
//!
//! To take pages out of a file the kernel locks it, without a time limit, and not even
//! SIGKILL ends that wait. A process with a descriptor of the file holds the lock for as
//! long as its own write to the file waits for a page of another file, which may be for
//! ever (FUSE). So pages of files that strangers have are given back by threads of their
//! own, which hold no lock of this process and no descriptor: one for each user that has
//! any to be given back, so that a user holds up none but its own.
//!
//! ```text
//!   submit ──► user 1: mapping, mapping ──► thread ──► none left: ends
//!          ──► user 2: mapping ───────────► thread ──► none left: takes user 3's
//!          ──► user 3: mapping              (as many threads as there may be)
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::system_calls::leave_descriptors;
use crate::descriptors;

/// What a file counts at least: each is a mapping.
const AT_LEAST: usize = 256 << 10;

/// Bytes of a user's files that may wait to be given back while one of them is locked for
/// long: beyond them the user gets no further memory.
const PENDING: usize = 16 << 20;

/// How long is long: no write of a process to a file of 1 MiB takes as much by itself.
const LONG: Duration = Duration::from_secs(1);

/// Bytes of a user's files that may wait in any case.
const MOST: usize = 8 * PENDING;

/// Threads at a time. While all of them are held up, files of further users wait.
pub(super) const THREADS: usize = 32;

/// Mappings whose pages are given back, by user of the peer that has the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reapers(Arc<Mutex<Users>>);

/// Gives pages of one user's files back.
#[derive(Clone, Debug)]
pub(crate) struct Reaper {
    all: Reapers,
    uid: u32,
}

#[derive(Debug, Default)]
struct Users {
    /// Users with mappings that wait, or with a thread.
    pending: BTreeMap<u32, Pending>,
    threads: usize,
}

/// Mappings of one user's files, given back one after another.
#[derive(Debug)]
struct Pending {
    mappings: VecDeque<Mapping>,
    /// Bytes of those, and of the one whose pages are being given back.
    bytes: usize,
    has_thread: bool,
    /// When the thread began with the mapping that it has, or the first began to wait for a
    /// thread.
    since: Instant,
}

impl Pending {
    fn new() -> Self {
        Self {
            mappings: VecDeque::new(),
            bytes: 0,
            has_thread: false,
            since: Instant::now(),
        }
    }

    fn pop(&mut self) -> Option<Mapping> {
        let mapping = self.mappings.pop_front()?;
        self.since = Instant::now();
        Some(mapping)
    }
}

impl Users {
    /// The next mapping for a thread that has given back `done` bytes of the user `uid`: of
    /// that user, or else of one without a thread, which then is the thread's.
    fn next(&mut self, uid: &mut u32, done: usize) -> Option<Mapping> {
        if let Some(pending) = self.pending.get_mut(uid) {
            pending.bytes -= done;
            let mapping = pending.pop();
            if mapping.is_some() {
                return mapping;
            }
            self.pending.remove(uid);
        }
        let waiting = self.pending.iter_mut().find(|(_, at)| !at.has_thread);
        if let Some((other, pending)) = waiting
            && let Some(mapping) = pending.pop()
        {
            *uid = *other;
            pending.has_thread = true;
            return Some(mapping);
        }
        self.threads -= 1;
        None
    }
}

impl Reapers {
    /// What gives pages of this user's files back.
    pub(crate) fn of(&self, uid: u32) -> Reaper {
        Reaper {
            all: self.clone(),
            uid,
        }
    }

    fn run(&self, mut uid: u32) {
        leave_descriptors();
        let mut done = 0;
        loop {
            let next = self.lock().next(&mut uid, done);
            let Some(mapping) = next else { return };
            done = mapping.counts();
            match &mapping.removal {
                None => mapping.discard(),
                Some(removal) if removal.begin() => {
                    mapping.discard();
                    removal.finish();
                }
                Some(_) => {}
            }
        }
    }

    /// Threads that run.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.lock().threads
    }

    fn lock(&self) -> MutexGuard<'_, Users> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reaper {
    /// Gives the pages of a mapping back soon, and unmaps it.
    pub(super) fn submit(&self, mapping: Mapping) {
        let uid = self.uid;
        if let Some(removal) = &mapping.removal {
            removal.submit();
        }
        let mut users = self.all.lock();
        let may_start = users.threads < THREADS;
        let pending = users.pending.entry(uid).or_insert_with(Pending::new);
        pending.bytes += mapping.counts();
        pending.mappings.push_back(mapping);
        if pending.has_thread || !may_start {
            return;
        }
        let all = self.all.clone();
        let thread = std::thread::Builder::new().name("smc-reaper".into());
        let thread = descriptors::spawn(thread.stack_size(64 << 10), move || all.run(uid));
        // Without a thread they wait for the next one, and are counted.
        if thread.is_ok() {
            pending.has_thread = true;
            users.threads += 1;
        }
    }

    /// Whether so much of the user waits that it gets no further memory.
    pub(crate) fn is_behind(&self) -> bool {
        let users = self.all.lock();
        users.pending.get(&self.uid).is_some_and(|pending| {
            let is_held_up = pending.since.elapsed() >= LONG;
            pending.bytes >= MOST || is_held_up && pending.bytes >= PENDING
        })
    }
}

/// Pages stay in the file: no removal waits for its thread, or the last one is done.
const IDLE: u8 = 0;
/// A removal waits for its thread.
const SUBMITTED: u8 = 1;
/// The thread takes pages out.
const BEGUN: u8 = 2;

/// The removal of a ring's pages by a thread, which can be cancelled until the thread begins. The
/// region shares it with each of its mappings that are submitted.
#[derive(Debug, Default)]
pub(super) struct Removal(AtomicU8);

impl Removal {
    /// A mapping is about to be submitted.
    fn submit(&self) {
        self.0.store(SUBMITTED, Ordering::Release);
    }

    /// The thread begins with a mapping. Returns `false` if it was cancelled.
    fn begin(&self) -> bool {
        self.exchange(SUBMITTED, BEGUN)
    }

    /// The thread has taken the pages out.
    fn finish(&self) {
        self.0.store(IDLE, Ordering::Release);
    }

    /// Keeps the pages that are left. Returns `false` if a thread takes pages out at the moment.
    pub(super) fn cancel(&self) -> bool {
        self.exchange(SUBMITTED, IDLE) || self.0.load(Ordering::Acquire) == IDLE
    }

    fn exchange(&self, from: u8, to: u8) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.0.compare_exchange(from, to, success, failure).is_ok()
    }
}

/// A second mapping of a region's pages, which no other code of this process knows.
#[derive(Debug)]
pub(super) struct Mapping {
    address: usize,
    len: usize,
    /// The removal that this mapping is for, if it can be cancelled.
    removal: Option<Arc<Removal>>,
}

impl Mapping {
    /// Maps the pages of `len` bytes at `address` once more, for a removal that can be cancelled if
    /// `removal` is given.
    ///
    /// # Safety
    /// There must be a shared mapping of that length, at the beginning of a page.
    pub(super) unsafe fn again(
        address: *mut u8,
        len: usize,
        removal: Option<Arc<Removal>>,
    ) -> io::Result<Self> {
        // SAFETY: with an old length of 0 the mapping that is there stays as it is, and
        // the kernel chooses where the new one comes.
        let address = unsafe { libc::mremap(address.cast(), 0, len, libc::MREMAP_MAYMOVE) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = address.expose_provenance();
        Ok(Self {
            address,
            len,
            removal,
        })
    }

    fn counts(&self) -> usize {
        self.len.max(AT_LEAST)
    }

    fn discard(&self) {
        let advise = || {
            let address = std::ptr::with_exposed_provenance_mut(self.address);
            // SAFETY: the mapping is this value's own, and nothing refers to its pages by
            // it; by other mappings a peer may change them at any time.
            unsafe { libc::madvise(address, self.len, libc::MADV_REMOVE) }
        };
        // The kernel takes no pages from a process that locks all its memory.
        if advise() != 0 {
            let address = std::ptr::with_exposed_provenance_mut(self.address);
            // SAFETY: as above.
            if unsafe { libc::munlock(address, self.len) } == 0 {
                advise();
            }
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let address = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the mapping is this value's own and is not used any more.
        unsafe { libc::munmap(address, self.len) };
    }
}
