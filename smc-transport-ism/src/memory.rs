//! Memory that somebody else writes at any time: the only pointers of this crate
//! (with `sys.rs`, which maps it for a PCI function).
//!
//! Nothing here ever forms a reference to such octets, save to atomics: they are
//! copied out once and looked at afterwards, so no check can be outrun by a second
//! read. Every access is bounded in 64-bit arithmetic first.
//!
//! Octets in bulk are copied without atomics, as by any device driver: a peer may
//! write meanwhile, and then what is copied is any mixture of old and new octets.
//! The cursors that say which octets are settled are atomics, released after and
//! acquired before the copies, so a peer that keeps SMC-D's rules is never raced.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::device::{CDC_LEN, Cdc, IsmError, check_bounds, check_cdc_bounds};
use crate::doorbell::Bells;

/// The file system of plain memory files.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The unit of a CDC message that has the producer cursor.
pub(crate) const PRODUCER: usize = 1;

/// The unit of a CDC message that has the consumer cursor and the flags.
pub(crate) const FLAGS: usize = 2;

/// The producer flags of that unit, octet 22 of the message.
const PRODUCER_FLAGS: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0xff, 0]);

/// Stands for that unit where nobody remembers it: any flag may have to be taken back.
pub(crate) const UNKNOWN: u64 = PRODUCER_FLAGS;

/// Most looks at a CDC message that changes.
const LOOKS: u32 = 4;

/// A mapping of shared memory, readable, and writable unless it was made from a
/// peer's bells.
#[derive(Debug)]
pub(crate) struct SharedRegion {
    map: MmapRaw,
}

impl SharedRegion {
    /// Makes `len` octets of zeroes, and the descriptor that gives them to a peer.
    /// With `own_writes_only` the peer can map it for reading only.
    pub(crate) fn create(len: u32, own_writes_only: bool) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Since Linux 6.3 a file that can never be executed can be asked for.
        //= SHM-031
        let fd = rustix::fs::memfd_create("smc-d", flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create("smc-d", flags))?;
        rustix::fs::ftruncate(&fd, u64::from(len))?;
        let map = MmapOptions::new().len(len as usize).map_raw(&fd)?;
        let future = if own_writes_only {
            SealFlags::FUTURE_WRITE
        } else {
            SealFlags::empty()
        };
        rustix::fs::fcntl_add_seals(&fd, Self::SEALS | future | SealFlags::SEAL)?;
        Ok((Self { map }, fd))
    }

    /// Without these a peer could cut the file while it is mapped here: the next
    /// access would kill this process.
    const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

    /// Maps what a peer sent, if it is what [`Self::create`] makes.
    ///
    /// # Errors
    /// [`IsmError::Length`] if the file is not of `len` octets, sealed, and plain
    /// memory: a file of huge pages or on a disk could still fail when accessed.
    pub(crate) fn open(fd: &OwnedFd, len: u32, writable: bool) -> Result<Self, IsmError> {
        let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| IsmError::Length)?;
        let plain = rustix::fs::fstatfs(fd).is_ok_and(|at| at.f_type as u64 == TMPFS_MAGIC);
        let whole =
            rustix::fs::fstat(fd).is_ok_and(|at| u64::try_from(at.st_size) == Ok(len.into()));
        //= SHM-022
        if !(seals.contains(Self::SEALS) && plain && whole) {
            return Err(IsmError::Length);
        }
        let options = MmapOptions::new().len(len as usize).clone();
        let map = if writable {
            options.map_raw(fd)
        } else {
            options.map_raw_read_only(fd)
        };
        Ok(Self {
            map: map.map_err(|error| system(&error))?,
        })
    }

    /// Memory of this process alone, for a device to write.
    pub(crate) fn anonymous(len: u32) -> io::Result<Self> {
        Ok(Self {
            map: memmap2::MmapMut::map_anon(len as usize)?.into(),
        })
    }

    /// Octets there are.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Where it is mapped, for a device that reaches it by itself.
    pub(crate) fn address(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Copies octets in, at `offset`.
    #[inline]
    pub(crate) fn copy_in(&self, offset: u32, source: &[u8]) -> Result<(), IsmError> {
        let end = check_bounds(offset, source.len(), self.len())?;
        // SAFETY: `end` is within the mapping and lies `source.len()` behind the
        // target's begin; `source` is memory of this process that the mapping, which
        // nobody has a reference into, cannot overlap. The mapping is writable: those
        // that are not stay in `BellsOf`, which does not copy.
        unsafe {
            let target = self.address().add(end - source.len());
            core::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len());
        }
        Ok(())
    }

    /// Copies octets out, from `offset`.
    #[inline]
    pub(crate) fn copy_out(&self, offset: u32, into: &mut [u8]) -> Result<(), IsmError> {
        let end = check_bounds(offset, into.len(), self.len())?;
        // SAFETY: as in `copy_in`, the other way round; what a peer writes meanwhile
        // are octets, which are valid in any mixture.
        unsafe {
            let from = self.address().add(end - into.len());
            core::ptr::copy_nonoverlapping(from.cast_const(), into.as_mut_ptr(), into.len());
        }
        Ok(())
    }

    /// Lets the processor fetch what is at `offset` meanwhile, if anything is.
    #[inline]
    pub(crate) fn fetch_ahead(&self, offset: u32) {
        #[cfg(target_arch = "x86_64")]
        if (offset as usize) < self.len() {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: the address is within the mapping, and this is a hint: it reads
            // nothing and never fails.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.address().add(offset as usize).cast()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// Writes a CDC message, each cursor in one piece, after all that was moved before.
    ///
    /// `last` is the unit with the flags that this side wrote there last, and is changed
    /// with it: to read it there would be to fetch the line that the other side looks at.
    /// It does so only if a flag may have to be taken back; the other side may have zeroed
    /// it since.
    //= SHM-024
    #[inline]
    pub(crate) fn write_cdc(
        &self,
        offset: u32,
        cdc: &Cdc,
        last: &AtomicU64,
    ) -> Result<(), IsmError> {
        let units = self.cdc_units(offset)?;
        let new = cdc.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
        let next = new.clone().nth(FLAGS).unwrap_or_default();
        if let Some(flags) = units.get(FLAGS) {
            take_back(flags, last.load(Ordering::Relaxed), next);
        }
        last.store(next, Ordering::Relaxed);
        for (unit, new) in units.iter().zip(new) {
            unit.store(new, Ordering::Release);
        }
        Ok(())
    }

    /// Reads a CDC message, each cursor in one piece, before all that follows.
    ///
    /// The peer may be writing the next one. It writes from the front, so this reads from
    /// the back: a flag such as "sending done", behind the producer cursor, is never seen
    /// without the cursor it was written with. A flag that was taken back before the next
    /// cursor was written must not be seen with that cursor: if flags or cursor change
    /// meanwhile, it looks again. The cursor is looked at last, as flags may be the same
    /// again some messages later. A peer that changes them all the time gets what it wrote.
    //= SHM-024
    #[inline]
    pub(crate) fn read_cdc(&self, offset: u32) -> Result<Cdc, IsmError> {
        let mut cdc = [0; CDC_LEN];
        self.read_cdc_into(offset, &mut cdc)?;
        Ok(cdc)
    }

    /// The same, where it is wanted.
    #[inline]
    pub(crate) fn read_cdc_into(&self, offset: u32, cdc: &mut Cdc) -> Result<(), IsmError> {
        let units = self.cdc_units(offset)?;
        for _ in 0..LOOKS {
            for (unit, octets) in units.iter().zip(cdc.as_chunks_mut().0).rev() {
                *octets = unit.load(Ordering::Acquire).to_ne_bytes();
            }
            let is_still = |at: usize| {
                let now = units.get(at).map(|unit| unit.load(Ordering::Acquire));
                cdc.as_chunks().0.get(at).copied() == now.map(u64::to_ne_bytes)
            };
            if is_still(FLAGS) && is_still(PRODUCER) {
                break;
            }
        }
        Ok(())
    }

    /// Whether the units that say anything, of the CDC message at the front, are others
    /// than these. To know what they say it is to be read.
    #[inline]
    pub(crate) fn is_other(&self, [producer, flags]: [u64; 2]) -> bool {
        self.cdc_units(0).is_ok_and(|units| {
            let now = |at: usize| units.get(at).map(|unit| unit.load(Ordering::Relaxed));
            now(PRODUCER) != Some(producer) || now(FLAGS) != Some(flags)
        })
    }

    #[inline]
    fn cdc_units(&self, offset: u32) -> Result<&[AtomicU64; CDC_LEN / 8], IsmError> {
        let end = check_cdc_bounds(offset, self.len())?;
        // SAFETY: within the mapping, which lives as long as `self`, and aligned to 8,
        // as the mapping is to a page and the offset to 8. Atomics may be changed by
        // anybody. Octets of a CDC message are otherwise only copied by raw pointer.
        Ok(unsafe { &*self.address().add(end - CDC_LEN).cast() })
    }

    /// A word that a device changes with interlocked updates.
    pub(crate) fn word(&self, offset: u32) -> Result<&AtomicU32, IsmError> {
        let end = check_bounds(offset, 4, self.len())?;
        if !offset.is_multiple_of(4) {
            return Err(IsmError::Bounds);
        }
        // SAFETY: as in `cdc_units`, for four octets.
        Ok(unsafe { &*self.address().add(end - 4).cast() })
    }
}

/// Takes those producer flags back that this side wrote `last` and that `next` has no more.
#[inline]
fn take_back(flags: &AtomicU64, last: u64, next: u64) {
    let ended = |stands: u64| stands & PRODUCER_FLAGS & !next;
    if ended(last) != 0 {
        let stands = flags.load(Ordering::Relaxed);
        flags.store(stands & !ended(stands), Ordering::Release);
    }
}

/// A mapping that holds bells: this side's own, or a peer's to be read.
#[derive(Debug)]
pub(crate) struct BellsOf {
    region: SharedRegion,
}

/// Octets a mapping of bells has.
const BELLS_LEN: u32 = size_of::<Bells>().next_multiple_of(4096) as u32;

impl BellsOf {
    /// Makes bells to ring, and the descriptor with which a peer hears them.
    pub(crate) fn create() -> io::Result<(Self, OwnedFd)> {
        let (region, fd) = SharedRegion::create(BELLS_LEN, true)?;
        Ok((Self { region }, fd))
    }

    /// A peer's bells, mapped for reading only.
    pub(crate) fn open(fd: &OwnedFd) -> Result<Self, IsmError> {
        SharedRegion::open(fd, BELLS_LEN, false).map(|region| Self { region })
    }

    /// The bells. Only those made here may be rung: the others are read-only.
    pub(crate) fn bells(&self) -> &Bells {
        // SAFETY: the mapping is as long as `Bells`, aligned to a page, and holds
        // atomics only, for which every content is valid.
        unsafe { &*self.region.address().cast_const().cast() }
    }
}

/// Puts a system error into ours.
pub(crate) fn system(error: &io::Error) -> IsmError {
    match error.raw_os_error() {
        Some(errno) => IsmError::System { errno },
        None => IsmError::Device { code: 0 },
    }
}

/// Gives pages back, for tests that see whether zeroes come again.
#[cfg(test)]
fn punch(fd: &OwnedFd, len: u32) -> rustix::io::Result<()> {
    use rustix::fs::FallocateFlags;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fd, flags, 0, len.into())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::fs::{MemfdFlags, SealFlags};

    use super::{AtomicU64, BellsOf, Ordering, SharedRegion, UNKNOWN, punch, take_back};
    use crate::device::{CDC_LEN, IsmError};

    #[test]
    fn two_mappings_are_one_memory() {
        let (ours, fd) = SharedRegion::create(8192, false).unwrap();
        let theirs = SharedRegion::open(&fd, 8192, true).unwrap();
        ours.copy_in(4090, b"across a page").unwrap();
        let mut octets = [0; 13];
        theirs.copy_out(4090, &mut octets).unwrap();
        assert_eq!(&octets, b"across a page");
        theirs
            .write_cdc(64, &[7; 32], &AtomicU64::new(UNKNOWN))
            .unwrap();
        assert_eq!(ours.read_cdc(64), Ok([7; 32]));
        assert_eq!(ours.copy_in(8190, &[0; 3]), Err(IsmError::Bounds));
        assert_eq!(ours.copy_out(u32::MAX, &mut [0; 2]), Err(IsmError::Bounds));
        assert!(ours.word(8192).is_err() && ours.word(2).is_err() && ours.word(8188).is_ok());
    }

    //= SHM-024 test
    #[test]
    fn flags_are_never_ahead_of_their_cursor() {
        let (ours, fd) = SharedRegion::create(4096, false).unwrap();
        let theirs = SharedRegion::open(&fd, 4096, true).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let last = AtomicU64::new(UNKNOWN);
                for turn in 1..400_000_u64 {
                    let mut cdc = [0; CDC_LEN];
                    for unit in cdc.as_chunks_mut::<8>().0 {
                        *unit = turn.to_ne_bytes();
                    }
                    theirs.write_cdc(0, &cdc, &last).unwrap();
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                let cdc = ours.read_cdc(0).unwrap();
                let turns = cdc.as_chunks().0.iter().map(|u| u64::from_ne_bytes(*u));
                assert!(turns.is_sorted_by(|front, back| front >= back));
            }
        });
    }

    //= SHM-024 test
    #[test]
    fn no_newer_cursor_is_seen_under_flags_that_ended_before_it() {
        const U: u8 = 0x20;
        let (ours, fd) = SharedRegion::create(4096, false).unwrap();
        let theirs = SharedRegion::open(&fd, 4096, true).unwrap();
        let seen = std::sync::atomic::AtomicU64::new(0);
        let turns = 100_000_u64;
        let mut wrong = None;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let last = AtomicU64::new(UNKNOWN);
                // Each tenth is urgent: the next one waits until it was seen.
                for turn in 1..=turns {
                    let mut cdc = [0; CDC_LEN];
                    cdc[8..16].copy_from_slice(&turn.to_ne_bytes());
                    cdc[22] = if turn % 10 == 0 { U } else { 0 };
                    theirs.write_cdc(0, &cdc, &last).unwrap();
                    while cdc[22] == U && seen.load(Ordering::Acquire) < turn {
                        std::thread::yield_now();
                    }
                }
            });
            let mut last = 0;
            while last < turns {
                let cdc = ours.read_cdc(0).unwrap();
                last = u64::from_ne_bytes(cdc[8..16].try_into().unwrap());
                // A mark may come behind its cursor, never with another one.
                if cdc[22] != 0 && last % 10 != 0 {
                    wrong = Some(last);
                    seen.store(u64::MAX, Ordering::Release);
                    break;
                }
                if cdc[22] == U {
                    seen.store(last, Ordering::Release);
                }
            }
        });
        assert_eq!(wrong, None);
    }

    //= SHM-024 test
    #[test]
    fn flags_are_taken_back_and_none_that_the_reader_has_zeroed_comes_back() {
        const URGENT_AND_CLOSED: u64 = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 0x20, 0x80]);
        const CLOSED: u64 = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 0, 0x80]);
        for (stands, last, left) in [
            (URGENT_AND_CLOSED, URGENT_AND_CLOSED, CLOSED),
            (URGENT_AND_CLOSED, UNKNOWN, CLOSED),
            (0, URGENT_AND_CLOSED, 0),
            (CLOSED, CLOSED, CLOSED),
        ] {
            let flags = AtomicU64::new(stands);
            take_back(&flags, last, CLOSED);
            assert_eq!(flags.into_inner(), left, "{stands:x} {last:x}");
        }
    }

    #[test]
    fn what_could_fail_when_accessed_is_not_mapped() {
        let memfd = |flags| rustix::fs::memfd_create("x", flags | MemfdFlags::CLOEXEC).unwrap();
        let refused = |fd: &OwnedFd| SharedRegion::open(fd, 4096, true).err();
        let fd = memfd(MemfdFlags::ALLOW_SEALING);
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        assert_eq!(refused(&fd), Some(IsmError::Length), "no seals");
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        assert_eq!(refused(&fd), Some(IsmError::Length), "can grow");
        rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW).unwrap();
        assert_eq!(refused(&fd), None);
        for len in [0, 4095, 4097, 8192] {
            assert!(SharedRegion::open(&fd, len, true).is_err(), "{len}");
        }
        assert_eq!(refused(&memfd(MemfdFlags::empty())), Some(IsmError::Length));
        let file = std::fs::File::open("/proc/self/exe").unwrap().into();
        assert_eq!(refused(&file), Some(IsmError::Length));
        // Huge pages may be missing when they are touched, sealed or not.
        let flags = MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        if let Ok(huge) = rustix::fs::memfd_create("x", flags) {
            rustix::fs::fcntl_add_seals(&huge, SealFlags::SHRINK | SealFlags::GROW).unwrap();
            assert!(SharedRegion::open(&huge, 0, true).is_err());
        }
    }

    #[test]
    fn a_peer_that_punches_holes_makes_zeroes() {
        let (ours, fd) = SharedRegion::create(8192, false).unwrap();
        ours.copy_in(0, &[9; 8192]).unwrap();
        punch(&fd, 8192).unwrap();
        // The compiler does not know that this changed the memory.
        std::hint::black_box(ours.address());
        let mut octets = [1; 8192];
        ours.copy_out(0, &mut octets).unwrap();
        assert_eq!(octets, [0; 8192]);
    }

    #[test]
    fn a_peers_bells_cannot_be_written() {
        let (_ours, fd) = BellsOf::create().unwrap();
        assert!(BellsOf::open(&fd).is_ok());
        assert!(memmap2::MmapOptions::new().map_raw(&fd).is_err());
        assert_eq!(rustix::io::write(&fd, b"x"), Err(rustix::io::Errno::PERM));
    }
}
