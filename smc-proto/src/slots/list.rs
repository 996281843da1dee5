//! Lists threaded through the slots of a table: O(1) at both ends and in the
//! middle, without memory of their own.

use core::fmt;
use core::hash::{Hash, Hasher};

use super::Pool;
use crate::id::Idx;

/// An object's neighbours in one list.
pub(crate) struct Links<T> {
    previous: Idx<T>,
    next: Idx<T>,
}

impl<T> Links<T> {
    /// The neighbour of an object in no list; differs from `Idx::NONE`, the end of a list.
    const NO_LIST: Idx<T> = Idx::new(u32::MAX - 1);

    /// In no list.
    pub(crate) const UNLINKED: Self = Self {
        previous: Self::NO_LIST,
        next: Self::NO_LIST,
    };

    /// Whether the object is in the list these links belong to.
    #[inline]
    pub(crate) const fn is_linked(self) -> bool {
        self.next.get() != Self::NO_LIST.get()
    }
}

// Not derived: that would ask the same of `T`.
impl<T> Clone for Links<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Links<T> {}

impl<T> Hash for Links<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.previous, self.next).hash(hasher);
    }
}

impl<T> fmt::Debug for Links<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Links")
            .field("previous", &self.previous)
            .field("next", &self.next)
            .finish()
    }
}

/// An object that can be in the list kind `L`, at most one list of a kind at a time.
pub(crate) trait Linked<const L: usize>: Sized {
    /// Links of the object for lists of kind `L`.
    fn links(&mut self) -> &mut Links<Self>;
}

/// Ends of a list of kind `L`.
pub(crate) struct List<T, const L: usize> {
    first: Idx<T>,
    last: Idx<T>,
}

impl<T, const L: usize> Clone for List<T, L> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const L: usize> Copy for List<T, L> {}

impl<T, const L: usize> fmt::Debug for List<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List")
            .field("first", &self.first)
            .field("last", &self.last)
            .finish()
    }
}

impl<T, const L: usize> List<T, L> {
    pub(crate) const EMPTY: Self = Self {
        first: Idx::NONE,
        last: Idx::NONE,
    };

    /// The object at the front.
    #[inline]
    pub(crate) const fn first(&self) -> Option<Idx<T>> {
        if self.first.is_none() {
            None
        } else {
            Some(self.first)
        }
    }

    /// The object at the back.
    #[inline]
    pub(crate) const fn last(&self) -> Option<Idx<T>> {
        if self.last.is_none() {
            None
        } else {
            Some(self.last)
        }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether `index` is the only object of the list.
    #[inline]
    pub(crate) const fn is_only(&self, index: Idx<T>) -> bool {
        self.first.get() == index.get() && self.last.get() == index.get()
    }
}

impl<T: Linked<L>, const L: usize> List<T, L> {
    /// The object behind `index`, which is in this list.
    pub(crate) fn next(&self, pool: &mut Pool<'_, T>, index: Idx<T>) -> Option<Idx<T>> {
        let next = pool.at_mut(index)?.links().next;
        (next.is_some() && next != Links::NO_LIST).then_some(next)
    }

    /// Appends an object unless it is in a list of this kind already.
    #[inline(always)]
    pub(crate) fn push_back(&mut self, pool: &mut Pool<'_, T>, index: Idx<T>) {
        let Some(object) = pool.at_mut(index) else {
            return;
        };
        if let Some(before) = self.append(object, index) {
            before.set_next(pool, index);
        }
    }

    /// Appends an object that the caller has borrowed, unless it is in a list of this kind
    /// already. The caller completes that with [`Before::set_next`], which borrows the pool.
    #[inline(always)]
    pub(crate) fn append(&mut self, object: &mut T, index: Idx<T>) -> Option<Before<T, L>> {
        let links = object.links();
        if links.is_linked() {
            return None;
        }
        let previous = core::mem::replace(&mut self.last, index);
        *links = Links {
            previous,
            next: Idx::NONE,
        };
        if previous.is_none() {
            self.first = index;
        }
        Some(Before(previous))
    }

    /// Puts an object in front unless it is in a list of this kind already.
    pub(crate) fn push_front(&mut self, pool: &mut Pool<'_, T>, index: Idx<T>) {
        let Some(object) = pool.at_mut(index) else {
            return;
        };
        let links = object.links();
        if links.is_linked() {
            return;
        }
        *links = Links {
            previous: Idx::NONE,
            next: self.first,
        };
        match pool.at_mut(self.first) {
            Some(first) => first.links().previous = index,
            None => self.last = index,
        }
        self.first = index;
    }

    /// Takes an object out of this list, from any place. Does nothing if it is in no list.
    #[inline(always)]
    pub(crate) fn remove(&mut self, pool: &mut Pool<'_, T>, index: Idx<T>) {
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

    /// Takes the object at the front out, which the caller has borrowed. The caller completes
    /// that with [`Behind::set_front`], which borrows the pool.
    #[inline(always)]
    pub(crate) fn unlink_front(&mut self, front: &mut T) -> Behind<T, L> {
        let links = core::mem::replace(front.links(), Links::UNLINKED);
        self.first = links.next;
        if links.next.is_none() {
            self.last = Idx::NONE;
        }
        Behind(links.next)
    }

    /// Takes the object at the front out.
    #[inline(always)]
    pub(crate) fn pop_front(&mut self, pool: &mut Pool<'_, T>) -> Option<Idx<T>> {
        let index = self.first()?;
        let behind = self.unlink_front(pool.at_mut(index)?);
        behind.set_front(pool);
        Some(index)
    }
}

/// The object before one that was appended to its list, if there is one.
#[must_use]
pub(crate) struct Before<T, const L: usize>(Idx<T>);

impl<T: Linked<L>, const L: usize> Before<T, L> {
    /// Links this object to `index`, which was appended behind it.
    #[inline(always)]
    pub(crate) fn set_next(self, pool: &mut Pool<'_, T>, index: Idx<T>) {
        if self.0.is_some()
            && let Some(object) = pool.at_mut(self.0)
        {
            object.links().next = index;
        }
    }
}

/// The object behind one that was taken from the front of its list, if there is one.
#[must_use]
pub(crate) struct Behind<T, const L: usize>(Idx<T>);

impl<T: Linked<L>, const L: usize> Behind<T, L> {
    /// Makes this object the front of its list.
    #[inline(always)]
    pub(crate) fn set_front(self, pool: &mut Pool<'_, T>) {
        if self.0.is_some()
            && let Some(object) = pool.at_mut(self.0)
        {
            object.links().previous = Idx::NONE;
        }
    }
}
