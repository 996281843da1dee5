//! Values the compiler cannot know: bytes read from standard input.

/// Most bytes read; what follows is left.
pub const CAPACITY: usize = 4096;

/// Bytes of standard input, given out one after the other, over and over.
pub struct Input {
    octets: [u8; CAPACITY],
    length: usize,
    at: usize,
    /// Changes with each pass, so that a short input is not the same all over.
    pass: u8,
}

impl Input {
    /// Nothing read yet: zeros.
    pub const fn new() -> Self {
        Self {
            octets: [0; CAPACITY],
            length: 0,
            at: 0,
            pass: 0,
        }
    }

    /// Reads standard input to its end.
    pub fn fill(&mut self) {
        while let Some(rest) = self.octets.get_mut(self.length..) {
            let n = crate::system::read(rest);
            if n == 0 {
                break;
            }
            self.length = self.length.saturating_add(n).min(CAPACITY);
        }
    }

    /// Everything that was read.
    pub fn all(&self) -> &[u8] {
        self.octets.get(..self.length).unwrap_or(&[])
    }

    pub fn octet(&mut self) -> u8 {
        if self.at >= self.length {
            self.at = 0;
            self.pass = self.pass.wrapping_add(0x3b);
        }
        let octet = self.octets.get(self.at).copied().unwrap_or(0);
        self.at = self.at.wrapping_add(1);
        octet ^ self.pass
    }

    pub fn bit(&mut self) -> bool {
        self.octet() & 1 != 0
    }

    pub fn octets<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.octet())
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.octets())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.octets())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.octets())
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: u32) -> u32 {
        self.u32().checked_rem(end).unwrap_or(0)
    }

    /// One of some values.
    pub fn one_of<T: Clone, const N: usize>(&mut self, values: &[T; N]) -> T {
        let Some(chosen) = values.get(self.below(N as u32) as usize) else {
            // No array given here is empty. This ends the program, it does not panic.
            crate::system::exit(crate::EMPTY_CHOICE);
        };
        chosen.clone()
    }
}
