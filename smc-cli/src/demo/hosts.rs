//! The two hosts of the demo.

use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::DeviceId;
use smc_proto::storage::Limits;
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::{Chid, Eid, Gid, Hostname, IsmGid, Mac, Mtu, PeerId};
use smc_transport_sim::fabric::{FabricConfig, HostId, IsmConfig, PortConfig};
use smc_transport_sim::sim::{Policy, Simulation};

use super::carry::{Carrier, Setup};

/// The port of an RNIC, numbered from 0, of a host: the first one has the address
/// 10.0.0.`host`, the others count up in tens. All of them are on one LAN.
fn port(host: u8, rnic: u8) -> PortConfig {
    let mut gid = [0; 16];
    gid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 10 * rnic + host]);
    PortConfig {
        device: DeviceId(rnic),
        port: 1,
        gid: Gid(gid),
        mac: Mac([2, 0, 0, 0, rnic, host]),
        mtu: Mtu::M4096,
        subnet: 0,
    }
}

/// The EID that both hosts have.
fn demo_eid() -> Eid {
    Eid::user("SMCX.DEMO").unwrap_or_default()
}

/// The ISM device of a host: an emulated one, as between processes or systems of one
/// machine.
fn ism(host: u8, attaches: bool) -> IsmConfig {
    let gid = IsmGid {
        gid: 0x1500_0000 + u64::from(host),
        gid_ext: 1,
        chid: Chid::LOOPBACK,
    };
    IsmConfig {
        attaches,
        ..IsmConfig::new(DeviceId(0), gid)
    }
}

/// Two hosts with RNICs or an ISM device each: the client and the server.
pub(super) fn build(setup: &Setup) -> (Simulation, [HostId; 2]) {
    let Setup {
        seed,
        ring,
        carrier,
        ..
    } = *setup;
    let rnics = match carrier {
        Carrier::SmcR => setup.rnics,
        Carrier::SmcD { .. } => 0,
    };
    let mut simulation = Simulation::new(FabricConfig::default(), seed);
    simulation.set_trace(0);
    let hosts = [("client", 1), ("server", 2)].map(|(name, number)| {
        let ports: Vec<_> = (0..rnics).map(|rnic| port(number, rnic)).collect();
        let mut config = Config::new(PeerId::new(number.into(), port(number, 0).mac));
        config.receive_buffer = ring;
        config.send_buffer = ring;
        config.max_links = rnics.clamp(2, 8);
        let offers = match (carrier, setup.version) {
            (Carrier::SmcD { .. }, _) => Some(Offers::SMCD_V2),
            (Carrier::SmcR, SmcVersion::V2) => Some(Offers::SMCR_V2),
            (Carrier::SmcR, SmcVersion::V1) => None,
        };
        if let Some(offers) = offers {
            config.offers = offers;
            config.v2.hostname = Hostname::new(name);
            // The only one, so there is room.
            let _ = config.v2.ueids.push(demo_eid());
        }
        let limits = Limits::for_connections(1);
        let host = simulation.add_host(name, config, limits, &ports);
        if let Carrier::SmcD { in_place } = carrier {
            simulation.add_ism(host, ism(number, in_place));
        }
        let subnets = Subnets::ipv4([10, 0, 0, 0].into(), 24);
        let policy = Policy {
            options: ConnOptions::new(subnets),
            ..Policy::default()
        };
        simulation.set_policy(host, policy);
        host
    });
    (simulation, hosts)
}
