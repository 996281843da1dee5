//! Hosts, RNICs, wires and queue pairs.
//!
//! ```text
//!  host 0                                        host 1
//!  Memory ── Regions ── QueuePair ══ lane ══▶ QueuePair ── Regions ── Memory
//!                          ▲  outstanding work       │ acknowledgement
//!                          └────────◀── latency ─────┘
//! ```
//!
//! Only octets cross: a WRITE or SEND copies its octets when it is posted (the
//! RNIC fetches at posting), waits its turn on the lane between the two ports,
//! and is judged by the receiving RNIC at its arrival. One event stands for all
//! packets of a work request; PSNs still count packets. Nothing is lost on the
//! way unless a port is down, and what is lost is sent again, as RC demands.
//!
//! There are two doors. [`Fabric::execute`] and [`Fabric::next_completion`] speak
//! the engine's commands. The verbs below them (`create_queue_pair`, `post_write`,
//! ...) take names the caller chooses and lengths the engine would never use: from
//! them a scripted or hostile peer is made.

mod adapter;
mod control;
mod data;
mod event;
mod fingerprint;
mod queue_pair;
mod settle;
mod tcp_pipe;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use smc_proto::command::Segment;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::{Gid, Mac, Mtu};

use crate::clock::EventQueue;
use crate::completion::FabricCompletion;
use crate::fault::{FaultPlan, Trigger};
use crate::memory::{Memory, MemoryError};
use crate::observe::{Observer, Observers};
use crate::random::Random;
use crate::tcp::{Tcp, TcpNotice};
use adapter::Names;
use event::Event;
use queue_pair::{QueuePair, QueuePairId};

pub use queue_pair::{QueuePairKey, QueuePairState, WorkOwner};

/// A host of a fabric, numbered in the order of [`Fabric::add_host`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HostId(pub u16);

/// Name of a buffer of one host, chosen by that host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferKey(pub u64);

/// A port of an RNIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PortConfig {
    /// The RNIC.
    pub device: DeviceId,
    /// Its port, from 1.
    pub port: u8,
    /// The only GID of the port; its index is 0.
    pub gid: Gid,
    /// MAC of the port.
    pub mac: Mac,
    /// Active MTU.
    pub mtu: Mtu,
    /// Ports of one subnet reach each other.
    pub subnet: u32,
}

/// The wire between two ports, the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PathConfig {
    /// From the last octet sent to the last octet received.
    pub latency: Duration,
    /// Bandwidth; 0 means unlimited.
    pub bits_per_second: u64,
}

impl Default for PathConfig {
    /// 25 Gbit/s over a few metres.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(2),
            bits_per_second: 25_000_000_000,
        }
    }
}

/// Properties of all RNICs of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct FabricConfig {
    /// Path of two ports for which none was set.
    pub path: PathConfig,
    /// From a control command to its answer.
    pub control_latency: Duration,
    /// Without an acknowledgement for so long, work is sent again.
    pub retry_timeout: Duration,
    /// How often work is sent again before the queue pair breaks.
    pub retry_count: u8,
    /// Pause after a peer was not ready to receive.
    pub receiver_not_ready_delay: Duration,
    /// How often such a pause is made before the queue pair breaks.
    pub receiver_not_ready_count: u8,
    /// Receives kept posted on each queue pair.
    pub receives: u32,
    /// Work requests under way on one queue pair before its RNIC takes no more.
    pub send_queue_depth: usize,
    /// One-way latency of TCP.
    pub tcp_latency: Duration,
}

impl Default for FabricConfig {
    fn default() -> Self {
        Self {
            path: PathConfig::default(),
            control_latency: Duration::from_micros(50),
            retry_timeout: Duration::from_millis(64),
            retry_count: 7,
            receiver_not_ready_delay: Duration::from_millis(1),
            receiver_not_ready_count: 7,
            receives: 64,
            send_queue_depth: 256,
            tcp_latency: Duration::from_micros(25),
        }
    }
}

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
    tcp: Tcp,
    violations: Vec<Violation>,
    /// Octet vectors to use again.
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Host {
    name: String,
    memory: Memory,
    queue_pairs: BTreeMap<QueuePairKey, QueuePairId>,
    completions: VecDeque<FabricCompletion>,
    notices: VecDeque<TcpNotice>,
    names: Names,
    receives_withheld: bool,
}

#[derive(Clone, Debug)]
struct Port {
    host: HostId,
    config: PortConfig,
    sends: bool,
    receives: bool,
}

/// One direction of a path.
#[derive(Clone, Copy, Debug)]
struct Lane {
    path: PathConfig,
    busy_until: Instant,
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
            tcp: Tcp::default(),
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
            names: Names::default(),
            receives_withheld: false,
        });
        self.observers.each(|observer| observer.on_host(host, name));
        host
    }

    /// Gives a host a port of an RNIC. A GID must be used once.
    pub fn add_port(&mut self, host: HostId, config: PortConfig) {
        self.port_of.insert(config.gid, self.ports.len());
        self.ports.push(Port {
            host,
            config,
            sends: true,
            receives: true,
        });
    }

    /// Sets the wire between the ports with these GIDs.
    pub fn set_path(&mut self, one: Gid, other: Gid, path: PathConfig) {
        if let (Some(&one), Some(&other)) = (self.port_of.get(&one), self.port_of.get(&other)) {
            for direction in [(one, other), (other, one)] {
                let busy_until = self
                    .lanes
                    .get(&direction)
                    .map_or(Instant::ZERO, |l| l.busy_until);
                self.lanes.insert(direction, Lane { path, busy_until });
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

    /// Replaces the faults to come.
    pub fn set_faults(&mut self, plan: FaultPlan) {
        for (index, fault) in plan.faults().iter().enumerate() {
            if let Trigger::At(at) = fault.trigger {
                self.queue.schedule(at, Event::Fault { index });
            }
        }
        self.plan = plan;
    }

    /// Shows everything that arrives from now on to an observer.
    pub fn observe(&mut self, mut observer: Box<dyn Observer + Send>) {
        for (number, host) in self.hosts.iter().enumerate() {
            observer.on_host(HostId(number as u16), &host.name);
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

    /// What hosts did wrong so far.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Copies octets into pieces of a send buffer.
    ///
    /// # Errors
    /// [`MemoryError`] if the pieces are not there or not of that length.
    pub fn fill_buffer(
        &mut self,
        host: HostId,
        buffer: BufferKey,
        spans: [Segment; 2],
        octets: &[u8],
    ) -> Result<(), MemoryError> {
        self.memory_mut(host)?.fill(buffer, spans, octets)
    }

    /// Appends a copy of pieces of a buffer to `into`.
    ///
    /// # Errors
    /// [`MemoryError`] if the pieces are not there.
    pub fn copy_buffer(
        &self,
        host: HostId,
        buffer: BufferKey,
        spans: [Segment; 2],
        into: &mut Vec<u8>,
    ) -> Result<(), MemoryError> {
        let host = self
            .hosts
            .get(usize::from(host.0))
            .ok_or(MemoryError::NoBuffer)?;
        host.memory.copy_out(buffer, spans, into)
    }

    /// Buffers, queue pairs and registrations of a host: all 0 after it gave
    /// everything back.
    #[must_use]
    pub fn in_use(&self, host: HostId) -> [usize; 3] {
        let queue_pairs = || {
            self.queue_pairs
                .range(QueuePairId::all_of(host))
                .map(|(_, q)| q)
        };
        [
            self.hosts
                .get(usize::from(host.0))
                .map_or(0, |host| host.memory.len()),
            queue_pairs().count(),
            queue_pairs()
                .map(|queue_pair| queue_pair.regions.len())
                .sum(),
        ]
    }

    fn memory_mut(&mut self, host: HostId) -> Result<&mut Memory, MemoryError> {
        let host = self
            .hosts
            .get_mut(usize::from(host.0))
            .ok_or(MemoryError::NoBuffer)?;
        Ok(&mut host.memory)
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
