//! Which ports a connection may use, as an embedder would know it.

use smc_proto::id::{ConnId, LanId};
use smc_proto::path::{LocalPath, RoceVersion, Route};
use smc_proto::storage::Storage;

use super::{HostId, Simulation};
use crate::fabric::PortConfig;

impl<S: Storage> Simulation<S> {
    /// A port as its engine knows it; whether it fits a client is another matter.
    pub(super) fn path(&self, port: &PortConfig) -> LocalPath {
        LocalPath {
            device: port.device,
            port: port.port,
            gid_index: 0,
            gid: port.gid,
            mac: port.mac,
            mtu: port.mtu,
            lan: LanId(port.subnet as u16),
            subnet_match: false,
            roce: RoceVersion::V1,
            route: Route::Direct,
        }
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
            .map(|port| LocalPath {
                subnet_match: shared(port),
                ..self.path(port)
            })
            .collect();
        paths.sort_by_key(|path| !path.subnet_match);
        paths
    }

    /// The candidate ports of a server: those with carrier; those fit that are on
    /// the LAN of the port the client proposed.
    pub(super) fn server_paths(&mut self, host: HostId, conn: ConnId) -> Vec<LocalPath> {
        let endpoint = self.hosts.get_mut(usize::from(host.0));
        let proposal = endpoint.and_then(|host| host.endpoint.proposal(conn));
        let gid = proposal.map(|proposal| proposal.gid);
        let subnet = gid.and_then(|gid| self.fabric.port(gid)).map(|p| p.subnet);
        let ports = self.fabric.ports_up(host);
        ports
            .map(|port| LocalPath {
                subnet_match: Some(port.subnet) == subnet,
                ..self.path(port)
            })
            .collect()
    }
}
