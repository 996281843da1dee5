//! The bytes of a buffer.

use std::ops::Range;

use crate::rig;

/// Zeros, for reads of places that were not written.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Bytes that are zero until they are written, and take no room before: most worlds
/// that are made, cloned and dropped again have buffers that are never read.
#[derive(Clone, Default, Debug)]
pub(in crate::fuzz) struct Memory {
    length: usize,
    /// All of them, once one was written.
    written: Vec<u8>,
}

impl Memory {
    /// How many bytes there are.
    pub(in crate::fuzz) const fn len(&self) -> usize {
        self.length
    }

    /// Returns the bytes from a position on.
    ///
    /// # Panics
    /// If they are not all in here.
    pub(in crate::fuzz) fn read(&self, at: usize, length: usize) -> &[u8] {
        &self.octets()[at..][..length]
    }

    /// Puts bytes at a position.
    ///
    /// # Panics
    /// If there is no room for them.
    pub(in crate::fuzz) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.written.resize(self.length, 0);
        self.written[at..][..bytes.len()].copy_from_slice(bytes);
    }

    fn octets(&self) -> &[u8] {
        match self.written.is_empty() {
            true => &ZEROS[..self.length],
            false => &self.written,
        }
    }
}

impl rig::Memory for Memory {
    /// Zeros, at most 64 Ki of them.
    fn zeros(length: usize) -> Self {
        assert!(length <= ZEROS.len(), "{length}");
        Self {
            length,
            written: Vec::new(),
        }
    }

    fn clear(&mut self, range: Range<usize>) {
        assert!(range.end <= self.length, "{range:?} of {}", self.length);
        if !self.written.is_empty() {
            self.written[range].fill(0);
        }
    }

    fn clear_all(&mut self) {
        self.written.clear();
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.write(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Memory as _;

    #[test]
    fn what_was_not_written_is_zero_and_the_rest_is_what_was_written() {
        let mut memory = Memory::zeros(8);
        memory.clear(0..8);
        assert_eq!(memory.read(2, 4), [0; 4]);
        memory.write(3, &[1, 2, 3]);
        assert_eq!(memory.read(2, 6), [0, 1, 2, 3, 0, 0]);
        memory.clear(4..5);
        assert_eq!(memory.read(0, 8), [0, 0, 0, 1, 0, 3, 0, 0]);
        assert_eq!(memory.len(), 8);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn nothing_is_read_behind_the_end_before_anything_was_written() {
        let _ = Memory::zeros(8).read(4, 5);
    }

    #[test]
    #[should_panic(expected = "8..9 of 8")]
    fn nothing_is_cleared_behind_the_end_before_anything_was_written() {
        Memory::zeros(8).clear(8..9);
    }
}
