//! DELETE RKEY, version 2: up to 255 RMBs are withdrawn on all links.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::RawHeader;
use super::{Entries, LLC_LENGTH, LlcParseError, kind};
use crate::wire::BufferTooSmall;
use crate::wire::llc::RkeyFlags;
use crate::wire::llc::entries::check_count;
use crate::wire::llc::header::direction;
use crate::wire::types::RKey;

/// Contents of a DELETE RKEY of version 2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeleteRkeyV2<'a> {
    /// Reply or request.
    pub reply: bool,
    /// Flags beside R; `RETRY` is not among them.
    pub flags: RkeyFlags,
    /// In a negative reply the number of unknown keys.
    pub unknown: u8,
    /// The RMBs, 1 to 255, each by its key on the link that carries the
    /// message. In a reply they say nothing: Linux sends zeros (V2-166).
    pub rkeys: Entries<'a, RKey>,
}

//= V2-160
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawDeleteRkey {
    header: RawHeader,
    count: u8,
    unknown: u8,
    reserved_6: [u8; 2],
}
const _: () = assert!(size_of::<RawDeleteRkey>() == 8);

impl<'a> DeleteRkeyV2<'a> {
    /// Reads a message of at least 44 octets.
    pub(super) fn decode(octets: &'a [u8]) -> Result<Self, LlcParseError> {
        let Ok((raw, rest)) = RawDeleteRkey::ref_from_prefix(octets) else {
            return Err(LlcParseError::TooShort { have: octets.len() });
        };
        let room = Entries::<RKey>::read(rest).len();
        let most = u8::try_from(room).unwrap_or(u8::MAX);
        check_count(kind::DELETE_RKEY, raw.count, 1, most)?;
        let counted = usize::from(raw.count).saturating_mul(size_of::<RKey>());
        Ok(Self {
            reply: raw.header.is_reply(),
            flags: RkeyFlags::from_bits_truncate(raw.header.flags) & RkeyFlags::NEGATIVE,
            unknown: raw.unknown,
            rkeys: Entries::read(rest.get(..counted).unwrap_or(rest)),
        })
    }

    fn count(&self) -> u8 {
        u8::try_from(self.rkeys.len()).unwrap_or(u8::MAX)
    }

    pub(super) fn encoded_len(&self) -> usize {
        usize::from(self.count())
            .saturating_mul(size_of::<RKey>())
            .saturating_add(size_of::<RawDeleteRkey>())
            .max(LLC_LENGTH)
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let needed = self.encoded_len();
        let flags = self.flags & RkeyFlags::NEGATIVE;
        let raw = RawDeleteRkey {
            header: RawHeader::new(kind::DELETE_RKEY, needed, self.reply, flags.bits()),
            count: self.count(),
            unknown: self.unknown,
            reserved_6: [0; 2],
        };
        self.rkeys.emit_behind(&raw, needed, buffer)
    }
}

impl fmt::Display for DeleteRkeyV2<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "DELETE RKEY {} rkeys {}",
            direction(self.reply),
            self.rkeys
        )?;
        self.flags.show(f)?;
        write!(f, " unknown {}", self.unknown)
    }
}
