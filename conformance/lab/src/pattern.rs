//! The bytes of a stream: a function of its seed and the position, so that either end
//! knows what the other one sends without a message about it.

/// The bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    seed: u64,
}

impl Pattern {
    /// What a client sends.
    pub const CLIENT: Self = Self {
        seed: 0x636c_6965_6e74,
    };
    /// What a server sends of its own.
    pub const SERVER: Self = Self {
        seed: 0x7365_7276_6572,
    };

    /// The byte at `position`, counted from 0.
    #[must_use]
    pub fn byte(self, position: u64) -> u8 {
        let shift = (position % 8) * 8;
        (self.mix(position / 8) >> shift) as u8
    }

    /// Fills `bytes` with those from `position` on.
    pub fn fill(self, position: u64, bytes: &mut [u8]) {
        for (index, byte) in (position..).zip(bytes.iter_mut()) {
            *byte = self.byte(index);
        }
    }

    /// The position of the first byte that is not the expected one.
    ///
    /// # Errors
    /// The position of the first wrong byte.
    pub fn check(self, position: u64, bytes: &[u8]) -> Result<(), u64> {
        match (position..)
            .zip(bytes)
            .find(|(index, byte)| self.byte(*index) != **byte)
        {
            None => Ok(()),
            Some((index, _)) => Err(index),
        }
    }

    /// Eight bytes: SplitMix64 at `index`.
    fn mix(self, index: u64) -> u64 {
        let mut mix = self
            .seed
            .wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mix = (mix ^ (mix >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mix = (mix ^ (mix >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mix ^ (mix >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn any_cut_gives_the_same_bytes() {
        let mut whole = [0; 100];
        Pattern::CLIENT.fill(5, &mut whole);
        let mut part = [0; 30];
        Pattern::CLIENT.fill(5 + 41, &mut part);
        assert_eq!(part, whole[41..71]);
        assert_ne!(whole[..50], whole[50..]);
    }

    #[test]
    fn the_first_wrong_byte_is_reported() {
        let mut bytes = [0; 64];
        Pattern::SERVER.fill(1_000, &mut bytes);
        assert_eq!(Pattern::SERVER.check(1_000, &bytes), Ok(()));
        bytes[17] ^= 1;
        assert_eq!(Pattern::SERVER.check(1_000, &bytes), Err(1_017));
        assert_eq!(Pattern::CLIENT.check(1_000, &bytes), Err(1_000));
    }
}
