//! Ports of RNICs.

use smc_proto::id::DeviceId;
use smc_proto::path::LocalPath;
use smc_proto::wire::types::{Gid, Mac};

/// GID that is made of an IPv4 address.
#[must_use]
pub const fn ipv4_gid([a, b, c, d]: [u8; 4]) -> Gid {
    Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
}

/// A port in the subnet of the peer's.
#[must_use]
pub const fn local_port(device: DeviceId, port: u8, gid: Gid, mac: Mac) -> LocalPath {
    let mut path = LocalPath::new(device, port, gid, mac);
    path.subnet_match = true;
    path
}
