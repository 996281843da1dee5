//! Memory that the engine writes to. No RNIC reports that it was written, so what is not
//! written yet is known by its content.

use std::io;
use std::sync::Arc;

use smc_transport_verbs::memory::Memory;

/// Bytes of the memory of a connection: less than names leave room for.
pub(crate) const LENGTH: usize = 512 << 10;
/// Bytes that are compared at once.
const PIECE: usize = 4096;

/// The peer's memory of a connection.
pub(crate) struct Rmb {
    pub(crate) memory: Arc<Memory>,
    /// What was there before any write.
    before: Vec<u8>,
    /// What is put there next.
    filling: u64,
}

impl Rmb {
    pub(crate) fn new() -> io::Result<Self> {
        let mut rmb = Self {
            memory: Arc::new(Memory::new(LENGTH)?),
            before: vec![0; LENGTH],
            filling: 0x9e37_79b9_7f4a_7c15,
        };
        rmb.fill(0, LENGTH);
        Ok(rmb)
    }

    /// Fills the place with bytes that no side sends.
    fn fill(&mut self, offset: usize, length: usize) {
        let Some(place) = self.before.get_mut(offset..offset + length) else {
            return;
        };
        for piece in place.chunks_mut(8) {
            self.filling ^= self.filling << 13;
            self.filling ^= self.filling >> 7;
            self.filling ^= self.filling << 17;
            let bytes = self.filling.to_ne_bytes();
            piece
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = from);
        }
        // It lies within.
        let _ = self.memory.copy_in(offset as u64, place);
    }

    /// Returns bytes that were announced; none, if they were not written.
    pub(crate) fn take(&mut self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let at = offset as usize;
        let known = self.before.get(at..at.saturating_add(length));
        // (A few bytes may by chance be those that were there.)
        let untouched = |bytes: &Vec<u8>| length > 4 && known == Some(bytes.as_slice());
        if self.memory.copy_out(offset, &mut bytes).is_err() || untouched(&bytes) {
            return Vec::new();
        }
        self.fill(at, length);
        bytes
    }

    /// Returns where bytes were written without an announcement, if any were.
    pub(crate) fn unannounced(&self) -> Option<usize> {
        let mut bytes = vec![0; PIECE];
        let mut places = self.before.chunks(PIECE).zip((0..).step_by(PIECE));
        let written = |(known, at): (&[u8], usize)| {
            self.memory.copy_out(at as u64, &mut bytes).ok()?;
            let differs = |(one, other)| one != other;
            let first = known.iter().zip(&bytes).position(differs)?;
            Some(at + first)
        };
        places.find_map(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_taken_once_and_what_is_not_announced_is_found() {
        let mut rmb = Rmb::new().unwrap();
        assert_eq!(rmb.unannounced(), None);
        rmb.memory.copy_in(10_000, b"hello").unwrap();
        assert!(matches!(rmb.unannounced(), Some(10_000..10_005)));
        assert_eq!(rmb.take(10_000, 5), b"hello");
        assert_eq!(rmb.unannounced(), None);
        // Announced once more, and not written once more.
        assert_eq!(rmb.take(10_000, 5), b"");
        assert_eq!(rmb.take(LENGTH as u64 - 2, 5), b"");
    }
}
