//! The peer's RMBs: one RToken per link, and which elements are in use.

use core::hash::{Hash, Hasher};

use super::rtokens::{LinkSet, RTokens};
use crate::id::{Idx, RemoteRmbIdx};
use crate::slots::{Linked, Links, List, Pool};
use crate::wire::types::{RKey, RToken};

/// An RMB of the peer as the tables hold it. Opaque.
#[derive(Clone, Debug)]
pub struct RemoteRmb {
    rtokens: RTokens,
    elements: ElementSet,
    members: Links<Self>,
}

impl RemoteRmb {
    pub(crate) fn new(position: u8, rtoken: RToken) -> Self {
        let mut rtokens = RTokens::NONE;
        rtokens.set(position, rtoken);
        Self {
            rtokens,
            elements: ElementSet::EMPTY,
            members: Links::UNLINKED,
        }
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.rtokens, self.elements, self.members).hash(hasher);
    }

    /// RToken on the link at this position of the group.
    pub(crate) fn rtoken(&self, position: u8) -> Option<RToken> {
        self.rtokens.get(position)
    }

    /// Links on which it can be written.
    pub(crate) const fn links(&self) -> LinkSet {
        self.rtokens.links()
    }

    /// Whether it has this key on the link at this position.
    pub(crate) fn has_key(&self, position: u8, rkey: RKey) -> bool {
        self.rtoken(position)
            .is_some_and(|rtoken| rtoken.rkey == rkey)
    }

    /// Whether connections write to it.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.elements.is_empty()
    }

    /// Whether this RToken would move memory that connections write to.
    //= RMB-010
    pub(crate) fn is_moved_by(&self, position: u8, rtoken: RToken) -> bool {
        self.is_in_use() && self.rtoken(position).is_some_and(|known| known != rtoken)
    }

    pub(crate) fn set_rtoken(&mut self, position: u8, rtoken: RToken) {
        self.rtokens.set(position, rtoken);
    }

    /// Forgets the RToken of a link that is gone.
    pub(crate) fn forget_link(&mut self, position: u8) {
        self.rtokens.remove(position);
    }

    /// Elements that connections write to.
    pub(crate) fn elements(&mut self) -> &mut ElementSet {
        &mut self.elements
    }
}

impl Linked<0> for RemoteRmb {
    fn links(&mut self) -> &mut Links<Self> {
        &mut self.members
    }
}

/// Finds an RMB of the list by its key and address on one link: a peer may have several
/// RMBs in one registration, with one key. At most 255 steps.
pub(crate) fn find(
    pool: &mut Pool<'_, RemoteRmb>,
    list: &List<RemoteRmb, 0>,
    position: u8,
    rtoken: RToken,
    steps: &mut u32,
) -> RemoteRmbIdx {
    let same = |rmb: &RemoteRmb| rmb.rtoken(position) == Some(rtoken);
    find_behind(pool, list, None, steps, same)
}

/// Finds the RMB of a key on one link where messages name no address; `None` if there is
/// no such RMB, or more than one. At most 255 steps.
pub(crate) fn find_only(
    pool: &mut Pool<'_, RemoteRmb>,
    list: &List<RemoteRmb, 0>,
    position: u8,
    rkey: RKey,
    steps: &mut u32,
) -> Option<RemoteRmbIdx> {
    let first = find_behind(pool, list, None, steps, |rmb| rmb.has_key(position, rkey));
    let more = find_behind(pool, list, Some(first), steps, |rmb| {
        rmb.has_key(position, rkey)
    });
    (first.is_some() && more.is_none()).then_some(first)
}

/// Finds the next RMB of the list of which this holds, from the beginning or behind
/// another one; `Idx::NONE` if there is none. At most 255 steps.
pub(crate) fn find_behind(
    pool: &mut Pool<'_, RemoteRmb>,
    list: &List<RemoteRmb, 0>,
    behind: Option<RemoteRmbIdx>,
    steps: &mut u32,
    holds: impl Fn(&RemoteRmb) -> bool,
) -> RemoteRmbIdx {
    let mut next = match behind {
        Some(index) => list.next(pool, index),
        None => list.first(),
    };
    while let Some(index) = next {
        *steps = steps.wrapping_add(1);
        if pool.at(index).is_some_and(&holds) {
            return index;
        }
        next = list.next(pool, index);
    }
    Idx::NONE
}

/// A set of element indexes, 1 to 255.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ElementSet([u64; 4]);

impl ElementSet {
    pub(crate) const EMPTY: Self = Self([0; 4]);

    fn word(index: u8) -> (usize, u64) {
        (
            usize::from(index >> 6),
            1_u64.wrapping_shl(u32::from(index & 63)),
        )
    }

    #[cfg(test)]
    fn contains(&self, index: u8) -> bool {
        let (word, bit) = Self::word(index);
        self.0.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Adds an index: whether it was absent.
    pub(crate) fn insert(&mut self, index: u8) -> bool {
        let (word, bit) = Self::word(index);
        match self.0.get_mut(word) {
            Some(w) => {
                let absent = *w & bit == 0;
                *w |= bit;
                absent
            }
            None => false,
        }
    }

    pub(crate) fn remove(&mut self, index: u8) {
        let (word, bit) = Self::word(index);
        if let Some(w) = self.0.get_mut(word) {
            *w &= !bit;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The smallest index in the set.
    pub(crate) fn first(&self) -> Option<u8> {
        let (word, bits) = (0u8..).zip(self.0).find(|(_, bits)| *bits != 0)?;
        let bit = u8::try_from(bits.trailing_zeros()).ok()?;
        word.checked_mul(64)?.checked_add(bit)
    }

    /// All of 1 to `count`.
    pub(crate) fn up_to(count: u8) -> Self {
        let mut set = Self::EMPTY;
        for index in 1..=count {
            set.insert(index);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_elements_gives_the_smallest_first() {
        let mut set = ElementSet::up_to(255);
        for expected in 1..=255u8 {
            assert_eq!(set.first(), Some(expected));
            assert!(set.contains(expected));
            assert!(!set.insert(expected));
            set.remove(expected);
        }
        assert!(set.is_empty());
        assert_eq!(set.first(), None);
        assert!(set.insert(255));
        assert_eq!(set.first(), Some(255));
    }
}
