//! Lists: read, and formatted as text.

use core::fmt;

use nom::Parser as _;
use zerocopy::FromBytes;

use super::types::BoundedList;

/// The first `count` entries of fixed layout in `octets`, of which there are at most `N`;
/// `None` if the octets end before.
pub(super) fn entries<R: FromBytes, T, const N: usize>(
    octets: &[u8],
    count: usize,
    entry: impl Fn(R) -> T,
) -> Option<BoundedList<T, N>> {
    let count = count.min(N);
    let entry = nom::combinator::map_opt(
        nom::bytes::complete::take(size_of::<R>()),
        |octets: &[u8]| R::read_from_bytes(octets).ok().map(&entry),
    );
    let list: nom::IResult<&[u8], _> =
        nom::multi::fold_many_m_n(count, count, entry, BoundedList::new, |mut list, entry| {
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
