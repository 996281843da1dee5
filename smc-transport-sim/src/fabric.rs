//! Hosts, RNICs, wires and queue pairs.
//!
//! ```text
//!  host 0                                        host 1
//!  Memory ── Regions ── QueuePair ══ lane ══▶ QueuePair ── Regions ── Memory
//!                          ▲  outstanding work       │ acknowledgement
//!                          └────────◀── latency ─────┘
//! ```
//!
//! Only bytes cross: a WRITE or SEND copies its bytes when it is posted (the
//! RNIC fetches at posting), waits for the lane between the two ports,
//! and is judged by the receiving RNIC at its arrival. One event stands for all
//! packets of a work request; PSNs still count packets. Nothing is lost on the
//! way unless a port is down, and what is lost is sent again, as RC demands.
//!
//! There are two doors. [`Fabric::execute`] and [`Fabric::next_completion`] speak
//! the engine's commands. The verbs below them (`create_queue_pair`, `post_write`,
//! ...) take names the caller chooses and lengths the engine would never use: from
//! them a scripted or hostile peer is made.

mod adapter;
mod buffers;
mod config;
mod control;
mod data;
mod event;
mod fault_span;
mod fingerprint;
mod host_event;
mod ism;
mod lives;
mod ports;
mod queue_pair;
mod receives;
mod restart;
mod route;
mod settle;
mod strike;
mod tcp_pipe;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use smc_proto::time::Instant;
use smc_proto::wire::types::Gid;

use crate::clock::EventQueue;
use crate::completion::FabricCompletion;
use crate::fault::FaultPlan;
use crate::memory::Memory;
use crate::observe::{Observer, Observers};
use crate::random::Random;
use crate::tcp::{Tcp, TcpNotice};
use adapter::Names;
use event::Event;
use fault_span::FaultSpan;
use ports::Port;
use queue_pair::{QueuePair, QueuePairId};
use watch::Watch;

#[allow(deprecated)]
pub use crate::renamed::HostNews;
pub use config::{FabricConfig, PathConfig, PortConfig};
pub use host_event::HostEvent;
pub use ism::IsmConfig;
pub use lives::LinkRecord;
pub use queue_pair::{QueuePairKey, QueuePairState, WorkOwner};
pub use watch::{FabricGroup, HostHarm};

/// A host of a fabric, numbered in the order of [`Fabric::add_host`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HostId(pub u16);

/// Name of a buffer of one host, chosen by that host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferKey(pub u64);

/// A mistake of a host: something its RNIC's driver would have refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When.
    pub at: Instant,
    /// Whose.
    pub host: HostId,
    /// What.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} host {}: {}", self.at, self.host.0, self.what)
    }
}

/// All hosts and the wires between them. A clone is an independent world in the
/// same state, but without observers.
#[derive(Clone, Debug)]
pub struct Fabric {
    config: FabricConfig,
    queue: EventQueue<Event>,
    random: Random,
    plan: FaultPlan,
    observers: Observers,
    hosts: Vec<Host>,
    ports: Vec<Port>,
    port_of: BTreeMap<Gid, usize>,
    lanes: BTreeMap<(usize, usize), Lane>,
    queue_pairs: BTreeMap<QueuePairId, QueuePair>,
    ism: ism::Ism,
    tcp: Tcp,
    watch: Watch,
    violations: Vec<Violation>,
    /// Byte vectors to use again.
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Host {
    name: String,
    memory: Memory,
    queue_pairs: BTreeMap<QueuePairKey, QueuePairId>,
    completions: VecDeque<FabricCompletion>,
    notices: VecDeque<TcpNotice>,
    host_events: VecDeque<HostEvent>,
    names: Names,
    /// Receives that are not posted.
    withheld: FaultSpan,
    /// Receives of which only a few are posted.
    few: FaultSpan,
    few_receives: u32,
    /// Send queues that take nothing.
    busy: FaultSpan,
    /// Completions that are held back.
    held: FaultSpan,
    /// Number of the instance; answers to an earlier one are dropped.
    life: u32,
    /// The host is down until then.
    down_until: Instant,
}

/// One direction of a path.
#[derive(Clone, Copy, Debug)]
struct Lane {
    path: PathConfig,
    busy_until: Instant,
    /// When the last packet so far arrives: none overtakes it.
    last_arrival: Instant,
}

impl Lane {
    const fn new(path: PathConfig) -> Self {
        Self {
            path,
            busy_until: Instant::ZERO,
            last_arrival: Instant::ZERO,
        }
    }
}

impl Fabric {
    /// A fabric without hosts.
    #[must_use]
    pub fn new(config: FabricConfig, seed: u64) -> Self {
        Self {
            config,
            queue: EventQueue::new(),
            random: Random::new(seed),
            plan: FaultPlan::none(),
            observers: Observers::default(),
            hosts: Vec::new(),
            ports: Vec::new(),
            port_of: BTreeMap::new(),
            lanes: BTreeMap::new(),
            queue_pairs: BTreeMap::new(),
            ism: ism::Ism::default(),
            tcp: Tcp::default(),
            watch: Watch::default(),
            violations: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Adds a host without RNICs.
    pub fn add_host(&mut self, name: &str) -> HostId {
        let host = HostId(self.hosts.len() as u16);
        self.hosts.push(Host {
            name: name.to_owned(),
            memory: Memory::default(),
            queue_pairs: BTreeMap::new(),
            completions: VecDeque::new(),
            notices: VecDeque::new(),
            host_events: VecDeque::new(),
            names: Names::default(),
            withheld: FaultSpan::OVER,
            few: FaultSpan::OVER,
            few_receives: 0,
            busy: FaultSpan::OVER,
            held: FaultSpan::OVER,
            life: 0,
            down_until: Instant::ZERO,
        });
        self.observers.each(|observer| observer.on_host(host, name));
        host
    }

    /// Gives a host a port of an RNIC. A GID must be used once.
    pub fn add_port(&mut self, host: HostId, config: PortConfig) {
        self.observers
            .each(|observer| observer.on_port(host, &config));
        self.port_of.insert(config.gid, self.ports.len());
        self.ports.push(Port::new(host, config));
    }

    /// Sets the wire between the ports with these GIDs.
    pub fn set_path(&mut self, one: Gid, other: Gid, path: PathConfig) {
        if let (Some(&one), Some(&other)) = (self.port_of.get(&one), self.port_of.get(&other)) {
            for direction in [(one, other), (other, one)] {
                let lane = self.lanes.entry(direction).or_insert(Lane::new(path));
                lane.path = path;
            }
        }
    }

    /// Lets a port pass what its host sends and what it receives, or not.
    /// Queue pairs notice when their retries are exhausted.
    pub fn set_port(&mut self, gid: Gid, sends: bool, receives: bool) {
        let port = self
            .port_of
            .get(&gid)
            .and_then(|&port| self.ports.get_mut(port));
        if let Some(port) = port {
            port.sends = sends;
            port.receives = receives;
        }
    }

    /// Shows everything that arrives from now on to an observer.
    pub fn observe(&mut self, mut observer: Box<dyn Observer + Send>) {
        for (number, host) in self.hosts.iter().enumerate() {
            observer.on_host(HostId(number as u16), &host.name);
        }
        for port in &self.ports {
            observer.on_port(port.host, &port.config);
        }
        self.observers.add(observer);
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.queue.now()
    }

    /// Name of a host.
    #[must_use]
    pub fn host_name(&self, host: HostId) -> &str {
        self.hosts
            .get(usize::from(host.0))
            .map_or("?", |host| &host.name)
    }

    /// Hosts there are.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len() as u16).map(HostId)
    }

    /// Ports of a host.
    pub fn ports(&self, host: HostId) -> impl Iterator<Item = &PortConfig> {
        let of_host = move |port: &&Port| port.host == host;
        self.ports.iter().filter(of_host).map(|port| &port.config)
    }

    /// The port with a GID.
    #[must_use]
    pub fn port(&self, gid: Gid) -> Option<&PortConfig> {
        Some(&self.ports.get(*self.port_of.get(&gid)?)?.config)
    }

    /// Draws a number from the seed, for what is built on the fabric.
    pub fn draw(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// What hosts did wrong so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    fn violation(&mut self, host: HostId, what: impl Into<String>) {
        self.violations.push(Violation {
            at: self.queue.now(),
            host,
            what: what.into(),
        });
    }
}

#[cfg(test)]
mod tests;
