//! Bytes that both ends of a connection can compute, so that each one read can be checked.

use crate::random::Random;

/// The bytes that a seed stands for, in order.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    random: Random,
    bytes: [u8; 8],
    /// Bytes of `bytes` that are left, at its end.
    left: usize,
}

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            bytes: [0; 8],
            left: 0,
        }
    }

    fn next(&mut self) -> u8 {
        if self.left == 0 {
            self.bytes = self.random.next().to_le_bytes();
            self.left = self.bytes.len();
        }
        self.left -= 1;
        self.bytes[self.bytes.len() - 1 - self.left]
    }

    /// Writes the next bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next());
    }

    /// The place of the first of these that is not the next byte, and what it should be.
    #[must_use]
    pub(crate) fn differs(&mut self, bytes: &[u8]) -> Option<(usize, u8)> {
        let mut pairs = bytes.iter().map(|byte| (*byte, self.next())).enumerate();
        let found = pairs.find(|(_, (byte, wanted))| byte != wanted);
        found.map(|(at, (_, wanted))| (at, wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn one_byte_that_differs_is_found_wherever_the_pieces_end() {
        let mut bytes = [0; 100];
        Pattern::new(7).fill(&mut bytes);
        for wrong in 0..bytes.len() {
            for end in [1, 9, 50, 99] {
                let mut changed = bytes;
                changed[wrong] ^= 1;
                let mut pattern = Pattern::new(7);
                let (first, second) = changed.split_at(end);
                let place = match pattern.differs(first) {
                    Some((at, _)) => Some(at),
                    None => pattern.differs(second).map(|(at, _)| end + at),
                };
                assert_eq!(place, Some(wrong));
            }
        }
        assert_eq!(Pattern::new(7).differs(&bytes), None);
    }
}
