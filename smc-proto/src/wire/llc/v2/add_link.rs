//! ADD LINK, version 2: as in version 1, and the RTokens of all RMBs on the
//! new link.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Entries, LLC_LENGTH, LLC_V2_MAX_LENGTH, LlcParseError, version_2};
use crate::wire::llc::{AddLink, RTokenPair};
use crate::wire::types::{AddLinkRejectReason, Gid};
use crate::wire::{BufferTooSmall, emit_exactly};

/// Contents of an ADD LINK of version 2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddLinkV2<'a> {
    /// What version 1 has as well. A rejection is sent without its reason
    /// (`UNSPECIFIED`).
    pub link: AddLink,
    /// What version 2 adds. A rejection has none; everything else has it, also
    /// without RTokens (V2-156).
    pub extension: Option<AddLinkExtension<'a>>,
}

/// What version 2 adds to an ADD LINK.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AddLinkExtension<'a> {
    /// No IP gateway stands between the GIDs of the new link.
    pub direct: bool,
    /// The sender's GID on the new link, once more; it is not read.
    pub target_gid: Gid,
    /// The sender's RMBs, each by its key on the link that carries the message
    /// and its RToken on the new one.
    pub rtokens: Entries<'a, RTokenPair>,
}

//= V2-154
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawExtension {
    direct: u8,
    reserved_45: u8,
    target_gid: [u8; 16],
    reserved_62: [u8; 8],
    count: [u8; 2],
}
const _: () = assert!(size_of::<RawExtension>() == 28);

const DIRECT: u8 = 0x80;
/// Octets in front of the RTokens.
const TO_RTOKENS: usize = LLC_LENGTH + size_of::<RawExtension>();
/// Octets of an RToken pair.
const PAIR: usize = 16;
const MAX_PAIRS: usize = (LLC_V2_MAX_LENGTH - TO_RTOKENS) / PAIR;

impl<'a> AddLinkV2<'a> {
    pub(super) fn decode(head: &[u8; LLC_LENGTH], tail: &'a [u8]) -> Result<Self, LlcParseError> {
        let mut link = AddLink::decode(head);
        link.rejection = link.rejection.map(|_| AddLinkRejectReason::UNSPECIFIED);
        //= V2-157
        let extension = if tail.is_empty() {
            None
        } else {
            let Ok((raw, rest)) = RawExtension::ref_from_prefix(tail) else {
                return Err(LlcParseError::ShortExtension {
                    have: tail.len().saturating_add(LLC_LENGTH),
                });
            };
            Some(AddLinkExtension {
                direct: raw.direct & DIRECT != 0,
                target_gid: Gid(raw.target_gid),
                //= V2-155
                rtokens: Entries::read(rest),
            })
        };
        Ok(Self { link, extension })
    }

    pub(super) fn encoded_len(&self) -> usize {
        self.extension.as_ref().map_or(LLC_LENGTH, |extension| {
            extension
                .rtokens
                .len()
                .min(MAX_PAIRS)
                .saturating_mul(PAIR)
                .saturating_add(TO_RTOKENS)
        })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        emit_exactly(self.encoded_len(), buffer, |all| self.write(all))
    }

    /// Writes to `buffer`, which has the right length.
    fn write(&self, buffer: &mut [u8]) -> Option<()> {
        let length = buffer.len();
        let (head, tail) = buffer.split_first_chunk_mut::<LLC_LENGTH>()?;
        let Some(extension) = &self.extension else {
            *head = version_2(self.link.emit(), length);
            return Some(());
        };
        //= V2-155
        let count = u8::try_from(extension.rtokens.len()).unwrap_or(u8::MAX);
        let raw = RawExtension {
            direct: if extension.direct { DIRECT } else { 0 },
            reserved_45: 0,
            target_gid: extension.target_gid.0,
            reserved_62: [0; 8],
            count: [count; 2],
        };
        let (place, entries) = tail.split_at_mut_checked(size_of::<RawExtension>())?;
        raw.write_to(place).ok()?;
        extension.rtokens.write(entries);
        *head = version_2(self.link.emit(), length);
        Some(())
    }
}

impl fmt::Display for AddLinkV2<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.link)?;
        match &self.extension {
            Some(extension) => write!(
                f,
                "{} target {} rtokens {}",
                if extension.direct { " direct" } else { "" },
                extension.target_gid,
                extension.rtokens
            ),
            None => Ok(()),
        }
    }
}
