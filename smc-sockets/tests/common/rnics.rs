//! Stacks with RNICs in software, which one fabric joins: SMC-R without any device.

use std::net::{IpAddr, Ipv4Addr, TcpListener};

use smc_proto::wire::types::{Gid, Mtu};
use smc_sockets::{Rnics, Settings, SmcListener, SmcStream, Stack};
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::ports::{GidEntry, GidKind, Port};
use smc_transport_verbs::soft::Fabric;

/// Two stacks, as if they were on two hosts.
pub(crate) struct Hosts {
    pub(crate) fabric: Fabric,
    pub(crate) client: Stack,
    pub(crate) server: Stack,
}

/// What RNICs of a host look like: each has one port, which has this address.
fn port(device: usize, address: Ipv4Addr) -> Port {
    let network = Network::read().unwrap();
    let loopback = network.holder(Ipv4Addr::LOCALHOST.into()).unwrap();
    let gid = GidEntry {
        index: 0,
        gid: Gid(address.to_ipv6_mapped().octets()),
        kind: GidKind::RoceV2,
        interface: loopback.index,
    };
    Port {
        device: format!("soft{device}"),
        port: 1,
        active: true,
        ethernet: true,
        mtu: Mtu::M1024,
        pnet: None,
        gids: vec![gid],
    }
}

/// RNICs of the host with this number, each with an address of its own.
pub(crate) fn rnics(fabric: &Fabric, host: u8, count: u8) -> Rnics {
    among(fabric, host, count, |surroundings| surroundings)
}

/// RNICs of the host with this number, used as in version 1.
pub(crate) fn rnics_of_version_1(fabric: &Fabric, host: u8, count: u8) -> Rnics {
    among(fabric, host, count, |surroundings| {
        surroundings.with_v1_on_rocev2(true)
    })
    .in_version_1()
}

fn among(
    fabric: &Fabric,
    host: u8,
    count: u8,
    with: impl FnOnce(Surroundings) -> Surroundings,
) -> Rnics {
    let rnic = |at: u8| {
        let address = Ipv4Addr::new(127, 0, host, at + 1);
        fabric.rnic_with(64, vec![port(usize::from(at), address)])
    };
    let rnics = (0..count).map(rnic).collect();
    let surroundings = Surroundings::new(Network::read().unwrap(), PnetTable::default());
    Rnics::new(rnics, with(surroundings)).unwrap()
}

impl Hosts {
    /// With one RNIC each.
    pub(crate) fn new() -> Self {
        Self::with(1, Settings::default())
    }

    pub(crate) fn with(count: u8, settings: Settings) -> Self {
        let fabric = Fabric::default();
        let stack = |host| {
            let rnics = rnics(&fabric, host, count).assuming_smc().alone();
            Stack::with_rnics(settings.clone(), rnics).unwrap()
        };
        let (client, server) = (stack(1), stack(2));
        Self {
            fabric,
            client,
            server,
        }
    }

    pub(crate) fn listener(&self) -> SmcListener {
        let tcp = TcpListener::bind((IpAddr::from(Ipv4Addr::LOCALHOST), 0)).unwrap();
        SmcListener::on(&self.server, tcp).unwrap()
    }

    /// Both ends of a connection, whatever carries it.
    pub(crate) fn connection(&self) -> (SmcStream, SmcStream) {
        let listener = self.listener();
        let address = listener.local_addr().unwrap();
        let client = SmcStream::connect_on(&self.client, address).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// Both ends of an SMC-R connection.
    pub(crate) fn pair(&self) -> (SmcStream, SmcStream) {
        let (client, server) = self.connection();
        for end in [&client, &server] {
            assert_eq!(end.carrier().to_string(), "SMC-R v2.1");
        }
        (client, server)
    }
}
