//! Ports of RNICs, as they are listed.

use std::fmt;

use smc_proto::path::RoceVersion;
use smc_proto::wire::types::{Gid, Mtu};

use crate::pnet::PnetId;

/// A port of an RNIC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Name of the device.
    pub device: String,
    /// The port, from 1.
    pub port: u8,
    /// Whether it has its carrier.
    pub active: bool,
    /// Whether its link layer is Ethernet.
    pub ethernet: bool,
    /// MTU of its packets' payload.
    pub mtu: Mtu,
    /// Physical network of the port, as the hardware reports it.
    pub pnet: Option<PnetId>,
    /// GIDs of the port; places that hold none are left out.
    pub gids: Vec<GidEntry>,
}

/// A GID of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GidEntry {
    /// Place of the GID in the port's table.
    pub index: u16,
    /// The GID.
    pub gid: Gid,
    /// The format of packets with this GID.
    pub kind: GidKind,
    /// Index of the network interface it belongs to, 0 if that is not known.
    pub interface: u32,
}

/// The format of packets with a GID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidKind {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet, with an EtherType of its own.
    RoceV1,
    /// UDP.
    RoceV2,
    /// A type that has no name here.
    Other(u32),
}

impl GidKind {
    /// From the number in `enum ibv_gid_type`.
    #[must_use]
    pub const fn of(code: u32) -> Self {
        match code {
            0 => Self::InfiniBand,
            1 => Self::RoceV1,
            2 => Self::RoceV2,
            other => Self::Other(other),
        }
    }

    /// Returns the name that the engine has for it.
    #[must_use]
    pub const fn roce(self) -> Option<RoceVersion> {
        match self {
            Self::RoceV1 => Some(RoceVersion::V1),
            Self::RoceV2 => Some(RoceVersion::V2),
            Self::InfiniBand | Self::Other(_) => None,
        }
    }
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InfiniBand => f.write_str("InfiniBand"),
            Self::RoceV1 => f.write_str("RoCE v1"),
            Self::RoceV2 => f.write_str("RoCE v2"),
            Self::Other(code) => write!(f, "type {code}"),
        }
    }
}
