//! Two real endpoints over the simulation, and what must hold whatever they do.

use core::fmt::Display;

use crate::judge::Judge;
use crate::rig::ipv4_gid;
use smc_proto::config::Config;
use smc_proto::endpoint::{ConnOptions, Usage};
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::storage::Limits;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::{Mac, Mtu, PeerId};
use smc_transport_sim::fabric::{FabricConfig, HostId, PortConfig};
use smc_transport_sim::fault::{FaultAction, FaultPlan, Trigger};
use smc_transport_sim::sim::{Driven, Policy, Simulation, SocketId, Transport};

/// Longer than any timer of an endpoint with default settings.
const LONG: Duration = Duration::from_secs(2_000);

/// A client, a server and the wires between them. [`Meeting`] makes one whose hosts speak version
/// 2, [`Setup`] one of hosts with ISM devices.
///
/// [`Meeting`]: crate::versions::Meeting
/// [`Setup`]: crate::smcd::Setup
#[derive(Clone, Debug)]
pub struct World {
    /// The simulation.
    pub sim: Simulation,
    /// The host that opens connections.
    pub client: HostId,
    /// The host that accepts them.
    pub server: HostId,
    judge: Judge,
    seed: u64,
}

fn port(number: u8) -> PortConfig {
    PortConfig {
        device: DeviceId(0),
        port: 1,
        gid: ipv4_gid([10, 0, 0, number]),
        mac: Mac([2, 0, 0, 0, 0, number]),
        mtu: Mtu::M1024,
        subnet: 0,
    }
}

impl World {
    /// Two hosts with default settings.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(seed, FabricConfig::default(), |_| {}, |_| {})
    }

    /// Two hosts on this fabric with settings of their own.
    #[must_use]
    pub fn with(
        seed: u64,
        fabric: FabricConfig,
        client: impl FnOnce(&mut Config),
        server: impl FnOnce(&mut Config),
    ) -> Self {
        let config = |number: u8| Config::new(PeerId::new(number.into(), port(number).mac));
        let (mut one, mut two) = (config(1), config(2));
        client(&mut one);
        server(&mut two);
        let mut sim = Simulation::new(fabric, seed);
        let judge = Judge::watch(&mut sim);
        let limits = Limits::for_connections(8);
        let client = sim.add_host("client", one, limits, &[port(1)]);
        let server = sim.add_host("server", two, limits, &[port(2)]);
        Self::of(sim, [client, server], judge, seed)
    }

    /// The client and the server of a simulation with this seed, which is watched since its
    /// beginning.
    pub(crate) const fn of(
        sim: Simulation,
        [client, server]: [HostId; 2],
        judge: Judge,
        seed: u64,
    ) -> Self {
        Self {
            sim,
            client,
            server,
            judge,
            seed,
        }
    }

    /// Changes how a host opens and accepts connections.
    pub fn options(&mut self, host: HostId, change: impl FnOnce(&mut ConnOptions)) {
        let mut policy = Policy::default();
        change(&mut policy.options);
        self.sim.set_policy(host, policy);
    }

    /// Lets something go wrong from now on, at once.
    pub fn fault(&mut self, host: Option<HostId>, action: FaultAction) {
        let now = Trigger::At(self.sim.now());
        self.sim
            .fabric()
            .set_faults(FaultPlan::none().with(now, host, action));
    }

    /// Opens a connection and waits until it carries bytes both ways.
    #[track_caller]
    pub fn open(&mut self) -> (SocketId, SocketId) {
        let ends = self.sim.connect(self.client, self.server);
        self.until("both ends are open", |sim| {
            [ends.0, ends.1].iter().all(|end| {
                sim.state(*end)
                    .is_some_and(|s| s.transport != Transport::None)
            })
        });
        ends
    }

    /// Runs until a condition holds.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Simulation) -> bool) {
        let driven = self.sim.drive(LONG, &mut holds);
        if driven != Driven::Met {
            self.fail(format_args!("{what}: {driven:?}"));
        }
    }

    /// How long something takes, less than forever.
    #[track_caller]
    pub fn time_until(
        &mut self,
        what: &str,
        holds: impl FnMut(&mut Simulation) -> bool,
    ) -> Duration {
        let start: Instant = self.sim.now();
        self.until(what, holds);
        self.sim.now().since(start)
    }

    /// Lets time pass, in which nothing may go wrong.
    #[track_caller]
    pub fn run(&mut self, time: Duration) {
        self.sim.run_for(time);
        self.is_well();
    }

    /// What carries a socket's bytes.
    #[must_use]
    pub fn transport(&self, socket: SocketId) -> Transport {
        self.sim.state(socket).expect("a socket").transport
    }

    /// The engine's handle of a socket.
    #[must_use]
    pub fn conn(&self, socket: SocketId) -> ConnId {
        self.sim
            .state(socket)
            .and_then(|s| s.conn)
            .expect("a handle")
    }

    /// Nothing went wrong so far, in the engines nor on the wires.
    #[track_caller]
    pub fn is_well(&self) {
        let mut findings: Vec<_> = self.sim.findings().map(ToString::to_string).collect();
        findings.extend(self.judge.findings());
        if !findings.is_empty() {
            self.fail(findings.join("\n"));
        }
    }

    /// Lets everything run out: every connection has ended, nothing is left in
    /// either endpoint nor at any RNIC, and nothing went wrong.
    #[track_caller]
    pub fn end(mut self, sockets: &[SocketId]) {
        self.sim.run_for(LONG);
        for socket in sockets {
            let state = self.sim.state(*socket);
            if state.is_some_and(|state| state.transport == Transport::Tcp) {
                self.sim.abort(*socket);
            }
        }
        self.sim.run_for(LONG);
        for socket in sockets {
            let state = self.sim.state(*socket).copied();
            let over = state.is_some_and(|s| {
                s.closed.is_some() || s.transport == Transport::Tcp || s.conn.is_none()
            });
            if !over {
                self.fail(format_args!("{socket:?} never ends: {state:?}"));
            }
        }
        self.assert_all_gone();
        self.is_well();
    }

    /// Nothing is left of any connection or group, in either endpoint nor at any device.
    #[track_caller]
    pub fn assert_all_gone(&mut self) {
        for host in [self.client, self.server] {
            let usage = self.sim.endpoint(host).map(|endpoint| endpoint.usage());
            if usage != Some(Usage::default()) {
                self.fail(format_args!("{host:?} still has {usage:?}"));
            }
            let wires = self.sim.wires();
            let in_use = (wires.in_use(host), wires.ism_in_use(host));
            if in_use != ([0; 3], [0; 2]) {
                self.fail(format_args!("devices of {host:?} still have {in_use:?}"));
            }
        }
    }

    /// Fails the test with the wire trace and the command that replays it.
    #[track_caller]
    pub fn fail(&self, why: impl Display) -> ! {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("");
        panic!(
            "{why}\n{}\nseed {}; replay: cargo test -p conformance --tests {test}\n",
            self.sim.trace(),
            self.seed
        );
    }
}
