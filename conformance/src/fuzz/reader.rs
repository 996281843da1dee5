//! Decisions out of bytes.

/// Reads values from the front of some bytes, and zeros behind their end: a
/// short input decodes as well as a long one.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the first byte on.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether only zeros are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// At most `n` bytes.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = tail;
        head
    }

    /// Exactly `N` bytes, zeros if there are fewer.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.take(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    /// A number below `n`, which is 1 to 256, or 0.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.u8()) % n.max(1)
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 != 0
    }
}

/// Changes, lengthens or shortens bytes, up to three times.
pub(super) fn mutate(r: &mut Reader<'_>, bytes: &mut Vec<u8>) {
    for _ in 0..r.below(4) {
        match r.below(4) {
            0 => bytes.truncate(r.below(256)),
            1 => bytes.extend_from_slice(r.take(4)),
            2 => {
                let at = r.below(bytes.len().min(256));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = r.u8();
                }
            }
            _ => {
                let at = r.below(bytes.len().min(256));
                let bit = r.u8() & 7;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
        }
    }
}
