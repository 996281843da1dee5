//! Lists threaded through the slots of a table: O(1) at both ends and in the
//! middle, without memory of their own.

use super::Pool;
use crate::id::NONE;

/// Not in any list; differs from the end mark `NONE`.
const UNLINKED: u32 = NONE - 1;

/// An object's neighbours in one list.
#[derive(Clone, Copy, Hash, Debug)]
pub(crate) struct Links {
    previous: u32,
    next: u32,
}

impl Links {
    /// In no list.
    pub(crate) const UNLINKED: Self = Self {
        previous: UNLINKED,
        next: UNLINKED,
    };

    /// Whether the object is in the list these links belong to.
    #[inline]
    pub(crate) const fn is_linked(self) -> bool {
        self.next != UNLINKED
    }
}

/// An object that can be in the list kind `L`, at most one list of a kind at a time.
pub(crate) trait Linked<const L: usize> {
    /// Its links for that kind.
    fn links(&mut self) -> &mut Links;
}

/// Ends of a list of kind `L`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<const L: usize> {
    first: u32,
    last: u32,
}

impl<const L: usize> List<L> {
    pub(crate) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };

    /// The object at the front.
    #[inline]
    pub(crate) const fn first(&self) -> Option<u32> {
        if self.first == NONE {
            None
        } else {
            Some(self.first)
        }
    }

    /// The object at the back.
    #[inline]
    pub(crate) const fn last(&self) -> Option<u32> {
        if self.last == NONE {
            None
        } else {
            Some(self.last)
        }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Whether `index` is the only object of the list.
    #[inline]
    pub(crate) const fn is_only(&self, index: u32) -> bool {
        self.first == index && self.last == index
    }

    /// The object behind `index`, which is in this list.
    pub(crate) fn next<T: Linked<L>>(&self, pool: &mut Pool<'_, T>, index: u32) -> Option<u32> {
        let next = pool.at_mut(index)?.links().next;
        (next != NONE && next != UNLINKED).then_some(next)
    }

    /// Appends an object unless it is in a list of this kind already.
    #[inline(always)]
    pub(crate) fn push_back<T: Linked<L>>(&mut self, pool: &mut Pool<'_, T>, index: u32) {
        let Some(object) = pool.at_mut(index) else {
            return;
        };
        if let Some(before) = self.join(object, index) {
            before.precede(pool, index);
        }
    }

    /// Appends an object that the caller has at hand; the caller links the one before it.
    #[inline(always)]
    pub(crate) fn join<T: Linked<L>>(&mut self, object: &mut T, index: u32) -> Option<Before<L>> {
        let links = object.links();
        if links.is_linked() {
            return None;
        }
        let previous = core::mem::replace(&mut self.last, index);
        *links = Links {
            previous,
            next: NONE,
        };
        if previous == NONE {
            self.first = index;
        }
        Some(Before(previous))
    }

    /// Puts an object in front unless it is in a list of this kind already.
    pub(crate) fn push_front<T: Linked<L>>(&mut self, pool: &mut Pool<'_, T>, index: u32) {
        let Some(object) = pool.at_mut(index) else {
            return;
        };
        let links = object.links();
        if links.is_linked() {
            return;
        }
        *links = Links {
            previous: NONE,
            next: self.first,
        };
        match pool.at_mut(self.first) {
            Some(first) => first.links().previous = index,
            None => self.last = index,
        }
        self.first = index;
    }

    /// Takes an object out, wherever it is in this list; nothing if it is not in it.
    #[inline(always)]
    pub(crate) fn remove<T: Linked<L>>(&mut self, pool: &mut Pool<'_, T>, index: u32) {
        let Some(object) = pool.at_mut(index) else {
            return;
        };
        let links = *object.links();
        if !links.is_linked() {
            return;
        }
        *object.links() = Links::UNLINKED;
        match pool.at_mut(links.previous) {
            Some(previous) => previous.links().next = links.next,
            None => self.first = links.next,
        }
        match pool.at_mut(links.next) {
            Some(next) => next.links().previous = links.previous,
            None => self.last = links.previous,
        }
    }

    /// Takes the object at the front out, for a caller who has it at hand and unlinks the
    /// one behind it of that.
    #[inline(always)]
    pub(crate) fn leave_front<T: Linked<L>>(&mut self, front: &mut T) -> Behind<L> {
        let links = core::mem::replace(front.links(), Links::UNLINKED);
        self.first = links.next;
        if links.next == NONE {
            self.last = NONE;
        }
        Behind(links.next)
    }

    /// Takes the object at the front out.
    #[inline(always)]
    pub(crate) fn pop_front<T: Linked<L>>(&mut self, pool: &mut Pool<'_, T>) -> Option<u32> {
        let index = self.first()?;
        let behind = self.leave_front(pool.at_mut(index)?);
        behind.lead(pool);
        Some(index)
    }
}

/// The object before one that joined its list, if there is one.
#[must_use]
pub(crate) struct Before<const L: usize>(u32);

impl<const L: usize> Before<L> {
    /// The object behind it.
    #[inline(always)]
    pub(crate) fn precede<T: Linked<L>>(self, pool: &mut Pool<'_, T>, index: u32) {
        if self.0 != NONE
            && let Some(object) = pool.at_mut(self.0)
        {
            object.links().next = index;
        }
    }
}

/// The object behind one that left the front of its list, if there is one.
#[must_use]
pub(crate) struct Behind<const L: usize>(u32);

impl<const L: usize> Behind<L> {
    /// Nothing stands before it any more.
    #[inline(always)]
    pub(crate) fn lead<T: Linked<L>>(self, pool: &mut Pool<'_, T>) {
        if self.0 != NONE
            && let Some(object) = pool.at_mut(self.0)
        {
            object.links().previous = NONE;
        }
    }
}
