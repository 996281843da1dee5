//! Lists: held, read, and formatted as text.

use core::ops::{Deref, DerefMut};
use core::{fmt, slice};

use nom::Parser as _;
use zerocopy::FromBytes;

/// Up to `N` entries of a message, in their order. Dereferences to a slice of them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UpTo<T, const N: usize>(heapless::Vec<T, N>);

impl<T, const N: usize> UpTo<T, N> {
    /// No entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(heapless::Vec::new())
    }

    /// Adds an entry behind the others.
    ///
    /// # Errors
    /// The entry, if there are `N`.
    pub fn push(&mut self, entry: T) -> Result<(), T> {
        self.0.push(entry)
    }

    /// Whether there are `N` entries.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }
}

impl<T, const N: usize> Default for UpTo<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Deref for UpTo<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const N: usize> DerefMut for UpTo<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T, const N: usize> FromIterator<T> for UpTo<T, N> {
    /// The first `N` of what the iterator yields.
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let mut entries = Self::new();
        for entry in iter {
            if entries.push(entry).is_err() {
                break;
            }
        }
        entries
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a UpTo<T, N> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for UpTo<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first `count` entries of fixed layout in `octets`, of which there are at most `N`;
/// `None` if the octets end before.
pub(super) fn entries<R: FromBytes, T, const N: usize>(
    octets: &[u8],
    count: usize,
    entry: impl Fn(R) -> T,
) -> Option<UpTo<T, N>> {
    let count = count.min(N);
    let entry = nom::combinator::map_opt(
        nom::bytes::complete::take(size_of::<R>()),
        |octets: &[u8]| R::read_from_bytes(octets).ok().map(&entry),
    );
    let list: nom::IResult<&[u8], _> =
        nom::multi::fold_many_m_n(count, count, entry, UpTo::new, |mut list, entry| {
            // No more than there is room for are asked for.
            let _ = list.push(entry);
            list
        })
        .parse(octets);
    list.ok().map(|(_, list)| list)
}

/// Prints a list in brackets.
pub(super) struct List<'a, T>(pub(super) &'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(self.0, f)
    }
}

/// Prints what an iterator yields in brackets.
pub(super) fn list<T: fmt::Display>(
    items: impl IntoIterator<Item = T>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str("[")?;
    let mut separator = "";
    for item in items {
        write!(f, "{separator}{item}")?;
        separator = " ";
    }
    f.write_str("]")
}
