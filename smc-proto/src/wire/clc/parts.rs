//! Reading and writing a message part by part.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{ClcHeader, ClcKind, ClcParseError};
use crate::wire::UpTo;

/// The parts of a message that are still to be read, and the Length they add
/// up to so far.
pub(super) struct Parts<'a> {
    rest: &'a [u8],
    kind: ClcKind,
    length: u16,
    expected: u16,
}

impl<'a> Parts<'a> {
    /// The parts of a whole message, without its closing eye catcher.
    pub(super) fn new(header: &ClcHeader, message: &'a [u8]) -> Self {
        Self {
            rest: message
                .get(..message.len().saturating_sub(4))
                .unwrap_or(&[]),
            kind: header.kind,
            length: header.length,
            expected: 4,
        }
    }

    /// The next `octets` octets.
    //= CLC-012
    //= V2-081
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

    /// A list of `count` entries of fixed layout, of which there are at most
    /// `N`.
    pub(super) fn list<R: FromBytes, T, const N: usize>(
        &mut self,
        count: u8,
        entry: impl Fn(R) -> T,
    ) -> Result<UpTo<T, N>, ClcParseError> {
        let count = usize::from(count).min(N);
        let octets = self.take(count.saturating_mul(size_of::<R>()) as u16)?;
        crate::wire::list::entries(octets, count, entry).ok_or_else(|| self.disagree())
    }

    /// Whatever follows, which is of a version that is not spoken.
    pub(super) fn pass_over(&mut self) {
        self.rest = &[];
    }

    fn disagree(&self) -> ClcParseError {
        let length = self.length;
        match self.kind {
            ClcKind::Proposal => ClcParseError::ProposalLength {
                length,
                expected: self.expected,
            },
            kind => ClcParseError::BadLength { kind, length },
        }
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), ClcParseError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.disagree())
        }
    }
}

/// Writes `part` to the start of `buffer` and returns what is behind it.
pub(super) fn put<'a, T: IntoBytes + Immutable + ?Sized>(
    buffer: &'a mut [u8],
    part: &T,
) -> Option<&'a mut [u8]> {
    let (head, tail) = buffer.split_at_mut_checked(size_of_val(part))?;
    part.write_to(head).ok()?;
    Some(tail)
}
