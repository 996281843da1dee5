//! DELETE RKEY (RFC 7609 A.3.7): RMBs are withdrawn on all links.

use core::fmt;

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::entries;
use super::header::{RawHeader, direction};
use super::{LLC_LENGTH, LlcParseError, RkeyFlags, kind};
use crate::wire::list::List;
use crate::wire::types::RKey;

/// Contents of a DELETE RKEY.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeleteRkey {
    /// Reply, an echo of the request, or request.
    pub reply: bool,
    /// Flags beside R; `RETRY` is not among them.
    pub flags: RkeyFlags,
    /// In a negative reply the unknown keys, 0x80 for the first.
    pub error_mask: u8,
    /// The RMBs, 1 to 8, each by its key on the link that carries the message.
    pub rkeys: heapless::Vec<RKey, 8>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawDeleteRkey {
    header: RawHeader,
    count: u8,
    error_mask: u8,
    reserved_6: [u8; 2],
    rkeys: [U32; 8],
    reserved_40: [u8; 4],
}

impl DeleteRkey {
    pub(super) fn decode(octets: &[u8; LLC_LENGTH]) -> Result<Self, LlcParseError> {
        let raw: &RawDeleteRkey = zerocopy::transmute_ref!(octets);
        //= LLC-070
        entries::check_count(kind::DELETE_RKEY, raw.count, 1, 8)?;
        Ok(Self {
            reply: raw.header.is_reply(),
            flags: RkeyFlags::from_bits_truncate(raw.header.flags) & RkeyFlags::NEGATIVE,
            //= LLC-071
            error_mask: raw.error_mask,
            rkeys: entries::parse(raw.rkeys.as_bytes(), raw.count),
        })
    }

    /// The message as 44 octets.
    #[must_use]
    pub fn emit(&self) -> [u8; LLC_LENGTH] {
        let flags = self.flags & RkeyFlags::NEGATIVE;
        zerocopy::transmute!(RawDeleteRkey {
            header: RawHeader::new(kind::DELETE_RKEY, self.reply, flags.bits()),
            count: self.rkeys.len() as u8,
            error_mask: self.error_mask,
            reserved_6: [0; 2],
            rkeys: entries::emit(&self.rkeys),
            reserved_40: [0; 4],
        })
    }
}

impl fmt::Display for DeleteRkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DELETE RKEY {} rkeys {}",
            direction(self.reply),
            List(&self.rkeys)
        )?;
        self.flags.show(f)?;
        write!(f, " errors 0x{:02x}", self.error_mask)
    }
}
