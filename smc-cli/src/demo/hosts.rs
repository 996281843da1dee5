//! The two hosts of the demo.

use smc_proto::config::Config;
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::DeviceId;
use smc_proto::storage::Limits;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::{BufferSize, Gid, Mac, Mtu, PeerId};
use smc_transport_sim::fabric::{FabricConfig, HostId, PortConfig};
use smc_transport_sim::sim::{Policy, Simulation};

/// The port of a host, with the address 10.0.0.`host`.
fn port(host: u8) -> PortConfig {
    let mut gid = [0; 16];
    gid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, host]);
    PortConfig {
        device: DeviceId(0),
        port: 1,
        gid: Gid(gid),
        mac: Mac([2, 0, 0, 0, 0, host]),
        mtu: Mtu::M4096,
        subnet: 0,
    }
}

/// Two hosts with an RNIC each: the client and the server.
pub(super) fn build(seed: u64, ring: BufferSize) -> (Simulation, HostId, HostId) {
    let mut simulation = Simulation::new(FabricConfig::default(), seed);
    simulation.set_trace(0);
    let [client, server] = [("client", 1), ("server", 2)].map(|(name, number)| {
        let port = port(number);
        let mut config = Config::new(PeerId::new(number.into(), port.mac));
        config.receive_buffer = ring;
        config.send_buffer = ring;
        let limits = Limits::for_connections(1);
        let host = simulation.add_host(name, config, limits, &[port]);
        let subnets = Subnets {
            network: [10, 0, 0, 0].into(),
            prefix_length: 24,
            ..Subnets::default()
        };
        let policy = Policy {
            options: ConnOptions::new(subnets),
            decline: None,
        };
        simulation.set_policy(host, policy);
        host
    });
    (simulation, client, server)
}
