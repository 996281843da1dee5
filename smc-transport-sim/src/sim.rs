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

mod events;
mod host_clock;
mod host_events;
mod idle;
mod paths;
mod policy;
mod pump;
mod recording;
mod refuse;
mod socket;
mod transfer;

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::{Arc, Mutex};

use smc_proto::config::Config;
use smc_proto::endpoint::Endpoint;
use smc_proto::id::{ConnId, DeviceId, GroupId, LinkId};
use smc_proto::storage::{Limits, Storage};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::{Mac, PeerId};

use crate::app::InFlight;
use crate::fabric::{Fabric, FabricConfig, HostId, IsmConfig, PortConfig, Violation};
use crate::invariants::Invariants;
use crate::ladder::Ladder;
use crate::tcp::{Side, SmcOption, TcpId};

use host_clock::HostClock;
pub use policy::{EventsFull, Policy};
pub use recording::{Recording, Tables, recorded_tables, tables, tables_of_test};
use socket::Socket;
pub use socket::{Life, SocketId, SocketState, Transport};

/// Hosts with an engine each, and sockets between them.
#[derive(Clone, Debug)]
pub struct Simulation<S = Tables> {
    fabric: Fabric,
    hosts: Vec<Host<S>>,
    sockets: Vec<Socket>,
    /// Bytes on their way, by TCP connection and the side that wrote them.
    flights: BTreeMap<(TcpId, Side), InFlight>,
    ladder: Arc<Mutex<Ladder>>,
    findings: Vec<Violation>,
    invariants: Option<Box<Invariants>>,
    steps: u64,
    scratch: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Host<S> {
    id: HostId,
    endpoint: Endpoint<S>,
    devices: Vec<DeviceId>,
    /// ISM devices of the host, those that are gone included.
    ism: Vec<DeviceId>,
    policy: Policy,
    conns: BTreeMap<ConnId, SocketId>,
    groups: Vec<GroupId>,
    links: Vec<LinkId>,
    clock: HostClock,
    /// Events taken so far.
    events: u64,
    /// Until then it has no room for another.
    full_until: Instant,
    /// Makes the tables of the next instance, should the host crash.
    anew: Option<Anew<S>>,
}

/// How to make tables of the same sizes again.
type Anew<S> = (fn(Limits) -> S, Limits);

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

impl Simulation<Tables> {
    /// Adds a host whose endpoint has boxed tables. Only such a host survives a
    /// crash: another instance begins with tables of the same sizes.
    pub fn add_host(
        &mut self,
        name: &str,
        config: Config,
        limits: Limits,
        ports: &[PortConfig],
    ) -> HostId {
        let id = self.add_host_with(name, config, tables(limits), ports);
        if let Some(host) = self.hosts.get_mut(usize::from(id.0)) {
            host.anew = Some((tables, limits));
        }
        id
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
            invariants: None,
            steps: 0,
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
            ism: Vec::new(),
            policy: Policy::default(),
            conns: BTreeMap::new(),
            groups: Vec::new(),
            links: Vec::new(),
            clock: HostClock::default(),
            events: 0,
            full_until: Instant::ZERO,
            anew: None,
        });
        id
    }

    /// Gives a host an ISM device.
    pub fn add_ism(&mut self, host: HostId, config: IsmConfig) {
        self.fabric.add_ism(host, config);
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            host.ism.push(config.device);
        }
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

    /// Opens a connection whose SYNs carry the SMC option as given.
    pub fn connect_with(
        &mut self,
        client: HostId,
        server: HostId,
        option: SmcOption,
    ) -> (SocketId, SocketId) {
        let tcp = self.fabric.tcp_open(client, server, option);
        let ends = [(client, Side::Client), (server, Side::Server)].map(|(host, side)| {
            let id = SocketId(self.sockets.len());
            let opened = self.fabric.now();
            self.sockets.push(Socket::new(host, tcp, side, opened));
            id
        });
        (ends[0], ends[1])
    }

    /// Makes the next thing happen and everything that follows from it at once.
    /// False if nothing will ever happen again.
    pub fn step(&mut self) -> bool {
        self.run_until_idle();
        let Some(at) = self.next_time() else {
            return false;
        };
        if self.fabric.next_event().is_some_and(|event| event <= at) {
            self.fabric.step();
        } else {
            self.fabric.run_until(at);
        }
        self.fire_timers();
        self.run_until_idle();
        self.steps += 1;
        if self.invariants.is_some() {
            self.check_idle();
        }
        true
    }

    /// Lets the timers of all engines fire that are due.
    fn fire_timers(&mut self) {
        let at = self.fabric.now();
        for host in &mut self.hosts {
            let Some(deadline) = host.endpoint.poll_timeout() else {
                continue;
            };
            if host.clock.fires(deadline) > at {
                continue;
            }
            host.endpoint.handle_timeout(host.clock.show(at));
            if let Some(fault) = host.clock.fired(deadline, at) {
                self.fabric.note_fault(fault, host.id);
            }
            if let Some(invariants) = &mut self.invariants {
                invariants.on_steps(host.id, host.endpoint.last_steps());
            }
        }
    }

    /// Steps until a condition holds, nothing happens any more, or `time` passed.
    pub fn drive(&mut self, time: Duration, mut until: impl FnMut(&mut Self) -> bool) -> Driven {
        let deadline = self.now().after(time);
        self.run_until_idle();
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
        let timers = self.hosts.iter_mut().filter_map(|host| {
            let deadline = host.endpoint.poll_timeout()?;
            Some(host.clock.fires(deadline))
        });
        timers.chain(self.fabric.next_event()).min()
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.fabric.now()
    }

    /// Checks the [invariants](crate::invariants) from now on, before the first
    /// connection is opened. Their breaches are [findings](Self::findings).
    pub fn check_invariants(&mut self) {
        let marked = |host: &Host<S>| host.endpoint.config().eye_catcher;
        let marked = self.hosts.iter().any(marked);
        self.invariants = Some(Box::new(Invariants::new(marked)));
    }

    /// The invariants, if they are checked.
    #[must_use]
    pub fn invariants(&self) -> Option<&Invariants> {
        self.invariants.as_deref()
    }

    /// Steps made so far.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The quiet phase begins: no fault strikes any more, what lasts is over, all
    /// clocks run. From here on everything must converge.
    pub fn end_faults(&mut self) {
        self.fabric.end_faults();
        for host in &mut self.hosts {
            host.clock.repair();
        }
    }

    /// The world below the engines.
    pub const fn fabric(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// Returns the world below the engines, for inspection.
    #[must_use]
    pub const fn wires(&self) -> &Fabric {
        &self.fabric
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

    /// Links of a host that are up.
    #[must_use]
    pub fn links(&self, host: HostId) -> &[LinkId] {
        self.hosts
            .get(usize::from(host.0))
            .map_or(&[], |host| &host.links)
    }

    /// What went wrong so far: mistakes of the engines towards their RNICs and
    /// bytes that arrived other than they left.
    pub fn findings(&self) -> impl Iterator<Item = &Violation> {
        let breaches = self.invariants.iter().flat_map(|i| i.breaches());
        self.findings
            .iter()
            .chain(self.fabric.violations())
            .chain(breaches.map(|breach| &breach.violation))
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
            host.endpoint.fingerprint(host.clock.show(now), hasher);
            host.clock.fingerprint(now, hasher);
        }
        for socket in &self.sockets {
            socket.fingerprint(hasher);
        }
    }

    /// What the clock of a host shows.
    fn host_now(&self, host: HostId) -> Instant {
        let at = self.fabric.now();
        let host = self.hosts.get(usize::from(host.0));
        host.map_or(at, |host| host.clock.show(at))
    }

    /// A call into the engine of a host is over: it took so much work.
    fn count_steps(&mut self, id: HostId) {
        if let Some(invariants) = &mut self.invariants
            && let Some(host) = self.hosts.get(usize::from(id.0))
        {
            invariants.on_steps(id, host.endpoint.last_steps());
        }
    }
}

impl<S: Storage> Simulation<S> {
    /// The call was for one CDC message.
    fn count_cdc_steps(&mut self, id: HostId) {
        if let Some(invariants) = &mut self.invariants
            && let Some(host) = self.hosts.get(usize::from(id.0))
        {
            invariants.on_cdc_steps(id, host.endpoint.last_steps());
        }
    }
}

impl<S: Storage> Host<S> {
    /// Another instance of the engine begins, with an identity of its own.
    fn engine_anew(&mut self, seed: u64) -> bool {
        let Some((make, limits)) = self.anew else {
            return false;
        };
        let mut config = *self.endpoint.config();
        let PeerId([high, low, mac @ ..]) = config.peer_id;
        let instance = u16::from_be_bytes([high, low]).wrapping_add(INSTANCE);
        config.peer_id = PeerId::new(instance, Mac(mac));
        self.endpoint = Endpoint::new(config, seed, make(limits));
        true
    }
}

/// From one instance of a host to the next: more hosts than a simulation has.
const INSTANCE: u16 = 0x0100;

#[cfg(test)]
mod tests;
