//! Lists as text.

use core::fmt;

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
