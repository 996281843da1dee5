//! Reading and writing a message part by part.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::ClcParseError;

/// The parts of a Proposal that are still to be read, and the Length they add
/// up to so far.
pub(super) struct Parts<'a> {
    pub(super) rest: &'a [u8],
    pub(super) length: u16,
    pub(super) expected: u16,
}

impl<'a> Parts<'a> {
    /// The next `octets` octets.
    //= CLC-012
    pub(super) fn take(&mut self, octets: u16) -> Result<&'a [u8], ClcParseError> {
        self.expected = self.expected.saturating_add(octets);
        let Some((head, tail)) = self.rest.split_at_checked(usize::from(octets)) else {
            return Err(self.disagree());
        };
        self.rest = tail;
        Ok(head)
    }

    /// The next part of fixed layout.
    pub(super) fn read<T: FromBytes>(&mut self) -> Result<T, ClcParseError> {
        let octets = self.take(size_of::<T>() as u16)?;
        T::read_from_bytes(octets).map_err(|_| self.disagree())
    }

    pub(super) fn disagree(&self) -> ClcParseError {
        ClcParseError::ProposalLength {
            length: self.length,
            expected: self.expected,
        }
    }

    pub(super) fn end(self) -> Result<(), ClcParseError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.disagree())
        }
    }
}

/// Writes `part` to the start of `buffer` and returns what is behind it.
pub(super) fn put<'a, T: IntoBytes + Immutable>(
    buffer: &'a mut [u8],
    part: &T,
) -> Option<&'a mut [u8]> {
    let (head, tail) = buffer.split_at_mut_checked(size_of::<T>())?;
    part.write_to(head).ok()?;
    Some(tail)
}
