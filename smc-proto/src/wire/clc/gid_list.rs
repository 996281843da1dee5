//! The GIDs in a Confirm of version 2.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ClcParseError;
use super::parts::{Parts, put};
use crate::wire::list::{List, UpTo};
use crate::wire::types::Gid;

/// Most GIDs a Confirm lists.
const MAX_GIDS: usize = 8;

/// Up to eight GIDs of a client: that of the link, and alternates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct GidList {
    // What is not in use is zero, so that the derived comparison is right.
    gids: [Gid; MAX_GIDS],
    count: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawCount {
    count: u8,
    reserved: [u8; 3],
}

impl GidList {
    /// No GIDs.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            gids: [Gid([0; 16]); MAX_GIDS],
            count: 0,
        }
    }

    /// Adds a GID.
    ///
    /// # Errors
    /// The GID, if there are eight.
    pub fn push(&mut self, gid: Gid) -> Result<(), Gid> {
        match self.gids.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = gid;
                self.count = self.count.saturating_add(1);
                Ok(())
            }
            None => Err(gid),
        }
    }

    /// The GIDs in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Gid] {
        self.gids.get(..usize::from(self.count)).unwrap_or(&[])
    }

    pub(super) fn encoded_len(&self) -> usize {
        usize::from(self.count)
            .saturating_mul(size_of::<Gid>())
            .saturating_add(size_of::<RawCount>())
    }

    //= V2-053
    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, ClcParseError> {
        let raw: RawCount = parts.read()?;
        let count = raw.count;
        if usize::from(count) > MAX_GIDS {
            return Err(ClcParseError::TooManyGids { count });
        }
        let gids: UpTo<Gid, MAX_GIDS> = parts.list(count, Gid)?;
        let mut list = Self::new();
        for gid in &gids {
            // There is room for eight.
            let _ = list.push(*gid);
        }
        Ok(list)
    }

    pub(super) fn write<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let raw = RawCount {
            count: self.count,
            reserved: [0; 3],
        };
        let mut rest = put(buffer, &raw)?;
        for gid in self.as_slice() {
            rest = put(rest, &gid.0)?;
        }
        Some(rest)
    }
}

impl fmt::Display for GidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        List(self.as_slice()).fmt(f)
    }
}

impl fmt::Debug for GidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
