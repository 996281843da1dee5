//! What connections and link groups do, from one sample of programs to the next.

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use smc_view::{Connection, Counted, Found, Snapshot, Technology, state};

use crate::links::group;
use crate::ss::row::{process_name, state_name, technology_name};

/// Rates of a link group that are kept.
pub const HISTORY: usize = 240;
/// Most connections, and most link groups: those of further processes are not shown.
pub const CONNECTIONS: usize = 65_536;
const GROUPS: usize = 4096;

/// A process at one moment.
#[derive(Clone, Debug)]
pub struct Source {
    /// Number of the process.
    pub process: u32,
    /// When it was started, and when it began to publish.
    pub began: (u64, u64),
    /// The name of its program.
    pub program: String,
    /// What it publishes.
    pub snapshot: Snapshot,
}

/// A process, its beginning, and a number in it.
type Key = (u32, (u64, u64), u64);

/// A connection.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Which it is.
    pub key: Key,
    /// What carries it.
    pub mode: &'static str,
    /// Both ends.
    pub ends: [String; 2],
    /// State of the connection, as `smcss` names it.
    pub state: String,
    /// Process and program.
    pub process: String,
    /// What it does a second.
    pub rates: Rates,
}

/// What a connection does a second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Bytes that the program sends.
    pub sent: f64,
    /// Bytes that the program receives.
    pub received: f64,
    /// Calls that send or calls that receive, whichever are fewer.
    pub trips: f64,
    /// Writes that find no room.
    pub stalls: f64,
}

/// A link group.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupLine {
    /// SMCD or SMCR.
    pub technology: &'static str,
    /// Number of the link group, as `smcx links` shows it.
    pub id: u32,
    /// Process and program.
    pub process: String,
    /// Connections.
    pub connections: u64,
    /// Links that can be used, and all links.
    pub links: [usize; 2],
    /// Bytes a second, both ways.
    pub rate: f64,
    /// The rates at each sample, the last one at the end.
    pub history: VecDeque<u64>,
}

/// What was counted at the sample before.
#[derive(Clone, Copy, Default)]
struct Before {
    sent: u64,
    received: u64,
    calls: [u64; 2],
    full: u64,
}

/// What there is at the last sample, and what that takes from the one before.
#[derive(Default)]
pub struct Model {
    /// Connections.
    pub lines: Vec<Line>,
    /// Link groups, by process.
    pub groups: BTreeMap<(u32, (u64, u64), u32, u64), GroupLine>,
    /// Processes that publish.
    pub processes: usize,
    before: BTreeMap<Key, Before>,
    at: Duration,
}

impl Rates {
    /// Bytes, both ways.
    #[must_use]
    pub fn both(&self) -> f64 {
        self.sent + self.received
    }

    fn of(before: Option<&Before>, now: &Before, seconds: f64) -> Self {
        // What it did before it was seen first is of no interval.
        let before = before.unwrap_or(now);
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let [sends, receives] = [0, 1].map(|at: usize| {
            let of = |all: &[u64; 2]| all.get(at).copied().unwrap_or(0);
            rate(of(&before.calls), of(&now.calls))
        });
        Self {
            sent: rate(before.sent, now.sent),
            received: rate(before.received, now.received),
            trips: sends.min(receives),
            stalls: rate(before.full, now.full),
        }
    }
}

impl Before {
    fn of(counted: &Counted) -> Self {
        Self {
            sent: counted.sent,
            received: counted.received,
            calls: counted.calls(),
            full: counted.full,
        }
    }
}

impl Source {
    /// A process as it is now.
    pub(super) fn of(found: Found) -> Self {
        Self {
            process: found.process,
            began: (found.started, found.view.began()),
            snapshot: found.view.read(),
            program: found.program,
        }
    }
}

impl Model {
    /// Takes in what there is, at a time since the first sample; each process as it is read.
    pub fn observe<S: Borrow<Source>>(
        &mut self,
        at: Duration,
        sources: impl IntoIterator<Item = S>,
    ) {
        let seconds = at.saturating_sub(self.at).as_secs_f64().max(1e-3);
        self.at = at;
        self.processes = 0;
        self.lines.clear();
        let (mut before, mut groups) = (BTreeMap::new(), BTreeMap::new());
        for source in sources {
            let source = source.borrow();
            self.processes += 1;
            let process = process_name(source.process, &source.program);
            let mut of_groups: BTreeMap<(u32, u64), f64> = BTreeMap::new();
            for (connection, counted) in &source.snapshot.connections {
                if connection.state == state::LISTEN || self.lines.len() >= CONNECTIONS {
                    continue;
                }
                let key = (source.process, source.began, connection.serial);
                let now = Before::of(counted);
                let rates = Rates::of(self.before.get(&key), &now, seconds);
                before.insert(key, now);
                if let Some(group) = connection.group {
                    let rate = of_groups.entry((connection.stack, group)).or_default();
                    *rate += rates.both();
                }
                self.lines.push(line(key, connection, &process, rates));
            }
            let owner = (source.process, source.program.clone());
            let room = GROUPS.saturating_sub(groups.len());
            for group in group::of(&owner, &source.snapshot).into_iter().take(room) {
                let (stack, number) = (group.record.stack, group.record.number);
                let key = (source.process, source.began, stack, number);
                let rate = of_groups.get(&(stack, number)).copied().unwrap_or(0.0);
                let former = self.groups.remove(&key);
                let mut history = former.map_or_else(VecDeque::new, |group| group.history);
                history.push_back(rate as u64);
                if history.len() > HISTORY {
                    history.pop_front();
                }
                let active = group.links.iter().filter(|link| link.record.active);
                let line = GroupLine {
                    technology: group.technology(),
                    id: group.id(),
                    process: process.clone(),
                    connections: group.connections,
                    links: [active.count(), group.links.len()],
                    rate,
                    history,
                };
                groups.insert(key, line);
            }
        }
        self.before = before;
        self.groups = groups;
    }

    /// Connections over SMC-D, over SMC-R, and over TCP.
    #[must_use]
    pub fn carried(&self) -> [usize; 3] {
        let technologies = [Technology::SmcD, Technology::SmcR, Technology::Tcp];
        technologies.map(|technology| {
            let mode = technology_name(technology);
            self.lines.iter().filter(|at| at.mode == mode).count()
        })
    }
}

fn line(key: Key, at: &Connection, process: &str, rates: Rates) -> Line {
    Line {
        key,
        mode: technology_name(at.technology),
        ends: [at.local.to_string(), at.peer.to_string()],
        state: state_name(at.state),
        process: process.to_owned(),
        rates,
    }
}
