//! Every interleaving of a scenario's steps, and every failure in every state.

use core::hash::{Hash, Hasher};
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;

use super::app::{Action, Reading};
use super::world::Shape;
use super::{Failure, World};
use crate::rig::QpState;

pub use super::run::Expect;

/// Steps of exploration: what each letter of a case's path does, for A; the
/// capital letter does it for B.
const STEPS: [char; 5] = ['a', 'p', 'd', 'c', 'r'];

/// What two applications do over one connection.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the scenario, in cases.
    pub name: String,
    /// The hosts.
    pub shape: Shape,
    /// Bytes that went each way before.
    pub offsets: [u64; 2],
    /// What each side does.
    pub scripts: [Vec<Action>; 2],
    /// How each side reads.
    pub reading: [Reading; 2],
    /// How it must end.
    pub expect: Expect,
    /// `QpDrained` comes late.
    pub slow_drain: bool,
}

/// How much was explored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Distinct states before the failure.
    pub states: usize,
    /// Runs to the end.
    pub cases: usize,
}

impl Scenario {
    /// A client that sends; nothing else.
    #[must_use]
    pub fn new(name: impl Into<String>, client: &[Action], server: &[Action]) -> Self {
        Self {
            name: name.into(),
            shape: Shape::default(),
            offsets: [0, 0],
            scripts: [client.to_vec(), server.to_vec()],
            reading: [Reading::Eager; 2],
            expect: Expect::Clean,
            slow_drain: false,
        }
    }

    /// The world at its beginning.
    #[must_use]
    pub fn start(&self) -> World {
        let mut world = World::connected(&self.shape, self.offsets);
        world.slow_drain = self.slow_drain;
        for side in 0..2 {
            world.hosts[side].apps[0].script = self.scripts[side].clone();
            world.hosts[side].apps[0].reading = self.reading[side];
        }
        world
    }

    /// Visits every state and lets a link fail in each of these ways.
    ///
    /// # Panics
    /// When a case fails, with its trace.
    pub fn explore(&self, failures: &[Failure]) -> Count {
        self.explore_cases(failures, |_, _, _| {})
    }

    /// Explores; `more` sees every state with its path and adds cases of its own.
    ///
    /// # Panics
    /// When a case fails, with its trace.
    pub fn explore_cases(
        &self,
        failures: &[Failure],
        mut more: impl FnMut(&World, &str, &mut Count),
    ) -> Count {
        let mut count = Count::default();
        let mut seen = HashSet::new();
        let first = self.start();
        assert!(first.errors.is_empty(), "{:?}", first.errors);
        seen.insert(print(&mut first.clone()));
        let mut open = vec![(first, String::new())];
        while let Some((world, path)) = open.pop() {
            count.states += 1;
            for failure in failures {
                count.cases += 1;
                let guard = CaseGuard(self, &path, *failure);
                let errors = self.conclude(world.clone(), *failure).errors;
                drop(guard);
                if !errors.is_empty() {
                    self.report(&path, *failure);
                }
            }
            more(&world, &path, &mut count);
            for (side, step) in [0, 1].into_iter().flat_map(|s| STEPS.map(|c| (s, c))) {
                let mut next = world.clone();
                if !next.step(side, step) {
                    continue;
                }
                let letter = if side == 0 {
                    step
                } else {
                    step.to_ascii_uppercase()
                };
                let path = format!("{path}{letter}");
                if !next.errors.is_empty() {
                    self.report(&path, Failure::No);
                }
                if seen.insert(print(&mut next)) {
                    open.push((next, path));
                }
            }
        }
        count
    }

    /// Lets a link fail and runs to the end.
    #[must_use]
    pub fn conclude(&self, mut world: World, failure: Failure) -> World {
        world.fail(failure);
        world.finish(failure, self.expect);
        world
    }

    /// Runs one case with a log of everything.
    #[must_use]
    pub fn replay(&self, path: &str, failure: Failure) -> World {
        let mut world = self.start();
        world.log = Some(Vec::new());
        for letter in path.chars() {
            let side = usize::from(letter.is_ascii_uppercase());
            world.step(side, letter.to_ascii_lowercase());
        }
        self.conclude(world, failure)
    }

    fn report(&self, path: &str, failure: Failure) -> ! {
        let world = self.replay(path, failure);
        panic!(
            "{}\n{}\nFAILOVER_CASE='{}/{path}/{failure}' cargo test -p conformance --test explored failover_every_cut::",
            world.log.unwrap_or_default().join("\n"),
            world.errors.join("\n"),
            self.name,
        );
    }
}

/// Names the case if the engine panics in it.
struct CaseGuard<'a>(&'a Scenario, &'a str, Failure);

impl Drop for CaseGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the case {}/{}/{}", self.0.name, self.1, self.2);
        }
    }
}

impl World {
    /// One step of exploration; whether it did anything.
    pub fn step(&mut self, side: usize, step: char) -> bool {
        let did = match step {
            'a' => self.act(side, 0),
            'p' => self.post(side),
            'd' => self.deliver(side),
            'c' => self.complete(side),
            _ => self.hosts[side].apps[0].reading != Reading::Late && self.read(side, 0, u32::MAX),
        };
        if did {
            self.collect(0);
            self.collect(1);
        }
        did
    }
}

/// What distinguishes one state of a world from another.
fn print(world: &mut World) -> u64 {
    let mut hasher = DefaultHasher::new();
    let now = world.now;
    for host in &mut world.hosts {
        host.endpoint.fingerprint(now, &mut hasher);
        for app in &host.apps {
            (app.committed, app.read, app.done, app.taken).hash(&mut hasher);
            (app.seen.len(), app.end.is_some()).hash(&mut hasher);
        }
        for qp in host.nic.qps() {
            let (work, drained) = (&qp.work, qp.state == QpState::Error);
            (work.posted.len(), work.arrived, work.broken, drained).hash(&mut hasher);
        }
    }
    hasher.finish()
}
