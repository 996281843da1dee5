//! Sums of all processes, of each user by itself: the numbers of those that have ended stay in
//! them.

use std::collections::{BTreeMap, BTreeSet};

use smc_view::{Found, Snapshot, Technology, state};

use super::counters::Counters;

/// Most users with numbers of their own; those of further ones are added together.
const USERS: usize = 256;

/// A process as it was read.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Number of the process.
    pub process: u32,
    /// When it was started, by the kernel.
    pub started: u64,
    /// When it began to publish, by itself.
    pub began: u64,
    /// User of the process.
    pub user: u32,
    /// What it has counted.
    pub counters: Counters,
    /// What it has now.
    pub levels: Levels,
}

/// What there is at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    /// Processes.
    pub processes: u64,
    /// Connections over SMC-D, over SMC-R, over TCP, and undecided ones.
    pub connections: [u64; 4],
    /// Listeners.
    pub listeners: u64,
    /// Link groups of SMC-D and SMC-R.
    pub groups: [u64; 2],
    /// Links that connections may use, and others.
    pub links: [u64; 2],
    /// Bytes of send and receive buffers, of SMC-D and SMC-R.
    pub buffers: [[u64; 2]; 2],
    /// Rows that no reader can see.
    pub hidden: u64,
}

/// Whose numbers they are; `None` for users beyond the first 256.
pub type User = Option<u32>;

/// The sums, and what they are made of.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    ended: BTreeMap<u32, Counters>,
    ended_others: Counters,
    processes: BTreeMap<u32, Process>,
    levels: BTreeMap<User, Levels>,
}

#[derive(Clone, Debug)]
struct Process {
    started: u64,
    began: u64,
    user: User,
    counters: Counters,
}

impl Seen {
    /// What a process publishes now.
    #[must_use]
    pub fn of(found: &Found) -> Self {
        let snapshot = found.view.read();
        Self {
            process: found.process,
            started: found.started,
            began: found.view.began(),
            user: found.user,
            counters: Counters::of(&snapshot.statistics),
            levels: Levels::of(&snapshot),
        }
    }
}

impl Levels {
    /// The levels of one process.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut levels = Self {
            processes: 1,
            hidden: snapshot.hidden,
            ..Self::default()
        };
        let [smc_d, smc_r, tcp, undecided] = &mut levels.connections;
        for (connection, _) in &snapshot.connections {
            match (connection.state, connection.technology) {
                (state::LISTEN, _) => levels.listeners += 1,
                (_, Technology::SmcD) => *smc_d += 1,
                (_, Technology::SmcR) => *smc_r += 1,
                (_, Technology::Tcp) => *tcp += 1,
                _ => *undecided += 1,
            }
        }
        let [smc_d, smc_r] = &mut levels.groups;
        for group in &snapshot.groups {
            match group.technology {
                Technology::SmcR => *smc_r += 1,
                _ => *smc_d += 1,
            }
        }
        let [active, inactive] = &mut levels.links;
        for link in &snapshot.links {
            match link.active {
                true => *active += 1,
                false => *inactive += 1,
            }
        }
        let statistics = [&snapshot.statistics.smc_d, &snapshot.statistics.smc_r];
        levels.buffers = statistics
            .map(|traffic| ["SMC_TX_RMB_USAGE", "SMC_RX_RMB_USAGE"].map(|key| traffic.get(key)));
        levels
    }

    fn add(&mut self, other: &Self) {
        let mut more = other.clone();
        let pairs = self.numbers().into_iter().zip(more.numbers());
        pairs.for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }

    fn numbers(&mut self) -> Vec<&mut u64> {
        let tables = self.connections.iter_mut().chain(&mut self.groups);
        let tables = tables.chain(&mut self.links);
        let tables = tables.chain(self.buffers.iter_mut().flatten());
        let alone = [&mut self.processes, &mut self.listeners, &mut self.hidden];
        tables.chain(alone).collect()
    }
}

impl Sums {
    /// Sums that begin with a user whose numbers are shown even if all are zero.
    #[must_use]
    pub fn new(user: u32) -> Self {
        let mut sums = Self::default();
        sums.ended.insert(user, Counters::default());
        sums
    }

    /// Takes in what the processes have published. A process that published before and does not
    /// any more has ended if it was started at another time than `started` gives.
    pub fn observe(&mut self, seen: &[Seen], started: impl Fn(u32) -> Option<u64>) {
        self.levels.clear();
        for at in seen {
            let user = self.process(at);
            self.levels.entry(user).or_default().add(&at.levels);
        }
        let here: BTreeSet<u32> = seen.iter().map(|at| at.process).collect();
        let ended: Vec<u32> = self
            .processes
            .iter()
            .filter(|(process, at)| {
                !here.contains(process) && started(**process) != Some(at.started)
            })
            .map(|(process, _)| *process)
            .collect();
        for process in ended {
            self.end(process);
        }
    }

    /// Takes in what a process has published; whose numbers they are.
    fn process(&mut self, seen: &Seen) -> User {
        if let Some(at) = self.processes.get_mut(&seen.process)
            && (at.started, at.began) == (seen.started, seen.began)
        {
            at.counters.raise(&seen.counters);
            return at.user;
        }
        self.end(seen.process);
        let user = self.user(seen.user);
        let process = Process {
            started: seen.started,
            began: seen.began,
            user,
            counters: seen.counters.clone(),
        };
        self.processes.insert(seen.process, process);
        user
    }

    /// Whether a user has, or gets, numbers of its own.
    fn user(&mut self, user: u32) -> User {
        if !self.ended.contains_key(&user) {
            if self.ended.len() >= USERS {
                return None;
            }
            self.ended.insert(user, Counters::default());
        }
        Some(user)
    }

    /// A process has ended, or publishes anew.
    fn end(&mut self, process: u32) {
        let Some(process) = self.processes.remove(&process) else {
            return;
        };
        let sum = match process.user {
            Some(user) => self.ended.entry(user).or_default(),
            None => &mut self.ended_others,
        };
        sum.add(&process.counters);
    }

    /// The sums of each user, over processes that there are and that have ended.
    #[must_use]
    pub fn users(&self) -> BTreeMap<User, (Counters, Levels)> {
        let ended = self.ended.iter().map(|(user, sum)| (Some(*user), sum));
        let mut users: BTreeMap<User, (Counters, Levels)> = ended
            .map(|(user, sum)| (user, (sum.clone(), Levels::default())))
            .collect();
        if self.ended_others != Counters::default() {
            users.entry(None).or_default().0.add(&self.ended_others);
        }
        for process in self.processes.values() {
            let (counters, _) = users.entry(process.user).or_default();
            counters.add(&process.counters);
        }
        for (user, levels) in &self.levels {
            users.entry(*user).or_default().1.add(levels);
        }
        users
    }
}
