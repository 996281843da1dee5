//! Ethernet frames: TCP segments and RoCE packets out of them, and back.

mod emit;
mod parse;

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use smc_proto::wire::types::{Gid, Mac};

use super::roce::{RoceError, RocePacket};

pub use emit::{emit_roce, emit_tcp};
pub use parse::parse_frame;

/// What a capture was taken from, and so what a frame begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LinkType {
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// Linux cooked capture ("any" interface), version 1.
    LinuxCooked,
    /// Linux cooked capture, version 2.
    LinuxCooked2,
    /// IPv4 or IPv6 without a link header.
    Ip,
}

impl LinkType {
    /// The link type that capture files give this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Ethernet,
            113 => Self::LinuxCooked,
            276 => Self::LinuxCooked2,
            12 | 14 | 101 => Self::Ip,
            _ => return None,
        })
    }
}

/// What a frame holds.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Frame<'a> {
    /// A TCP segment.
    Tcp(TcpSegment<'a>),
    /// A RoCE packet.
    Roce(RoceFrame<'a>),
    /// A packet sent as RoCE that is none.
    BadRoce {
        /// The sender.
        source: Gid,
        /// The receiver.
        destination: Gid,
        /// What is wrong.
        error: RoceError,
    },
    /// Anything else.
    Other,
}

/// A TCP segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpSegment<'a> {
    /// Address and port it comes from.
    pub source: SocketAddr,
    /// Address and port it goes to.
    pub destination: SocketAddr,
    /// Sequence number of the first payload byte, or of the SYN.
    pub sequence: u32,
    /// Acknowledgement number, valid with [`TcpFlags::ack`].
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// TCP options.
    pub options: &'a [u8],
    /// Payload bytes that there are.
    pub payload: &'a [u8],
    /// Payload bytes on the wire that the capture does not hold.
    pub missing: usize,
}

/// Control bits of a TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpFlags {
    /// Opens the connection.
    pub syn: bool,
    /// The acknowledgement number is valid.
    pub ack: bool,
    /// Hand the data to the application.
    pub push: bool,
    /// The sender has no more data.
    pub fin: bool,
    /// Resets the connection.
    pub reset: bool,
}

/// How a RoCE packet travels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RoceVersion {
    /// RoCEv1: directly in Ethernet, with a global route header.
    V1,
    /// RoCEv2: in UDP.
    V2 {
        /// UDP source port, chosen by the sender for load balancing.
        source_port: u16,
    },
}

/// A RoCE packet and its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoceFrame<'a> {
    /// How the packet travels.
    pub version: RoceVersion,
    /// GID of the sender; an IPv4 address is given as IPv4-mapped.
    pub source: Gid,
    /// GID of the receiver.
    pub destination: Gid,
    /// The packet.
    pub packet: RocePacket<'a>,
    /// Whether the invariant CRC is right; `None` if the capture is cut.
    pub crc_valid: Option<bool>,
}

/// Ethernet addresses and VLAN of a frame to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetPath {
    /// MAC of the sender.
    pub source: Mac,
    /// MAC of the receiver, or of the next router.
    pub destination: Mac,
    /// VLAN identifier, 0 to 4095; `None` for an untagged frame.
    pub vlan: Option<u16>,
}

/// The IP address of a GID: IPv4 if it is IPv4-mapped, else IPv6.
#[must_use]
pub fn gid_address(gid: Gid) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(gid.0)).to_canonical()
}

/// The GID of an IP address; IPv4 becomes IPv4-mapped.
#[must_use]
pub fn address_gid(address: IpAddr) -> Gid {
    Gid(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    })
}

impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (self.syn, "SYN"),
            (self.ack, "ACK"),
            (self.push, "PSH"),
            (self.fin, "FIN"),
            (self.reset, "RST"),
        ];
        let mut separator = "";
        for (set, name) in names {
            if set {
                write!(f, "{separator}{name}")?;
                separator = ",";
            }
        }
        Ok(())
    }
}
