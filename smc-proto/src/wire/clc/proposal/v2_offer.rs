//! The version-2 extension of a Proposal.

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ClcParseError, MAX_ENTRIES, OfferedPath, Parts, SmcdOffer, put};
use crate::wire::types::{BoundedList, Eid, FeatureMask, Gid, Release};

/// What a Proposal offers in version 2.
///
/// Emitting leaves out what the other fields rule out: limits and features at
/// release 0, `smcd` without an offer of SMC-D.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct V2Offer {
    /// What is offered in version 2; `Neither` is the same as no offer, and
    /// never parsed.
    pub path: OfferedPath,
    /// Release of version 2.
    pub release: Release,
    /// GID of the client for SMC-Rv2; zero without one (V2-028).
    pub gid: Gid,
    /// EIDs of the client by preference. Linux sends at most four.
    pub eids: BoundedList<Eid, MAX_ENTRIES>,
    /// Most connections in a link group, from release 1 on; 16 to 255.
    pub max_connections: u8,
    /// Most links in a link group, from release 1 on.
    pub max_links: u8,
    /// Features of the client, from release 1 on.
    pub features: FeatureMask,
    /// The client's SMC-D devices.
    pub smcd: SmcdOffer,
}

impl Default for V2Offer {
    /// SMC-R of release 0 without an EID.
    fn default() -> Self {
        Self {
            path: OfferedPath::SmcR,
            release: Release::V2_0,
            gid: Gid::default(),
            eids: BoundedList::new(),
            max_connections: 0,
            max_links: 0,
            features: FeatureMask::empty(),
            smcd: SmcdOffer::default(),
        }
    }
}

//= V2-025
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawV2Extension {
    eids: u8,
    ism_gids: u8,
    reserved_2: u8,
    release_seid: u8,
    reserved_4: [u8; 2],
    smcd_extension_offset: U16,
    gid: [u8; 16],
    max_connections: u8,
    max_links: u8,
    features: U16,
    reserved_28: [u8; 12],
}
const _: () = assert!(size_of::<RawV2Extension>() == 40);

/// There is a system EID.
const SEID: u8 = 0x01;
/// Octets from where the offset of the SMC-D extension counts to the EIDs.
const TO_EIDS: u16 = 32;

impl V2Offer {
    /// Reads the extension and everything behind it. `behind` is where it has
    /// to start, counted from octet 52.
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
        let count = raw.eids;
        if usize::from(count) > MAX_ENTRIES {
            return Err(ClcParseError::TooManyEids { count });
        }
        //= V2-252
        let eids = parts.list(count, Eid)?;
        let mut smcd = SmcdOffer::default();
        if path.has_smcd() {
            let count = raw.ism_gids;
            if usize::from(count) > MAX_ENTRIES {
                return Err(ClcParseError::TooManyIsmGids { count });
            }
            let offset = raw.smcd_extension_offset.get();
            let expected = smcd_extension_offset(eids.len());
            //= V2-082
            if offset != expected {
                return Err(ClcParseError::SmcdExtensionOffset { offset, expected });
            }
            smcd = SmcdOffer::parse(raw.release_seid & SEID != 0, count, parts)?;
        }
        let release = Release::new(raw.release_seid >> 4);
        let mut offer = Self {
            path,
            release,
            gid: Gid(raw.gid),
            eids,
            smcd,
            ..Self::default()
        };
        //= V2-008
        if release.has_limits() {
            offer.max_connections = raw.max_connections;
            offer.max_links = raw.max_links;
            offer.features = FeatureMask::from_bits_retain(raw.features.get());
        }
        Ok(offer)
    }

    /// The SMC-D part as far as it is written.
    fn written_smcd(&self) -> Option<&SmcdOffer> {
        self.path.has_smcd().then_some(&self.smcd)
    }

    pub(super) fn encoded_len(&self) -> usize {
        let smcd = self.written_smcd().map_or(0, SmcdOffer::encoded_len);
        self.eids
            .len()
            .saturating_mul(size_of::<Eid>())
            .saturating_add(smcd)
            .saturating_add(size_of::<RawV2Extension>())
    }

    /// Writes the extension and what belongs to it, and returns what is left
    /// of `buffer`.
    pub(super) fn write<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let smcd = self.written_smcd();
        let seid = smcd.is_some_and(|smcd| smcd.seid.is_some());
        let offset = smcd.map_or(0, |_| smcd_extension_offset(self.eids.len()));
        let limits = self.release.has_limits();
        let raw = RawV2Extension {
            eids: self.eids.len() as u8,
            ism_gids: smcd.map_or(0, |smcd| smcd.devices.entries().len() as u8),
            reserved_2: 0,
            release_seid: (self.release.number() << 4) | if seid { SEID } else { 0 },
            reserved_4: [0; 2],
            smcd_extension_offset: U16::new(offset),
            gid: self.gid.0,
            max_connections: if limits { self.max_connections } else { 0 },
            max_links: if limits { self.max_links } else { 0 },
            features: U16::new(if limits { self.features.bits() } else { 0 }),
            reserved_28: [0; 12],
        };
        let mut rest = put(buffer, &raw)?;
        for eid in &self.eids {
            rest = put(rest, &eid.0)?;
        }
        match smcd {
            Some(smcd) => smcd.write(rest),
            None => Some(rest),
        }
    }
}

/// Where the SMC-D extension is behind `eids` EIDs, as the version-2
/// extension names it.
const fn smcd_extension_offset(eids: usize) -> u16 {
    (eids.saturating_mul(size_of::<Eid>()) as u16).saturating_add(TO_EIDS)
}

impl fmt::Display for V2Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} release {} gid {} eids ",
            self.path, self.release, self.gid
        )?;
        crate::wire::list::List(&self.eids).fmt(f)?;
        if self.release.has_limits() {
            write!(
                f,
                " max-conns {} max-links {} features {}",
                self.max_connections, self.max_links, self.features
            )?;
        }
        match self.written_smcd() {
            Some(smcd) => write!(f, " {smcd}"),
            None => Ok(()),
        }
    }
}
