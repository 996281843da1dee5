//! Carrying out a run: the script, the faults, the quiet phase, the verdict.

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use smc_proto::time::{Duration, Instant};
use smc_proto::version::Technology;

use super::fault;
use super::report::Report;
use super::scenario::{self, Plan, Scenario};
use super::script::{self, ACTIVE, Act, Line};
use super::smcd;
use crate::fabric::HostId;
use crate::ladder::Ladder;
use crate::oracle::Outcome;
use crate::random::{Random, StreamHash};
use crate::record::Recorder;
use crate::sim::{Driven, Simulation, SocketId, Transport};
use smc_capture::CaptureError;
use smc_capture::writer::CaptureWriter;

/// At least so many faults take effect in each run.
const FAULTS: usize = 3;
/// There are at least so many link groups, for either direction one. Those of SMC-D
/// serve both.
const fn least_groups(technology: Technology) -> usize {
    match technology {
        Technology::SmcR => 2,
        Technology::SmcD => 1,
    }
}
/// Further rounds of connections and faults, if those so far were not enough.
const ROUNDS: u32 = 12;
/// Longer than any timer of an engine.
const QUIET: Duration = Duration::from_secs(1_000);

/// Runs a seed.
#[must_use]
pub fn run(seed: u64) -> Report {
    let mut run = Run::new(seed);
    run.carry_out();
    let report = run.report();
    if report.is_well() {
        return report;
    }
    // Once more, with a record of what the engines do.
    let mut again = Run::new(seed);
    again.simulation.record_events();
    again.carry_out();
    let mut events = again.simulation.recorded_events();
    if again.report().is_well() {
        events.insert_str(
            0,
            "with events, which the fast path has none of, it does not fail:\n",
        );
    }
    Report { events, ..report }
}

/// Runs a seed again and keeps its latest `messages` messages. The capture, if
/// there is one, gets all of them.
///
/// # Errors
/// If the capture cannot be written.
pub fn replay<W: Write + Send + 'static>(
    seed: u64,
    messages: usize,
    capture: Option<CaptureWriter<W>>,
) -> Result<(Report, Ladder), CaptureError> {
    let mut run = Run::new(seed);
    run.simulation.set_trace(messages);
    let recorder = capture.map(|capture| Arc::new(Mutex::new(Recorder::new(capture))));
    if let Some(recorder) = &recorder {
        run.simulation.fabric().observe(Box::new(recorder.clone()));
    }
    run.carry_out();
    let ladder = run.simulation.trace();
    let report = run.report();
    if let Some(recorder) = recorder {
        recorder
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .finish()?;
    }
    Ok((report, ladder))
}

/// What all applications write; each begins at another place of it.
static BLOCK: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let mut random = Random::new(0xb10c);
    (0..65_521).map(|_| random.next_u64() as u8).collect()
});

struct Run {
    seed: u64,
    technology: Technology,
    random: Random,
    simulation: Simulation,
    hosts: Vec<HostId>,
    conns: Vec<Conn>,
    failures: Vec<String>,
}

/// A connection of the run.
struct Conn {
    plan: Plan,
    ends: Option<(SocketId, SocketId)>,
    graceful: bool,
    /// Bytes each side was asked to write so far.
    requested: [u64; 2],
}

impl Conn {
    fn end(&self, side: usize) -> Option<SocketId> {
        let (client, server) = self.ends?;
        Some(if side == 0 { client } else { server })
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6368_616f_7321);
        let Scenario {
            mut simulation,
            hosts,
            plans,
        } = Scenario::draw(seed, &mut random);
        simulation.check_invariants();
        let conn = |plan| Conn {
            plan,
            ends: None,
            graceful: false,
            requested: [0; 2],
        };
        Self {
            seed,
            technology: smcd::technology(seed),
            random,
            simulation,
            hosts,
            conns: plans.into_iter().map(conn).collect(),
            failures: Vec::new(),
        }
    }

    fn carry_out(&mut self) {
        let all = 0..self.conns.len();
        for _ in 0..FAULTS + 2 + self.random.below(5) as usize {
            self.draw_fault();
        }
        self.play(all);
        for round in 0..ROUNDS {
            if self.is_enough() {
                break;
            }
            if self.groups() < least_groups(self.technology) {
                self.simulation.fabric().heal();
            }
            // Something to strike, in both directions.
            let first = self.conns.len();
            for number in 0..2 {
                let mut plan = scenario::connection(&self.hosts, number, &mut self.random);
                if round % 2 == 1 {
                    plan.bytes = plan.bytes.map(|bytes| bytes * 2);
                }
                self.conns.push(Conn {
                    plan,
                    ends: None,
                    graceful: false,
                    requested: [0; 2],
                });
            }
            if self.simulation.wires().faults().effective() < FAULTS {
                for _ in 0..3 {
                    self.draw_fault();
                }
            }
            self.play(first..first + 2);
        }
        if self.random.below(2) == 0 {
            // Long enough for retries to be exhausted and for waits to expire.
            let decade = 10u64.pow(1 + self.random.below(4) as u32);
            let time = Duration::from_millis(decade * (1 + self.random.below(9)));
            self.simulation.run_for(time);
        }
        self.quiet();
    }

    /// Whether enough faults took effect on enough link groups.
    fn is_enough(&self) -> bool {
        let wires = self.simulation.wires();
        wires.faults().effective() >= FAULTS && self.groups() >= least_groups(self.technology)
    }

    fn groups(&self) -> usize {
        if self.technology == Technology::SmcD {
            return self.first_contacts();
        }
        let links = self.simulation.wires().links();
        let mut groups: Vec<_> = links.iter().map(|link| link.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups.len()
    }

    /// Groups of SMC-D that carried a connection.
    fn first_contacts(&self) -> usize {
        let ends = self.conns.iter().filter_map(|conn| conn.end(0));
        let states = ends.filter_map(|end| self.simulation.state(end));
        let first = states.filter(|state| state.first_contact && state.transport == Transport::Smc);
        first.count()
    }

    fn draw_fault(&mut self) {
        // One crash a run leaves something to be tested.
        let faults = self.simulation.wires().faults();
        let kinds = faults.faults().iter().map(|fault| fault.action.kind());
        let spared: Vec<_> = kinds.filter(|kind| smcd::ONCE.contains(kind)).collect();
        let now = self.simulation.now();
        let draw = match self.technology {
            Technology::SmcR => fault::draw,
            Technology::SmcD => smcd::draw,
        };
        let fault = draw(now, &self.hosts, &spared, &mut self.random);
        self.simulation.fabric().add_fault(fault);
    }

    /// Lets the applications of some connections play their parts.
    fn play(&mut self, which: std::ops::Range<usize>) {
        let begin = self.simulation.now();
        let mut lines: Vec<Line> = Vec::new();
        for index in which {
            if let Some(conn) = self.conns.get_mut(index) {
                let random = &mut self.random;
                conn.graceful = script::draw(begin, index, &conn.plan, random, &mut lines);
            }
        }
        lines.sort_by_key(|(at, ..)| *at);
        for (at, index, act) in lines {
            self.run_to(at);
            self.perform(index, act);
        }
        self.run_to(begin.after(ACTIVE));
    }

    fn run_to(&mut self, at: Instant) {
        let time = at.since(self.simulation.now());
        self.simulation.run_for(time);
    }

    fn perform(&mut self, index: usize, act: Act) {
        let Some(conn) = self.conns.get_mut(index) else {
            return;
        };
        match act {
            Act::Open => {
                let Plan { client, server, .. } = conn.plan;
                // A host that is away opens nothing.
                while self.simulation.wires().is_away(client) {
                    self.simulation.run_for(Duration::from_millis(5));
                }
                conn.ends = Some(self.simulation.connect(client, server));
            }
            Act::Write { side, bytes } => {
                let place = (index * 2 + side) * 4_099;
                if let (Some(end), Some(requested)) = (conn.end(side), conn.requested.get_mut(side))
                {
                    let place = place + *requested as usize;
                    *requested += bytes;
                    if let Some(app) = self.simulation.app_mut(end) {
                        app.forget_bytes();
                        app.write_block(&BLOCK, place, bytes);
                    }
                }
            }
            Act::Finish { side } => {
                if let Some(end) = conn.end(side) {
                    self.simulation.finish(end);
                }
            }
            Act::Close { side } => {
                if let Some(end) = conn.end(side) {
                    self.simulation.close(end);
                }
            }
            Act::Abort { side } => {
                if let Some(end) = conn.end(side) {
                    self.simulation.abort(end);
                }
            }
            Act::Pause { side, paused } => {
                let app = conn.end(side).and_then(|end| self.simulation.app_mut(end));
                if let Some(app) = app {
                    app.pause(paused);
                }
            }
        }
    }

    /// No fault strikes any more: everything must come to its end.
    fn quiet(&mut self) {
        self.simulation.end_faults();
        let ends: Vec<_> = self.conns.iter().map(|c| (c.ends, c.graceful)).collect();
        for (ends, graceful) in ends {
            let Some((client, server)) = ends else {
                continue;
            };
            for end in [client, server] {
                let Some(app) = self.simulation.app_mut(end) else {
                    continue;
                };
                app.pause(false);
                if !graceful {
                    app.close();
                }
            }
        }
        self.simulation.run_for(QUIET);
        if self.simulation.run_for(QUIET) == Driven::TimeUp {
            let at = self.simulation.now();
            self.failures
                .push(format!("{at}: something still happens after {QUIET:?}"));
        }
    }

    fn report(mut self) -> Report {
        let mut connections = Vec::new();
        let mut bytes = 0;
        for index in 0..self.conns.len() {
            connections.push(self.judge(index, &mut bytes));
        }
        for host in self.hosts.clone() {
            let invariants = self.simulation.invariants();
            let open = invariants.map_or_else(Vec::new, |i| i.unfinished(host));
            if !open.is_empty() {
                self.failures
                    .push(format!("I9: no last event of {open:?} at {host:?}"));
            }
        }
        let found = self.simulation.findings().map(ToString::to_string);
        self.failures.extend(found.collect::<Vec<_>>());
        let left = self.simulation.leftovers();
        self.failures.extend(left.iter().map(ToString::to_string));
        let mut hasher = StreamHash::new();
        self.simulation.fingerprint(&mut hasher);
        let hosts = self.hosts.clone();
        let statistics = hosts
            .iter()
            .filter_map(|host| Some(*self.simulation.endpoint(*host)?.statistics()))
            .collect();
        let wires = self.simulation.wires();
        Report {
            seed: self.seed,
            technology: self.technology,
            effects: wires.faults().effects().collect(),
            faults: wires.faults().effective(),
            connections,
            events: String::new(),
            statistics,
            groups: self.groups(),
            links: wires.links().len(),
            bytes,
            steps: self.simulation.steps(),
            most_steps: self.simulation.invariants().map_or(0, |i| i.most_steps()),
            time: self.simulation.now(),
            fingerprint: hasher.value(),
            failures: self.failures,
        }
    }

    fn judge(&mut self, index: usize, bytes: &mut u64) -> Option<Outcome> {
        let conn = self.conns.get(index)?;
        let ends = conn.ends?;
        let conduct = self
            .simulation
            .conduct(ends, conn.plan.bytes, conn.graceful)?;
        *bytes += conduct.ends.iter().map(|end| end.read).sum::<u64>();
        match conduct.judge() {
            Ok(outcome) => Some(outcome),
            Err(wrong) => {
                let wrong = wrong.into_iter();
                self.failures
                    .extend(wrong.map(|what| format!("connection {index}: {what}")));
                None
            }
        }
    }
}
