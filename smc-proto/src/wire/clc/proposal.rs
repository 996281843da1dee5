//! Proposal (RFC 7609 A.2.2): the client names itself, what it offers, and
//! the IP networks it is in.
//!
//! Two forms are spoken. Version 1 is the RFC's: fixed part, an area to skip,
//! subnets. Version 2 is what Linux sends even if it offers version 1 only: it
//! always has 40 octets for ISM in place of the skipped area, subnets only if
//! it offers version 1, and behind them a version-2 extension ([`V2Offer`])
//! only if it offers version 2.

use core::fmt;

use zerocopy::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::RawHeader;
use super::parts::{Parts, put};
use super::{BufferTooSmall, ClcHeader, ClcKind, ClcParseError, ClcVersion, EYE_CATCHER};
use crate::version::SERVES_V2;
use crate::wire::emit_exactly;
use crate::wire::types::{Chid, Gid, IsmGid, Mac, PeerId};

mod ism_gids;
mod offered_path;
mod smcd_offer;
mod subnets;
mod v2_offer;

pub use ism_gids::{IsmGidEntry, IsmGidList, IsmGids};
pub use offered_path::OfferedPath;
pub use smcd_offer::SmcdOffer;
pub use subnets::{Ipv6Prefix, Subnets};
pub use v2_offer::V2Offer;

/// Most IPv6 prefixes, EIDs and ISM GIDs a Proposal lists, each.
//= V2-026
const MAX_ENTRIES: usize = 8;
/// Octets between the fixed part and the subnets if ISM has its area.
const ISM_AREA: u16 = 40;

/// Contents of a Proposal.
///
/// Emitting leaves out what the other fields rule out: `ism` without an offer
/// of SMC-D, `subnets` without an offer in version 1 (version 2 only), and
/// `v2_offer` in version 1. Everything else parses back to the same value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proposal {
    /// Version: 1 has the form of RFC 7609, 2 and more that of Linux.
    pub version: ClcVersion,
    /// What is offered in version 1. Reserved in RFC 7609, where its value is
    /// SMC-R; in use between deployed peers. A peer without SMC-R in any
    /// version leaves its identity zero.
    pub v1: OfferedPath,
    /// Identity of the client; may be zero and the same in many hosts.
    pub peer_id: PeerId,
    /// GID of the RNIC port the client prefers.
    pub gid: Gid,
    /// MAC of the RNIC port the client prefers.
    pub mac: Mac,
    /// The client's SMC-D device, present only if `v1` offers SMC-D.
    pub ism: Option<IsmArea>,
    /// The client's IP networks; empty in a version-2 Proposal that offers
    /// nothing in version 1.
    pub subnets: Subnets,
    /// What is offered in version 2.
    pub v2_offer: Option<V2Offer>,
}

/// The SMC-D version-1 device of a client (octets 40 to 49).
//= D-010
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct IsmArea {
    /// GID of the device.
    pub gid: u64,
    /// Channel ID of the device.
    pub chid: Chid,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawFixed {
    header: RawHeader,
    peer_id: [u8; 8],
    gid: [u8; 16],
    mac: [u8; 6],
    skip: U16,
}
const _: () = assert!(size_of::<RawFixed>() == 40);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawIsm {
    gid: U64,
    chid: U16,
    v2_extension_offset: U16,
    vendor: [u8; 8],
    reserved: [u8; 20],
}
const _: () = assert!(size_of::<RawIsm>() == ISM_AREA as usize);

impl Proposal {
    // Its callers would copy what it returns.
    #[inline]
    pub(super) fn parse_body(header: &ClcHeader, octets: &[u8]) -> Result<Self, ClcParseError> {
        let mut parts = Parts::new(header, octets);
        let fixed: RawFixed = parts.read()?;
        let v1 = OfferedPath::from_bits(header.flags);
        let skip = fixed.skip.get();
        let ism;
        let mut subnets = Subnets::default();
        let mut v2_offer = None;
        if header.version.is_v1() {
            //= CLC-027
            if skip > ISM_AREA {
                return Err(ClcParseError::SubnetOffset { offset: skip });
            }
            let skipped = parts.take(skip)?;
            ism = RawIsm::read_from_bytes(skipped).ok();
            subnets = Subnets::parse(&mut parts)?;
        } else {
            //= V2-020
            //= V2-021
            let area: RawIsm = parts.read()?;
            let mut behind = ISM_AREA.saturating_sub(12);
            if v1 != OfferedPath::Neither {
                if skip != ISM_AREA {
                    return Err(ClcParseError::SubnetOffset { offset: skip });
                }
                subnets = Subnets::parse(&mut parts)?;
                behind = behind.saturating_add(subnets.encoded_len() as u16);
            } else if skip > ISM_AREA {
                return Err(ClcParseError::SubnetOffset { offset: skip });
            }
            let v2 = OfferedPath::from_bits(header.flags >> 2);
            //= V2-024
            if v2 != OfferedPath::Neither {
                let offset = area.v2_extension_offset.get();
                if SERVES_V2 {
                    v2_offer = Some(V2Offer::parse(v2, offset, behind, &mut parts)?);
                } else {
                    parts.pass_over();
                }
            }
            ism = Some(area);
        }
        //= CLC-011
        //= V2-029
        parts.end()?;
        Ok(Self {
            version: header.version,
            v1,
            //= CLC-021
            peer_id: PeerId(fixed.peer_id),
            gid: Gid(fixed.gid),
            mac: Mac(fixed.mac),
            ism: ism.filter(|_| v1.has_smcd()).map(|area| IsmArea {
                gid: area.gid.get(),
                chid: Chid(area.chid.get()),
            }),
            subnets,
            v2_offer,
        })
    }

    /// The SMC-D devices that can be chosen in version 2: that of the ISM area
    /// and those of the list. An entry of the list that lacks its other half is
    /// passed over. Empty without an offer of SMC-D in version 2.
    //= D-012
    //= D-014
    pub fn ism_gids(&self) -> impl Iterator<Item = IsmGid> + '_ {
        let offer = self.v2_offer.as_ref().filter(|v2| v2.path.has_smcd());
        let area = self.ism.filter(|_| offer.is_some() && self.v1.has_smcd());
        let area = area.map(|area| IsmGid {
            gid: area.gid,
            gid_ext: 0,
            chid: area.chid,
        });
        let list = offer.into_iter().flat_map(|v2| v2.smcd.devices.iter());
        area.into_iter().chain(list)
    }

    /// The offer of version 2 as far as it is written.
    fn written_offer(&self) -> Option<&V2Offer> {
        let written = SERVES_V2 && !self.version.is_v1();
        let offer = self.v2_offer.as_ref().filter(|_| written);
        offer.filter(|offer| offer.path != OfferedPath::Neither)
    }

    /// Whether the ISM area is written.
    fn writes_ism(&self) -> bool {
        !self.version.is_v1() || (self.ism.is_some() && self.v1.has_smcd())
    }

    /// Whether the subnets are written.
    fn writes_subnets(&self) -> bool {
        self.version.is_v1() || self.v1 != OfferedPath::Neither
    }

    pub(super) fn encoded_len(&self) -> usize {
        let ism = if self.writes_ism() { 40usize } else { 0 };
        let subnets = if self.writes_subnets() {
            self.subnets.encoded_len()
        } else {
            0
        };
        let v2 = self.written_offer().map_or(0, V2Offer::encoded_len);
        ism.saturating_add(subnets)
            .saturating_add(v2)
            .saturating_add(44)
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let needed = self.encoded_len();
        emit_exactly(needed, buffer, |buffer| self.write(needed as u16, buffer))
    }

    /// Writes the parts and returns what is left of `buffer`, which has the
    /// right length.
    fn write<'a>(&self, length: u16, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let mut flags = self.v1 as u8;
        if !self.version.is_v1() {
            let v2 = self.written_offer();
            let v2 = v2.map_or(OfferedPath::Neither, |offer| offer.path);
            flags |= (v2 as u8) << 2;
        }
        //= CLC-026
        //= V2-021
        let skip = if self.writes_ism() && self.writes_subnets() {
            ISM_AREA
        } else {
            0
        };
        let fixed = RawFixed {
            header: RawHeader::new(ClcKind::Proposal, length, self.version, flags),
            peer_id: self.peer_id.0,
            gid: self.gid.0,
            mac: self.mac.0,
            skip: U16::new(skip),
        };
        let mut rest = put(buffer, &fixed)?;
        if self.writes_ism() {
            //= V2-022
            let ism = self.ism.filter(|_| self.v1.has_smcd()).unwrap_or_default();
            //= V2-024
            let subnets = if self.writes_subnets() {
                self.subnets.encoded_len()
            } else {
                0
            };
            let offset = self
                .written_offer()
                .map_or(0, |_| subnets.saturating_add(28));
            let area = RawIsm {
                gid: U64::new(ism.gid),
                chid: U16::new(ism.chid.0),
                v2_extension_offset: U16::new(offset as u16),
                //= V2-007
                vendor: [0; 8],
                reserved: [0; 20],
            };
            rest = put(rest, &area)?;
        }
        if self.writes_subnets() {
            rest = self.subnets.write(rest)?;
        }
        if let Some(offer) = self.written_offer() {
            rest = offer.write(rest)?;
        }
        put(rest, &EYE_CATCHER)
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Proposal {} peer {} gid {} mac {} v1 {}",
            self.version, self.peer_id, self.gid, self.mac, self.v1
        )?;
        write!(f, " net {}", self.subnets)?;
        if let Some(ism) = self.ism {
            write!(f, " ism 0x{:016x}/{}", ism.gid, ism.chid)?;
        }
        match &self.v2_offer {
            Some(offer) => write!(f, " v2 {offer}"),
            None => Ok(()),
        }
    }
}
