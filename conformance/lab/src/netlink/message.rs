//! Messages and attributes: native byte order, everything aligned to four bytes.

/// `nlmsghdr`: length u32, type u16, flags u16, sequence u32, port u32.
pub const HEADER: usize = 16;
/// `NLM_F_REQUEST`.
pub const REQUEST: u16 = 1;
/// `NLM_F_ACK`: an answer even if there is no content.
pub const ACK: u16 = 4;
/// `NLM_F_ROOT | NLM_F_MATCH`: all there are.
pub const DUMP: u16 = 0x300;
/// `NLM_F_CREATE | NLM_F_EXCL`.
pub const CREATE: u16 = 0x600;
/// `NLA_TYPE_MASK`: without the bits for nested and for network order.
const TYPE_MASK: u16 = 0x3fff;

/// A request that is being written.
#[derive(Clone, Debug)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of this type, with the family's header.
    #[must_use]
    pub fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        bytes.resize(HEADER, 0);
        let mut request = Self { bytes };
        request.pad_after(header);
        request
    }

    /// Appends an attribute.
    #[must_use]
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.pad_after(value);
        self
    }

    /// Appends a string attribute, as C has them.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// The bytes to send.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        if let Some(field) = self.bytes.first_chunk_mut() {
            *field = length.to_ne_bytes();
        }
        self.bytes
    }

    fn pad_after(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Attributes one after another.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Attributes<'a> {
    /// The first attribute of this type.
    #[must_use]
    pub fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.into_iter()
            .find(|(found, _)| *found == kind)
            .map(|(_, value)| value)
    }

    /// The attributes within the first attribute of this type.
    #[must_use]
    pub fn nest(self, kind: u16) -> Option<Self> {
        self.get(kind).map(Attributes)
    }

    /// A number of one byte.
    #[must_use]
    pub fn u8(self, kind: u16) -> Option<u8> {
        self.get(kind)?.first().copied()
    }

    /// A number of two bytes.
    #[must_use]
    pub fn u16(self, kind: u16) -> Option<u16> {
        self.get(kind)?
            .first_chunk()
            .copied()
            .map(u16::from_ne_bytes)
    }

    /// A number of four bytes.
    #[must_use]
    pub fn u32(self, kind: u16) -> Option<u32> {
        self.get(kind)?
            .first_chunk()
            .copied()
            .map(u32::from_ne_bytes)
    }

    /// A number of eight bytes.
    #[must_use]
    pub fn u64(self, kind: u16) -> Option<u64> {
        self.get(kind)?
            .first_chunk()
            .copied()
            .map(u64::from_ne_bytes)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16::from_ne_bytes(*self.0.first_chunk()?));
        let kind = u16::from_ne_bytes(*self.0.get(2..)?.first_chunk()?) & TYPE_MASK;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

#[cfg(test)]
mod tests {
    use super::{ACK, Attributes, HEADER, Request};

    #[test]
    fn attributes_written_are_read_back() {
        let bytes = Request::new(20, ACK, &[9, 9, 9])
            .text(2, "rxe0")
            .attribute(7, &5_u32.to_ne_bytes())
            .finish();
        assert_eq!(bytes.len(), HEADER + 4 + 12 + 8);
        assert_eq!(
            bytes[..4],
            u32::try_from(bytes.len()).unwrap().to_ne_bytes()
        );
        let attributes = Attributes(&bytes[HEADER + 4..]);
        assert_eq!(attributes.get(2), Some(&b"rxe0\0"[..]));
        assert_eq!(attributes.u32(7), Some(5));
        assert_eq!(attributes.get(8), None);
        assert_eq!(attributes.count(), 2);
    }

    #[test]
    fn a_length_beyond_the_end_ends_the_list() {
        let mut bytes = Request::new(0, 0, &[]).text(2, "x").finish();
        bytes[HEADER] = 200;
        assert_eq!(Attributes(&bytes[HEADER..]).count(), 0);
        bytes[HEADER] = 3; // shorter than its own header
        assert_eq!(Attributes(&bytes[HEADER..]).count(), 0);
    }
}
