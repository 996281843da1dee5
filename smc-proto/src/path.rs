//! What the embedder tells of its RNICs: facts, from which the engine decides.

use crate::config::MAX_DEVICES;
use crate::id::{DeviceId, LanId};
use crate::wire::types::{Gid, Mac, Mtu};

/// A port of an RNIC through which a connection's peer may be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct LocalPath {
    /// The RNIC.
    pub device: DeviceId,
    /// Its port, from 1.
    pub port: u8,
    /// Index of `gid` in the port's GID table.
    pub gid_index: u16,
    /// GID of the port.
    pub gid: Gid,
    /// MAC of the port.
    pub mac: Mac,
    /// Active MTU of the port.
    pub mtu: Mtu,
    /// LAN the port is attached to.
    pub lan: LanId,
    /// Server: whether this port is in the client's subnet or has one of its
    /// prefixes, as its Proposal gives them (RENDEZVOUS-004, RENDEZVOUS-005).
    pub subnet_match: bool,
}

impl LocalPath {
    /// Whether the endpoint has room for this device.
    pub(crate) const fn is_usable(&self) -> bool {
        (self.device.0 as usize) < MAX_DEVICES
    }
}

/// A change of a port or an RNIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PathEvent {
    /// The port lost its carrier; its links fail.
    PortDown {
        /// The RNIC.
        device: DeviceId,
        /// Its port.
        port: u8,
    },
    /// The port has carrier, again or for the first time: groups on its LAN may
    /// use it for a further link.
    PortUp(LocalPath),
    /// The RNIC is gone; its links fail.
    DeviceRemoved {
        /// The RNIC.
        device: DeviceId,
    },
}
