//! Objects under the engine's handles.

use smc_proto::id::{BufferId, LinkId};

/// A handle of the engine.
pub(super) trait Handle: Copy + PartialEq {
    fn place(self) -> u32;
}

impl Handle for LinkId {
    fn place(self) -> u32 {
        self.index()
    }
}

impl Handle for BufferId {
    fn place(self) -> u32 {
        self.index()
    }
}

/// Objects by the places of their handles; a stale handle names nothing.
pub(super) struct Slots<K, V> {
    slots: Vec<Option<(K, V)>>,
}

impl<K, V> Default for Slots<K, V> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<K: Handle, V> Slots<K, V> {
    /// Puts an object in its place; what was there is given back.
    pub(super) fn put(&mut self, key: K, value: V) -> Option<V> {
        let at = key.place() as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        let slot = self.slots.get_mut(at)?;
        slot.replace((key, value)).map(|(_, old)| old)
    }

    #[inline]
    pub(super) fn get(&self, key: K) -> Option<&V> {
        let (of, value) = self.slots.get(key.place() as usize)?.as_ref()?;
        (*of == key).then_some(value)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let (of, value) = self.slots.get_mut(key.place() as usize)?.as_mut()?;
        (*of == key).then_some(value)
    }

    /// Whatever is at a place.
    #[inline]
    pub(super) fn at_mut(&mut self, place: u32) -> Option<(K, &mut V)> {
        let (key, value) = self.slots.get_mut(place as usize)?.as_mut()?;
        Some((*key, value))
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        let slot = self.slots.get_mut(key.place() as usize)?;
        slot.take_if(|(of, _)| *of == key).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let present = self.slots.iter().flatten();
        present.map(|(key, value)| (*key, value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        let present = self.slots.iter_mut().flatten();
        present.map(|(key, value)| (*key, value))
    }
}
