//! Memory that the engine writes to. No RNIC tells that it was written, so what nobody
//! wrote yet is known by what stands there.

use std::io;
use std::sync::Arc;

use smc_transport_verbs::memory::Memory;

/// Octets of the memory of a connection: less than names leave room for.
pub(crate) const LENGTH: usize = 512 << 10;
/// Octets that are compared at once.
const PIECE: usize = 4096;

/// The peer's memory of a connection.
pub(crate) struct Rmb {
    pub(crate) memory: Arc<Memory>,
    /// What was there before anybody wrote.
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

    /// Puts octets there that nobody says.
    fn fill(&mut self, offset: usize, length: usize) {
        let Some(place) = self.before.get_mut(offset..offset + length) else {
            return;
        };
        for piece in place.chunks_mut(8) {
            self.filling ^= self.filling << 13;
            self.filling ^= self.filling >> 7;
            self.filling ^= self.filling << 17;
            let octets = self.filling.to_ne_bytes();
            piece
                .iter_mut()
                .zip(octets)
                .for_each(|(to, from)| *to = from);
        }
        // It lies within.
        let _ = self.memory.copy_in(offset as u64, place);
    }

    /// Octets that were announced; none, if nobody wrote them.
    pub(crate) fn take(&mut self, offset: u64, length: usize) -> Vec<u8> {
        let mut octets = vec![0; length];
        let at = offset as usize;
        let known = self.before.get(at..at.saturating_add(length));
        // (A few octets may by chance be those that were there.)
        let untouched = |octets: &Vec<u8>| length > 4 && known == Some(octets.as_slice());
        if self.memory.copy_out(offset, &mut octets).is_err() || untouched(&octets) {
            return Vec::new();
        }
        self.fill(at, length);
        octets
    }

    /// Where somebody wrote what nobody announced, if somebody did.
    pub(crate) fn unannounced(&self) -> Option<usize> {
        let mut octets = vec![0; PIECE];
        let mut places = self.before.chunks(PIECE).zip((0..).step_by(PIECE));
        let written = |(known, at): (&[u8], usize)| {
            self.memory.copy_out(at as u64, &mut octets).ok()?;
            let differs = |(one, other)| one != other;
            let first = known.iter().zip(&octets).position(differs)?;
            Some(at + first)
        };
        places.find_map(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_told_once_and_what_is_not_announced_is_found() {
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
