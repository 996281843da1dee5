//! Lists of entries that are read where they stand.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::wire::list::list;
use crate::wire::llc::entries::Entry;
use crate::wire::{BufferTooSmall, emit_exactly};

/// Entries of a message: RTokens, keys or GIDs.
///
/// They are borrowed: from a received message, or from the values that a
/// message to be sent is made of (`entries.as_slice().into()`).
#[derive(Clone, Copy)]
pub struct Entries<'a, T>(Source<'a, T>);

#[derive(Clone, Copy)]
enum Source<'a, T> {
    /// A whole number of entries as on the wire.
    Wire(&'a [u8]),
    Values(&'a [T]),
}

/// The entries one by one.
#[derive(Clone)]
pub struct EntriesIter<'a, T>(Source<'a, T>);

impl<'a, T: Entry> Entries<'a, T> {
    /// The whole entries that `octets` has room for.
    pub(super) fn read(octets: &'a [u8]) -> Self {
        let whole = Self(Source::Wire(octets))
            .len()
            .saturating_mul(size_of::<T::Raw>());
        Self(Source::Wire(octets.get(..whole).unwrap_or(&[])))
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Wire(octets) => match octets.len().checked_div(size_of::<T::Raw>()) {
                Some(count) => count,
                None => 0,
            },
            Source::Values(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries one by one.
    #[must_use]
    pub const fn iter(&self) -> EntriesIter<'a, T> {
        EntriesIter(self.0)
    }

    /// Writes a message of `needed` octets: a head, these entries, zeros.
    pub(super) fn emit_behind(
        &self,
        head: &(impl IntoBytes + Immutable),
        needed: usize,
        buffer: &mut [u8],
    ) -> Result<usize, BufferTooSmall> {
        emit_exactly(needed, buffer, |all| {
            let (front, entries) = all.split_at_mut_checked(size_of_val(head))?;
            // The front is as long as the head.
            let _ = head.write_to(front);
            entries.fill(0);
            self.write(entries);
            Some(())
        })
    }

    /// Writes the first entries, as many as `buffer` has room for.
    pub(super) fn write(&self, buffer: &mut [u8]) {
        for (place, entry) in buffer
            .chunks_exact_mut(size_of::<T::Raw>())
            .zip(self.iter())
        {
            // The place is as long as an entry.
            let _ = entry.to_raw().write_to(place);
        }
    }
}

impl<'a, T> From<&'a [T]> for Entries<'a, T> {
    fn from(values: &'a [T]) -> Self {
        Self(Source::Values(values))
    }
}

impl<T> Default for Entries<'_, T> {
    /// None.
    fn default() -> Self {
        Self(Source::Values(&[]))
    }
}

impl<T: Entry> Iterator for EntriesIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Source::Wire(octets) => {
                let (raw, rest) = T::Raw::read_from_prefix(octets).ok()?;
                *octets = rest;
                Some(T::from_raw(raw))
            }
            Source::Values(values) => {
                let (first, rest) = values.split_first()?;
                *values = rest;
                Some(*first)
            }
        }
    }
}

impl<'a, T: Entry> IntoIterator for Entries<'a, T> {
    type Item = T;
    type IntoIter = EntriesIter<'a, T>;
    fn into_iter(self) -> EntriesIter<'a, T> {
        self.iter()
    }
}

impl<T: Entry + PartialEq> PartialEq for Entries<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(a, b)| a == b)
    }
}

impl<T: Entry + Eq> Eq for Entries<'_, T> {}

impl<T: Entry + fmt::Display> fmt::Display for Entries<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(self.iter(), f)
    }
}

impl<T: Entry + fmt::Display> fmt::Debug for Entries<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
