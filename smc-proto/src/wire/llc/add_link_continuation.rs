//! ADD LINK CONTINUATION (RFC 7609 A.3.3): how the sender's RMBs are reached
//! over the link being added, two at a time.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::entries::{self, RTokenPair, RawPair};
use super::header::{RawHeader, direction};
use super::{LLC_LENGTH, kind};
use crate::wire::list::{List, UpTo};
use crate::wire::types::LinkNumber;

/// Contents of an ADD LINK CONTINUATION.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AddLinkContinuation {
    /// Reply (client) or request (server).
    pub reply: bool,
    /// Number of the link being added.
    pub link: LinkNumber,
    /// RMBs the sender still has to announce, those in this message included.
    pub remaining: u8,
    /// The RMBs in this message: two, or as many as remain if that is fewer.
    pub pairs: UpTo<RTokenPair, 2>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawAddLinkContinuation {
    header: RawHeader,
    link: u8,
    remaining: u8,
    reserved_6: [u8; 2],
    pairs: [RawPair; 2],
    reserved_40: [u8; 4],
}

impl AddLinkContinuation {
    pub(super) fn decode(octets: &[u8; LLC_LENGTH]) -> Self {
        let raw: &RawAddLinkContinuation = zerocopy::transmute_ref!(octets);
        Self {
            reply: raw.header.is_reply(),
            //= LLC-034
            link: LinkNumber(raw.link),
            //= LLC-036
            remaining: raw.remaining,
            //= LLC-035
            pairs: entries::parse(raw.pairs.as_bytes(), raw.remaining),
        }
    }

    /// The message as 44 octets.
    pub(super) fn encode(&self) -> [u8; LLC_LENGTH] {
        zerocopy::transmute!(RawAddLinkContinuation {
            header: RawHeader::new(kind::ADD_LINK_CONTINUATION, self.reply, 0),
            link: self.link.0,
            remaining: self.remaining,
            reserved_6: [0; 2],
            pairs: entries::emit(&self.pairs),
            reserved_40: [0; 4],
        })
    }
}

impl fmt::Display for AddLinkContinuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ADD LINK CONTINUATION {} link {} remaining {} pairs {}",
            direction(self.reply),
            self.link,
            self.remaining,
            List(&self.pairs)
        )
    }
}
