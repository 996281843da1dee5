//! Proposal (RFC 7609 A.2.2): the client names itself, what it offers, and
//! the IP networks it is in.
//!
//! Two forms are spoken. Version 1 is the RFC's: fixed part, an area to skip,
//! subnets. Version 2 is what Linux sends even if it offers version 1 only: it
//! always has 40 octets for ISM in place of the skipped area, and subnets only
//! if it offers version 1. A version-2 extension behind the subnets is checked
//! to its last octet but told in summary only ([`V2Offer`]).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use nom::Parser as _;
use zerocopy::network_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::RawHeader;
use super::{BufferTooSmall, ClcHeader, ClcKind, ClcParseError, ClcVersion, EYE_CATCHER};
use crate::wire::types::{Gid, Mac, PeerId};

/// Most IPv6 prefixes, EIDs and ISM GIDs a Proposal lists, each.
const MAX_ENTRIES: usize = 8;
/// Octets between the fixed part and the subnets if ISM has its area.
const ISM_AREA: u16 = 40;

/// What a Proposal offers in one version (octet 7, two bits each).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum OfferedPath {
    /// SMC-R alone, the only one RFC 7609 knows.
    #[default]
    SmcR = 0,
    /// SMC-D alone.
    SmcD = 1,
    /// Nothing in this version.
    Neither = 2,
    /// SMC-R and SMC-D.
    Both = 3,
}

impl OfferedPath {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::SmcR,
            1 => Self::SmcD,
            2 => Self::Neither,
            _ => Self::Both,
        }
    }
    /// Whether SMC-R is offered.
    #[must_use]
    pub const fn has_smcr(self) -> bool {
        matches!(self, Self::SmcR | Self::Both)
    }
    /// Whether SMC-D is offered.
    #[must_use]
    pub const fn has_smcd(self) -> bool {
        matches!(self, Self::SmcD | Self::Both)
    }
}

impl fmt::Display for OfferedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SmcR => "SMC-R",
            Self::SmcD => "SMC-D",
            Self::Neither => "none",
            Self::Both => "SMC-R+D",
        })
    }
}

/// Contents of a Proposal.
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
    /// What is offered in version 2, as read. It is not written: a Proposal
    /// with an offer of version 2 is emitted without that offer.
    pub v2_offer: Option<V2Offer>,
}

/// The SMC-D version-1 device of a client (octets 40 to 49).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct IsmArea {
    /// GID of the device.
    pub gid: u64,
    /// Channel ID of the device.
    pub chid: u16,
}

/// The IP networks of a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Subnets {
    /// The four octets RFC 7609 calls mask and describes as subnet number;
    /// Linux puts the network address (AMB-09). Unspecified on IPv6.
    pub network: Ipv4Addr,
    /// Significant bits of the IPv4 mask, as sent; 0 on IPv6.
    pub prefix_length: u8,
    /// IPv6 prefixes; none on IPv4.
    pub ipv6: heapless::Vec<Ipv6Prefix, MAX_ENTRIES>,
}

impl Default for Subnets {
    fn default() -> Self {
        Self {
            network: Ipv4Addr::UNSPECIFIED,
            prefix_length: 0,
            ipv6: heapless::Vec::new(),
        }
    }
}

/// One IPv6 network of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ipv6Prefix {
    /// The network.
    pub address: Ipv6Addr,
    /// Significant bits, as sent.
    pub length: u8,
}

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

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawSubnets {
    network: [u8; 4],
    prefix_length: u8,
    reserved: [u8; 2],
    prefix_count: u8,
}
const _: () = assert!(size_of::<RawSubnets>() == 8);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawPrefix {
    address: [u8; 16],
    length: u8,
}
//= CLC-025
const _: () = assert!(size_of::<RawPrefix>() == 17);

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

/// The parts of a Proposal that are still to be read, and the Length they add
/// up to so far.
struct Parts<'a> {
    rest: &'a [u8],
    length: u16,
    expected: u16,
}

impl<'a> Parts<'a> {
    /// The next `octets` octets.
    //= CLC-012
    fn take(&mut self, octets: u16) -> Result<&'a [u8], ClcParseError> {
        self.expected = self.expected.saturating_add(octets);
        let Some((head, tail)) = self.rest.split_at_checked(usize::from(octets)) else {
            return Err(self.disagree());
        };
        self.rest = tail;
        Ok(head)
    }

    /// The next part of fixed layout.
    fn read<T: FromBytes>(&mut self) -> Result<T, ClcParseError> {
        let octets = self.take(size_of::<T>() as u16)?;
        T::read_from_bytes(octets).map_err(|_| self.disagree())
    }

    fn disagree(&self) -> ClcParseError {
        ClcParseError::ProposalLength {
            length: self.length,
            expected: self.expected,
        }
    }

    fn end(self) -> Result<(), ClcParseError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.disagree())
        }
    }
}

/// `count` prefixes of 17 octets.
fn prefixes(
    octets: &[u8],
    count: usize,
) -> nom::IResult<&[u8], heapless::Vec<Ipv6Prefix, MAX_ENTRIES>> {
    let prefix = nom::combinator::map_opt(
        nom::bytes::complete::take(size_of::<RawPrefix>()),
        |octets: &[u8]| {
            let raw = RawPrefix::read_from_bytes(octets).ok()?;
            Some(Ipv6Prefix {
                address: Ipv6Addr::from(raw.address),
                length: raw.length,
            })
        },
    );
    nom::multi::fold_many_m_n(
        count,
        count,
        prefix,
        heapless::Vec::new,
        |mut list, prefix| {
            // At most eight are asked for.
            let _ = list.push(prefix);
            list
        },
    )
    .parse(octets)
}

impl Subnets {
    fn parse(parts: &mut Parts<'_>) -> Result<Self, ClcParseError> {
        let raw: RawSubnets = parts.read()?;
        let count = raw.prefix_count;
        //= CLC-024
        if usize::from(count) > MAX_ENTRIES {
            return Err(ClcParseError::TooManyPrefixes { count });
        }
        let octets = parts.take(u16::from(count).saturating_mul(17))?;
        let Ok((_, ipv6)) = prefixes(octets, usize::from(count)) else {
            return Err(parts.disagree());
        };
        Ok(Self {
            network: Ipv4Addr::from(raw.network),
            prefix_length: raw.prefix_length,
            ipv6,
        })
    }

    fn encoded_len(&self) -> usize {
        self.ipv6.len().saturating_mul(17).saturating_add(8)
    }
}

impl V2Offer {
    /// Reads the extension and checks everything behind it. `behind` is where
    /// it has to start, counted from octet 52.
    fn parse(
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

impl Proposal {
    pub(super) fn parse_body(header: &ClcHeader, octets: &[u8]) -> Result<Self, ClcParseError> {
        let mut parts = Parts {
            rest: octets.get(..octets.len().saturating_sub(4)).unwrap_or(&[]),
            length: header.length,
            expected: 4,
        };
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
            if v2 != OfferedPath::Neither {
                let offset = area.v2_extension_offset.get();
                v2_offer = Some(V2Offer::parse(v2, offset, behind, &mut parts)?);
            }
            ism = Some(area);
        }
        //= CLC-011
        parts.end()?;
        Ok(Self {
            version: header.version,
            v1,
            peer_id: PeerId(fixed.peer_id),
            gid: Gid(fixed.gid),
            mac: Mac(fixed.mac),
            ism: ism.filter(|_| v1.has_smcd()).map(|area| IsmArea {
                gid: area.gid.get(),
                chid: area.chid.get(),
            }),
            subnets,
            v2_offer,
        })
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
        ism.saturating_add(subnets).saturating_add(44)
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let needed = self.encoded_len();
        let written = buffer
            .get_mut(..needed)
            .and_then(|buffer| self.write(needed as u16, buffer));
        match written {
            Some(_) => Ok(needed),
            None => Err(BufferTooSmall { needed }),
        }
    }

    /// Writes the parts and returns what is left of `buffer`, which has the
    /// right length.
    fn write<'a>(&self, length: u16, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let mut flags = self.v1 as u8;
        if !self.version.is_v1() {
            flags |= (OfferedPath::Neither as u8) << 2;
        }
        //= CLC-026
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
            let ism = self.ism.filter(|_| self.v1.has_smcd()).unwrap_or_default();
            let area = RawIsm {
                gid: U64::new(ism.gid),
                chid: U16::new(ism.chid),
                v2_extension_offset: U16::ZERO,
                vendor: [0; 8],
                reserved: [0; 20],
            };
            rest = put(rest, &area)?;
        }
        if self.writes_subnets() {
            //= CLC-022
            //= CLC-023
            let raw = RawSubnets {
                network: self.subnets.network.octets(),
                prefix_length: self.subnets.prefix_length,
                reserved: [0; 2],
                prefix_count: self.subnets.ipv6.len() as u8,
            };
            rest = put(rest, &raw)?;
            for prefix in &self.subnets.ipv6 {
                let raw = RawPrefix {
                    address: prefix.address.octets(),
                    length: prefix.length,
                };
                rest = put(rest, &raw)?;
            }
        }
        put(rest, &EYE_CATCHER)
    }
}

/// Writes `part` to the start of `buffer` and returns what is behind it.
fn put<'a, T: IntoBytes + Immutable>(buffer: &'a mut [u8], part: &T) -> Option<&'a mut [u8]> {
    let (head, tail) = buffer.split_at_mut_checked(size_of::<T>())?;
    part.write_to(head).ok()?;
    Some(tail)
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
            write!(f, " ism 0x{:016x}/0x{:04x}", ism.gid, ism.chid)?;
        }
        match self.v2_offer {
            Some(offer) => write!(f, " v2 {offer}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Subnets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_length)?;
        for prefix in &self.ipv6 {
            write!(f, ",{}/{}", prefix.address, prefix.length)?;
        }
        Ok(())
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
