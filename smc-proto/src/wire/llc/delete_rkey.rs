//! DELETE RKEY (RFC 7609 A.3.7): RMBs are withdrawn on all links.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::entries::check_count;
use super::header::{RawHeader, direction};
use super::{Entries, LLC_LENGTH, LlcParseError, RkeyFlags, kind};
use crate::version::SmcVersion;
use crate::wire::types::RKey;

/// Most RMBs that a message of version 1 withdraws.
const MAX_RKEYS: u8 = 8;

/// Contents of a DELETE RKEY.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeleteRkey<'a> {
    /// Reply or request. In version 1 a reply echoes the request.
    pub reply: bool,
    /// Flags except R, which is `reply`. DELETE RKEY has [`RkeyFlags::NEGATIVE`] alone; others are
    /// ignored on receipt and not sent.
    pub flags: RkeyFlags,
    /// The RKeys that the sender of a negative reply does not know. Version 1: a bit mask, 0x80 for
    /// the first key. Version 2: their number.
    pub unknown: u8,
    /// The RMBs, 1 to 8 in version 1 and 1 to 255 in version 2, each by its key on the
    /// link that carries the message. Ignored in a reply of version 2: Linux sends zeros
    /// (V2-166).
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

impl<'a> DeleteRkey<'a> {
    /// Parses a whole message. The caller has checked that it has 44 octets at least.
    pub(super) fn decode(octets: &'a [u8], version: SmcVersion) -> Result<Self, LlcParseError> {
        let Ok((raw, rest)) = RawDeleteRkey::ref_from_prefix(octets) else {
            return Err(LlcParseError::TooShort { have: octets.len() });
        };
        let rkeys = Entries::read(rest);
        let most = match version {
            //= LLC-070
            SmcVersion::V1 => MAX_RKEYS,
            SmcVersion::V2 => u8::try_from(rkeys.len()).unwrap_or(u8::MAX),
        };
        check_count(raw.header.kind, raw.count, 1, most)?;
        let counted = usize::from(raw.count);
        Ok(Self {
            reply: raw.header.is_reply(),
            flags: RkeyFlags::from_bits_truncate(raw.header.flags) & RkeyFlags::NEGATIVE,
            //= LLC-071
            unknown: raw.unknown,
            rkeys: match version {
                SmcVersion::V1 => Entries::inline(rkeys.iter().take(counted)),
                SmcVersion::V2 => rkeys.first_of(counted),
            },
        })
    }

    /// Number of RKeys that are sent: 8 at most in version 1, 255 in version 2; further ones are cut.
    fn count(&self, version: SmcVersion) -> u8 {
        let most = match version {
            SmcVersion::V1 => MAX_RKEYS,
            SmcVersion::V2 => u8::MAX,
        };
        u8::try_from(self.rkeys.len()).map_or(most, |count| count.min(most))
    }

    pub(super) fn encoded_len(&self, version: SmcVersion) -> usize {
        usize::from(self.count(version))
            .saturating_mul(size_of::<RKey>())
            .saturating_add(size_of::<RawDeleteRkey>())
            .max(LLC_LENGTH)
    }

    /// Fills `message`, of [`Self::encoded_len`] octets, with a header of version 1, which the caller
    /// turns into that of version 2. `None` if it is too short.
    pub(super) fn write(&self, version: SmcVersion, message: &mut [u8]) -> Option<()> {
        let flags = self.flags & RkeyFlags::NEGATIVE;
        let count = self.count(version);
        let raw = RawDeleteRkey {
            header: RawHeader::new(kind::DELETE_RKEY, self.reply, flags.bits()),
            count,
            unknown: self.unknown,
            reserved_6: [0; 2],
        };
        let rkeys = self.rkeys.first_of(usize::from(count));
        rkeys.write_behind(&raw, message)
    }

    /// Writes the message as one line, for logs.
    pub(super) fn show(&self, version: SmcVersion, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = direction(self.reply);
        write!(f, "DELETE RKEY {direction} rkeys {}", self.rkeys)?;
        self.flags.show(f)?;
        match version {
            SmcVersion::V1 => write!(f, " errors 0x{:02x}", self.unknown),
            SmcVersion::V2 => write!(f, " unknown {}", self.unknown),
        }
    }
}

/// One line for logs, as a message of version 1.
impl fmt::Display for DeleteRkey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(SmcVersion::V1, f)
    }
}
