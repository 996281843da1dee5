//! Tables whose handles are an index and a generation, so that a handle of
//! something gone finds nothing.

use std::collections::VecDeque;

/// A table of `T`, at most `most` at a time.
///
/// Slots are reused first in, first out, so that an index rests as long as possible.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    most: u32,
}

#[derive(Clone, Debug, Hash)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Where something is in [`Slots`].
pub(crate) type Key = (u32, u32);

impl<T> Slots<T> {
    /// An empty table.
    pub(crate) fn new(most: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: VecDeque::new(),
            most,
        }
    }

    /// Puts what `make` makes of its place into the table; `None` if that is full.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> Option<Key> {
        let index = match self.free.pop_front() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.slots.len())
                    .ok()
                    .filter(|at| *at < self.most)?;
                self.slots.push(Slot {
                    generation: 0,
                    value: None,
                });
                index
            }
        };
        let slot = self.slots.get_mut(index as usize)?;
        slot.generation = slot.generation.wrapping_add(1);
        let key = (index, slot.generation);
        slot.value = Some(make(key));
        Some(key)
    }

    /// Takes something out.
    pub(crate) fn remove(&mut self, (index, generation): Key) -> Option<T> {
        let slot = self
            .slots
            .get_mut(index as usize)
            .filter(|s| s.generation == generation)?;
        let value = slot.value.take()?;
        self.free.push_back(index);
        Some(value)
    }

    /// What is at a place.
    #[inline]
    pub(crate) fn at(&self, (index, generation): Key) -> Option<&T> {
        let slot = self.slots.get(index as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == generation)
    }

    /// What is at a place, to change.
    #[inline]
    pub(crate) fn at_mut(&mut self, (index, generation): Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(index as usize)?;
        let generation_now = slot.generation;
        slot.value.as_mut().filter(|_| generation_now == generation)
    }

    /// What now is at an index, and its whole place.
    #[inline]
    pub(crate) fn at_index(&self, index: u32) -> Option<(Key, &T)> {
        let slot = self.slots.get(index as usize)?;
        Some(((index, slot.generation), slot.value.as_ref()?))
    }

    /// What now is at an index, to change.
    #[inline]
    pub(crate) fn at_index_mut(&mut self, index: u32) -> Option<(Key, &mut T)> {
        let slot = self.slots.get_mut(index as usize)?;
        Some(((index, slot.generation), slot.value.as_mut()?))
    }

    /// Indices that are or were in use lie below this.
    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.slots.len() as u32
    }

    /// All there is, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0u32..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| Some(((index, slot.generation), slot.value.as_ref()?)))
    }

    /// Does something to all there are.
    pub(crate) fn for_each(&mut self, each: impl FnMut(&mut T)) {
        self.slots
            .iter_mut()
            .filter_map(|slot| slot.value.as_mut())
            .for_each(each);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no more fit.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.most as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn a_handle_outlives_nothing() {
        let mut slots = Slots::new(2);
        let first = slots.insert_with(|_| 'a').unwrap();
        let second = slots.insert_with(|_| 'b').unwrap();
        assert_eq!(slots.insert_with(|_| 'c'), None);
        assert_eq!(slots.remove(first), Some('a'));
        assert_eq!(slots.remove(first), None);
        let third = slots.insert_with(|_| 'd').unwrap();
        assert_eq!(third.0, first.0, "the only free slot");
        assert_eq!(slots.at(first), None);
        assert_eq!(
            (slots.at(second), slots.at(third)),
            (Some(&'b'), Some(&'d'))
        );
        assert_eq!(slots.len(), 2);
    }

    #[test]
    fn the_longest_free_slot_is_used_first() {
        let mut slots = Slots::new(3);
        let keys: Vec<_> = (0..3).map(|n| slots.insert_with(|_| n).unwrap()).collect();
        slots.remove(keys[1]);
        slots.remove(keys[0]);
        assert_eq!(slots.insert_with(|_| 9).unwrap().0, 1);
    }
}
