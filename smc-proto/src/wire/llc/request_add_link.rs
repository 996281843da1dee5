//! REQUEST ADD LINK, which only version 2 has: the client asks the server to add a link.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawHeader, direction};
use super::{Entries, LLC_LENGTH, kind};
use crate::wire::types::Gid;

/// The server adds no link.
const REJECTED: u8 = 0x40;

/// Contents of a REQUEST ADD LINK.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestAddLink<'a> {
    /// Reply or request.
    pub reply: bool,
    /// In a reply: the server adds none.
    pub rejected: bool,
    /// GIDs of the client, at most 255; of a received message those that are
    /// both counted and there.
    pub gids: Entries<'a, Gid>,
}

//= V2-158
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawRequestAddLink {
    header: RawHeader,
    reserved_4: [u8; 20],
    count: u8,
    reserved_25: [u8; 3],
}
const _: () = assert!(size_of::<RawRequestAddLink>() == 28);

impl<'a> RequestAddLink<'a> {
    /// Reads a message of at least 44 octets.
    pub(super) fn decode(octets: &'a [u8]) -> Self {
        let Ok((raw, rest)) = RawRequestAddLink::ref_from_prefix(octets) else {
            return Self {
                reply: false,
                rejected: false,
                gids: Entries::default(),
            };
        };
        let counted = usize::from(raw.count).saturating_mul(size_of::<Gid>());
        Self {
            reply: raw.header.is_reply(),
            rejected: raw.header.flags & REJECTED != 0,
            gids: Entries::read(rest.get(..counted).unwrap_or(rest)),
        }
    }

    fn count(&self) -> u8 {
        u8::try_from(self.gids.len()).unwrap_or(u8::MAX)
    }

    pub(super) fn encoded_len(&self) -> usize {
        usize::from(self.count())
            .saturating_mul(size_of::<Gid>())
            .saturating_add(size_of::<RawRequestAddLink>())
            .max(LLC_LENGTH)
    }

    /// Writes the message to `all`, which has its length, with the header of version 1.
    pub(super) fn write(&self, all: &mut [u8]) -> Option<()> {
        let flags = if self.rejected { REJECTED } else { 0 };
        let raw = RawRequestAddLink {
            header: RawHeader::new(kind::REQUEST_ADD_LINK, self.reply, flags),
            reserved_4: [0; 20],
            count: self.count(),
            reserved_25: [0; 3],
        };
        self.gids.write_behind(&raw, all)
    }
}

impl fmt::Display for RequestAddLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "REQUEST ADD LINK {}{} gids {}",
            direction(self.reply),
            if self.rejected { " rejected" } else { "" },
            self.gids
        )
    }
}
