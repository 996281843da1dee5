//! The invariant CRC: a CRC-32 over everything that no router changes.
//!
//! Fields that routers may change count as all ones (InfiniBand
//! specification, annex A17 for RoCEv2), and eight bytes of ones stand for
//! the local route header that Ethernet does not have.

use crc32fast::Hasher;

/// The network header in front of the packet, as captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetworkHeader<'a> {
    /// IPv4 header with options, then the UDP header.
    Ipv4Udp {
        /// IPv4 header, at least 20 bytes.
        ip: &'a [u8],
        /// UDP header, 8 bytes.
        udp: &'a [u8],
    },
    /// IPv6 header with extension headers, then the UDP header.
    Ipv6Udp {
        /// IPv6 header, at least 40 bytes.
        ip: &'a [u8],
        /// UDP header, 8 bytes.
        udp: &'a [u8],
    },
    /// Global route header of RoCEv1, 40 bytes.
    Grh(&'a [u8]),
}

/// Sets bytes to ones by index; indexes outside of the header are ignored.
fn mask(header: &[u8], indexes: &[usize]) -> Vec<u8> {
    let mut masked = header.to_vec();
    for &index in indexes {
        if let Some(byte) = masked.get_mut(index) {
            *byte = 0xff;
        }
    }
    masked
}

/// Traffic class, flow label and hop limit of an IPv6 or global route header.
fn mask_ipv6(header: &[u8]) -> Vec<u8> {
    let mut masked = mask(header, &[1, 2, 3, 7]);
    if let Some(first) = masked.first_mut() {
        *first |= 0x0f;
    }
    masked
}

/// The CRC over the header and `transport`, which is everything from the BTH
/// to the padding. It goes on the wire least significant byte first.
#[must_use]
pub fn invariant_crc(network: NetworkHeader<'_>, transport: &[u8]) -> [u8; 4] {
    let mut hasher = Hasher::new();
    hasher.update(&[0xff; 8]);
    match network {
        NetworkHeader::Ipv4Udp { ip, udp } => {
            // Type of service, time to live and checksum.
            hasher.update(&mask(ip, &[1, 8, 10, 11]));
            hasher.update(&mask(udp, &[6, 7]));
        }
        NetworkHeader::Ipv6Udp { ip, udp } => {
            hasher.update(&mask_ipv6(ip));
            hasher.update(&mask(udp, &[6, 7]));
        }
        NetworkHeader::Grh(grh) => hasher.update(&mask_ipv6(grh)),
    }
    // The reserved byte of the BTH that carries congestion marks.
    let (bth, rest) = transport.split_at(transport.len().min(12));
    hasher.update(&mask(bth, &[4]));
    hasher.update(rest);
    hasher.finalize().to_le_bytes()
}
