//! Which ports a connection may use, as an embedder would know it.

use smc_proto::id::{ConnId, LanId};
use smc_proto::path::{IsmPath, LocalPath, RoceVersion, Route};
use smc_proto::storage::Storage;
use smc_proto::wire::types::IsmGid;

use super::{HostId, Simulation};
use crate::fabric::{IsmConfig, PortConfig};

impl<S: Storage> Simulation<S> {
    /// A port as its engine knows it, once for each version that its GID serves;
    /// whether it fits a client is another matter.
    pub(super) fn paths(&self, port: &PortConfig) -> [LocalPath; 2] {
        [RoceVersion::V1, RoceVersion::V2].map(|roce| {
            let mut path = LocalPath::new(port.device, port.port, port.gid, port.mac);
            path.mtu = port.mtu;
            path.lan = LanId(port.subnet as u16);
            path.roce = roce;
            path
        })
    }

    /// The candidate ports of a client: those with carrier, first those on a LAN
    /// of the server, which is where its route would lead.
    pub(super) fn client_paths(&self, host: HostId, peer: HostId) -> Vec<LocalPath> {
        let shared = |port: &PortConfig| {
            self.fabric
                .ports(peer)
                .any(|other| other.subnet == port.subnet)
        };
        let mut paths: Vec<_> = self
            .fabric
            .ports_up(host)
            .flat_map(|port| {
                let subnet_match = shared(port);
                self.paths(port).map(|path| {
                    let mut path = path;
                    path.subnet_match = subnet_match;
                    path
                })
            })
            .collect();
        paths.sort_by_key(|path| !path.subnet_match);
        paths
    }

    /// The ISM devices of a client.
    pub(super) fn client_ism(&self, host: HostId) -> Vec<IsmPath> {
        let devices = self.fabric.ism_devices(host);
        devices.iter().map(ism_path).collect()
    }

    /// The ISM devices of a server, and whether the client's can be reached from them.
    pub(super) fn server_ism(&mut self, host: HostId, conn: ConnId) -> Vec<IsmPath> {
        let endpoint = self.hosts.get_mut(usize::from(host.0));
        let Some(proposal) = endpoint.and_then(|host| host.endpoint.proposal(conn)) else {
            return Vec::new();
        };
        let reach = |from: &IsmConfig, to| self.fabric.ism_reach(from.gid, to).is_some();
        let area = proposal.ism.map(|area| IsmGid {
            gid: area.gid,
            gid_ext: 0,
            chid: area.chid,
        });
        let path = |device: &IsmConfig| {
            let mut path = ism_path(device);
            path.reaches_v1 = area.is_some_and(|area| reach(device, area));
            path.reaches = proposal
                .ism_gids()
                .find(|gid| gid.chid == device.gid.chid && reach(device, *gid));
            path
        };
        let devices = self.fabric.ism_devices(host);
        devices.iter().map(path).collect()
    }

    /// The candidate ports of a server: those with carrier; those fit that are on
    /// the LAN of the port the client proposed.
    pub(super) fn server_paths(&mut self, host: HostId, conn: ConnId) -> Vec<LocalPath> {
        let endpoint = self.hosts.get_mut(usize::from(host.0));
        let proposal = endpoint.and_then(|host| host.endpoint.proposal(conn));
        let gid = proposal.map(|proposal| proposal.v2.map_or(proposal.gid, |v2| v2.gid));
        let subnet = gid.and_then(|gid| self.fabric.port(gid)).map(|p| p.subnet);
        let ports = self.fabric.ports_up(host);
        ports
            .flat_map(|port| {
                let subnet_match = Some(port.subnet) == subnet;
                let route = match subnet_match {
                    true => Route::Direct,
                    false => Route::None,
                };
                self.paths(port).map(|path| {
                    let mut path = path;
                    path.subnet_match = subnet_match;
                    path.route = route;
                    path
                })
            })
            .collect()
    }
}

/// A device as its engine knows it; its reach is another matter. An emulated one
/// has no PNET ID, and so no version 1.
fn ism_path(device: &IsmConfig) -> IsmPath {
    let mut path = IsmPath::new(device.device, device.gid);
    path.pnet_match = !device.gid.chid.is_emulated();
    path.attaches = device.attaches;
    path
}
