//! DELETE LINK (RFC 7609 A.3.4): one link is to end, or the whole group.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawHeader, direction};
use super::{LLC_LENGTH, kind};
use crate::wire::types::{DeleteLinkReason, LinkNumber};

bitflags::bitflags! {
    /// Flags of a DELETE LINK beside R (octet 3).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct DeleteLinkFlags: u8 {
        /// A: all links, which ends the group; the link number is 0 and
        /// ignored.
        const ALL = 0x40;
        /// O: orderly, the server may take its time.
        const ORDERLY = 0x20;
    }
}

/// Contents of a DELETE LINK.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeleteLink {
    /// Reply or request.
    pub reply: bool,
    /// Flags beside R.
    pub flags: DeleteLinkFlags,
    /// The link; 0 with `ALL`.
    pub link: LinkNumber,
    /// Why.
    pub reason: DeleteLinkReason,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawDeleteLink {
    header: RawHeader,
    link: u8,
    reason: U32,
    reserved: [u8; 35],
}

impl DeleteLink {
    pub(super) fn decode(octets: &[u8; LLC_LENGTH]) -> Self {
        let raw: &RawDeleteLink = zerocopy::transmute_ref!(octets);
        //= LLC-042
        Self {
            reply: raw.header.is_reply(),
            flags: DeleteLinkFlags::from_bits_truncate(raw.header.flags),
            link: LinkNumber(raw.link),
            reason: DeleteLinkReason(raw.reason.get()),
        }
    }

    /// The message as 44 octets, with the header of version 1.
    pub(super) fn encode(&self) -> [u8; LLC_LENGTH] {
        let flags = self.flags.bits() & DeleteLinkFlags::all().bits();
        //= LLC-042
        zerocopy::transmute!(RawDeleteLink {
            header: RawHeader::new(kind::DELETE_LINK, self.reply, flags),
            link: self.link.0,
            reason: U32::new(self.reason.0),
            reserved: [0; 35],
        })
    }
}

impl fmt::Display for DeleteLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DELETE LINK {}", direction(self.reply))?;
        if self.flags.contains(DeleteLinkFlags::ALL) {
            f.write_str(" all")?;
        }
        write!(
            f,
            " link {} {} reason {}",
            self.link,
            if self.flags.contains(DeleteLinkFlags::ORDERLY) {
                "orderly"
            } else {
                "at-once"
            },
            self.reason
        )
    }
}
