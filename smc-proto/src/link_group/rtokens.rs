//! RTokens of one RMB: at most one per link of the group (RMB-008).

use crate::config::LINKS_PER_GROUP;
use crate::wire::types::{RKey, RToken};

/// A set of links of a group, one bit per position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct LinkSet(u16);

impl LinkSet {
    pub(crate) const EMPTY: Self = Self(0);

    /// One link.
    pub(crate) const fn only(position: u8) -> Self {
        Self(Self::bit(position))
    }

    const fn bit(position: u8) -> u16 {
        1_u16.wrapping_shl(position as u32)
    }

    pub(crate) const fn contains(self, position: u8) -> bool {
        self.0 & Self::bit(position) != 0
    }

    pub(crate) const fn insert(&mut self, position: u8) {
        self.0 |= Self::bit(position);
    }

    pub(crate) const fn remove(&mut self, position: u8) {
        self.0 &= !Self::bit(position);
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many links.
    pub(crate) const fn len(self) -> u8 {
        self.0.count_ones() as u8
    }

    /// Links of this set that are not in the other.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Links in both sets.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Links in either set.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The lowest position.
    pub(crate) const fn first(self) -> Option<u8> {
        if self.is_empty() {
            None
        } else {
            Some(self.0.trailing_zeros() as u8)
        }
    }
}

/// Key and address of one RMB on each link. Keys and addresses are in arrays of
/// their own because pairs of them would be a third padding.
//= RMB-008
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RTokens {
    present: LinkSet,
    rkeys: [RKey; LINKS_PER_GROUP],
    addresses: [u64; LINKS_PER_GROUP],
}

impl RTokens {
    pub(crate) const NONE: Self = Self {
        present: LinkSet::EMPTY,
        rkeys: [RKey(0); LINKS_PER_GROUP],
        addresses: [0; LINKS_PER_GROUP],
    };

    /// Links with an RToken.
    pub(crate) const fn links(&self) -> LinkSet {
        self.present
    }

    pub(crate) fn get(&self, position: u8) -> Option<RToken> {
        let index = usize::from(position);
        self.present.contains(position).then_some(RToken {
            rkey: *self.rkeys.get(index)?,
            address: *self.addresses.get(index)?,
        })
    }

    pub(crate) fn set(&mut self, position: u8, rtoken: RToken) {
        let index = usize::from(position);
        if let (Some(rkey), Some(address)) =
            (self.rkeys.get_mut(index), self.addresses.get_mut(index))
        {
            *rkey = rtoken.rkey;
            *address = rtoken.address;
            self.present.insert(position);
        }
    }

    pub(crate) fn remove(&mut self, position: u8) {
        let index = usize::from(position);
        if let (Some(rkey), Some(address)) =
            (self.rkeys.get_mut(index), self.addresses.get_mut(index))
        {
            *rkey = RKey(0);
            *address = 0;
        }
        self.present.remove(position);
    }
}
