//! The extension that follows the 44 octets of an ADD LINK in version 2: the RTokens of all RMBs
//! on the new link.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Entries, LLC_LENGTH, LLC_V2_MAX_LENGTH, LlcParseError, RTokenPair};
use crate::wire::types::Gid;

/// The extension of an ADD LINK in version 2.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AddLinkExtension<'a> {
    /// The GIDs of the new link are in one subnet, without a gateway between them.
    pub direct: bool,
    /// Carries the sender's GID on the new link once more. Receivers ignore it.
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

/// Octets of an RToken pair.
const PAIR: usize = 16;
/// Most RToken pairs that a message has room for.
const MAX_PAIRS: usize = (LLC_V2_MAX_LENGTH - LLC_LENGTH - size_of::<RawExtension>()) / PAIR;

impl<'a> AddLinkExtension<'a> {
    /// Reads what follows the 44 octets of an ADD LINK; `None` if nothing does.
    //= V2-157
    pub(super) fn decode(tail: &'a [u8]) -> Result<Option<Self>, LlcParseError> {
        if tail.is_empty() {
            return Ok(None);
        }
        let Ok((raw, rest)) = RawExtension::ref_from_prefix(tail) else {
            return Err(LlcParseError::ShortExtension {
                have: tail.len().saturating_add(LLC_LENGTH),
            });
        };
        Ok(Some(Self {
            direct: raw.direct & DIRECT != 0,
            target_gid: Gid(raw.target_gid),
            //= V2-155
            rtokens: Entries::read(rest),
        }))
    }

    /// Octets of the extension.
    pub(super) fn encoded_len(&self) -> usize {
        self.rtokens
            .len()
            .min(MAX_PAIRS)
            .saturating_mul(PAIR)
            .saturating_add(size_of::<RawExtension>())
    }

    /// Fills `tail`, of [`Self::encoded_len`] octets. `None` if it is too short.
    pub(super) fn write(&self, tail: &mut [u8]) -> Option<()> {
        // Both octets have the count, as Linux sends the field in the order of its host and reads one
        // of them.
        //= V2-155
        let count = u8::try_from(self.rtokens.len()).unwrap_or(u8::MAX);
        let raw = RawExtension {
            direct: if self.direct { DIRECT } else { 0 },
            reserved_45: 0,
            target_gid: self.target_gid.0,
            reserved_62: [0; 8],
            count: [count; 2],
        };
        self.rtokens.write_behind(&raw, tail)
    }
}
