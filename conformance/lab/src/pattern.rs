//! The octets of a stream: a function of its seed and the position, so that either end
//! knows what the other one sends without having been told.

/// The octets of one direction.
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

    /// The octet at `position`, counted from 0.
    #[must_use]
    pub fn octet(self, position: u64) -> u8 {
        let shift = (position % 8) * 8;
        (self.word(position / 8) >> shift) as u8
    }

    /// Fills `octets` with those from `position` on.
    pub fn fill(self, position: u64, octets: &mut [u8]) {
        for (index, octet) in (position..).zip(octets.iter_mut()) {
            *octet = self.octet(index);
        }
    }

    /// The position of the first octet that is not the expected one.
    ///
    /// # Errors
    /// That position.
    pub fn check(self, position: u64, octets: &[u8]) -> Result<(), u64> {
        match (position..)
            .zip(octets)
            .find(|(index, octet)| self.octet(*index) != **octet)
        {
            None => Ok(()),
            Some((index, _)) => Err(index),
        }
    }

    /// Eight octets: SplitMix64 at `index`.
    fn word(self, index: u64) -> u64 {
        let mut word = self
            .seed
            .wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn any_cut_gives_the_same_octets() {
        let mut whole = [0; 100];
        Pattern::CLIENT.fill(5, &mut whole);
        let mut part = [0; 30];
        Pattern::CLIENT.fill(5 + 41, &mut part);
        assert_eq!(part, whole[41..71]);
        assert_ne!(whole[..50], whole[50..]);
    }

    #[test]
    fn the_first_wrong_octet_is_told() {
        let mut octets = [0; 64];
        Pattern::SERVER.fill(1_000, &mut octets);
        assert_eq!(Pattern::SERVER.check(1_000, &octets), Ok(()));
        octets[17] ^= 1;
        assert_eq!(Pattern::SERVER.check(1_000, &octets), Err(1_017));
        assert_eq!(Pattern::CLIENT.check(1_000, &octets), Err(1_000));
    }
}
