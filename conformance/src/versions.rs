//! Two engines that speak SMC-R in one version or the other, over the simulation.

use crate::judge::Judge;
use crate::rig::ipv4_gid;
use smc_proto::config::Config;
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::id::{DeviceId, GroupId};
use smc_proto::path::RoceVersion;
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::version::{PeerHost, SmcVersion, Terms};
use smc_proto::wire::types::{DiagnosisCode, Eid, Mac, Mtu, PeerId};
use smc_transport_sim::fabric::{FabricConfig, HostId, PortConfig};
use smc_transport_sim::fault::{FaultAction, FaultPlan, Operation, PortSelector, Trigger};
use smc_transport_sim::sim::{Driven, Policy, Simulation, SocketId, Tables, Transport};

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

/// The simulation of a meeting.
#[derive(Debug)]
pub struct MeetingWorld {
    sim: Simulation,
    hosts: [HostId; 2],
    judge: Judge,
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
    pub fn build(self) -> MeetingWorld {
        let mut sim = Simulation::new(FabricConfig::default(), 1);
        let judge = Judge::watch(&mut sim);
        let mut hosts = [0, 1].map(|host: u8| {
            let ports: Vec<_> = (0..self.rnics).map(|rnic| port(host, rnic)).collect();
            let (name, config) = (["client", "server"][usize::from(host)], host);
            let config = self.configs[usize::from(config)];
            sim.add_host(name, config, Limits::for_connections(8), &ports)
        });
        for host in &mut hosts {
            let options = self.options.clone();
            let policy = Policy {
                options,
                ..Policy::default()
            };
            sim.set_policy(*host, policy);
        }
        MeetingWorld { sim, hosts, judge }
    }
}

impl MeetingWorld {
    /// Opens a connection and waits until it carries bytes, in whatever way.
    #[track_caller]
    pub fn open(&mut self) -> Ends {
        let ends = self.sim.connect(self.hosts[0], self.hosts[1]);
        self.until("both ends are open", |sim| {
            [ends.0, ends.1].iter().all(|end| {
                sim.state(*end)
                    .is_some_and(|s| s.transport != Transport::None)
            })
        });
        ends
    }

    #[track_caller]
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Simulation) -> bool) {
        let driven = self.sim.drive(Duration::from_secs(600), &mut holds);
        assert_eq!(driven, Driven::Met, "{what}\n{}", self.sim.trace());
    }

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
        self.hosts.map(|host| {
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
        let plan = FaultPlan::none().with(at, Some(self.hosts[1]), FaultAction::Refuse);
        self.sim.fabric().set_faults(plan);
    }

    fn ports_down(&mut self, rnic: u8, time: Duration) {
        let mut plan = FaultPlan::none();
        let now = Trigger::At(self.sim.now());
        for host in self.hosts {
            let port = PortSelector {
                device: Some(DeviceId(rnic)),
                ..PortSelector::default()
            };
            plan = plan.with(now, Some(host), FaultAction::PortDown { port, time });
        }
        self.sim.fabric().set_faults(plan);
        self.run(Duration::from_millis(10));
    }

    /// Lets time pass.
    pub fn run(&mut self, time: Duration) {
        self.sim.run_for(time);
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

    /// Nothing went wrong so far, in the engines nor on the wires.
    #[track_caller]
    pub fn is_well(&self) {
        let mut findings: Vec<_> = self.sim.findings().map(ToString::to_string).collect();
        findings.extend(self.judge.findings());
        assert!(findings.is_empty(), "{findings:#?}\n{}", self.sim.trace());
    }

    /// Lets everything run out: nothing is left in either endpoint.
    #[track_caller]
    pub fn end(mut self) {
        self.run(Duration::from_secs(2_000));
        for host in self.hosts {
            let usage = self.sim.endpoint(host).map(|endpoint| endpoint.usage());
            assert_eq!(usage, Some(smc_proto::endpoint::Usage::default()));
            assert_eq!(self.sim.fabric().in_use(host), [0, 0, 0]);
        }
        self.is_well();
    }
}

/// Returns what both hosts report of their only group.
///
/// # Panics
/// Unless each host has one.
#[track_caller]
pub fn group_terms(world: &mut MeetingWorld) -> [Terms; 2] {
    of_groups(world, |endpoint, group| {
        endpoint.terms(group).expect("it lives")
    })
}

/// What each host knows of the other one, by the one link group that it has.
///
/// # Panics
/// If a host has not exactly one link group.
pub fn group_hosts(world: &mut MeetingWorld) -> [Option<PeerHost>; 2] {
    of_groups(world, Endpoint::peer_host)
}

fn of_groups<T>(world: &mut MeetingWorld, ask: impl Fn(&Endpoint<Tables>, GroupId) -> T) -> [T; 2] {
    world.hosts.map(|host| {
        let groups = world.sim.groups(host).to_vec();
        let [group] = groups.as_slice() else {
            panic!("{host:?} has {groups:?}");
        };
        ask(world.sim.endpoint(host).expect("a host"), *group)
    })
}
