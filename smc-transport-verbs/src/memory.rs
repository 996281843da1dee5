//! Memory that an RNIC reads and writes: with `rdma/sys.rs` the only pointers of this
//! crate.
//!
//! Nothing here ever forms a reference to such bytes: they are copied out once and
//! checked afterwards, so no check can be outrun by a second read. Every access is
//! bounded first.

use std::io;

use memmap2::{Advice, MmapMut, MmapRaw};

/// Memory of whole pages, zero at first, which no forked child shares.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
    len: usize,
}

/// An access beyond the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfBounds;

impl std::fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("beyond the end of the memory")
    }
}

impl std::error::Error for OutOfBounds {}

impl Memory {
    /// `len` bytes of zeroes.
    ///
    /// # Errors
    /// The system's, if it has no memory.
    pub fn new(len: usize) -> io::Result<Self> {
        let map = MmapMut::map_anon(len.max(1))?;
        // A page that a child shares would be copied at the next write, and the device
        // would go on with the other copy.
        map.advise(Advice::DontFork)?;
        let map = map.into();
        Ok(Self { map, len })
    }

    /// Bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the first byte is in this process, at the beginning of a page.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    fn check(&self, offset: u64, len: usize) -> Result<usize, OutOfBounds> {
        let offset = usize::try_from(offset).map_err(|_| OutOfBounds)?;
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(offset),
            _ => Err(OutOfBounds),
        }
    }

    /// Copies bytes in, at `offset`.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    #[inline]
    pub fn copy_in(&self, offset: u64, source: &[u8]) -> Result<(), OutOfBounds> {
        let offset = self.check(offset, source.len())?;
        // SAFETY: `source.len()` bytes from `offset` lie within the mapping, which is
        // writable; no reference into it exists, so `source` cannot overlap. What the
        // device or the peer writes meanwhile are bytes, valid in any mixture.
        unsafe {
            let target = self.address().add(offset);
            core::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len());
        }
        Ok(())
    }

    /// Copies bytes out, from `offset`.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    #[inline]
    pub fn copy_out(&self, offset: u64, into: &mut [u8]) -> Result<(), OutOfBounds> {
        let offset = self.check(offset, into.len())?;
        // SAFETY: as in `copy_in`, the other way round.
        unsafe {
            let from = self.address().add(offset).cast_const();
            core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
        }
        Ok(())
    }

    /// Makes bytes zero.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn clear(&self, offset: u64, len: usize) -> Result<(), OutOfBounds> {
        let offset = self.check(offset, len)?;
        // SAFETY: as in `copy_in`.
        unsafe { core::ptr::write_bytes(self.address().add(offset), 0, len) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_bounded() {
        let memory = Memory::new(5000).unwrap();
        assert_eq!(memory.address() as usize % 4096, 0);
        memory.copy_in(4990, &[7; 10]).unwrap();
        let mut bytes = [1; 12];
        memory.copy_out(4988, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        memory.clear(4995, 5).unwrap();
        memory.copy_out(4988, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0]);
        // Not even the rest of the last page.
        assert_eq!(memory.copy_in(4991, &[0; 10]), Err(OutOfBounds));
        assert_eq!(memory.copy_out(u64::MAX, &mut [0; 2]), Err(OutOfBounds));
        assert_eq!(memory.clear(5000, 1), Err(OutOfBounds));
        assert_eq!(memory.clear(5000, 0), Ok(()));
    }
}
