//! RNICs of this machine. Each is held to the contract with itself as the peer.

use smc_transport_verbs::ports::GidKind;
use smc_transport_verbs::rdma::{RoceDevice, Unavailable, device_names};

use crate::{Bindings, Made};
use smc_proto::wire::types::Gid;

/// An RNIC that can be reached by a GID made of an IPv4 address.
#[derive(Clone, Debug)]
pub struct HostRnic {
    /// Name of the RNIC.
    pub name: String,
    gid: (u16, Gid),
}

/// RNICs whose first port is up and has such a GID.
///
/// # Errors
/// [`Unavailable`], also if there are none of these.
pub fn rnics() -> Result<Vec<HostRnic>, Unavailable> {
    let mut all = Vec::new();
    for name in device_names()? {
        let ports = RoceDevice::open(&name)?.ports()?;
        let first = ports.iter().find(|port| port.port == 1 && port.active);
        let mut gids = first.into_iter().flat_map(|port| &port.gids);
        let mapped = |gid: &Gid| gid.0.starts_with(&[0; 10]) && gid.0[10..12] == [0xff; 2];
        let gid = gids.find(|gid| gid.kind == GidKind::RoceV2 && mapped(&gid.gid));
        if let Some(gid) = gid.map(|gid| (gid.index, gid.gid)) {
            all.push(HostRnic { name, gid });
        }
    }
    match all.is_empty() {
        true => Err(Unavailable::NoDevice),
        false => Ok(all),
    }
}

impl HostRnic {
    /// Two bindings to it.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub fn open(&self) -> Result<Bindings<RoceDevice>, Unavailable> {
        let rnics = [RoceDevice::open(&self.name)?, RoceDevice::open(&self.name)?];
        Ok(Bindings::new(Made {
            rnics,
            gid: self.gid,
            fabric: None,
        }))
    }
}
