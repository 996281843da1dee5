//! Memory that another process writes at any time: the only pointers of this crate
//! (with `sys.rs`, which maps it for a PCI function).
//!
//! Nothing here ever forms a reference to such bytes, save to atomics: they are
//! copied out once and checked afterwards, so no check can be outrun by a second
//! read. Every access is bounded in 64-bit arithmetic first.
//!
//! Bytes in bulk are copied without atomics, as by any device driver: a peer may
//! write meanwhile, and then what is copied is any mixture of old and new bytes.
//! The cursors, which state which bytes are complete, are atomics, released after and
//! acquired before the copies, so a peer that keeps SMC-D's rules is never raced.

mod file;
mod reaper;
pub(crate) mod system_calls;

use reaper::Removal;
pub(crate) use reaper::{Reaper, Reapers};

#[cfg(test)]
pub(crate) use file::tests_limit;
pub(crate) use file::{DoorbellPage, PagesOf};
pub use file::{file_size_limit, mapping_limit};

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::MmapRaw;

use crate::device::{CDC_LEN, Cdc, IsmError, check_bounds, check_cdc_bounds};
use crate::process::Process;

/// The unit of a CDC message that has the producer cursor.
pub(crate) const PRODUCER: usize = 1;

/// The unit of a CDC message that has the consumer cursor and the flags.
pub(crate) const FLAGS: usize = 2;

/// The producer flags of that unit, byte 22 of the message.
const PRODUCER_FLAGS: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0xff, 0]);

/// Unit of an unknown owner: any flag may have to be taken back.
pub(crate) const UNKNOWN: u64 = PRODUCER_FLAGS;

/// Most reads of a CDC message that changes meanwhile.
const READS: u32 = 4;

/// A mapping of shared memory, readable, and writable unless it was made from a
/// peer's doorbells.
#[derive(Debug)]
pub(crate) struct SharedRegion {
    map: MmapRaw,
    /// The process that mapped it. A child has the mapping, too, and may drop it; it is not
    /// kept from children, as they would unmap whatever else is at the address then.
    process: Process,
    /// Thread that gives its pages back, if another user has the file, and the state of its work
    /// on the ring.
    reaper: Option<(Reaper, Arc<Removal>)>,
    /// The owner of the memory is another process that can be trusted to give all pages back when
    /// it withdraws the file.
    owner_discards: bool,
    /// End of the bytes that this side has copied in, in bytes from the start.
    copied_to: AtomicU32,
    /// Counts it, if it is a file's.
    #[expect(dead_code, reason = "counts until it is dropped")]
    counted: Option<file::Counted>,
}

impl SharedRegion {
    /// Memory of this process alone, for a device to write.
    pub(crate) fn anonymous(len: u32) -> io::Result<Self> {
        Ok(Self::of(memmap2::MmapMut::map_anon(len as usize)?.into()))
    }

    /// A mapping of this process.
    fn of(map: MmapRaw) -> Self {
        Self {
            map,
            process: Process::current(),
            reaper: None,
            owner_discards: false,
            copied_to: AtomicU32::new(0),
            counted: None,
        }
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes that may have pages because this side has written to them: those of the head, and all
    /// up to the end of what it copied in, in whole pages.
    pub(crate) fn written(&self) -> usize {
        let end = self.copied_to.load(Ordering::Relaxed).max(1) as usize;
        let pages = end.checked_next_multiple_of(rustix::param::page_size());
        pages.unwrap_or(end).min(self.len())
    }

    /// Where it is mapped, for a device that reaches it by itself.
    pub(crate) fn address(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// Copies bytes in, at `offset`.
    #[inline]
    pub(crate) fn copy_in(&self, offset: u32, source: &[u8]) -> Result<(), IsmError> {
        let end = check_bounds(offset, source.len(), self.len())?;
        // SAFETY: `end` is within the mapping and lies `source.len()` behind the
        // target's begin; `source` is memory of this process that the mapping, which
        // has no references, cannot overlap. The mapping is writable: those
        // that are not stay in `DoorbellPage`, which does not copy.
        unsafe {
            let target = self.address().add(end - source.len());
            core::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len());
        }
        // A mapping has at most `u32::MAX` bytes.
        let end = end as u32;
        if self.copied_to.load(Ordering::Relaxed) < end {
            self.copied_to.store(end, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies bytes out, from `offset`.
    #[inline]
    pub(crate) fn copy_out(&self, offset: u32, into: &mut [u8]) -> Result<(), IsmError> {
        let end = check_bounds(offset, into.len(), self.len())?;
        // SAFETY: as in `copy_in`, the other way round; what a peer writes meanwhile
        // are bytes, which are valid in any mixture.
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
    /// with it: to read it there would be to fetch the line that the other side polls.
    /// The line is fetched only if a flag may have to be taken back; the other side may have zeroed
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
    /// meanwhile, it is read again. The cursor is read last, as flags may be the same
    /// again some messages later. A peer that changes them all the time gets what it wrote.
    //= SHM-024
    #[inline]
    pub(crate) fn read_cdc(&self, offset: u32) -> Result<Cdc, IsmError> {
        let mut cdc = [0; CDC_LEN];
        self.read_cdc_into(offset, &mut cdc)?;
        Ok(cdc)
    }

    /// Reads a CDC message into `cdc`, as [`Self::read_cdc`] does.
    #[inline]
    pub(crate) fn read_cdc_into(&self, offset: u32, cdc: &mut Cdc) -> Result<(), IsmError> {
        let units = self.cdc_units(offset)?;
        for _ in 0..READS {
            for (unit, bytes) in units.iter().zip(cdc.as_chunks_mut().0).rev() {
                *bytes = unit.load(Ordering::Acquire).to_ne_bytes();
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

    /// Whether the units with the producer cursor and the flags, of the CDC message at the
    /// front, differ from these.
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
        // any process. Bytes of a CDC message are otherwise only copied by raw pointer.
        Ok(unsafe { &*self.address().add(end - CDC_LEN).cast() })
    }

    /// Eight bytes that either side reads and writes in one piece.
    pub(crate) fn unit(&self, offset: u32) -> Result<&AtomicU64, IsmError> {
        let end = check_bounds(offset, 8, self.len())?;
        if !offset.is_multiple_of(8) {
            return Err(IsmError::Bounds);
        }
        // SAFETY: as in `cdc_units`, for eight bytes.
        Ok(unsafe { &*self.address().add(end - 8).cast() })
    }

    /// A word that a device changes with interlocked updates.
    pub(crate) fn word(&self, offset: u32) -> Result<&AtomicU32, IsmError> {
        let end = check_bounds(offset, 4, self.len())?;
        if !offset.is_multiple_of(4) {
            return Err(IsmError::Bounds);
        }
        // SAFETY: as in `cdc_units`, for four bytes.
        Ok(unsafe { &*self.address().add(end - 4).cast() })
    }
}

/// Takes those producer flags back that this side wrote `last` and that `next` has no more.
#[inline]
fn take_back(flags: &AtomicU64, last: u64, next: u64) {
    let ended = |current: u64| current & PRODUCER_FLAGS & !next;
    if ended(last) != 0 {
        let current = flags.load(Ordering::Relaxed);
        flags.store(current & !ended(current), Ordering::Release);
    }
}

/// Puts a system error into ours.
pub(crate) fn system(error: &io::Error) -> IsmError {
    match error.raw_os_error() {
        Some(errno) => IsmError::System { errno },
        None => IsmError::Device { code: 0 },
    }
}

#[cfg(test)]
pub(crate) mod tests;
