//! The version-2 extension of a Proposal: checked, and told in summary.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::parts::Parts;
use super::{ClcParseError, MAX_ENTRIES, OfferedPath};
use crate::wire::types::Gid;

/// Summary of the version-2 extension of a Proposal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct V2Offer {
    /// What is offered in version 2; never `Neither`.
    pub path: OfferedPath,
    /// Release of version 2, 0 to 15.
    pub release: u8,
    /// RoCEv2 GID of the client.
    pub gid: Gid,
    /// Number of user EIDs, 0 to 8.
    pub eids: u8,
    /// Number of ISM GIDs, 0 to 8; 0 if SMC-D is not offered.
    pub ism_gids: u8,
    /// Whether there is a system EID.
    pub seid: bool,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawV2Extension {
    eids: u8,
    ism_gids: u8,
    reserved_2: u8,
    release_seid: u8,
    reserved_4: [u8; 2],
    smcd_extension_offset: U16,
    gid: [u8; 16],
    limits: [u8; 4],
    reserved_28: [u8; 12],
}
const _: () = assert!(size_of::<RawV2Extension>() == 40);

impl V2Offer {
    /// Reads the extension and checks everything behind it. `behind` is where
    /// it has to start, counted from octet 52.
    pub(super) fn parse(
        path: OfferedPath,
        offset: u16,
        behind: u16,
        parts: &mut Parts<'_>,
    ) -> Result<Self, ClcParseError> {
        if offset != behind {
            return Err(ClcParseError::V2ExtensionOffset {
                offset,
                expected: behind,
            });
        }
        let raw: RawV2Extension = parts.read()?;
        if usize::from(raw.eids) > MAX_ENTRIES {
            return Err(ClcParseError::TooManyEids { count: raw.eids });
        }
        let eids = u16::from(raw.eids).saturating_mul(32);
        parts.take(eids)?;
        let ism_gids = if path.has_smcd() { raw.ism_gids } else { 0 };
        if path.has_smcd() {
            if usize::from(ism_gids) > MAX_ENTRIES {
                return Err(ClcParseError::TooManyIsmGids { count: ism_gids });
            }
            let offset = raw.smcd_extension_offset.get();
            let expected = eids.saturating_add(32);
            if offset != expected {
                return Err(ClcParseError::SmcdExtensionOffset { offset, expected });
            }
            parts.take(u16::from(ism_gids).saturating_mul(10).saturating_add(48))?;
        }
        Ok(Self {
            path,
            release: raw.release_seid >> 4,
            gid: Gid(raw.gid),
            eids: raw.eids,
            ism_gids,
            seid: raw.release_seid & 1 != 0,
        })
    }
}

impl fmt::Display for V2Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} release {} gid {} eids {} ism-gids {}{}",
            self.path,
            self.release,
            self.gid,
            self.eids,
            self.ism_gids,
            if self.seid { " seid" } else { "" }
        )
    }
}
