//! A list with room for a fixed number of entries, in place.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::slice;

/// Up to `N` entries of a message, kept in place: no allocator is needed. Derefs to a slice.
///
/// ```
/// use smc_proto::wire::types::BoundedList;
///
/// let mut list = BoundedList::<u8, 2>::new();
/// assert_eq!(list.push(1), Ok(()));
/// assert_eq!(list.push(2), Ok(()));
/// assert_eq!(list.push(3), Err(3));
/// assert_eq!(list[..], [1, 2]);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BoundedList<T, const N: usize>(heapless::Vec<T, N>);

impl<T, const N: usize> BoundedList<T, N> {
    /// No entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(heapless::Vec::new())
    }

    /// Adds an entry behind the last one.
    ///
    /// # Errors
    /// The entry, if there are `N` already.
    pub fn push(&mut self, entry: T) -> Result<(), T> {
        self.0.push(entry)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether there are `N` entries.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }
}

impl<T, const N: usize> Default for BoundedList<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Deref for BoundedList<T, N> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const N: usize> DerefMut for BoundedList<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// The first `N` entries that the iterator yields; no more are taken from it.
impl<T, const N: usize> FromIterator<T> for BoundedList<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut list = Self::new();
        for entry in entries.into_iter().take(N) {
            // There is room for N.
            let _ = list.push(entry);
        }
        list
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a BoundedList<T, N> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;
    fn into_iter(self) -> slice::Iter<'a, T> {
        self.0.iter()
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a mut BoundedList<T, N> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;
    fn into_iter(self) -> slice::IterMut<'a, T> {
        self.0.iter_mut()
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for BoundedList<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::BoundedList;

    #[test]
    fn no_more_are_taken_than_there_is_room_for() {
        let mut numbers = 0..9;
        let list: BoundedList<u8, 4> = numbers.by_ref().collect();
        assert_eq!(list[..], [0, 1, 2, 3]);
        assert!(list.is_full() && !BoundedList::<u8, 1>::new().is_full());
        assert_eq!(numbers.next(), Some(4));
        assert_eq!(std::format!("{list:?}"), "[0, 1, 2, 3]");
        let mut changed = list.clone();
        changed[3] = 9;
        assert_ne!(changed, list);
        assert_eq!((&changed).into_iter().sum::<u8>(), 12);
        changed.clear();
        assert_eq!(changed, BoundedList::default());
    }
}
