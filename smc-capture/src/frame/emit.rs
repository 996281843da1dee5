//! Frames to bytes.

use core::net::{IpAddr, SocketAddr};

use etherparse::{
    EtherType, Ethernet2Header, IpFragOffset, IpNumber, Ipv4Header, Ipv6Header, TcpHeader,
    UdpHeader, VlanId,
};
use smc_proto::wire::types::Gid;

use super::{EthernetPath, RoceVersion, TcpSegment, gid_address};
use crate::CaptureError;
use crate::roce::icrc::{NetworkHeader, invariant_crc};
use crate::roce::{ROCE_V1_ETHERTYPE, ROCE_V2_PORT, RocePacket};

const TIME_TO_LIVE: u8 = 64;
const UDP_LENGTH: usize = 8;
const ICRC_LENGTH: usize = 4;
/// Next header value of a BTH after a global route header.
const BTH_NEXT_HEADER: u8 = 27;

fn ethernet(path: EthernetPath, ethertype: u16, out: &mut Vec<u8>) {
    let first = if path.vlan.is_some() {
        EtherType::VLAN_TAGGED_FRAME
    } else {
        EtherType(ethertype)
    };
    let header = Ethernet2Header {
        source: path.source.0,
        destination: path.destination.0,
        ether_type: first,
    };
    out.extend(header.to_bytes());
    if let Some(vlan) = path.vlan {
        let identifier = vlan & VlanId::MAX_U16;
        out.extend(identifier.to_be_bytes());
        out.extend(ethertype.to_be_bytes());
    }
}

fn ip_ethertype(address: IpAddr) -> u16 {
    match address {
        IpAddr::V4(_) => EtherType::IPV4.0,
        IpAddr::V6(_) => EtherType::IPV6.0,
    }
}

/// The IP header for `length` bytes of payload.
fn ip_header(
    source: IpAddr,
    destination: IpAddr,
    protocol: IpNumber,
    length: usize,
) -> Result<Vec<u8>, CaptureError> {
    let too_long = CaptureError::TooLong { bytes: length };
    let Ok(length) = u16::try_from(length) else {
        return Err(too_long);
    };
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let Ok(mut header) = Ipv4Header::new(
                length,
                TIME_TO_LIVE,
                protocol,
                source.octets(),
                destination.octets(),
            ) else {
                return Err(too_long);
            };
            header.dont_fragment = true;
            header.fragment_offset = IpFragOffset::ZERO;
            header.header_checksum = header.calc_header_checksum();
            Ok(header.to_bytes().to_vec())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(Ipv6Header {
            payload_length: length,
            next_header: protocol,
            hop_limit: TIME_TO_LIVE,
            source: source.octets(),
            destination: destination.octets(),
            ..Ipv6Header::default()
        }
        .to_bytes()
        .to_vec()),
        _ => Err(CaptureError::MixedFamilies),
    }
}

/// The bytes of a TCP segment in an Ethernet frame, without check sequence.
/// [`TcpSegment::missing`] is ignored.
///
/// # Errors
/// [`CaptureError::TooLong`] and [`CaptureError::MixedFamilies`].
pub fn emit_tcp(path: EthernetPath, segment: &TcpSegment<'_>) -> Result<Vec<u8>, CaptureError> {
    let (source, destination) = (segment.source, segment.destination);
    let mut tcp = TcpHeader::new(source.port(), destination.port(), segment.sequence, 65_535);
    tcp.acknowledgment_number = segment.acknowledgement;
    tcp.syn = segment.flags.syn;
    tcp.ack = segment.flags.ack;
    tcp.psh = segment.flags.push;
    tcp.fin = segment.flags.fin;
    tcp.rst = segment.flags.reset;
    let too_long = |bytes| CaptureError::TooLong { bytes };
    tcp.set_options_raw(segment.options)
        .map_err(|_| too_long(segment.options.len()))?;
    let length = tcp.header_len() + segment.payload.len();
    let ip = ip_header(source.ip(), destination.ip(), IpNumber::TCP, length)?;
    tcp.checksum = match (source, destination) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            tcp.calc_checksum_ipv4_raw(from.ip().octets(), to.ip().octets(), segment.payload)
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            tcp.calc_checksum_ipv6_raw(from.ip().octets(), to.ip().octets(), segment.payload)
        }
        _ => return Err(CaptureError::MixedFamilies),
    }
    .map_err(|_| too_long(segment.payload.len()))?;
    let mut out = Vec::with_capacity(18 + ip.len() + length);
    ethernet(path, ip_ethertype(source.ip()), &mut out);
    out.extend(ip);
    out.extend(tcp.to_bytes());
    out.extend(segment.payload);
    Ok(out)
}

/// The bytes of a RoCE packet in an Ethernet frame, with invariant CRC and
/// without check sequence. RoCEv2 goes in IPv4 if both GIDs are IPv4-mapped.
///
/// # Errors
/// [`CaptureError::TooLong`] and [`CaptureError::MixedFamilies`].
pub fn emit_roce(
    path: EthernetPath,
    version: RoceVersion,
    source: Gid,
    destination: Gid,
    packet: &RocePacket<'_>,
) -> Result<Vec<u8>, CaptureError> {
    let length = packet.emitted_length() + ICRC_LENGTH;
    let mut transport = Vec::with_capacity(length);
    packet.emit(&mut transport);
    let mut out = Vec::with_capacity(18 + 40 + UDP_LENGTH + length);
    let crc = match version {
        RoceVersion::V1 => {
            let Ok(grh_length) = u16::try_from(length) else {
                return Err(CaptureError::TooLong { bytes: length });
            };
            // A global route header has the layout of an IPv6 header.
            let grh = Ipv6Header {
                payload_length: grh_length,
                next_header: IpNumber(BTH_NEXT_HEADER),
                hop_limit: TIME_TO_LIVE,
                source: source.0,
                destination: destination.0,
                ..Ipv6Header::default()
            }
            .to_bytes();
            ethernet(path, ROCE_V1_ETHERTYPE, &mut out);
            out.extend(grh);
            invariant_crc(NetworkHeader::Grh(&grh), &transport)
        }
        RoceVersion::V2 { source_port } => {
            let (from, to) = (gid_address(source), gid_address(destination));
            let ip = ip_header(from, to, IpNumber::UDP, UDP_LENGTH + length)?;
            let Ok(mut udp) = UdpHeader::without_ipv4_checksum(source_port, ROCE_V2_PORT, length)
            else {
                return Err(CaptureError::TooLong { bytes: length });
            };
            let blank = udp.to_bytes();
            ethernet(path, ip_ethertype(from), &mut out);
            out.extend(&ip);
            let crc = match (from, to) {
                (IpAddr::V6(from), IpAddr::V6(to)) => {
                    let network = NetworkHeader::Ipv6Udp {
                        ip: &ip,
                        udp: &blank,
                    };
                    let crc = invariant_crc(network, &transport);
                    // IPv6 wants the checksum; the CRC takes it for ones.
                    let covered = [&transport[..], &crc].concat();
                    udp.checksum = udp
                        .calc_checksum_ipv6_raw(from.octets(), to.octets(), &covered)
                        .map_err(|_| CaptureError::TooLong { bytes: length })?;
                    crc
                }
                // In IPv4 RNICs leave it out: the CRC covers more.
                _ => invariant_crc(
                    NetworkHeader::Ipv4Udp {
                        ip: &ip,
                        udp: &blank,
                    },
                    &transport,
                ),
            };
            out.extend(udp.to_bytes());
            crc
        }
    };
    out.extend(transport);
    out.extend(crc);
    Ok(out)
}
