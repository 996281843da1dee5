//! Hosts, RNICs and connections of a run, drawn from its seed.

use smc_proto::config::Config;
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::DeviceId;
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::version::Technology;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::{BufferSize, Eid, Gid, Mac, Mtu, PeerId, Release};

use super::smcd;
use crate::fabric::{FabricConfig, HostId, PathConfig, PortConfig};
use crate::random::Random;
use crate::sim::{Policy, Simulation};

/// Bytes of every ring.
pub(super) const RING: u64 = 16 << 10;
/// Every ring is lapped at least so often.
pub(super) const LAPS: u64 = 4;
const CONNECTIONS: u64 = 8;

/// A connection to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) client: HostId,
    pub(super) server: HostId,
    /// Bytes the client and the server write.
    pub(super) bytes: [u64; 2],
}

/// A drawn world.
pub(super) struct Scenario {
    pub(super) simulation: Simulation,
    pub(super) hosts: Vec<HostId>,
    pub(super) plans: Vec<Plan>,
}

impl Scenario {
    pub(super) fn draw(seed: u64, random: &mut Random) -> Self {
        let fabric = FabricConfig {
            path: path(random),
            receives: 48 + random.below(64) as u32,
            send_queue_depth: 48 << random.below(3),
            // Where CLC messages are; behind them cuts only cost time.
            tcp_cut: 4 << 10,
            ..FabricConfig::default()
        };
        let mut simulation = Simulation::new(fabric, seed);
        simulation.set_trace(0);
        let hosts = match smcd::technology(seed) {
            Technology::SmcR => rdma_hosts(&mut simulation, random),
            Technology::SmcD => {
                let mode = smcd::Mode::draw(random);
                (0..2 + random.below(2) as u8)
                    .map(|number| smcd::host(&mut simulation, number, mode, random))
                    .collect()
            }
        };
        let count = CONNECTIONS + random.below(3);
        let plans = (0..count)
            .map(|number| connection(&hosts, number, random))
            .collect();
        Self {
            simulation,
            hosts,
            plans,
        }
    }
}

fn rdma_hosts(simulation: &mut Simulation, random: &mut Random) -> Vec<HostId> {
    let lans = 1 + random.below(2) as u32;
    let mut hosts = Vec::new();
    for number in 0..2 + random.below(2) as u8 {
        hosts.push(host(simulation, number, lans, random));
    }
    vary_wires(simulation, &hosts, random);
    hosts
}

/// A wire between one and ten Gbit/s, from one rack to another room.
fn path(random: &mut Random) -> PathConfig {
    PathConfig {
        latency: Duration::from_micros(1 + random.below(40)),
        bits_per_second: 1_000_000_000 * (1 + random.below(10)),
    }
}

fn host(simulation: &mut Simulation, number: u8, lans: u32, random: &mut Random) -> HostId {
    let mut ports = Vec::new();
    for device in 0..1 + random.below(3) as u8 {
        let two = random.below(4) == 0;
        for port in 1..=if two { 2 } else { 1 } {
            let mut gid = [0; 16];
            [gid[10], gid[11], gid[12]] = [0xff, 0xff, 10];
            [gid[13], gid[14], gid[15]] = [device, port, number + 1];
            // The first port of all hosts is on one LAN, so that all are reached.
            let first = device == 0 && port == 1;
            let subnet = if first {
                0
            } else {
                random.below(lans.into()) as u32
            };
            ports.push(PortConfig {
                device: DeviceId(device),
                port,
                gid: Gid(gid),
                mac: Mac([2, 0, 0, device, port, number + 1]),
                mtu: [Mtu::M1024, Mtu::M4096][random.below(2) as usize],
                subnet,
            });
        }
    }
    let mac = ports.first().map_or(Mac([2; 6]), |port| port.mac);
    let config = config(u16::from(number) + 1, mac, random);
    let name = ["anna", "bert", "carl"][usize::from(number) % 3];
    let host = simulation.add_host(name, config, limits(random), &ports);
    let mut options = ConnOptions::new(Subnets::default());
    options.nodelay = random.below(2) == 0;
    let policy = Policy {
        options,
        ..Policy::default()
    };
    simulation.set_policy(host, policy);
    host
}

fn config(instance: u16, mac: Mac, random: &mut Random) -> Config {
    let mut config = Config::new(PeerId::new(instance, mac));
    config.receive_buffer = BufferSize::K16;
    config.send_buffer = BufferSize::K16;
    config.max_links = 2 + random.below(2) as u8;
    config.elements_per_rmb = [1, 1, 2, 5][random.below(4) as usize];
    config.connections_per_group = [255, 255, 4][random.below(3) as usize];
    // Two hosts with a common EID speak version 2 to each other, others version 1.
    // Drawn aside, so that a seed's hosts and faults are what they were without.
    let mut aside = random.clone();
    for text in ["A", "B"] {
        if aside.below(2) == 0
            && let Ok(eid) = Eid::user(text)
        {
            // Two find room.
            let _ = config.v2.ueids.push(eid);
        }
    }
    config.v2.release = Release::new(aside.below(4).min(1) as u8);
    // Shorter than by default, so that the quiet phase has less to simulate.
    config.timeouts.group_idle_server = Duration::from_secs(20);
    config.timeouts.group_idle_client = Duration::from_secs(22);
    config.timeouts.rmb_idle = Duration::from_secs(5);
    // By default idle groups end before their links are tested. Tested after
    // milliseconds, idle links are while others carry data.
    let tested = [30_000, 30_000, 30_000, 5_000, 5_000, 400, 20, 20][random.below(8) as usize];
    config.timeouts.keepalive = Duration::from_millis(tested);
    if tested < 1_000 {
        config.timeouts.group_idle_server = Duration::from_secs(2);
        config.timeouts.group_idle_client = Duration::from_millis(2_200);
    }
    config
}

/// Mostly enough of everything; sometimes a table that is too small.
fn limits(random: &mut Random) -> Limits {
    let mut limits = Limits::new(48, 24, 12, 36, 96, 96);
    if random.below(5) == 0 {
        let few = 2 + random.below(5) as usize;
        match random.below(6) {
            0 => limits.connections = few,
            1 => limits.handshakes = few,
            2 => limits.groups = few,
            // Three for one group, and one for another.
            3 => limits.links = few + 2,
            // Two for each of two connections, which may be of two groups.
            4 => limits.buffers = few + 2,
            _ => limits.remote_rmbs = few,
        }
    }
    limits
}

/// Wires of their own between some ports: messages of different links overtake
/// each other.
fn vary_wires(simulation: &mut Simulation, hosts: &[HostId], random: &mut Random) {
    let ports: Vec<_> = hosts
        .iter()
        .flat_map(|host| simulation.wires().ports(*host))
        .copied()
        .collect();
    for one in &ports {
        for other in &ports {
            if one.mac.0 < other.mac.0 && random.below(2) == 0 {
                simulation
                    .fabric()
                    .set_path(one.gid, other.gid, path(random));
            }
        }
    }
}

/// The first two connections run in opposite directions, so that there are two
/// link groups at least.
pub(super) fn connection(hosts: &[HostId], number: u64, random: &mut Random) -> Plan {
    let (one, other) = match number {
        0 => (0, 1),
        1 => (1, 0),
        _ => {
            let one = random.below(hosts.len() as u64) as usize;
            let step = 1 + random.below(hosts.len() as u64 - 1) as usize;
            (one, (one + step) % hosts.len())
        }
    };
    let host = |index: usize| hosts.get(index).copied().unwrap_or(HostId(0));
    let bytes = [(); 2].map(|()| LAPS * RING + random.below(RING));
    Plan {
        client: host(one),
        server: host(other),
        bytes,
    }
}
