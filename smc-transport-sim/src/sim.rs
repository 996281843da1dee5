//! Engines in a fabric: whole stacks that talk to each other.
//!
//! ```text
//!  App ─ Socket ─ Endpoint ─┐                 ┌─ Endpoint ─ Socket ─ App
//!                           └── Fabric (time) ┘
//! ```
//!
//! A [`Simulation`] is the embedder of every endpoint in it. Each step jumps to
//! the earliest moment at which anything happens, lets it happen, and polls all
//! endpoints until they want nothing more.

mod policy;
mod pump;
mod socket;
mod transfer;

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::{Arc, Mutex};

use smc_proto::config::Config;
use smc_proto::endpoint::Endpoint;
use smc_proto::id::{ConnId, DeviceId, GroupId};
use smc_proto::path::LocalPath;
use smc_proto::storage::{Limits, Owned, Storage};
use smc_proto::time::{Duration, Instant};

use crate::app::InFlight;
use crate::fabric::{Fabric, FabricConfig, HostId, PortConfig, Violation};
use crate::ladder::Ladder;
use crate::tcp::{Side, SmcOption, TcpId};

pub use policy::Policy;
use socket::Socket;
pub use socket::{Carrier, SocketId, SocketState};

/// Hosts with an engine each, and sockets between them.
#[derive(Clone, Debug)]
pub struct Simulation<S = Owned> {
    fabric: Fabric,
    hosts: Vec<Host<S>>,
    sockets: Vec<Socket>,
    /// Octets on their way, by TCP connection and the side that wrote them.
    flights: BTreeMap<(TcpId, Side), InFlight>,
    ladder: Arc<Mutex<Ladder>>,
    findings: Vec<Violation>,
    scratch: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Host<S> {
    id: HostId,
    endpoint: Endpoint<S>,
    devices: Vec<DeviceId>,
    policy: Policy,
    conns: BTreeMap<ConnId, SocketId>,
    groups: Vec<GroupId>,
}

/// Why [`Simulation::drive`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driven {
    /// The condition holds.
    Met,
    /// Nothing will ever happen again.
    Idle,
    /// Time is up.
    TimeUp,
}

/// Messages a simulation remembers for [`Simulation::trace`].
const TRACE: usize = 4096;

impl Simulation<Owned> {
    /// Adds a host whose endpoint has boxed tables. Its RNICs have one port each.
    pub fn add_host(
        &mut self,
        name: &str,
        config: Config,
        limits: Limits,
        ports: &[PortConfig],
    ) -> HostId {
        self.add_host_with(name, config, Owned::new(limits), ports)
    }
}

impl<S: Storage> Simulation<S> {
    /// A world without hosts.
    #[must_use]
    pub fn new(config: FabricConfig, seed: u64) -> Self {
        let mut fabric = Fabric::new(config, seed);
        let ladder = Arc::new(Mutex::new(Ladder::new(TRACE)));
        fabric.observe(Box::new(ladder.clone()));
        Self {
            fabric,
            hosts: Vec::new(),
            sockets: Vec::new(),
            flights: BTreeMap::new(),
            ladder,
            findings: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Adds a host with these tables.
    pub fn add_host_with(
        &mut self,
        name: &str,
        config: Config,
        storage: S,
        ports: &[PortConfig],
    ) -> HostId {
        let id = self.fabric.add_host(name);
        let mut devices: Vec<_> = ports.iter().map(|port| port.device).collect();
        devices.sort_unstable();
        devices.dedup();
        for port in ports {
            self.fabric.add_port(id, *port);
        }
        let seed = self.fabric.draw();
        self.hosts.push(Host {
            id,
            endpoint: Endpoint::new(config, seed, storage),
            devices,
            policy: Policy::default(),
            conns: BTreeMap::new(),
            groups: Vec::new(),
        });
        id
    }

    /// How a host treats connections from now on.
    pub fn set_policy(&mut self, host: HostId, policy: Policy) {
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            host.policy = policy;
        }
    }

    /// Opens a connection: its client end and its server end.
    pub fn connect(&mut self, client: HostId, server: HostId) -> (SocketId, SocketId) {
        self.connect_with(client, server, SmcOption::BOTH)
    }

    /// Opens a connection whose SYNs carry the SMC option as told.
    pub fn connect_with(
        &mut self,
        client: HostId,
        server: HostId,
        option: SmcOption,
    ) -> (SocketId, SocketId) {
        let tcp = self.fabric.tcp_open(client, server, option);
        let ends = [(client, Side::Client), (server, Side::Server)].map(|(host, side)| {
            let id = SocketId(self.sockets.len());
            self.sockets.push(Socket::new(host, tcp, side));
            id
        });
        (ends[0], ends[1])
    }

    /// Makes the next thing happen and everything that follows from it at once.
    /// False if nothing will ever happen again.
    pub fn step(&mut self) -> bool {
        self.settle();
        let Some(at) = self.next_time() else {
            return false;
        };
        if self.fabric.next_event().is_some_and(|event| event <= at) {
            self.fabric.step();
        } else {
            self.fabric.run_until(at);
        }
        let now = self.fabric.now();
        for host in &mut self.hosts {
            if host
                .endpoint
                .poll_timeout()
                .is_some_and(|deadline| deadline <= now)
            {
                host.endpoint.handle_timeout(now);
            }
        }
        self.settle();
        true
    }

    /// Steps until a condition holds, nothing happens any more, or `time` passed.
    pub fn drive(&mut self, time: Duration, mut until: impl FnMut(&mut Self) -> bool) -> Driven {
        let deadline = self.now().after(time);
        self.settle();
        loop {
            if until(self) {
                return Driven::Met;
            }
            match self.next_time() {
                None => return Driven::Idle,
                Some(at) if at > deadline => {
                    self.fabric.run_until(deadline);
                    return Driven::TimeUp;
                }
                Some(_) => {
                    self.step();
                }
            }
        }
    }

    /// Lets time pass.
    pub fn run_for(&mut self, time: Duration) -> Driven {
        self.drive(time, |_| false)
    }

    /// When something happens next.
    pub fn next_time(&mut self) -> Option<Instant> {
        let timers = self
            .hosts
            .iter_mut()
            .filter_map(|host| host.endpoint.poll_timeout());
        timers.chain(self.fabric.next_event()).min()
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// The world below the engines.
    pub const fn fabric(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// The engine of a host. Commands given to it are carried out by the next step.
    pub fn endpoint(&mut self, host: HostId) -> Option<&mut Endpoint<S>> {
        Some(&mut self.hosts.get_mut(usize::from(host.0))?.endpoint)
    }

    /// Link groups of a host that are up.
    #[must_use]
    pub fn groups(&self, host: HostId) -> &[GroupId] {
        self.hosts
            .get(usize::from(host.0))
            .map_or(&[], |host| &host.groups)
    }

    /// What went wrong so far: mistakes of the engines towards their RNICs and
    /// octets that arrived other than they left.
    pub fn findings(&self) -> impl Iterator<Item = &Violation> {
        self.findings.iter().chain(self.fabric.violations())
    }

    /// How many of the latest messages [`Simulation::trace`] keeps. Long runs
    /// keep none: putting each message into words takes time.
    pub fn set_trace(&mut self, messages: usize) {
        let mut ladder = self
            .ladder
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        ladder.set_limit(messages);
    }

    /// The latest messages as a ladder, for the report of a failed run.
    #[must_use]
    pub fn trace(&self) -> Ladder {
        self.ladder
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .clone()
    }

    /// Hashes the state of all engines and of the fabric, times relative to now.
    pub fn fingerprint<H: Hasher>(&mut self, hasher: &mut H) {
        let now = self.now();
        self.fabric.fingerprint(hasher);
        for host in &mut self.hosts {
            host.endpoint.fingerprint(now, hasher);
        }
        for socket in &self.sockets {
            socket.fingerprint(hasher);
        }
    }

    /// The candidate ports of a host towards another one.
    fn paths(&self, host: HostId, peer: HostId) -> Vec<LocalPath> {
        let to_path = |port: &PortConfig| LocalPath {
            device: port.device,
            port: port.port,
            gid_index: 0,
            gid: port.gid,
            mac: port.mac,
            mtu: port.mtu,
            lan: smc_proto::id::LanId(0),
            subnet_match: self
                .fabric
                .ports(peer)
                .any(|other| other.subnet == port.subnet),
        };
        self.fabric.ports(host).map(to_path).collect()
    }
}

#[cfg(test)]
mod tests;
