//! Numbers a peer cannot guess, from the one seed the embedder gives.

use crate::id::{ConnIdx, Idx};
use crate::wire::types::AlertToken;

/// A generator whose outputs reveal nothing of each other: SipHash-2-4 of a
/// counter under a key from the seed. Peers see packet sequence numbers and
/// TEST LINK data; neither may lead them to the alert tokens (reliability H26).
#[derive(Clone, Debug)]
pub(crate) struct Random {
    key: [u64; 2],
    counter: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        // One seed makes both halves; the constant only makes them differ.
        Self {
            key: [seed, seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15],
            counter: 0,
        }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(1);
        siphash(self.key, self.counter)
    }

    pub(crate) const fn next_u32(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }
}

/// SipHash-2-4 of the eight bytes of `value`, least significant first.
const fn siphash([k0, k1]: [u64; 2], value: u64) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    // The last block is the length, eight, in its top byte.
    v = absorb(absorb(v, value), 8 << 56);
    let [a, b, c, d] = v;
    let [a, b, c, d] = sip_round(sip_round(sip_round(sip_round([a, b, c ^ 0xff, d]))));
    a ^ b ^ c ^ d
}

const fn absorb([a, b, c, d]: [u64; 4], block: u64) -> [u64; 4] {
    let [a, b, c, d] = sip_round(sip_round([a, b, c, d ^ block]));
    [a ^ block, b, c, d]
}

const fn sip_round([a, b, c, d]: [u64; 4]) -> [u64; 4] {
    let a = a.wrapping_add(b);
    let c = c.wrapping_add(d);
    let b = b.rotate_left(13) ^ a;
    let d = d.rotate_left(16) ^ c;
    let a = a.rotate_left(32);
    let c = c.wrapping_add(b);
    let a = a.wrapping_add(d);
    let b = b.rotate_left(17) ^ c;
    let d = d.rotate_left(21) ^ a;
    let c = c.rotate_left(32);
    [a, b, c, d]
}

/// A secret permutation between (index, generation) of a connection and its
/// alert token: a Feistel network of four rounds over 32 bits.
///
/// A token names a slot and one use of it, is not guessed from another one, and
/// comes back only after all uses of all slots came before (CLC-037).
#[derive(Clone, Debug)]
pub(crate) struct TokenKey {
    rounds: [u64; 4],
    index_bits: u32,
}

impl TokenKey {
    /// For tables of up to `capacity` connections.
    pub(crate) const fn new(random: &mut Random, capacity: u32) -> Self {
        let rounds = [random.next(), random.next(), random.next(), random.next()];
        let index_bits = 32_u32.saturating_sub(capacity.saturating_sub(1).leading_zeros());
        Self { rounds, index_bits }
    }

    /// The token of a use of a slot; 0 for one use in 2^32, which the caller skips.
    //= CLC-037
    pub(crate) const fn seal(&self, conn: ConnIdx, generation: u32) -> AlertToken {
        let plain = conn.get() | generation.unbounded_shl(self.index_bits);
        let [mut left, mut right] = halves(plain);
        let [a, b, c, d] = self.rounds;
        left ^= round(right, a);
        right ^= round(left, b);
        left ^= round(right, c);
        right ^= round(left, d);
        AlertToken(join(left, right))
    }

    /// The slot of a token and the low bits of its generation.
    #[inline]
    pub(crate) const fn open(&self, token: AlertToken) -> ConnIdx {
        let [mut left, mut right] = halves(token.0);
        let [a, b, c, d] = self.rounds;
        right ^= round(left, d);
        left ^= round(right, c);
        right ^= round(left, b);
        left ^= round(right, a);
        Idx::new(join(left, right) & !(u32::MAX.unbounded_shl(self.index_bits)))
    }
}

const fn halves(value: u32) -> [u16; 2] {
    let [a, b, c, d] = value.to_be_bytes();
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}

const fn join(left: u16, right: u16) -> u32 {
    let ([a, b], [c, d]) = (left.to_be_bytes(), right.to_be_bytes());
    u32::from_be_bytes([a, b, c, d])
}

#[inline]
const fn round(half: u16, key: u64) -> u16 {
    let z = (half as u64 ^ key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z >> 40) as u16 ^ (z >> 24) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_siphash() {
        // From the reference vectors: key 00 01 … 0f, message 00 01 … 07.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash(key, 0x0706_0504_0302_0100), 0x93f5_f579_9a93_2462);
    }

    #[test]
    fn tokens_open_to_their_slot_and_differ_between_uses() {
        //= CASE-H26 test
        //= CLC-037 test
        let mut random = Random::new(7);
        let key = TokenKey::new(&mut random, 1000);
        let mut seen = std::collections::BTreeSet::new();
        for generation in 0..50 {
            for index in (0..1000).map(Idx::new) {
                let token = key.seal(index, generation);
                assert_eq!(key.open(token), index);
                assert!(seen.insert(token));
            }
        }
    }

    #[test]
    fn neighbouring_slots_do_not_have_neighbouring_tokens() {
        //= CASE-H26 test
        //= CLC-037 test
        let mut random = Random::new(1);
        let key = TokenKey::new(&mut random, 256);
        let token = |i| key.seal(Idx::new(i), 0).0;
        let close = (0..255)
            .filter(|&i| token(i).abs_diff(token(i + 1)) < 0x1_0000)
            .count();
        assert!(
            close < 5,
            "{close} of 255 tokens are close to their neighbour"
        );
    }
}
