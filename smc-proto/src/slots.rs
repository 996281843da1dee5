//! Tables of slots: the only memory the engine has.
//!
//! ```text
//!   Pool ── head: fresh, free list, heap length, used
//!     └── slots: [ generation | value, or next free | one cell of the timer heap ]
//!                      ▲ handles carry it                  ▲ any slot's deadline
//! ```
//!
//! A slot is taken in O(1), first from those never used, then from the one
//! freed longest ago, so that a handle repeats as late as possible. Deadlines
//! are in a binary heap whose cells are spread over the slots: a table needs
//! no second array.

#[cfg(feature = "allocation-failures")]
mod allocation_failure;
mod list;
mod timer;

#[cfg(feature = "allocation-failures")]
pub use allocation_failure::AllocationFailure;
pub(crate) use list::{Linked, Links, List};

use crate::id::Idx;
use crate::time::Instant;

/// A position that is none.
const NONE: u32 = u32::MAX;

/// One place of a table, to be created with [`Slot::EMPTY`].
///
/// A slot begins with a cache line, so that objects which know what is touched together can
/// lay it out. The generation is beside what a handle leads to first, the cell of
/// the heap out of the way.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Slot<T> {
    generation: u32,
    /// With a value, where its deadline is in the heap; without, the next free
    /// slot. `NONE` if there is none.
    place: u32,
    pub(crate) value: Option<T>,
    /// Cell of the heap at this slot's position, and whose it is; unrelated to
    /// `value`.
    deadline: Instant,
    owner: u32,
}

impl<T> Slot<T> {
    /// A slot that holds nothing.
    pub const EMPTY: Self = Self {
        generation: 0,
        place: NONE,
        deadline: Instant::MAX,
        owner: NONE,
        value: None,
    };
}

/// Bookkeeping of one table.
#[derive(Clone, Debug)]
pub struct PoolHead {
    fresh: u32,
    free_first: u32,
    free_last: u32,
    heap_length: u32,
    used: u32,
    #[cfg(feature = "allocation-failures")]
    injected: allocation_failure::Injected,
}

impl PoolHead {
    /// Of a table whose slots are all [`Slot::EMPTY`].
    pub const EMPTY: Self = Self {
        fresh: 0,
        free_first: NONE,
        free_last: NONE,
        heap_length: 0,
        used: 0,
        #[cfg(feature = "allocation-failures")]
        injected: allocation_failure::Injected::NOTHING,
    };

    /// Slots in use.
    #[inline]
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used as usize
    }

    /// Sets which requests for slots fail from now on.
    #[cfg(feature = "allocation-failures")]
    pub const fn fail_allocations(&mut self, which: AllocationFailure) {
        self.injected.failure = which;
    }

    /// How many slots were asked for so far.
    #[cfg(feature = "allocation-failures")]
    #[must_use]
    pub const fn requests(&self) -> u32 {
        self.injected.requests
    }
}

/// A table for the duration of one call: its bookkeeping and its slots.
#[derive(Debug)]
pub struct Pool<'a, T> {
    head: &'a mut PoolHead,
    /// Slots that exist: all of the table, unless it grows.
    slots: &'a mut [Slot<T>],
    /// Slots that the table may have.
    capacity: u32,
}

impl<'a, T> Pool<'a, T> {
    /// Joins the two parts of a table. They must always be used together.
    #[inline]
    #[must_use]
    pub fn new(head: &'a mut PoolHead, slots: &'a mut [Slot<T>]) -> Self {
        let capacity = slots.len();
        Self::growing(head, slots, capacity)
    }

    /// Joins the two parts of a table that grows between calls, up to `capacity` slots, which
    /// must always be the same number. `slots` are those that exist; none is removed again.
    ///
    /// A call finds the table full if it needs more slots than exist. It needs at most one
    /// connection, its rendezvous, and one link and one RMB of the peer of a group; and for each
    /// rendezvous in progress a group, two links, two buffers and an RMB of the peer.
    #[inline]
    #[must_use]
    pub fn growing(head: &'a mut PoolHead, slots: &'a mut [Slot<T>], capacity: usize) -> Self {
        Self {
            head,
            slots,
            capacity: u32::try_from(capacity).unwrap_or(NONE),
        }
    }

    /// Reborrows the table for a step of the call.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> Pool<'_, T> {
        Pool {
            head: self.head,
            slots: self.slots,
            capacity: self.capacity,
        }
    }

    /// Slots in use.
    pub(crate) fn used(&self) -> u32 {
        self.head.used
    }

    /// Slots that the table may have.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Slots that exist.
    fn existing(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(NONE)
    }

    /// Positions of all slots that exist, used or not; the table is free meanwhile.
    pub(crate) fn indices(&self) -> impl Iterator<Item = Idx<T>> + use<T> {
        (0..self.existing()).map(Idx::new)
    }

    /// Puts `value` into a free slot: its index and generation, or `None` if full.
    pub(crate) fn insert(&mut self, value: T) -> Option<(Idx<T>, u32)> {
        #[cfg(feature = "allocation-failures")]
        if self.head.injected.refuses() {
            return None;
        }
        let index = if self.head.fresh < self.existing() {
            let index = self.head.fresh;
            self.head.fresh = index.saturating_add(1);
            index
        } else {
            let index = self.head.free_first;
            #[cfg(feature = "allocation-failures")]
            assert!(
                index != NONE || self.existing() == self.capacity,
                "{}: {} of {} slots exist, and all are in use",
                core::any::type_name::<T>(),
                self.existing(),
                self.capacity
            );
            let slot = self.slots.get(index as usize)?;
            self.head.free_first = slot.place;
            if self.head.free_first == NONE {
                self.head.free_last = NONE;
            }
            index
        };
        let slot = self.slots.get_mut(index as usize)?;
        slot.place = NONE;
        slot.value = Some(value);
        self.head.used = self.head.used.saturating_add(1);
        Some((Idx::new(index), slot.generation))
    }

    /// Frees a slot. Its handles are stale from here on.
    pub(crate) fn remove(&mut self, index: Idx<T>) -> Option<T> {
        self.set_deadline(index, None);
        let slot = self.slots.get_mut(index.get() as usize)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        match self.slots.get_mut(self.head.free_last as usize) {
            Some(last) => last.place = index.get(),
            None => self.head.free_first = index.get(),
        }
        self.head.free_last = index.get();
        self.head.used = self.head.used.saturating_sub(1);
        Some(value)
    }

    /// The object in a slot known to be in use.
    #[inline]
    pub(crate) fn at(&self, index: Idx<T>) -> Option<&T> {
        self.view().at(index)
    }

    /// The object in a slot known to be in use.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: Idx<T>) -> Option<&mut T> {
        self.slots.get_mut(index.get() as usize)?.value.as_mut()
    }

    /// The object in a slot known to be in use, behind the slot's generation.
    #[inline]
    pub(crate) fn entry(&mut self, index: Idx<T>) -> Option<(u32, &mut T)> {
        let slot = self.slots.get_mut(index.get() as usize)?;
        Some((slot.generation, slot.value.as_mut()?))
    }

    /// Consumes the borrow and returns an entry that lives as long as it.
    #[cfg(feature = "smc-d")]
    #[inline]
    pub(crate) fn into_entry(self, index: Idx<T>) -> Option<(u32, &'a mut T)> {
        let slot = self.slots.get_mut(index.get() as usize)?;
        Some((slot.generation, slot.value.as_mut()?))
    }

    /// The handle's object, if it still exists.
    #[inline]
    pub(crate) fn live_mut(&mut self, index: Idx<T>, generation: u32) -> Option<&mut T> {
        self.slots
            .get_mut(index.get() as usize)
            .filter(|slot| slot.generation == generation)?
            .value
            .as_mut()
    }

    /// The handle's object, if it still exists.
    #[cfg(feature = "smc-d")]
    #[inline]
    pub(crate) fn live(&self, index: Idx<T>, generation: u32) -> Option<&T> {
        self.view().live(index, generation)
    }

    /// Whether the handle's object still exists.
    #[inline]
    pub(crate) fn is_live(&self, index: Idx<T>, generation: u32) -> bool {
        self.view().live(index, generation).is_some()
    }

    /// Generation of a slot.
    #[inline]
    pub(crate) fn generation(&self, index: Idx<T>) -> u32 {
        self.view().generation(index)
    }

    /// Sets or clears the one deadline of a slot in use. O(log n), O(1) if unchanged.
    #[inline]
    pub(crate) fn set_deadline(&mut self, index: Idx<T>, deadline: Option<Instant>) {
        timer::set(self.head, self.slots, index.get(), deadline);
    }

    /// The deadline of a slot.
    pub(crate) fn deadline(&self, index: Idx<T>) -> Option<Instant> {
        self.view().deadline(index)
    }

    /// Whether any slot has a deadline.
    #[inline(always)]
    pub(crate) fn has_deadlines(&self) -> bool {
        self.head.heap_length > 0
    }

    /// The earliest deadline of the table and whose it is.
    pub(crate) fn earliest(&self) -> Option<(Instant, Idx<T>)> {
        let (deadline, owner) = timer::earliest(self.head, self.slots)?;
        Some((deadline, Idx::new(owner)))
    }

    /// The earliest deadline of the table.
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        self.earliest().map(|(deadline, _)| deadline)
    }

    /// An object whose deadline has passed: the one with the earliest.
    pub(crate) fn due(&self, now: Instant) -> Option<Idx<T>> {
        let (deadline, owner) = self.earliest()?;
        (deadline <= now).then_some(owner)
    }

    /// The table, for reading.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_, T> {
        View {
            head: self.head,
            slots: self.slots,
        }
    }
}

/// A table for the duration of a query: its bookkeeping and its slots.
#[derive(Debug)]
pub struct View<'a, T> {
    head: &'a PoolHead,
    slots: &'a [Slot<T>],
}

impl<'a, T> View<'a, T> {
    /// Joins the two parts of a table, which are those of its [`Pool`].
    #[inline]
    #[must_use]
    pub const fn new(head: &'a PoolHead, slots: &'a [Slot<T>]) -> Self {
        Self { head, slots }
    }

    /// Slots in use.
    pub(crate) const fn used(&self) -> u32 {
        self.head.used
    }

    /// The object in a slot known to be in use.
    #[inline(always)]
    pub(crate) fn at(&self, index: Idx<T>) -> Option<&'a T> {
        self.slots.get(index.get() as usize)?.value.as_ref()
    }

    /// The handle's object, if it still exists.
    #[inline(always)]
    pub(crate) fn live(&self, index: Idx<T>, generation: u32) -> Option<&'a T> {
        let slot = self.slots.get(index.get() as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation == generation)
    }

    /// Generation of a slot.
    #[inline(always)]
    pub(crate) fn generation(&self, index: Idx<T>) -> u32 {
        self.slots
            .get(index.get() as usize)
            .map_or(0, |slot| slot.generation)
    }

    /// The deadline of a slot.
    pub(crate) fn deadline(&self, index: Idx<T>) -> Option<Instant> {
        timer::of(self.slots, index.get())
    }

    /// All objects, in slot order; for statistics and fingerprints, not for the data path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Idx<T>, &'a T)> + use<'a, T> {
        // Not `0..`: that could overflow, as far as the compiler knows.
        let existing = u32::try_from(self.slots.len()).unwrap_or(NONE);
        (0..existing)
            .map(Idx::new)
            .zip(self.slots)
            .filter_map(|(i, slot)| Some((i, slot.value.as_ref()?)))
    }
}

#[cfg(test)]
mod tests;
