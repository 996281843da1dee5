//! Pseudorandom numbers, which depend on the seed only.

use std::hash::{Hash, Hasher};

/// A small generator: a Weyl sequence through a 64-bit finaliser. Not for
/// secrets; for simulations, where a seed must give the same run everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, 0 if `bound` is 0. The bias is below 2^-32 for
    /// bounds a simulation uses.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        (product >> 64) as u64
    }

    /// True in `per_million` of a million cases.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    /// A generator whose sequence is independent of what this one gives later.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

impl Hash for Random {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.state.hash(state);
    }
}

/// Hash of a stream of bytes that does not depend on how the stream was cut.
/// Also the [`Hasher`] of fingerprints and trace hashes: unlike the default one
/// of the standard library it gives the same value in every process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamHash {
    state: u64,
    pending: u64,
    length: u64,
}

const MULTIPLIER: u64 = 0x517c_c1b7_2722_0a95;

impl StreamHash {
    /// Of the empty stream.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: 0,
            pending: 0,
            length: 0,
        }
    }

    /// Bytes so far.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !self.length.is_multiple_of(8) {
            let Some((&first, rest)) = bytes.split_first() else {
                return;
            };
            self.byte(first);
            bytes = rest;
        }
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.mix(u64::from_le_bytes(*chunk));
        }
        self.length += bytes.len() as u64 - rest.len() as u64;
        for &byte in rest {
            self.byte(byte);
        }
    }

    /// The hash of everything so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        let mut end = Random::new(self.state ^ self.pending.rotate_left(17) ^ self.length);
        end.next_u64()
    }

    fn byte(&mut self, byte: u8) {
        self.pending |= u64::from(byte) << (self.length % 8 * 8);
        self.length += 1;
        if self.length.is_multiple_of(8) {
            let chunk = self.pending;
            self.pending = 0;
            self.mix(chunk);
        }
    }

    fn mix(&mut self, chunk: u64) {
        self.state = (self.state.rotate_left(5) ^ chunk).wrapping_mul(MULTIPLIER);
    }
}

impl Default for StreamHash {
    fn default() -> Self {
        Self::new()
    }
}

impl Hasher for StreamHash {
    fn finish(&self) -> u64 {
        self.value()
    }
    fn write(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_hash_does_not_depend_on_the_cuts() {
        let mut random = Random::new(7);
        let bytes: Vec<u8> = (0..1000).map(|_| random.next_u64() as u8).collect();
        let mut whole = StreamHash::new();
        whole.update(&bytes);
        for _ in 0..50 {
            let mut cut = StreamHash::new();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (head, tail) = rest.split_at(random.below(rest.len() as u64 + 1) as usize);
                cut.update(head);
                rest = tail;
            }
            assert_eq!(cut, whole);
        }
        let mut other = StreamHash::new();
        other.update(&bytes[..999]);
        assert_ne!(other.value(), whole.value());
    }

    #[test]
    fn below_stays_below() {
        let mut random = Random::new(1);
        assert!((0..10_000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
