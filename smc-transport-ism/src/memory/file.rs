//! Memory files: made for a peer, judged before one of a peer's is mapped, given back.
//!
//! A page is charged to the memory cgroup of the process that touches it first, and stays
//! charged as long as any process has the file open or mapped, which a peer may do for
//! ever. So this side takes its pages out of a file ([`SharedRegion::discard`]) before its
//! own mapping goes. A peer's doorbells, out of which it could not take any, it maps only if
//! every page of them is there already.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{MmapOptions, UncheckedAdvice};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::Resource;

use super::reaper::{Mapping, Reaper};
use super::{SharedRegion, system};
use crate::descriptors;
use crate::device::IsmError;
use crate::doorbell::{Doorbells, Leaves, Pages};

/// The file system of plain memory files.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Bytes in which the blocks of a file are counted.
const BLOCK: u64 = 512;

/// The smallest page there is.
const PAGE: u32 = 4096;

/// Most bytes that a file of this process may have (`RLIMIT_FSIZE`), if there is a limit.
/// DMBs are such files: longer ones cannot be registered.
#[must_use]
pub fn file_size_limit() -> Option<u64> {
    rustix::process::getrlimit(Resource::Fsize).current
}

/// Memory files that this process has mapped.
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);

/// Mappings of a process that the kernel permits if nothing else is known.
const USUAL_MAPPINGS: usize = 65_530;

/// Most mappings that this process may have (`vm.max_map_count`), if three quarters of them are
/// mappings of shared memory. No further DMB is registered then: the others are for the memory
/// of the program itself, which ends if it gets none.
//= SHM-074
#[must_use]
pub fn mapping_limit() -> Option<usize> {
    let most = most_mappings();
    let is_reached = MAPPINGS.load(Ordering::Relaxed) >= most / 4 * 3;
    is_reached.then_some(most)
}

/// Mappings that this process may have.
fn most_mappings() -> usize {
    // No lock: a thread that held it at a fork would keep it for ever in the child.
    static MOST: AtomicUsize = AtomicUsize::new(0);
    #[cfg(test)]
    if let Some(most) = tests_limit::MOST.get() {
        return most;
    }
    match MOST.load(Ordering::Relaxed) {
        0 => {
            let text = std::fs::read_to_string("/proc/sys/vm/max_map_count");
            let most = text.ok().and_then(|text| text.trim().parse().ok());
            let most = most.unwrap_or(USUAL_MAPPINGS).max(1);
            MOST.store(most, Ordering::Relaxed);
            most
        }
        most => most,
    }
}

#[cfg(test)]
pub(crate) mod tests_limit {
    //! A limit of mappings for the tests of one thread.
    thread_local! {
        pub(crate) static MOST: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
    }
}

/// Counts a mapping as long as it lasts.
#[derive(Debug)]
pub(super) struct Counted(());

impl Counted {
    /// Counts one more mapping, of these eighths of all at most.
    fn of(eighths: usize) -> io::Result<Self> {
        let one = Self(());
        if MAPPINGS.fetch_add(1, Ordering::Relaxed) >= most_mappings() / 8 * eighths {
            return Err(rustix::io::Errno::NOMEM.into());
        }
        Ok(one)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        MAPPINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Eighths of all mappings that are for this side's files.
const FOR_OURS: usize = 6;

/// Eighths of all mappings that are for files together with those of peers: each DMB registered
/// here lets a peer's be mapped.
const FOR_THEIRS: usize = 7;

impl SharedRegion {
    /// Makes `len` bytes of zeroes, and the descriptor that gives them to a peer.
    /// With `own_writes_only` the peer can map it for reading only.
    ///
    /// # Errors
    /// The operating system's; [`rustix::io::Errno::FBIG`] if this process may not have
    /// files of that length.
    pub(crate) fn create(len: u32, own_writes_only: bool) -> io::Result<(Self, OwnedFd)> {
        // The kernel would answer with a signal that ends the process.
        //= SHM-050
        if file_size_limit().is_some_and(|most| most < len.into()) {
            return Err(rustix::io::Errno::FBIG.into());
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Since Linux 6.3 a file that can never be executed can be asked for.
        //= SHM-031
        let fd = descriptors::keep(|| {
            rustix::fs::memfd_create("smc-d", flags | MemfdFlags::NOEXEC_SEAL)
                .or_else(|_| rustix::fs::memfd_create("smc-d", flags))
        })?;
        let mut seals = Self::SEALS;
        if own_writes_only {
            // No page can be taken out of such a file, so the reader wants all of them there.
            // To write them takes less time than to touch them, and makes the file long enough.
            for at in (0..len).step_by(PAGE as usize) {
                rustix::io::pwrite(&fd, &[0; PAGE as usize], at.into())?;
            }
            seals |= SealFlags::FUTURE_WRITE;
        } else {
            rustix::fs::ftruncate(&fd, u64::from(len))?;
        }
        let counted = Some(Counted::of(FOR_OURS)?);
        let map = MmapOptions::new().len(len as usize).map_raw(&fd)?;
        let region = Self {
            counted,
            ..Self::of(map)
        };
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        Ok((region, fd))
    }

    /// Without the first two a peer could cut the file while it is mapped here: the next
    /// access would kill this process. Without the third it could add what keeps this side
    /// from giving pages back.
    pub(super) const SEALS: SealFlags = SealFlags::SHRINK
        .union(SealFlags::GROW)
        .union(SealFlags::SEAL);

    /// Seals that keep pages from being taken out.
    const WRITE_SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::FUTURE_WRITE);

    /// Maps a DMB that a peer sent, if it is what [`Self::create`] makes.
    ///
    /// # Errors
    /// [`IsmError::Length`] if the file is not of `len` bytes, sealed, and plain
    /// memory: a file of huge pages or on a disk could still fail when accessed.
    pub(crate) fn open(fd: &OwnedFd, len: u32) -> Result<Self, IsmError> {
        let (seals, _) = checked_seals(fd, len)?;
        //= SHM-051
        if seals.intersects(Self::WRITE_SEALS) {
            return Err(IsmError::Length);
        }
        let counted = Counted::of(FOR_THEIRS).map_err(|error| system(&error))?;
        let map = MmapOptions::new().len(len as usize).map_raw(fd);
        let map = map.map_err(|error| system(&error))?;
        Ok(Self {
            counted: Some(counted),
            ..Self::of(map)
        })
    }

    /// Maps memory that only the peer writes, if it is what [`Self::create`] makes.
    fn open_read_only(fd: &OwnedFd, len: u32) -> Result<Self, IsmError> {
        let (seals, touched) = checked_seals(fd, len)?;
        //= SHM-052
        if !seals.contains(SealFlags::FUTURE_WRITE) || touched < len.into() {
            return Err(IsmError::Length);
        }
        let counted = Counted::of(FOR_THEIRS).map_err(|error| system(&error))?;
        let map = MmapOptions::new()
            .len(len as usize)
            .map_raw_read_only(fd)
            .map_err(|error| system(&error))?;
        Ok(Self {
            counted: Some(counted),
            ..Self::of(map)
        })
    }

    /// Gives all pages back, whichever process they are charged to. Every later read, by
    /// either side, is of zeroes.
    //= SHM-051
    pub(crate) fn discard(&self) {
        self.discard_from(0, false);
    }

    /// Gives all pages back but the first, in which the head of a DMB is. A thread that does so
    /// later can be stopped by [`Self::keep_ring`].
    //= SHM-051
    pub(crate) fn discard_ring(&self) {
        self.discard_from(rustix::param::page_size().min(self.len()), true);
    }

    /// Keeps the pages that a thread was to give back after [`Self::discard_ring`], so that the
    /// ring can be written again. Returns `false` if the thread gives pages back at the moment.
    //= SHM-057
    #[must_use]
    pub(crate) fn keep_ring(&self) -> bool {
        let mut removal = self.reaper.iter().map(|(_, removal)| removal);
        removal.all(|removal| removal.cancel())
    }

    /// Gives all pages back of a file that its owner has withdrawn, unless the owner does that.
    //= SHM-051
    pub(crate) fn discard_withdrawn(&self) {
        if !self.owner_discards {
            self.discard();
        }
    }

    /// Leaves it to the owner to give pages back when it withdraws the file: a process of this
    /// process's own user.
    pub(crate) fn leave_to_owner(&mut self) {
        self.owner_discards = true;
    }

    /// Lets a thread of its own give pages back: a stranger has the file.
    //= SHM-056
    pub(crate) fn discard_by(&mut self, reaper: Reaper) {
        self.reaper = Some((reaper, Arc::default()));
    }

    /// Whether a thread of its own gives pages back.
    #[cfg(test)]
    pub(crate) fn has_reaper(&self) -> bool {
        self.reaper.is_some()
    }

    /// Gives pages back, from an offset on which is that of a page; `can_be_stopped` if a thread
    /// that does so can be stopped by [`Self::keep_ring`]. In a child, nothing: its parent goes on
    /// with them.
    fn discard_from(&self, at: usize, can_be_stopped: bool) {
        //= SHM-061
        if !self.process.is_current() {
            return;
        }
        if let Some((reaper, removal)) = &self.reaper {
            if at < self.len() {
                let (rest, removal) = (self.len() - at, can_be_stopped.then(|| removal.clone()));
                // SAFETY: the rest of this mapping, which is shared, from a page on.
                let again = unsafe { Mapping::again(self.address().add(at), rest, removal) };
                // Without room for a mapping the pages stay, which is better than to wait.
                again.into_iter().for_each(|mapping| reaper.submit(mapping));
            }
            return;
        }
        let (map, len) = (&self.map, self.len() - at);
        // SAFETY: no references to the mapped memory exist but to atomics, for which this
        // is a change as a peer may make it at any time. The mapping stays as it is.
        let discard = || unsafe { map.unchecked_advise_range(UncheckedAdvice::Remove, at, len) };
        // The kernel takes no pages from a process that locks all its memory.
        if discard().is_err() && map.unlock().is_ok() {
            let _ = discard();
        }
    }
}

/// The seals of a file that is sealed, of `len` bytes, and plain memory, and how many bytes of
/// it have pages.
//= SHM-022
fn checked_seals(fd: &OwnedFd, len: u32) -> Result<(SealFlags, u64), IsmError> {
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| IsmError::Length)?;
    let plain = rustix::fs::fstatfs(fd).is_ok_and(|at| at.f_type as u64 == TMPFS_MAGIC);
    let file = rustix::fs::fstat(fd).map_err(|_| IsmError::Length)?;
    let whole = u64::try_from(file.st_size) == Ok(len.into());
    let touched = u64::try_from(file.st_blocks).map_or(0, |blocks| blocks.saturating_mul(BLOCK));
    if seals.contains(SharedRegion::SEALS) && plain && whole {
        Ok((seals, touched))
    } else {
        Err(IsmError::Length)
    }
}

/// A mapping that holds the first page of doorbells: this side's own, or a peer's to be read.
#[derive(Debug)]
pub(crate) struct DoorbellPage {
    pub(super) region: SharedRegion,
}

const _: () = assert!(size_of::<Doorbells>() <= PAGE as usize);
const _: () = assert!(size_of::<Leaves>() <= PAGE as usize);

impl DoorbellPage {
    /// Makes doorbells to ring, and the descriptor with which a peer reads them.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let (region, fd) = SharedRegion::create(PAGE, true)?;
        Ok((Self { region }, fd))
    }

    /// A peer's doorbells, mapped for reading only.
    pub(crate) fn open(fd: &OwnedFd) -> Result<Self, IsmError> {
        SharedRegion::open_read_only(fd, PAGE).map(|region| Self { region })
    }

    /// The doorbells. Only those made here may be rung: the others are read-only.
    pub(crate) fn doorbells(&self) -> &Doorbells {
        // SAFETY: the mapping is as long as `Doorbells`, aligned to a page, and holds
        // atomics only, for which every content is valid.
        unsafe { &*self.region.address().cast_const().cast() }
    }
}

/// The further pages of doorbells of one direction, in order: this side's own, or a peer's to
/// be read.
#[derive(Debug, Default)]
pub(crate) struct PagesOf {
    /// `None` for a page for whose mapping this process had no room.
    regions: Vec<Option<SharedRegion>>,
}

impl PagesOf {
    /// Number of pages, mapped or not.
    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    /// Makes one more page to ring in, and the descriptor with which a peer reads it.
    pub(crate) fn create(&mut self) -> io::Result<OwnedFd> {
        let (region, fd) = SharedRegion::create(PAGE, true)?;
        self.regions.push(Some(region));
        Ok(fd)
    }

    /// Removes the last page made, which the peer did not get.
    pub(crate) fn take_back(&mut self) {
        self.regions.pop();
    }

    /// Maps one more page of a peer read-only. Without a descriptor or memory for it, the page
    /// counts as missing.
    ///
    /// # Errors
    /// [`IsmError::Length`] if the file is not one that [`Self::create`] makes.
    pub(crate) fn open(&mut self, fd: Option<&OwnedFd>) -> Result<(), IsmError> {
        let region = match fd.map(|fd| SharedRegion::open_read_only(fd, PAGE)) {
            Some(Ok(region)) => Some(region),
            // A lack of memory at this side is not an error of the peer.
            None | Some(Err(IsmError::System { .. })) => None,
            Some(Err(error)) => return Err(error),
        };
        self.regions.push(region);
        Ok(())
    }
}

impl Pages for PagesOf {
    fn page(&self, at: usize) -> Option<&Leaves> {
        let region = self.regions.get(at)?.as_ref()?;
        // SAFETY: the mapping is as long as `Leaves`, aligned to a page, and holds
        // atomics only, for which every content is valid.
        Some(unsafe { &*region.address().cast_const().cast() })
    }
}
