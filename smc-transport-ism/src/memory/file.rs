//! Memory files: made for a peer, judged before one of a peer's is mapped, given back.
//!
//! A page is charged to the memory cgroup of the process that touches it first, and stays
//! charged as long as any process has the file open or mapped, which a peer may do for
//! ever. So this side takes its pages out of a file ([`SharedRegion::discard`]) before its
//! own mapping goes. A peer's bells, out of which it could not take any, it maps only if
//! every page of them has been touched before.

use std::io;
use std::os::fd::OwnedFd;

use memmap2::{MmapOptions, UncheckedAdvice};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::Resource;

use super::reaper::{Mapping, Reaper};
use super::{SharedRegion, system};
use crate::device::IsmError;
use crate::doorbell::Bells;

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

impl SharedRegion {
    /// Makes `len` octets of zeroes, and the descriptor that gives them to a peer.
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
        let fd = rustix::fs::memfd_create("smc-d", flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create("smc-d", flags))?;
        rustix::fs::ftruncate(&fd, u64::from(len))?;
        let map = MmapOptions::new().len(len as usize).map_raw(&fd)?;
        let region = Self::of(map);
        let mut seals = Self::SEALS;
        if own_writes_only {
            // No page can be taken out of such a file, so the reader wants all of them there.
            for at in (0..len).step_by(PAGE as usize) {
                region.copy_in(at, &[0]).map_err(io::Error::other)?;
            }
            seals |= SealFlags::FUTURE_WRITE;
        }
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
    /// [`IsmError::Length`] if the file is not of `len` octets, sealed, and plain
    /// memory: a file of huge pages or on a disk could still fail when accessed.
    pub(crate) fn open(fd: &OwnedFd, len: u32) -> Result<Self, IsmError> {
        let seals = checked_seals(fd, len)?;
        //= SHM-051
        if seals.intersects(Self::WRITE_SEALS) {
            return Err(IsmError::Length);
        }
        let map = MmapOptions::new().len(len as usize).map_raw(fd);
        let map = map.map_err(|error| system(&error))?;
        Ok(Self::of(map))
    }

    /// Maps memory that only the peer writes, if it is what [`Self::create`] makes.
    fn open_read_only(fd: &OwnedFd, len: u32) -> Result<Self, IsmError> {
        let seals = checked_seals(fd, len)?;
        let blocks = rustix::fs::fstat(fd).map_or(0, |at| at.st_blocks);
        let touched = u64::try_from(blocks).map_or(0, |blocks| blocks.saturating_mul(BLOCK));
        //= SHM-052
        if !seals.contains(SealFlags::FUTURE_WRITE) || touched < len.into() {
            return Err(IsmError::Length);
        }
        let map = MmapOptions::new()
            .len(len as usize)
            .map_raw_read_only(fd)
            .map_err(|error| system(&error))?;
        Ok(Self::of(map))
    }

    /// Gives all pages back, whichever process they are charged to. Every later read, by
    /// either side, is of zeroes.
    //= SHM-051
    pub(crate) fn discard(&self) {
        self.discard_from(0);
    }

    /// Gives all pages back but the first, in which the head of a DMB is.
    //= SHM-051
    pub(crate) fn discard_ring(&self) {
        self.discard_from(rustix::param::page_size().min(self.len()));
    }

    /// Lets a thread of its own give pages back: a stranger has the file.
    //= SHM-056
    pub(crate) fn discard_by(&mut self, reaper: Reaper) {
        self.reaper = Some(reaper);
    }

    /// Whether a thread of its own gives pages back.
    #[cfg(test)]
    pub(crate) fn has_reaper(&self) -> bool {
        self.reaper.is_some()
    }

    /// Gives pages back, from an offset on which is that of a page. In a child, nothing: its
    /// parent goes on with them.
    fn discard_from(&self, at: usize) {
        //= SHM-061
        if !self.process.is_current() {
            return;
        }
        if let Some(reaper) = &self.reaper {
            if at < self.len() {
                // SAFETY: the rest of this mapping, which is shared, from a page on.
                let again = unsafe { Mapping::again(self.address().add(at), self.len() - at) };
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

/// The seals of a file that is sealed, of `len` octets, and plain memory.
//= SHM-022
fn checked_seals(fd: &OwnedFd, len: u32) -> Result<SealFlags, IsmError> {
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| IsmError::Length)?;
    let plain = rustix::fs::fstatfs(fd).is_ok_and(|at| at.f_type as u64 == TMPFS_MAGIC);
    let whole = rustix::fs::fstat(fd).is_ok_and(|at| u64::try_from(at.st_size) == Ok(len.into()));
    if seals.contains(SharedRegion::SEALS) && plain && whole {
        Ok(seals)
    } else {
        Err(IsmError::Length)
    }
}

/// A mapping that holds bells: this side's own, or a peer's to be read.
#[derive(Debug)]
pub(crate) struct BellsOf {
    pub(super) region: SharedRegion,
}

/// Octets a mapping of bells has.
const BELLS_LEN: u32 = size_of::<Bells>().next_multiple_of(PAGE as usize) as u32;

impl BellsOf {
    /// Makes bells to ring, and the descriptor with which a peer hears them.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let (region, fd) = SharedRegion::create(BELLS_LEN, true)?;
        Ok((Self { region }, fd))
    }

    /// A peer's bells, mapped for reading only.
    pub(crate) fn open(fd: &OwnedFd) -> Result<Self, IsmError> {
        SharedRegion::open_read_only(fd, BELLS_LEN).map(|region| Self { region })
    }

    /// The bells. Only those made here may be rung: the others are read-only.
    pub(crate) fn bells(&self) -> &Bells {
        // SAFETY: the mapping is as long as `Bells`, aligned to a page, and holds
        // atomics only, for which every content is valid.
        unsafe { &*self.region.address().cast_const().cast() }
    }
}
