//! Running a scenario, with a request refused or not.

use std::collections::BTreeMap;

use smc_proto::completion::LinkFailure;
use smc_proto::id::DeviceId;
use smc_proto::storage::AllocationFailure;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_sim::fabric::HostId;
use smc_transport_sim::fault::{Ends, Fault, FaultAction, PortSelector, Trigger};
use smc_transport_sim::oracle::Outcome;
use smc_transport_sim::sim::{Driven, EventsFull, Policy, Simulation, SocketId, SocketState};

use super::resource::{Refusal, Resource};
use super::scenario::{Act, Scenario};

/// Longer than any timer of an engine.
const QUIET: Duration = Duration::from_secs(1_000);
/// Until then everything in a scenario has come to its end, unless it waits for something.
const ACTIVE: Duration = Duration::from_millis(60);

/// How often each resource was asked for, by which host; by none, if it is counted for
/// both together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Requests(BTreeMap<(Resource, Option<u8>), u64>);

impl Requests {
    /// How often both hosts asked for it.
    #[must_use]
    pub fn of(&self, resource: Resource) -> u64 {
        let all = self.0.range((resource, None)..=(resource, Some(u8::MAX)));
        all.map(|(_, count)| count).sum()
    }

    /// Every request refused once, and from each one on all. `few` are the most that are
    /// picked of what one host asks for, spread evenly and the first and last among them.
    #[must_use]
    pub fn refusals(&self, few: Option<u64>) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        for (&(resource, host), &count) in &self.0 {
            for number in picked(count, few.unwrap_or(count)) {
                for lasting in [false, true] {
                    refusals.push(Refusal {
                        resource,
                        host,
                        number,
                        lasting,
                    });
                }
            }
        }
        refusals
    }
}

/// At most `few` of the numbers from 1 to `count`.
fn picked(count: u64, few: u64) -> Vec<u64> {
    let few = few.min(count);
    let spread = |n| match few {
        1 => 1,
        _ => 1 + n * (count - 1) / (few - 1),
    };
    (0..few).map(spread).collect()
}

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Outcome of each connection; `None` for one that must not be.
    pub connections: Vec<Option<Outcome>>,
    /// Why connections are plain TCP.
    pub codes: Vec<DiagnosisCode>,
    /// Whatever was wrong, in words.
    pub failures: Vec<String>,
}

/// How often a scenario asks for each resource if nothing is refused.
///
/// # Errors
/// What goes wrong even so.
pub fn requests(scenario: &Scenario) -> Result<Requests, Vec<String>> {
    let mut playback = Playback::new(scenario);
    let mut counted = Vec::new();
    for resource in Resource::ALL {
        match resource.fault(false) {
            Some((operation, action)) => {
                let number = u64::MAX;
                let place = playback.add(Trigger::Nth { operation, number }, action);
                counted.push((resource, None, place));
            }
            None => counted.extend([0, 1].map(|host| (resource, Some(host), 0))),
        }
    }
    playback.play();
    let count = |(resource, host, place)| {
        let count = playback.count(resource, host, place);
        ((resource, host), count)
    };
    let requests = Requests(counted.into_iter().map(count).collect());
    let ended = playback.end(None);
    match ended.failures.is_empty() {
        true => Ok(requests),
        false => Err(ended.failures),
    }
}

/// Runs a scenario with a request refused.
#[must_use]
pub fn run(scenario: &Scenario, refusal: Refusal) -> Ended {
    let mut playback = Playback::new(scenario);
    playback.refuse(refusal);
    playback.play();
    playback.end(Some(refusal))
}

struct Playback<'s> {
    scenario: &'s Scenario,
    simulation: Simulation,
    hosts: [HostId; 2],
    ends: Vec<(SocketId, SocketId)>,
}

impl<'s> Playback<'s> {
    fn new(scenario: &'s Scenario) -> Self {
        let (simulation, hosts) = scenario.begin();
        Self {
            scenario,
            simulation,
            hosts,
            ends: Vec::new(),
        }
    }

    /// Adds a fault: its place in the plan.
    fn add(&mut self, trigger: Trigger, action: FaultAction) -> usize {
        let fabric = self.simulation.fabric();
        let place = fabric.faults().faults().len();
        fabric.add_fault(Fault {
            trigger,
            host: None,
            action,
        });
        place
    }

    /// Sees to it that a request is refused.
    fn refuse(&mut self, refusal: Refusal) {
        let Refusal {
            resource,
            host,
            number,
            lasting,
        } = refusal;
        if let Some((operation, action)) = resource.fault(lasting) {
            let trigger = match lasting {
                false => Trigger::Nth { operation, number },
                true => Trigger::From { operation, number },
            };
            self.add(trigger, action);
        } else if let Some(host) = host {
            self.refuse_at(usize::from(host), refusal);
        }
    }

    fn refuse_at(&mut self, side: usize, refusal: Refusal) {
        let host = self.hosts[side];
        let Refusal {
            number, lasting, ..
        } = refusal;
        if let Resource::Slot(table) = refusal.resource {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let failure = match lasting {
                false => AllocationFailure::Only(number),
                true => AllocationFailure::From(number),
            };
            if let Some(endpoint) = self.simulation.endpoint(host) {
                endpoint
                    .storage()
                    .storage()
                    .head(table)
                    .fail_allocations(failure);
            }
            return;
        }
        let last = if lasting { u64::MAX } else { number };
        let policy = Policy {
            decline: self.scenario.decline.filter(|_| side == 1),
            full: Some(EventsFull {
                after: number..=last,
                time: Resource::EVENTS_FULL,
            }),
            ..Policy::default()
        };
        self.simulation.set_policy(host, policy);
    }

    /// How often a host, or both, asked for a resource, which the fault at this place
    /// counts if it is a matter of devices.
    fn count(&mut self, resource: Resource, host: Option<u8>, place: usize) -> u64 {
        let Some(host) = host else {
            return self.simulation.wires().faults().seen(place);
        };
        let host = self.hosts[usize::from(host)];
        let Resource::Slot(table) = resource else {
            return self.simulation.events(host);
        };
        let endpoint = self.simulation.endpoint(host);
        endpoint.map_or(0, |e| e.storage().storage().head(table).requests().into())
    }

    fn play(&mut self) {
        let begin = self.simulation.now();
        let mut lines = self.scenario.lines.clone();
        lines.sort_by_key(|(at, _)| *at);
        for (at, act) in lines {
            self.run_to(begin.after(at));
            self.perform(act);
        }
        self.simulation.run_for(ACTIVE);
        self.simulation.end_faults();
        for conn in 0..self.ends.len() {
            if !self.scenario.is_graceful(conn) {
                self.close(conn);
            }
        }
        self.simulation.run_for(QUIET);
        self.give_up_orphans();
    }

    fn run_to(&mut self, at: Instant) {
        let time = at.since(self.simulation.now());
        self.simulation.run_for(time);
    }

    fn end_of(&self, conn: usize, side: usize) -> SocketId {
        let (client, server) = self.ends[conn];
        [client, server][side]
    }

    fn perform(&mut self, act: Act) {
        match act {
            Act::Open(client) => {
                let [one, other] = match client {
                    0 => self.hosts,
                    _ => [self.hosts[1], self.hosts[0]],
                };
                self.ends.push(self.simulation.connect(one, other));
            }
            Act::Write(conn, side, bytes) => {
                let end = self.end_of(conn, side);
                if let Some(app) = self.simulation.app_mut(end) {
                    app.forget_bytes();
                    app.write_pattern((2 * conn + side) as u64, bytes);
                }
            }
            Act::Urge(conn, side) => {
                let end = self.end_of(conn, side);
                if let Some(app) = self.simulation.app_mut(end) {
                    app.urge();
                }
            }
            Act::Finish(conn, side) => self.simulation.finish(self.end_of(conn, side)),
            Act::Close(conn, side) => self.simulation.close(self.end_of(conn, side)),
            Act::Abort(conn, side) => self.simulation.abort(self.end_of(conn, side)),
            Act::PortsDown(rnic, time) => {
                let port = PortSelector {
                    device: Some(DeviceId(rnic)),
                    port: None,
                };
                self.strike(FaultAction::PortDown { port, time });
            }
            Act::LinkFails(rnic) => self.strike(FaultAction::FailLink {
                device: Some(DeviceId(rnic)),
                ends: Ends::Both,
                cause: LinkFailure::Other,
            }),
            Act::Leave(host) => self.leave(self.hosts[usize::from(host)]),
        }
    }

    fn strike(&mut self, action: FaultAction) {
        self.add(Trigger::At(self.simulation.now()), action);
    }

    fn leave(&mut self, host: HostId) {
        let now = self.simulation.now();
        for group in self.simulation.groups(host).to_vec() {
            if let Some(endpoint) = self.simulation.endpoint(host) {
                endpoint.delete_group(now, group);
            }
        }
    }

    /// Both applications are done with a connection.
    fn close(&mut self, conn: usize) {
        for side in [0, 1] {
            let end = self.end_of(conn, side);
            self.simulation.close(end);
        }
    }

    /// A side whose peer TCP reset gives up in the end, as in
    /// [`chaos`](smc_transport_sim::chaos).
    fn give_up_orphans(&mut self) {
        for (client, server) in self.ends.clone() {
            for end in [client, server] {
                let state = self.simulation.state(end);
                let orphan = |state: &SocketState| state.tcp_reset && state.closed.is_none();
                if state.is_some_and(orphan) {
                    self.simulation.abort(end);
                }
            }
        }
    }

    fn end(mut self, refusal: Option<Refusal>) -> Ended {
        let mut failures = Vec::new();
        if self.simulation.run_for(QUIET) == Driven::TimeUp {
            let at = self.simulation.now();
            failures.push(format!("{at}: something still happens after {QUIET:?}"));
        }
        let connections = (0..self.scenario.connections())
            .map(|conn| self.judge(conn, &mut failures))
            .collect();
        for host in self.hosts {
            let invariants = self.simulation.invariants();
            let open = invariants.map_or_else(Vec::new, |i| i.unfinished(host));
            if !open.is_empty() {
                failures.push(format!("I9: no last event of {open:?} at {host:?}"));
            }
            let ism = self.simulation.wires().ism_in_use(host);
            if ism != [0, 0] {
                failures.push(format!("I11: the ISM devices keep {ism:?} DMBs, mappings"));
            }
        }
        let left = self.simulation.leftovers();
        let found = self.simulation.findings().map(ToString::to_string);
        failures.extend(found);
        failures.extend(left.iter().map(ToString::to_string));
        if let Some(refusal) = refusal {
            // The fault that refuses was added first.
            let count = self.count(refusal.resource, refusal.host, 0);
            if count < refusal.number {
                failures.push("the request was never made".to_owned());
            }
        }
        let resource = refusal.map(|refusal| refusal.resource);
        let codes = self.codes();
        let right = |code: &DiagnosisCode| {
            self.scenario.decline == Some(*code) || resource.is_some_and(|r| r.explains(*code))
        };
        for code in codes.iter().filter(|code| !right(code)) {
            failures.push(format!("falls back with {code}"));
        }
        Ended {
            connections,
            codes,
            failures,
        }
    }

    /// Why connections are plain TCP: the codes of the side that fell back first.
    fn codes(&self) -> Vec<DiagnosisCode> {
        let why = |end| self.simulation.state(end)?.fell_back;
        let first = |(client, server): &(SocketId, SocketId)| {
            let [client, server] = [why(*client), why(*server)];
            let own = [client, server].into_iter().flatten().map(|why| why.code);
            let received = client.or(server).and_then(|why| why.peer_diagnosis);
            own.chain(received)
                .find(|c| *c != DiagnosisCode::PEER_DECLINED)
        };
        self.ends.iter().filter_map(first).collect()
    }

    fn judge(&self, conn: usize, failures: &mut Vec<String>) -> Option<Outcome> {
        let (bytes, graceful) = (self.scenario.octets(conn), self.scenario.is_graceful(conn));
        let conduct = self.simulation.conduct(self.ends[conn], bytes, graceful)?;
        match conduct.judge() {
            Ok(outcome) => Some(outcome),
            Err(wrong) => {
                let wrong = wrong.into_iter();
                failures.extend(wrong.map(|what| format!("connection {conn}: {what}")));
                None
            }
        }
    }
}
