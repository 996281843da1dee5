//! Through which ports and GIDs a connection may go, by what is known of ports,
//! interfaces, routes and physical networks. The engine chooses among them.
//!
//! A port fits a connection if it is attached to the same physical network as the
//! interface that has the connection's local address. Without a PNET ID, it is the port
//! of that interface. Of the port's GIDs those count that are in the connection's VLAN:
//! one of RoCEv1 for version 1, and for version 2 one of RoCEv2 that is an IPv4 address
//! of an interface in whose network the connection's own address is.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};

use smc_proto::endpoint::Proposed;
use smc_proto::id::{DeviceId, LanId};
use smc_proto::path::{LocalPath, RoceVersion, Route};
use smc_proto::wire::clc::{Ipv6Prefix, Subnets};
use smc_proto::wire::types::Gid;

use crate::network::{self, Hop, Interface, Network};
use crate::pnet::{PnetId, PnetTable};
use crate::ports::{GidEntry, GidKind, Port};

/// What surrounds the endpoint.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    facts: Facts,
    /// LANs, by their numbers.
    lans: Lans,
}

#[derive(Clone, Debug, Default)]
struct Facts {
    ports: Vec<(DeviceId, Port)>,
    network: Network,
    pnet: PnetTable,
    v1_on_rocev2: bool,
}

#[derive(Clone, Debug, Default)]
struct Lans(Vec<(Attachment, Option<u16>)>);

/// What ports reach each other on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attachment {
    Pnet(PnetId),
    Network(IpAddr, u8),
    Interface(u32),
}

/// Knows the way to an address.
pub trait Routes {
    /// How packets from one address get to another.
    fn route(&self, from: IpAddr, to: IpAddr) -> Route;
}

/// The kernel's routes.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelRoutes;

impl Routes for KernelRoutes {
    fn route(&self, from: IpAddr, to: IpAddr) -> Route {
        // Without an answer there is no way.
        Hop::route(network::route(Some(from), to).unwrap_or(None))
    }
}

const VERSIONS: [RoceVersion; 2] = [RoceVersion::V1, RoceVersion::V2];

/// A GID that a connection may use, with its interface.
struct Candidate<'a> {
    device: DeviceId,
    port: &'a Port,
    entry: &'a GidEntry,
    interface: &'a Interface,
    roce: RoceVersion,
}

impl Surroundings {
    /// Interfaces and a table of physical networks; no RNIC yet.
    #[must_use]
    pub fn new(network: Network, pnet: PnetTable) -> Self {
        let facts = Facts {
            network,
            pnet,
            ..Facts::default()
        };
        let lans = Lans::default();
        Self { facts, lans }
    }

    /// Takes GIDs of RoCEv2 for version 1, too: for a lab whose RNICs have no others,
    /// and whose peers do the same. No deployed peer does.
    #[must_use]
    pub fn with_v1_on_rocev2(mut self, taken: bool) -> Self {
        self.facts.v1_on_rocev2 = taken;
        self
    }

    /// The ports of an RNIC are these from now on.
    pub fn set_ports(&mut self, device: DeviceId, ports: impl IntoIterator<Item = Port>) {
        let all = &mut self.facts.ports;
        all.retain(|(of, _)| *of != device);
        all.extend(ports.into_iter().map(|port| (device, port)));
    }

    /// The interfaces are these from now on.
    pub fn set_network(&mut self, network: Network) {
        self.facts.network = network;
    }

    /// The interfaces.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.facts.network
    }

    /// The ports.
    #[must_use]
    pub fn ports(&self) -> &[(DeviceId, Port)] {
        &self.facts.ports
    }

    /// The paths of a client whose TCP connection has these addresses.
    pub fn client(&mut self, local: IpAddr, peer: IpAddr, routes: &impl Routes) -> Vec<LocalPath> {
        let (local, peer) = (local.to_canonical(), peer.to_canonical());
        let route = routes.route(local, peer);
        self.paths(local, |_| (false, route))
    }

    /// The paths of a server whose TCP connection has this local address, for what the
    /// client proposed.
    pub fn server(
        &mut self,
        local: IpAddr,
        proposed: &Proposed,
        routes: &impl Routes,
    ) -> Vec<LocalPath> {
        let local = local.to_canonical();
        let subnet_match = self.facts.shares_subnet(local, &proposed.subnets);
        let peer = proposed.v2.and_then(|v2| ipv4(&v2.gid));
        self.paths(local, |candidate| {
            let from = ipv4(&candidate.entry.gid);
            let route = match (candidate.roce, from, peer) {
                (RoceVersion::V2, Some(from), Some(to)) => routes.route(from, to),
                (RoceVersion::V2, ..) => Route::None,
                (RoceVersion::V1, ..) => Route::Direct,
            };
            (subnet_match, route)
        })
    }

    /// The paths that a port makes for links to be added, of whichever connection.
    pub fn port(&mut self, device: DeviceId, port: u8) -> Vec<LocalPath> {
        let Self { facts, lans } = self;
        let here = |(of, at): &&(DeviceId, Port)| (*of, at.port) == (device, port) && at.active;
        let Some((_, port)) = facts.ports.iter().find(here) else {
            return Vec::new();
        };
        let of = |roce| {
            let (entry, interface) = port.gids.iter().find_map(|entry| {
                let interface = facts.network.interface(entry.interface)?;
                facts.serves(entry, roce).then_some((entry, interface))
            })?;
            let candidate = Candidate {
                device,
                port,
                entry,
                interface,
                roce,
            };
            Some(candidate.path(facts, lans, (false, Route::Direct)))
        };
        VERSIONS.into_iter().filter_map(of).collect()
    }

    /// Returns what a client announces of the networks of its local address.
    #[must_use]
    pub fn subnets(&self, local: IpAddr) -> Option<Subnets> {
        let local = local.to_canonical();
        let holder = self.facts.network.holder(local)?;
        let mut subnets = Subnets::default();
        match local {
            IpAddr::V4(_) => {
                let (IpAddr::V4(network), bits) = holder.network_of(local)? else {
                    return None;
                };
                subnets.network = network;
                subnets.prefix_length = bits;
            }
            IpAddr::V6(_) => {
                for (address, length) in prefixes(holder) {
                    // There is room for eight.
                    let _ = subnets.ipv6.push(Ipv6Prefix { address, length });
                }
            }
        }
        Some(subnets)
    }

    /// VLAN of the interface with this address.
    #[must_use]
    pub fn vlan(&self, local: IpAddr) -> Option<u16> {
        let network = &self.facts.network;
        network.vlan(network.holder(local.to_canonical())?)
    }

    /// PNET ID of an interface: of what it is on, or else its own.
    #[must_use]
    pub fn pnet_of(&self, interface: &Interface) -> Option<PnetId> {
        self.facts.pnet_of(interface)
    }

    /// PNET ID of a port.
    #[must_use]
    pub fn pnet_of_port(&self, port: &Port) -> Option<PnetId> {
        self.facts.pnet_of_port(port)
    }

    fn paths(
        &mut self,
        local: IpAddr,
        way: impl Fn(&Candidate<'_>) -> (bool, Route),
    ) -> Vec<LocalPath> {
        let Self { facts, lans } = self;
        let Some(on) = facts.network.holder(local) else {
            return Vec::new();
        };
        let mut found: Vec<(bool, LocalPath)> = Vec::new();
        for (device, port) in &facts.ports {
            for roce in VERSIONS {
                let fitting = facts.fitting(local, on, port, roce);
                let Some((entry, interface)) = fitting else {
                    continue;
                };
                let candidate = Candidate {
                    device: *device,
                    port,
                    entry,
                    interface,
                    roce,
                };
                let network = &facts.network;
                let is_own = network.base(interface).index == network.base(on).index;
                let path = candidate.path(facts, lans, way(&candidate));
                found.push((!is_own, path));
            }
        }
        // The port of the connection's own interface first.
        found.sort_by_key(|(other, _)| *other);
        found.into_iter().map(|(_, path)| path).collect()
    }
}

impl Facts {
    fn pnet_of(&self, interface: &Interface) -> Option<PnetId> {
        let base = self.network.base(interface);
        base.pnet
            .or_else(|| self.pnet.of_interface(&base.name))
            .or_else(|| self.pnet.of_interface(&interface.name))
    }

    fn pnet_of_port(&self, port: &Port) -> Option<PnetId> {
        port.pnet
            .or_else(|| self.pnet.of_port(&port.device, port.port))
    }

    /// The first GID of a port that fits a connection with this address, on this
    /// interface.
    fn fitting<'a>(
        &'a self,
        local: IpAddr,
        on: &Interface,
        port: &'a Port,
        roce: RoceVersion,
    ) -> Option<(&'a GidEntry, &'a Interface)> {
        if !port.active || !port.ethernet {
            return None;
        }
        let network = &self.network;
        let pnet = self.pnet_of(on);
        port.gids.iter().find_map(|entry| {
            let interface = network.interface(entry.interface)?;
            let attached = match pnet {
                Some(_) => self.pnet_of_port(port) == pnet,
                None => network.base(interface).index == network.base(on).index,
            };
            //= V2-232
            let near = roce == RoceVersion::V1 || local.is_ipv4() && interface.is_near(local);
            let vlan = network.vlan(interface) == network.vlan(on);
            let fits = attached && near && vlan && self.serves(entry, roce);
            fits.then_some((entry, interface))
        })
    }

    /// Whether a GID serves a version.
    //= V2-028
    fn serves(&self, entry: &GidEntry, roce: RoceVersion) -> bool {
        let v2 = entry.kind == GidKind::RoceV2 && ipv4(&entry.gid).is_some();
        match roce {
            RoceVersion::V1 => entry.kind == GidKind::RoceV1 || self.v1_on_rocev2 && v2,
            RoceVersion::V2 => v2,
        }
    }

    fn shares_subnet(&self, local: IpAddr, theirs: &Subnets) -> bool {
        let Some(holder) = self.network.holder(local) else {
            return false;
        };
        // The client's network as a whole, as deployed peers compare it: an address of
        // this host in a wider one is not enough.
        //= RENDEZVOUS-004
        //= RENDEZVOUS-005
        if local.is_ipv4() {
            let own = holder.network_of(local);
            own == Some((theirs.network.into(), theirs.prefix_length))
        } else {
            prefixes(holder).any(|(address, length)| {
                let prefix = Ipv6Prefix { address, length };
                theirs.ipv6.contains(&prefix)
            })
        }
    }
}

impl Candidate<'_> {
    fn path(
        &self,
        facts: &Facts,
        lans: &mut Lans,
        (subnet_match, route): (bool, Route),
    ) -> LocalPath {
        let mut path = LocalPath::new(
            self.device,
            self.port.port,
            self.entry.gid,
            self.interface.mac,
        );
        path.gid_index = self.entry.index;
        path.mtu = self.port.mtu;
        path.lan = lans.number(self.attachment(facts), facts.network.vlan(self.interface));
        path.subnet_match = subnet_match;
        path.roce = self.roce;
        path.route = route;
        path
    }

    /// Without a PNET ID, ports are taken to reach each other if their interfaces are in
    /// one network of IPv4.
    fn attachment(&self, facts: &Facts) -> Attachment {
        let addresses = &self.interface.addresses;
        let first = addresses.iter().find(|(own, _)| own.is_ipv4());
        match (facts.pnet_of_port(self.port), first) {
            (Some(id), _) => Attachment::Pnet(id),
            (None, Some((own, bits))) => Attachment::Network(network::network(*own, *bits), *bits),
            (None, None) => Attachment::Interface(facts.network.base(self.interface).index),
        }
    }
}

impl Lans {
    fn number(&mut self, attachment: Attachment, vlan: Option<u16>) -> LanId {
        let lan = (attachment, vlan);
        let known = self.0.iter().position(|known| *known == lan);
        let number = known.unwrap_or_else(|| {
            self.0.push(lan);
            self.0.len() - 1
        });
        LanId(u16::try_from(number).unwrap_or(u16::MAX))
    }
}

/// The IPv6 networks of an interface, but for those of the link alone.
fn prefixes(of: &Interface) -> impl Iterator<Item = (Ipv6Addr, u8)> {
    of.addresses.iter().filter_map(|(own, bits)| match own {
        IpAddr::V6(own) if !own.is_unicast_link_local() => {
            match network::network((*own).into(), *bits) {
                IpAddr::V6(network) => Some((network, *bits)),
                IpAddr::V4(_) => None,
            }
        }
        _ => None,
    })
}

/// The IPv4 address that a GID is.
fn ipv4(gid: &Gid) -> Option<IpAddr> {
    let address = Ipv6Addr::from(gid.0);
    let [_, _, _, _, _, _, _, _, _, _, _, _, rest @ ..] = gid.0;
    let zeros = gid.0.iter().take(12).all(|byte| *byte == 0);
    let compatible = (zeros && rest != [0; 4]).then(|| std::net::Ipv4Addr::from(rest));
    address.to_ipv4_mapped().or(compatible).map(IpAddr::V4)
}
