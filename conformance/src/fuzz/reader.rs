//! Decisions out of octets.

/// Reads values from the front of some octets, and zeros behind their end: a
/// short input decodes as well as a long one.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the first octet on.
    #[must_use]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// Whether only zeros are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All octets that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// At most `n` octets.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = tail;
        head
    }

    /// Exactly `N` octets, zeros if there are fewer.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let octets = self.take(N);
        array[..octets.len()].copy_from_slice(octets);
        array
    }

    /// An octet.
    pub fn u8(&mut self) -> u8 {
        let [octet] = self.array();
        octet
    }

    /// Two octets.
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    /// Four octets.
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    /// Eight octets.
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

/// Changes, lengthens or shortens octets, up to three times.
pub(super) fn mutate(r: &mut Reader<'_>, octets: &mut Vec<u8>) {
    for _ in 0..r.below(4) {
        match r.below(4) {
            0 => octets.truncate(r.below(256)),
            1 => octets.extend_from_slice(r.take(4)),
            2 => {
                let at = r.below(octets.len().min(256));
                if let Some(octet) = octets.get_mut(at) {
                    *octet = r.u8();
                }
            }
            _ => {
                let at = r.below(octets.len().min(256));
                let bit = r.u8() & 7;
                if let Some(octet) = octets.get_mut(at) {
                    *octet ^= 1 << bit;
                }
            }
        }
    }
}
