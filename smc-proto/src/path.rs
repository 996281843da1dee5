//! What the embedder reports of its RNICs and ISM devices: facts, from which the
//! engine decides.

use crate::config::MAX_DEVICES;
use crate::id::{DeviceId, LanId};
use crate::version::{SERVES_V2, SmcVersion};
use crate::wire::types::{Gid, IsmGid, Mac, Mtu};

/// Everything through which a connection's peer may be reached, each kind with the
/// preferred one first. A slice of [`LocalPath`]s alone is one as well.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Paths<'a> {
    /// RNIC ports.
    pub rnics: &'a [LocalPath],
    /// ISM devices. Without the feature `smc-d` none of them is used, and a Proposal that offers
    /// nothing else is declined for want of one.
    pub ism: &'a [IsmPath],
}

impl<'a, T: AsRef<[LocalPath]> + ?Sized> From<&'a T> for Paths<'a> {
    fn from(rnics: &'a T) -> Self {
        Self {
            rnics: rnics.as_ref(),
            ism: &[],
        }
    }
}

impl<'a> Paths<'a> {
    /// RNIC ports and ISM devices, each with the preferred one first.
    #[must_use]
    pub const fn new(rnics: &'a [LocalPath], ism: &'a [IsmPath]) -> Self {
        Self { rnics, ism }
    }

    /// What of it this build can use: no ISM devices without the feature `smc-d`.
    pub(crate) const fn served(self) -> Self {
        Self {
            rnics: self.rnics,
            ism: if cfg!(feature = "smc-d") {
                self.ism
            } else {
                &[]
            },
        }
    }
}

/// What a GID of an RNIC port is, which decides the version of SMC-R it serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum RoceVersion {
    /// RoCEv1: SMC-R of version 1.
    V1,
    /// RoCEv2: SMC-R of version 2, if it is an IPv4 address.
    V2,
}

impl RoceVersion {
    /// The version of SMC-R that a GID serves.
    #[must_use]
    pub const fn smc(self) -> SmcVersion {
        match self {
            Self::V1 => SmcVersion::V1,
            Self::V2 => SmcVersion::V2,
        }
    }
}

/// How IP packets of a port get to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Route {
    /// Without a gateway.
    Direct,
    /// Through a gateway.
    Gateway,
    /// Not at all.
    None,
}

/// A port of an RNIC through which a connection's peer may be reached, with one of
/// its GIDs: a port that serves both versions is two paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct LocalPath {
    /// The RNIC.
    pub device: DeviceId,
    /// Port of the RNIC, from 1.
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
    /// Version 2 does without.
    pub subnet_match: bool,
    /// What `gid` is. A path with a GID of RoCEv2 is one of a port that has an IPv4
    /// subnet with the TCP connection's own address in it (V2-232).
    pub roce: RoceVersion,
    /// RoCEv2: the way to the peer. Server: to the GID that the client proposed;
    /// client, which does not know the server's GID yet: to the TCP peer.
    pub route: Route,
}

impl LocalPath {
    /// A port with its first GID, of RoCEv1, and an MTU of 1,024 bytes, in LAN 0 and without a
    /// gateway to the peer, of whose subnets nothing is known: set the fields that differ.
    #[must_use]
    pub const fn new(device: DeviceId, port: u8, gid: Gid, mac: Mac) -> Self {
        Self {
            device,
            port,
            gid_index: 0,
            gid,
            mac,
            mtu: Mtu::M1024,
            lan: LanId(0),
            subnet_match: false,
            roce: RoceVersion::V1,
            route: Route::Direct,
        }
    }

    /// Whether the endpoint has room for this device.
    pub(crate) const fn is_usable(&self) -> bool {
        (self.device.0 as usize) < MAX_DEVICES
    }

    /// Whether it is the same port of the same RNIC.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.device == other.device && self.port == other.port
    }

    /// Whether links of this version can be made of it.
    //= V2-028
    //= V2-232
    pub(crate) fn serves(&self, version: SmcVersion) -> bool {
        self.roce.smc() == version && (version == SmcVersion::V1 || SERVES_V2 && is_ipv4(&self.gid))
    }
}

/// Whether a GID is an IPv4 address, mapped into IPv6 or behind zeros.
//= V2-028
fn is_ipv4(gid: &Gid) -> bool {
    matches!(gid.0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, ..] if [a, b] == [0xff; 2] || [a, b] == [0; 2])
}

/// An ISM device through which a connection's peer may be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct IsmPath {
    /// The device; RNICs and ISM devices are numbered together.
    pub device: DeviceId,
    /// How peers name it.
    pub gid: IsmGid,
    /// Version 1: whether its PNET ID is that of the connection's network device.
    pub pnet_match: bool,
    /// Server, version 1: whether the client's subnets are those of the connection,
    /// and its GID can be reached in the connection's VLAN.
    pub reaches_v1: bool,
    /// Whether it serves version 2.
    pub v2: bool,
    /// Server, version 2: of the client's devices on the same channel, the first that
    /// can be reached. Client: the only device that the server may name, if the client
    /// knows it before the Accept; another one is declined.
    pub reaches: Option<IsmGid>,
    /// Whether memory of a peer can be mapped here, so that data is written in place.
    pub attaches: bool,
}

impl IsmPath {
    /// A device that serves version 2, that maps no memory, and of whose peers nothing
    /// is known.
    #[must_use]
    pub const fn new(device: DeviceId, gid: IsmGid) -> Self {
        Self {
            device,
            gid,
            pnet_match: false,
            reaches_v1: false,
            v2: true,
            reaches: None,
            attaches: false,
        }
    }

    /// Whether the endpoint has room for this device.
    pub(crate) const fn is_usable(&self) -> bool {
        (self.device.0 as usize) < MAX_DEVICES
    }
}

/// A change of a port or a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PathEvent {
    /// The port lost its carrier; its links fail.
    PortDown {
        /// The RNIC.
        device: DeviceId,
        /// Port of the RNIC.
        port: u8,
    },
    /// The port has carrier, again or for the first time: groups on its LAN may
    /// use it for a further link.
    PortUp(LocalPath),
    /// The RNIC or ISM device is gone; its links or groups fail.
    DeviceRemoved {
        /// The device.
        device: DeviceId,
    },
}
