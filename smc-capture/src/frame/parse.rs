//! Bytes to frames. Frames that are neither TCP nor RoCE, or too damaged to
//! classify, are [`Frame::Other`].

use core::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, LaxIpSlice, TcpSlice};
use smc_proto::wire::types::Gid;

use super::{Frame, LinkType, RoceFrame, RoceVersion, TcpFlags, TcpSegment, address_gid};
use crate::roce::icrc::{NetworkHeader, invariant_crc};
use crate::roce::{ROCE_V1_ETHERTYPE, ROCE_V2_PORT, RocePacket};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const GRH_LENGTH: usize = 40;
const UDP_LENGTH: usize = 8;
const ICRC_LENGTH: usize = 4;

/// Reads one captured frame.
#[must_use]
pub fn parse_frame(link: LinkType, bytes: &[u8]) -> Frame<'_> {
    parse_link(link, bytes).unwrap_or(Frame::Other)
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let pair = bytes.get(offset..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*pair))
}

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
    // VLAN tags: service and customer ones, and the old tag of stacked VLANs.
    while matches!(ethertype, 0x8100 | 0x88a8 | 0x9100) {
        ethertype = u16_at(rest, 2)?;
        rest = rest.get(4..)?;
    }
    match ethertype {
        IPV4 | IPV6 => parse_ip(rest),
        ROCE_V1_ETHERTYPE => parse_roce_v1(rest),
        _ => None,
    }
}

fn parse_ip(bytes: &[u8]) -> Option<Frame<'_>> {
    let (ip, _) = LaxIpSlice::from_slice(bytes).ok()?;
    let payload = ip.payload();
    if payload.fragmented {
        return None;
    }
    // A length of 0 is left by adapters that segment after the capture point.
    let declared = match (ip.source_addr(), u16_at(bytes, 2)?, u16_at(bytes, 4)?) {
        (IpAddr::V4(_), 0, _) | (IpAddr::V6(_), _, 0) => bytes.len(),
        (IpAddr::V4(_), total, _) => usize::from(total),
        (IpAddr::V6(_), _, length) => usize::from(length) + 40,
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

fn parse_roce_v1(bytes: &[u8]) -> Option<Frame<'_>> {
    let (grh, rest) = bytes.split_at_checked(GRH_LENGTH)?;
    // Next header 27 is the BTH; 1 is raw, 59 none.
    if *grh.get(6)? != 27 {
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

fn crc_valid(network: NetworkHeader<'_>, transport: &[u8], missing: usize) -> Option<bool> {
    if missing > 0 {
        return None;
    }
    let (covered, crc) = transport.split_at_checked(transport.len().checked_sub(ICRC_LENGTH)?)?;
    Some(invariant_crc(network, covered) == crc)
}
