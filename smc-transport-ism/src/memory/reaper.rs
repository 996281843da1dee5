//! Gives pages of files back that another user can lock.
//!
//! To take pages out of a file the kernel locks it, without a time limit, and not even
//! SIGKILL ends that wait. A process with a descriptor of the file holds the lock for as
//! long as its own write to the file waits for a page of another file, which may be for
//! ever (FUSE). So pages of files that strangers have are given back by a thread of their
//! own, which holds no lock of this process and no descriptor.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::system_calls::{Signals, leave_descriptors};

/// What a file counts at least: each is a mapping.
const AT_LEAST: usize = 256 << 10;

/// Bytes that may wait to be given back while one file is locked for long: beyond them
/// strangers get no further memory.
const PENDING: usize = 16 << 20;

/// How long is long: no write of a process to a file of 1 MiB takes as much by itself.
const LONG: Duration = Duration::from_secs(1);

/// Bytes that may wait in any case.
const MOST: usize = 8 * PENDING;

/// Mappings whose pages are given back one after another, by one thread at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reaper(Arc<Mutex<Pending>>);

#[derive(Debug, Default)]
struct Pending {
    mappings: VecDeque<Mapping>,
    /// Bytes of those, and of the one whose pages are being given back.
    bytes: usize,
    is_running: bool,
    /// When the thread began with the mapping that it has.
    since: Option<Instant>,
}

impl Reaper {
    /// Gives the pages of a mapping back soon, and unmaps it.
    pub(super) fn submit(&self, mapping: Mapping) {
        let mut pending = self.lock();
        pending.bytes += mapping.counts();
        pending.mappings.push_back(mapping);
        if pending.is_running {
            return;
        }
        let reaper = self.clone();
        // A handler of the program's would run on a thread without descriptors.
        let _blocked = Signals::block();
        let thread = std::thread::Builder::new()
            .name("smc-reaper".into())
            .stack_size(64 << 10)
            .spawn(move || reaper.run());
        // Without a thread they wait for the next one, and are counted.
        pending.is_running = thread.is_ok();
    }

    /// Whether so much waits that strangers get no further memory.
    pub(crate) fn is_behind(&self) -> bool {
        let pending = self.lock();
        let is_held_up = pending.since.is_some_and(|since| since.elapsed() >= LONG);
        pending.bytes >= MOST || is_held_up && pending.bytes >= PENDING
    }

    fn run(&self) {
        leave_descriptors();
        let mut done = 0;
        loop {
            let mapping = {
                let mut pending = self.lock();
                pending.bytes -= done;
                match pending.mappings.pop_front() {
                    Some(mapping) => {
                        pending.since = Some(Instant::now());
                        mapping
                    }
                    None => {
                        pending.is_running = false;
                        pending.since = None;
                        return;
                    }
                }
            };
            done = mapping.counts();
            mapping.discard();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A second mapping of a region's pages, which no other code of this process knows.
#[derive(Debug)]
pub(super) struct Mapping {
    address: usize,
    len: usize,
}

impl Mapping {
    /// Maps the pages of `len` bytes at `address` once more.
    ///
    /// # Safety
    /// There must be a shared mapping of that length, at the beginning of a page.
    pub(super) unsafe fn again(address: *mut u8, len: usize) -> io::Result<Self> {
        // SAFETY: with an old length of 0 the mapping that is there stays as it is, and
        // the kernel chooses where the new one comes.
        let address = unsafe { libc::mremap(address.cast(), 0, len, libc::MREMAP_MAYMOVE) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = address.expose_provenance();
        Ok(Self { address, len })
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
