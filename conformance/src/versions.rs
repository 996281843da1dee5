//! Two engines that speak SMC-R in one version or the other, over the simulation.

use crate::judge::Judge;
use crate::rig::ipv4_gid;
use crate::world::World;
use smc_proto::config::Config;
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::id::{DeviceId, GroupId};
use smc_proto::path::RoceVersion;
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::version::{PeerHost, SmcVersion, Terms};
use smc_proto::wire::types::{DiagnosisCode, Eid, Mac, Mtu, PeerId};
use smc_transport_sim::fabric::{FabricConfig, PortConfig};
use smc_transport_sim::fault::{FaultAction, FaultPlan, Operation, PortSelector, Trigger};
use smc_transport_sim::sim::{Policy, Simulation, SocketId, Tables, Transport};

/// Both ends of a connection.
pub type Ends = (SocketId, SocketId);

/// A user EID.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn eid(text: &str) -> Eid {
    Eid::user(text).expect("a user EID")
}

/// Outcome of one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The connection is carried by SMC-R in this version.
    Smc(SmcVersion),
    /// The connection is plain TCP: its own reason, and that of the peer's Decline.
    Tcp(DiagnosisCode, Option<DiagnosisCode>),
}

/// A client and a server that are to meet. Both have the EID `COMMON` and ports that
/// serve both versions, unless changed.
#[derive(Clone, Debug)]
pub struct Meeting {
    configs: [Config; 2],
    options: ConnOptions,
    rnics: u8,
}

/// The port of an RNIC: a GID and a MAC that no other has.
pub(crate) fn port(host: u8, rnic: u8) -> PortConfig {
    let number = 10 * (host + 1) + rnic;
    PortConfig {
        device: DeviceId(rnic),
        port: 1,
        gid: ipv4_gid([10, 0, 0, number]),
        mac: Mac([2, 0, 0, 0, 0, number]),
        mtu: Mtu::M1024,
        subnet: 0,
    }
}

impl Default for Meeting {
    fn default() -> Self {
        Self::new()
    }
}

impl Meeting {
    /// Hosts with one RNIC each.
    #[must_use]
    pub fn new() -> Self {
        let configs = [0, 1].map(|host| {
            let mut config = Config::new(PeerId::new(host.into(), port(host, 0).mac));
            config.v2.ueids.push(eid("COMMON")).expect("the first");
            config
        });
        Self {
            configs,
            options: Policy::default().options,
            rnics: 1,
        }
    }

    /// Changes the client's settings.
    #[must_use]
    pub fn client(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.configs[0]);
        self
    }

    /// Changes the server's settings.
    #[must_use]
    pub fn server(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.configs[1]);
        self
    }

    /// Changes what is known of the TCP connections.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut ConnOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// The number of RNICs of each host.
    #[must_use]
    pub const fn rnics(mut self, rnics: u8) -> Self {
        self.rnics = rnics;
        self
    }

    /// Lets them meet.
    #[must_use]
    pub fn build(self) -> World {
        let seed = 1;
        let mut sim = Simulation::new(FabricConfig::default(), seed);
        let judge = Judge::watch(&mut sim);
        let hosts = [0, 1].map(|host: u8| {
            let ports: Vec<_> = (0..self.rnics).map(|rnic| port(host, rnic)).collect();
            let (name, config) = (["client", "server"][usize::from(host)], host);
            let config = self.configs[usize::from(config)];
            sim.add_host(name, config, Limits::for_connections(8), &ports)
        });
        for host in hosts {
            let options = self.options.clone();
            let policy = Policy {
                options,
                ..Policy::default()
            };
            sim.set_policy(host, policy);
        }
        World::of(sim, hosts, judge, seed)
    }
}

impl World {
    /// Outcome of one end.
    #[track_caller]
    pub fn outcome(&mut self, end: SocketId) -> Outcome {
        let state = *self.sim.state(end).expect("a socket");
        if let Some(why) = state.fell_back {
            return Outcome::Tcp(why.code, why.peer_diagnosis);
        }
        assert_eq!(state.transport, Transport::Smc, "{}", self.sim.trace());
        let [client, server] = self.paths();
        assert_eq!(client, server);
        let version = client.first().expect("a link").smc();
        assert!(client.iter().all(|roce| roce.smc() == version));
        Outcome::Smc(version)
    }

    /// What the GIDs of each host's links are.
    fn paths(&mut self) -> [Vec<RoceVersion>; 2] {
        [self.client, self.server].map(|host| {
            let links = self.sim.links(host).to_vec();
            let endpoint = self.sim.endpoint(host).expect("a host");
            let status = links.iter().filter_map(|link| endpoint.link(*link));
            status.map(|link| link.path.roce).collect()
        })
    }

    /// Active links of each host.
    pub fn links(&mut self) -> [usize; 2] {
        self.paths().map(|paths| paths.len())
    }

    /// The first ports of both hosts lose their transport for a while.
    pub fn first_ports_down(&mut self, time: Duration) {
        self.ports_down(0, time);
    }

    /// The second ports of both hosts lose their transport for a while.
    pub fn second_ports_down(&mut self, time: Duration) {
        self.ports_down(1, time);
    }

    /// The server's RNICs refuse one registration, the one with this number.
    pub fn server_refuses_registration(&mut self, number: u64) {
        let operation = Operation::RegisterBuffer;
        let at = Trigger::Nth { operation, number };
        let plan = FaultPlan::none().with(at, Some(self.server), FaultAction::Refuse);
        self.sim.fabric().set_faults(plan);
    }

    fn ports_down(&mut self, rnic: u8, time: Duration) {
        let mut plan = FaultPlan::none();
        let now = Trigger::At(self.sim.now());
        for host in [self.client, self.server] {
            let port = PortSelector {
                device: Some(DeviceId(rnic)),
                ..PortSelector::default()
            };
            plan = plan.with(now, Some(host), FaultAction::PortDown { port, time });
        }
        self.sim.fabric().set_faults(plan);
        self.run(Duration::from_millis(10));
    }

    /// Each end writes that many bytes, and reads all of the other's.
    #[track_caller]
    pub fn exchange(&mut self, ends: Ends, bytes: u64) {
        let before = [ends.0, ends.1].map(|end| self.read(end));
        for (end, seed) in [(ends.0, 1), (ends.1, 2)] {
            let app = self.sim.app_mut(end).expect("an application");
            app.write_pattern(seed, bytes);
        }
        self.until("all octets arrive", |sim| {
            [(ends.0, before[0]), (ends.1, before[1])]
                .iter()
                .all(|(end, before)| {
                    let app = sim.app(*end).expect("an application");
                    app.read().length() == before + bytes
                })
        });
        for (one, other) in [ends, (ends.1, ends.0)] {
            let app = |end| self.sim.app(end).expect("an application");
            assert_eq!(app(one).read(), app(other).written());
        }
    }

    fn read(&self, end: SocketId) -> u64 {
        let app = self.sim.app(end).expect("an application");
        app.read().length()
    }

    /// Both ends close in order.
    #[track_caller]
    pub fn finish(&mut self, ends: Ends) {
        for end in [ends.0, ends.1] {
            self.sim.finish(end);
        }
        self.until("both ends are over", |sim| {
            [ends.0, ends.1].iter().all(|end| {
                sim.state(*end)
                    .is_some_and(|s| s.closed.is_some() || s.transport == Transport::Tcp)
            })
        });
        self.is_well();
    }
}

/// Returns what both hosts report of their only group.
///
/// # Panics
/// Unless each host has one.
#[track_caller]
pub fn group_terms(world: &mut World) -> [Terms; 2] {
    of_groups(world, |endpoint, group| {
        endpoint.terms(group).expect("it lives")
    })
}

/// What each host knows of the other one, by the one link group that it has.
///
/// # Panics
/// If a host has not exactly one link group.
pub fn group_hosts(world: &mut World) -> [Option<PeerHost>; 2] {
    of_groups(world, Endpoint::peer_host)
}

fn of_groups<T>(world: &mut World, ask: impl Fn(&Endpoint<Tables>, GroupId) -> T) -> [T; 2] {
    [world.client, world.server].map(|host| {
        let groups = world.sim.groups(host).to_vec();
        let [group] = groups.as_slice() else {
            panic!("{host:?} has {groups:?}");
        };
        ask(world.sim.endpoint(host).expect("a host"), *group)
    })
}
