//! Lists of entries: RTokens, keys or GIDs.

use core::fmt;
use core::hash::{Hash, Hasher};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::entries::Entry;
use crate::wire::list::list;

/// Octets of entries that a list holds by value: as many as a message of 44 octets has
/// room for behind the count of its entries.
const INLINE: usize = 36;

/// Entries of a message: RTokens, keys or GIDs.
///
/// They are borrowed: from a received message, or from the values that a
/// message to be sent is made of (`entries.as_slice().into()`). Up to 36 octets of them
/// can be held by value ([`inline`](Self::inline)).
#[derive(Clone, Copy)]
pub struct Entries<'a, T>(Source<'a, T>);

#[derive(Clone, Copy)]
enum Source<'a, T> {
    /// A whole number of entries as on the wire.
    Wire(&'a [u8]),
    /// A whole number of entries by value, in as many octets at most as a short message has
    /// room for.
    Inline {
        octets: [u8; INLINE],
        length: u8,
    },
    Values(&'a [T]),
}

/// The entries one by one.
#[derive(Clone)]
pub struct EntriesIter<'a, T> {
    entries: Entries<'a, T>,
    next: usize,
}

impl<T: Entry> Entries<'static, T> {
    /// The first of `values`, held by the list: as many as 36 octets have room for, which
    /// are nine keys, two GIDs or two pairs of RTokens.
    #[must_use]
    pub fn inline(values: impl IntoIterator<Item = T>) -> Self {
        let mut octets = [0; INLINE];
        let mut length = 0u8;
        let places = octets.chunks_exact_mut(size_of::<T::Raw>());
        for (place, value) in places.zip(values) {
            // The place is as long as an entry.
            let _ = value.to_raw().write_to(place);
            length = length.saturating_add(size_of::<T::Raw>() as u8);
        }
        Self(Source::Inline { octets, length })
    }
}

impl<'a, T: Entry> Entries<'a, T> {
    /// The whole entries that `octets` has room for.
    pub(super) fn read(octets: &'a [u8]) -> Self {
        let list = Self(Source::Wire(octets));
        list.first_of(list.len())
    }

    /// The first `count` entries, or all if there are fewer.
    pub(super) fn first_of(self, count: usize) -> Self {
        let octets = count.saturating_mul(size_of::<T::Raw>());
        Self(match self.0 {
            Source::Wire(all) => Source::Wire(all.get(..octets).unwrap_or(all)),
            Source::Values(all) => Source::Values(all.get(..count).unwrap_or(all)),
            Source::Inline {
                octets: all,
                length,
            } => Source::Inline {
                octets: all,
                length: u8::try_from(octets).map_or(length, |octets| octets.min(length)),
            },
        })
    }

    /// The list without a borrow; `None` if it has more than 36 octets.
    #[must_use]
    pub fn to_static(&self) -> Option<Entries<'static, T>> {
        let octets = self.len().saturating_mul(size_of::<T::Raw>());
        (octets <= INLINE).then(|| Entries::inline(self.iter()))
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        let octets = match self.0 {
            Source::Wire(octets) => octets.len(),
            Source::Inline { length, .. } => length as usize,
            Source::Values(values) => return values.len(),
        };
        match octets.checked_div(size_of::<T::Raw>()) {
            Some(count) => count,
            None => 0,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry at `index`, counted from 0.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T> {
        let octets = match &self.0 {
            Source::Wire(octets) => octets,
            Source::Inline { octets, length } => octets.get(..usize::from(*length))?,
            Source::Values(values) => return values.get(index).copied(),
        };
        let rest = octets.get(index.checked_mul(size_of::<T::Raw>())?..)?;
        let (raw, _) = T::Raw::read_from_prefix(rest).ok()?;
        Some(T::from_raw(raw))
    }

    /// The first entry.
    #[must_use]
    pub fn first(&self) -> Option<T> {
        self.get(0)
    }

    /// The entries one by one.
    #[must_use]
    pub const fn iter(&self) -> EntriesIter<'a, T> {
        EntriesIter {
            entries: *self,
            next: 0,
        }
    }

    /// Fills `all` with a head, the first entries that there is room for, and zeros;
    /// `None` if the head alone is longer.
    pub(super) fn write_behind(
        &self,
        head: &(impl IntoBytes + Immutable),
        all: &mut [u8],
    ) -> Option<()> {
        let (front, entries) = all.split_at_mut_checked(size_of_val(head))?;
        // The front is as long as the head.
        let _ = head.write_to(front);
        entries.fill(0);
        let places = entries.chunks_exact_mut(size_of::<T::Raw>());
        for (place, entry) in places.zip(self.iter()) {
            // The place is as long as an entry.
            let _ = entry.to_raw().write_to(place);
        }
        Some(())
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
        let entry = self.entries.get(self.next)?;
        self.next = self.next.saturating_add(1);
        Some(entry)
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

impl<T: Entry + Hash> Hash for Entries<'_, T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        for entry in self.iter() {
            entry.hash(state);
        }
    }
}

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
