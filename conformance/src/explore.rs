//! Breadth-first through all states of a machine: whatever can happen, in every order.
//!
//! ```text
//!   Machine ── every action that is possible ──► Machine ── fingerprint ──► seen before?
//!                                                  │ new: a number, how it was reached
//!                                                  ▼
//!                                        checked, and explored in its turn
//! ```
//!
//! States are kept as hashes of 128 bits with the way there, so that a state in which
//! something is wrong is reported as the shortest list of actions that leads to it. Only those
//! whose successors are not known yet are held as they are.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Display};
use std::hash::{DefaultHasher, Hasher};

/// Something with states, and actions that lead from one to another.
pub trait Machine: Clone {
    /// Something that may happen.
    type Action: Copy + Display;

    /// Hash that distinguishes one state from another.
    fn fingerprint(&mut self) -> u128;

    /// Everything that may happen next.
    fn actions(&self, into: &mut Vec<Self::Action>);

    /// Lets it happen.
    ///
    /// # Errors
    /// What must never be.
    fn act(&mut self, action: Self::Action) -> Result<(), String>;

    /// Whether it has come to an end.
    fn is_over(&self) -> bool;

    /// Whether the way to an end may take this action: a failure is no way out.
    fn leads_out(&self, action: Self::Action) -> bool;
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// Steps between them.
    pub transitions: usize,
    /// Steps to the farthest one.
    pub depth: usize,
    /// States in which nothing can happen any more. In all of them everything is over.
    pub ends: usize,
}

/// Something that must not be, and how to get there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault<A> {
    /// What is wrong.
    pub what: String,
    /// The shortest way there.
    pub way: Vec<A>,
}

/// How far an exploration is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// States that were found.
    pub found: usize,
    /// States whose successors are known.
    pub explored: usize,
}

/// How a state was reached first.
struct Origin<A> {
    before: u32,
    action: A,
    depth: u32,
}

struct Explorer<A> {
    numbers: HashMap<u128, u32>,
    /// By number less 1; the first state has none.
    origins: Vec<Origin<A>>,
    /// From, to: only those that lead out.
    steps: Vec<(u32, u32)>,
    over: Vec<u32>,
    ends: usize,
    transitions: usize,
}

/// Visits every state that can be reached from `first`. `see` is shown each of them, `progress`
/// gets the number of states, now and then.
///
/// Checked are: what [`Machine::act`] checks at every step; that a state in which nothing
/// can happen is one where everything is over; and that from every state an end can still
/// be reached without another failure.
///
/// # Errors
/// The first fault, with the shortest way there.
pub fn explore<M: Machine>(
    mut first: M,
    mut see: impl FnMut(&M),
    mut progress: impl FnMut(Progress),
) -> Result<Found, Fault<M::Action>> {
    let mut explorer = Explorer {
        numbers: HashMap::from([(first.fingerprint(), 0)]),
        origins: Vec::new(),
        steps: Vec::new(),
        over: Vec::new(),
        ends: 0,
        transitions: 0,
    };
    let mut waiting = VecDeque::from([(0, first)]);
    let mut explored = 0;
    while let Some((number, machine)) = waiting.pop_front() {
        see(&machine);
        explorer.expand(number, machine, &mut waiting)?;
        explored += 1;
        if explored % 0x4000 == 0 {
            let found = explorer.numbers.len();
            progress(Progress { found, explored });
        }
    }
    explorer.check_all_can_end()?;
    Ok(Found {
        states: explorer.numbers.len(),
        transitions: explorer.transitions,
        depth: explorer.origins.last().map_or(0, |o| o.depth as usize),
        ends: explorer.ends,
    })
}

impl<A: Copy + Display> Explorer<A> {
    fn expand<M: Machine<Action = A>>(
        &mut self,
        number: u32,
        machine: M,
        waiting: &mut VecDeque<(u32, M)>,
    ) -> Result<(), Fault<A>> {
        if machine.is_over() {
            self.over.push(number);
        }
        let mut actions = Vec::new();
        machine.actions(&mut actions);
        let Some((last, others)) = actions.split_last() else {
            self.ends += 1;
            if !machine.is_over() {
                return Err(self.fault(number, None, "nothing can happen any more".into()));
            }
            return Ok(());
        };
        for action in others {
            let next = self.step(number, machine.clone(), *action, waiting)?;
            if machine.leads_out(*action) {
                self.steps.push((number, next));
            }
        }
        // The last one may have the machine itself: a copy is most of what a step costs.
        let leads_out = machine.leads_out(*last);
        let next = self.step(number, machine, *last, waiting)?;
        if leads_out {
            self.steps.push((number, next));
        }
        Ok(())
    }

    /// Lets it happen to the machine of that number: the number it has then.
    fn step<M: Machine<Action = A>>(
        &mut self,
        number: u32,
        mut machine: M,
        action: A,
        waiting: &mut VecDeque<(u32, M)>,
    ) -> Result<u32, Fault<A>> {
        if let Err(what) = machine.act(action) {
            return Err(self.fault(number, Some(action), what));
        }
        self.transitions += 1;
        let after = self.numbers.len() as u32;
        match self.numbers.entry(machine.fingerprint()) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(new) => {
                new.insert(after);
                let depth = self.origin(number).map_or(0, |origin| origin.depth) + 1;
                self.origins.push(Origin {
                    before: number,
                    action,
                    depth,
                });
                waiting.push_back((after, machine));
                Ok(after)
            }
        }
    }

    fn origin(&self, number: u32) -> Option<&Origin<A>> {
        self.origins.get((number as usize).checked_sub(1)?)
    }

    /// From every state there is a way to one where everything is over.
    fn check_all_can_end(&mut self) -> Result<(), Fault<A>> {
        // Where the steps that lead to each state begin, in a row.
        self.steps.sort_unstable_by_key(|(_, to)| *to);
        let mut can_end = vec![false; self.numbers.len()];
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
                let what = "from here there is no way to an end".into();
                Err(self.fault(stranded as u32, None, what))
            }
            None => Ok(()),
        }
    }

    fn fault(&self, mut number: u32, last: Option<A>, what: String) -> Fault<A> {
        let mut way: Vec<_> = last.into_iter().collect();
        while let Some(origin) = self.origin(number) {
            way.push(origin.action);
            number = origin.before;
        }
        way.reverse();
        Fault { what, way }
    }
}

/// Takes what is hashed, in many small pieces, to be gone through at once.
pub struct Collected(Vec<u8>);

impl Hasher for Collected {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        hasher.finish()
    }
}

/// 128 bits of what is fed into a hasher.
pub fn fingerprint(feed: impl FnOnce(&mut Collected)) -> u128 {
    let mut collected = Collected(Vec::with_capacity(0x2000));
    feed(&mut collected);
    let low = collected.finish();
    collected.write_u8(1);
    u128::from(collected.finish()) << 64 | u128::from(low)
}

impl<A: Display> Display for Fault<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, action) in (1..).zip(&self.way) {
            writeln!(f, "{number:3}. {action}")?;
        }
        write!(f, "     {}", self.what)
    }
}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} transitions, {} steps deep, {} ends",
            self.states, self.transitions, self.depth, self.ends
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes round a ring of `states`; `exit` of them leads out, at the cost of a failure or
    /// without.
    #[derive(Clone)]
    struct Ring {
        at: u8,
        states: u8,
        exit: Option<Step>,
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Step {
        On,
        Out,
        Fail,
    }

    impl Display for Step {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{self:?}")
        }
    }

    impl Machine for Ring {
        type Action = Step;

        fn fingerprint(&mut self) -> u128 {
            self.at.into()
        }

        fn actions(&self, into: &mut Vec<Step>) {
            if self.at < self.states {
                into.push(Step::On);
                into.extend(self.exit.filter(|_| self.at == 2));
            }
        }

        fn act(&mut self, action: Step) -> Result<(), String> {
            self.at = match action {
                Step::On => (self.at + 1) % self.states,
                Step::Out | Step::Fail => self.states,
            };
            match self.at {
                9 => Err("nine".into()),
                _ => Ok(()),
            }
        }

        fn is_over(&self) -> bool {
            self.at == self.states && self.exit.is_some()
        }

        fn leads_out(&self, action: Step) -> bool {
            action != Step::Fail
        }
    }

    fn ring(states: u8, exit: Option<Step>) -> Result<Found, Fault<Step>> {
        explore(
            Ring {
                at: 0,
                states,
                exit,
            },
            |_| (),
            |_| (),
        )
    }

    #[test]
    fn every_state_is_counted_once() {
        let found = ring(4, Some(Step::Out)).expect("no fault");
        assert_eq!((found.states, found.transitions), (5, 5));
        assert_eq!((found.depth, found.ends), (3, 1));
    }

    #[test]
    fn a_ring_without_an_exit_or_with_one_by_a_failure_only_is_a_fault() {
        for exit in [None, Some(Step::Fail)] {
            let fault = ring(4, exit).expect_err("there is no way out");
            assert_eq!(fault.what, "from here there is no way to an end");
            assert_eq!(fault.way, []);
        }
    }

    #[test]
    fn what_must_not_be_is_reported_with_the_shortest_path() {
        let fault = ring(12, Some(Step::Out)).expect_err("there is a nine");
        assert_eq!((&*fault.what, fault.way), ("nine", vec![Step::On; 9]));
    }
}
