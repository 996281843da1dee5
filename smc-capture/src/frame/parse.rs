//! Parsing captured frames: link layer, VLAN tags, IP, then TCP or RoCE. A frame that is neither, or
//! is too damaged to classify, is [`Frame::Other`].
//!
//! `missing` is the number of bytes of a packet that its header declares and the capture does not
//! hold.

use core::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, LaxIpSlice, TcpSlice};
use smc_proto::wire::types::Gid;

use super::{Frame, LinkType, RoceFrame, RoceVersion, TcpFlags, TcpSegment, address_gid};
use crate::roce::icrc::{NetworkHeader, invariant_crc};
use crate::roce::{ROCE_V1_ETHERTYPE, ROCE_V2_PORT, RocePacket};

/// EtherType of IPv4.
const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
const IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags: of customers, of service providers, and the older one of stacked tags.
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const IPV6_HEADER_LENGTH: usize = 40;
const GRH_LENGTH: usize = 40;
/// Next header of a GRH that is followed by a BTH.
const NEXT_HEADER_BTH: u8 = 27;
const UDP_LENGTH: usize = 8;
const ICRC_LENGTH: usize = 4;

/// Parses one captured frame.
#[must_use]
pub fn parse_frame(link: LinkType, bytes: &[u8]) -> Frame<'_> {
    parse_link(link, bytes).unwrap_or(Frame::Other)
}

/// A 16-bit number in network byte order.
fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let pair = bytes.get(offset..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}

/// Parses a frame from its link-layer header on.
fn parse_link(link: LinkType, bytes: &[u8]) -> Option<Frame<'_>> {
    let (mut ethertype, mut rest) = match link {
        LinkType::Ethernet => (u16_at(bytes, 12)?, bytes.get(14..)?),
        LinkType::LinuxCooked => (u16_at(bytes, 14)?, bytes.get(16..)?),
        LinkType::LinuxCooked2 => (u16_at(bytes, 0)?, bytes.get(20..)?),
        LinkType::Ip => match bytes.first()? >> 4 {
            4 => (IPV4, bytes),
            _ => (IPV6, bytes),
        },
    };
    while VLAN_TAGS.contains(&ethertype) {
        ethertype = u16_at(rest, 2)?;
        rest = rest.get(4..)?;
    }
    match ethertype {
        IPV4 | IPV6 => parse_ip(rest),
        ROCE_V1_ETHERTYPE => parse_roce_v1(rest),
        _ => None,
    }
}

/// Parses a packet of IPv4 or IPv6. Fragments are not reassembled.
fn parse_ip(bytes: &[u8]) -> Option<Frame<'_>> {
    let (ip, _) = LaxIpSlice::from_slice(bytes).ok()?;
    let payload = ip.payload();
    if payload.fragmented {
        return None;
    }
    // Adapters that segment after the capture point leave a length of 0.
    let declared = match (ip.source_addr(), u16_at(bytes, 2)?, u16_at(bytes, 4)?) {
        (IpAddr::V4(_), 0, _) | (IpAddr::V6(_), _, 0) => bytes.len(),
        (IpAddr::V4(_), total, _) => usize::from(total),
        (IpAddr::V6(_), _, length) => usize::from(length) + IPV6_HEADER_LENGTH,
    };
    let header_length = payload.payload.as_ptr().addr() - bytes.as_ptr().addr();
    let header = bytes.get(..header_length)?;
    let missing = declared.saturating_sub(header_length + payload.payload.len());
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    match payload.ip_number {
        IpNumber::TCP => parse_tcp(source, destination, payload.payload, missing),
        IpNumber::UDP => parse_roce_v2(source, destination, header, payload.payload, missing),
        _ => None,
    }
}

/// Parses a TCP segment.
fn parse_tcp(
    source: IpAddr,
    destination: IpAddr,
    bytes: &[u8],
    missing: usize,
) -> Option<Frame<'_>> {
    let tcp = TcpSlice::from_slice(bytes).ok()?;
    Some(Frame::Tcp(TcpSegment {
        source: SocketAddr::new(source, tcp.source_port()),
        destination: SocketAddr::new(destination, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        acknowledgement: tcp.acknowledgment_number(),
        flags: TcpFlags {
            syn: tcp.syn(),
            ack: tcp.ack(),
            push: tcp.psh(),
            fin: tcp.fin(),
            reset: tcp.rst(),
        },
        options: bytes.get(20..tcp.header_slice().len())?,
        payload: tcp.payload(),
        missing,
    }))
}

/// Parses a UDP datagram, if it is one of RoCE version 2.
fn parse_roce_v2<'a>(
    source: IpAddr,
    destination: IpAddr,
    ip: &'a [u8],
    bytes: &'a [u8],
    missing: usize,
) -> Option<Frame<'a>> {
    if u16_at(bytes, 2)? != ROCE_V2_PORT {
        return None;
    }
    let (udp, transport) = bytes.split_at_checked(UDP_LENGTH)?;
    let network = match source {
        IpAddr::V4(_) => NetworkHeader::Ipv4Udp { ip, udp },
        IpAddr::V6(_) => NetworkHeader::Ipv6Udp { ip, udp },
    };
    let version = RoceVersion::V2 {
        source_port: u16_at(bytes, 0)?,
    };
    let ends = (address_gid(source), address_gid(destination));
    Some(roce(version, ends, network, transport, missing))
}

/// Parses a packet of RoCE version 1, which begins with a GRH.
fn parse_roce_v1(bytes: &[u8]) -> Option<Frame<'_>> {
    let (grh, rest) = bytes.split_at_checked(GRH_LENGTH)?;
    if *grh.get(6)? != NEXT_HEADER_BTH {
        return None;
    }
    let declared = usize::from(u16_at(grh, 4)?);
    let transport = rest.get(..declared.min(rest.len()))?;
    let ends = (
        Gid(*grh.get(8..)?.first_chunk()?),
        Gid(*grh.get(24..)?.first_chunk()?),
    );
    let missing = declared - transport.len();
    let network = NetworkHeader::Grh(grh);
    Some(roce(RoceVersion::V1, ends, network, transport, missing))
}

/// A RoCE frame, from its BTH on.
fn roce<'a>(
    version: RoceVersion,
    (source, destination): (Gid, Gid),
    network: NetworkHeader<'a>,
    transport: &'a [u8],
    missing: usize,
) -> Frame<'a> {
    match RocePacket::parse(transport, missing) {
        Ok(packet) => Frame::Roce(RoceFrame {
            version,
            source,
            destination,
            packet,
            crc_valid: crc_valid(network, transport, missing),
        }),
        Err(error) => Frame::BadRoce {
            source,
            destination,
            error,
        },
    }
}

/// Whether the invariant CRC at the end of a packet is right; `None` if the capture lacks part of it.
fn crc_valid(network: NetworkHeader<'_>, transport: &[u8], missing: usize) -> Option<bool> {
    if missing > 0 {
        return None;
    }
    let (covered, crc) = transport.split_at_checked(transport.len().checked_sub(ICRC_LENGTH)?)?;
    Some(invariant_crc(network, covered) == crc)
}
