//! Breadth-first through all states.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use smc_proto::connection::CloseState;

use super::{Action, Bounds, World};

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Steps between them.
    pub transitions: usize,
    /// Steps to the farthest one.
    pub depth: usize,
    /// States in which nothing can happen any more. In all of them everything is over.
    pub ends: usize,
    /// Pairs of states of the close handshake that were seen together.
    pub pairs: Vec<[CloseState; 2]>,
}

/// Something that must not be, and how to get there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What is wrong.
    pub what: String,
    /// The shortest way there.
    pub way: Vec<Action>,
}

/// How far an exploration is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// States that were found.
    pub found: usize,
    /// Those of them whose successors are known.
    pub explored: usize,
}

/// How a state was reached first.
struct Origin {
    before: u32,
    action: Action,
    depth: u32,
}

struct Explorer {
    bounds: Bounds,
    numbers: HashMap<u128, u32>,
    /// By number; the first state has none.
    origins: Vec<Origin>,
    /// From, to: without those on which a link fails.
    steps: Vec<(u32, u32)>,
    over: Vec<u32>,
    ends: usize,
    transitions: usize,
    pairs: HashSet<[CloseState; 2]>,
}

/// Visits every state within the bounds. `look` hears how far it is, now and then.
///
/// Checked are: what [`World::act`] checks at every step; that a state in which nothing can
/// happen is one where everything is over; and that from every state both ends can still
/// become CLOSED without another link failing.
///
/// # Errors
/// The first fault, with the shortest way there.
pub fn explore(bounds: Bounds, mut look: impl FnMut(Progress)) -> Result<Explored, Fault> {
    let mut explorer = Explorer {
        bounds,
        numbers: HashMap::new(),
        origins: Vec::new(),
        steps: Vec::new(),
        over: Vec::new(),
        ends: 0,
        transitions: 0,
        pairs: HashSet::new(),
    };
    let first = World::new(&bounds);
    explorer.numbers.insert(first.fingerprint(), 0);
    explorer.origins.push(Origin {
        before: 0,
        action: Action::FailLast,
        depth: 0,
    });
    let mut waiting = VecDeque::from([(0, first)]);
    let mut explored = 0;
    while let Some((number, world)) = waiting.pop_front() {
        explorer.expand(number, &world, &mut waiting)?;
        explored += 1;
        if explored % 0x4000 == 0 {
            look(Progress {
                found: explorer.origins.len(),
                explored,
            });
        }
    }
    explorer.check_all_can_end()?;
    let mut pairs: Vec<_> = explorer.pairs.into_iter().collect();
    pairs.sort();
    Ok(Explored {
        states: explorer.origins.len(),
        transitions: explorer.transitions,
        depth: explorer
            .origins
            .last()
            .map_or(0, |last| last.depth as usize),
        ends: explorer.ends,
        pairs,
    })
}

impl Explorer {
    fn expand(
        &mut self,
        number: u32,
        world: &World,
        waiting: &mut VecDeque<(u32, World)>,
    ) -> Result<(), Fault> {
        self.pairs.insert(world.states());
        if world.is_over() {
            self.over.push(number);
        }
        let mut actions = Vec::new();
        world.actions(&self.bounds, &mut actions);
        if actions.is_empty() {
            self.ends += 1;
            if !world.is_over() {
                return Err(self.fault(number, None, "nothing can happen any more".into()));
            }
        }
        for action in actions {
            let mut next = world.clone();
            if let Err(what) = next.act(action, &self.bounds) {
                return Err(self.fault(number, Some(action), what));
            }
            self.transitions += 1;
            let after = self.origins.len() as u32;
            let after = match self.numbers.entry(next.fingerprint()) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    new.insert(after);
                    self.origins.push(Origin {
                        before: number,
                        action,
                        depth: self.origins[number as usize].depth + 1,
                    });
                    waiting.push_back((after, next));
                    after
                }
            };
            if !matches!(action, Action::Fail(..) | Action::FailLast) {
                self.steps.push((number, after));
            }
        }
        Ok(())
    }

    /// From every state there is a way to one where everything is over.
    fn check_all_can_end(&mut self) -> Result<(), Fault> {
        // Where the steps that lead to each state begin, in a row.
        self.steps.sort_unstable_by_key(|(_, to)| *to);
        let mut can_end = vec![false; self.origins.len()];
        let mut waiting = std::mem::take(&mut self.over);
        for number in &waiting {
            can_end[*number as usize] = true;
        }
        while let Some(number) = waiting.pop() {
            let begin = self.steps.partition_point(|(_, to)| *to < number);
            for (from, _) in self.steps[begin..]
                .iter()
                .take_while(|(_, to)| *to == number)
            {
                if !std::mem::replace(&mut can_end[*from as usize], true) {
                    waiting.push(*from);
                }
            }
        }
        match can_end.iter().position(|can| !can) {
            Some(stranded) => {
                let what = "both ends can never become CLOSED from here".into();
                Err(self.fault(stranded as u32, None, what))
            }
            None => Ok(()),
        }
    }

    fn fault(&self, mut number: u32, last: Option<Action>, what: String) -> Fault {
        let mut way: Vec<_> = last.into_iter().collect();
        while number != 0 {
            let origin = &self.origins[number as usize];
            way.push(origin.action);
            number = origin.before;
        }
        way.reverse();
        Fault { what, way }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, action) in (1..).zip(&self.way) {
            writeln!(f, "{number:3}. {action}")?;
        }
        write!(f, "     {}", self.what)
    }
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} transitions, {} steps deep, {} ends, {} pairs of close states; \
             no end is left open, and from everywhere there is a way to CLOSED",
            self.states,
            self.transitions,
            self.depth,
            self.ends,
            self.pairs.len()
        )
    }
}
