//! The memory that processes share.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};
use smc_view::{Atomics, Memory, Sentence, key_of};

use super::slot::{Carried, Counts, Slot, Wanted};

/// Processes that count by themselves; further ones count together in one more slot.
pub const SLOTS: usize = 1024;

/// Distinct sentences that say why connections are TCP; further ones are counted without.
const REASONS: usize = 64;

/// The first bytes of a table, with the version of its layout.
const MAGIC: u64 = u64::from_ne_bytes(*b"smcxrun\x02");

/// The whole of the memory.
#[repr(C, align(64))]
struct Layout {
    magic: AtomicU64,
    claimed: AtomicU32,
    reserved: AtomicU32,
    slots: [Slot; SLOTS],
    others: Slot,
    reasons: [Sentence; REASONS],
}

// SAFETY: `Layout` and all that is in it are atomic integers in arrays, aligned to 64 bytes.
unsafe impl Atomics for Layout {}

/// The counters of one process. Every method makes a few atomic additions, and no
/// allocation, lock or system call.
#[derive(Clone, Copy)]
pub struct Counter<'a> {
    slot: &'a Slot,
    reasons: &'a [Sentence],
}

impl Counter<'_> {
    /// Counts a connection that SMC carries.
    pub fn count_smc(&self, carried: Carried) {
        self.slot.count_smc(carried);
    }

    /// Counts a connection that stays TCP; `sentence` says why, in at most [`Sentence::MOST`] bytes.
    pub fn count_tcp(&self, sentence: &str, wanted: Wanted) {
        let key = key_of(sentence.as_bytes());
        self.reasons
            .iter()
            .any(|reason| reason.enter(key, sentence.as_bytes()));
        self.slot.count_tcp(key, wanted);
    }

    /// Counts a call that was refused since SMC cannot serve it.
    pub fn count_refused(&self) {
        self.slot.count_refused();
    }

    /// Counts bytes of payload sent over SMC.
    pub fn add_sent(&self, bytes: u64) {
        self.slot.add_sent(bytes);
    }

    /// Counts bytes of payload received over SMC.
    pub fn add_received(&self, bytes: u64) {
        self.slot.add_received(bytes);
    }
}

impl fmt::Debug for Counter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

/// A table of counters, mapped into this process for as long as the value lives.
#[derive(Debug)]
pub struct Table {
    memory: Memory<Layout>,
}

impl Table {
    /// Creates an empty table, and a descriptor of its file, which exec closes.
    ///
    /// # Errors
    /// What keeps the kernel from making or mapping the file.
    pub fn create() -> io::Result<(OwnedFd, Self)> {
        let created = Memory::<Layout>::create("smcx-statistics", false);
        let (file, memory) = created.map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => io::Error::other(format!(
                "files of this process may have {} bytes (RLIMIT_FSIZE, ulimit -f), and the \
                 statistics need {}",
                getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX),
                size_of::<Layout>()
            )),
            _ => error,
        })?;
        // Programs that count must not end because the kernel has no memory left.
        memory.back()?;
        memory.magic.store(MAGIC, Ordering::Release);
        Ok((file, Self { memory }))
    }

    /// Opens the table that a path names ([`handed::path_of`](smc_view::handed::path_of)), or one
    /// that this process has inherited under the number in that path.
    ///
    /// # Errors
    /// The file cannot be opened or mapped, or is not a table: a memory file, sealed, of
    /// the size of a table, and with its first bytes.
    pub fn open(path: &Path) -> io::Result<Self> {
        let memory = Memory::<Layout>::open_handed(path)?;
        match memory.magic.load(Ordering::Acquire) {
            MAGIC => Ok(Self { memory }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn layout(&self) -> &Layout {
        &self.memory
    }

    /// Claims counters for this process, and returns their index; `name` is the content of
    /// its `/proc/self/comm`. When all are taken, the index is that of all further
    /// processes.
    ///
    /// Makes no allocation and takes no lock: a child may call it right after `fork`.
    pub fn claim(&self, name: &[u8]) -> usize {
        let layout = self.layout();
        let order = Ordering::Relaxed;
        // Never beyond the end, so the number cannot wrap around to slots in use.
        let next = |claimed: u32| ((claimed as usize) < SLOTS).then_some(claimed + 1);
        let claimed = layout.claimed.fetch_update(order, order, next);
        let index = claimed.map_or(SLOTS, |index| index as usize);
        if let Some(slot) = layout.slots.get(index) {
            slot.enter(std::process::id(), name);
        }
        index
    }

    /// The counters of an index that [`Self::claim`] returned.
    #[must_use]
    pub fn counter(&self, index: usize) -> Counter<'_> {
        let layout = self.layout();
        Counter {
            slot: layout.slots.get(index).unwrap_or(&layout.others),
            reasons: &layout.reasons,
        }
    }

    /// How many processes have claimed counters: none if the program, or its library, has not
    /// opened the table.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.layout().claimed.load(Ordering::Relaxed) as usize
    }

    /// What the processes counted, in the order in which they started. Processes that
    /// counted nothing are left out.
    #[must_use]
    pub fn read(&self) -> Vec<Counts> {
        let layout = self.layout();
        let all = layout.slots.iter().chain([&layout.others]);
        let sentence = |key| {
            let found = layout.reasons.iter().find_map(|reason| reason.read(key));
            found.unwrap_or_default()
        };
        let counts = all.map(|slot| slot.read(sentence));
        counts.filter(|counts| !counts.is_empty()).collect()
    }
}
