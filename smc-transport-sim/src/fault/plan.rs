//! Which faults there are, which of them strikes now, which took effect.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use super::{Effect, FaultAction, Operation, Phase, Trigger};
use crate::fabric::HostId;
use crate::random::Random;

/// Faults of one run, in the order in which they are considered.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    faults: Vec<Fault>,
    /// How often each fault saw its operation.
    seen: Vec<u64>,
    /// Whether nothing strikes any more.
    spent: bool,
    /// How often each fault took effect, by phase.
    effects: BTreeMap<(usize, Phase), u64>,
}

/// One fault: what happens, its target and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Fault {
    /// When.
    pub trigger: Trigger,
    /// At which host; `None` for any host, or for all hosts with [`Trigger::At`].
    pub host: Option<HostId>,
    /// What.
    pub action: FaultAction,
}

/// A fault that strikes now: its number in the plan, and what it does.
pub(crate) type Struck = (usize, FaultAction);

impl FaultPlan {
    /// No faults.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            faults: Vec::new(),
            seen: Vec::new(),
            spent: false,
            effects: BTreeMap::new(),
        }
    }

    /// Adds a fault.
    pub fn push(&mut self, fault: Fault) {
        self.faults.push(fault);
        self.seen.push(0);
    }

    /// Adds a fault.
    #[must_use]
    pub fn with(
        mut self,
        trigger: Trigger,
        host: impl Into<Option<HostId>>,
        action: FaultAction,
    ) -> Self {
        self.push(Fault {
            trigger,
            host: host.into(),
            action,
        });
        self
    }

    /// The faults.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// How many operations a fault saw that is tied to a number of them, by its place
    /// in the plan. Tied to a number that is never reached, it only counts.
    #[must_use]
    pub fn seen(&self, fault: usize) -> u64 {
        self.seen.get(fault).copied().unwrap_or(0)
    }

    /// Whether a fault, by its place in the plan, took effect at least once.
    #[must_use]
    pub fn took_effect(&self, fault: usize) -> bool {
        let all = (fault, Phase::Idle)..(fault.saturating_add(1), Phase::Idle);
        self.effects.range(all).next().is_some()
    }

    /// How many of the faults took effect at least once.
    #[must_use]
    pub fn effective(&self) -> usize {
        (0..self.faults.len())
            .filter(|fault| self.took_effect(*fault))
            .count()
    }

    /// What took effect: one entry for each fault and phase.
    pub fn effects(&self) -> impl Iterator<Item = Effect> {
        self.effects.iter().filter_map(|((fault, phase), times)| {
            Some(Effect {
                kind: self.faults.get(*fault)?.action.kind(),
                phase: *phase,
                times: *times,
            })
        })
    }

    /// Notes that a fault took effect.
    pub(crate) fn note(&mut self, fault: usize, phase: Phase) {
        *self.effects.entry((fault, phase)).or_default() += 1;
    }

    /// Lets no fault strike any more.
    pub(crate) fn disarm(&mut self) {
        self.spent = true;
    }

    /// The fault, if it may still strike.
    pub(crate) fn armed(&self, fault: usize) -> Option<Fault> {
        self.faults.get(fault).filter(|_| !self.spent).copied()
    }

    /// What strikes an operation that is about to happen.
    pub(crate) fn strike(
        &mut self,
        host: HostId,
        operation: Operation,
        random: &mut Random,
    ) -> Vec<Struck> {
        self.strike_first(host, operation, 1, random)
            .map_or_else(Vec::new, |(_, actions)| actions)
    }

    /// The first of `count` equal operations that is struck, counted from 0,
    /// and by what. Operations after it do not count as seen.
    pub(crate) fn strike_first(
        &mut self,
        host: HostId,
        operation: Operation,
        count: u64,
        random: &mut Random,
    ) -> Option<(u64, Vec<Struck>)> {
        if !self.concerns(host, operation) {
            return None;
        }
        (0..count).find_map(|index| {
            let actions: Vec<_> = self
                .faults
                .iter()
                .zip(&mut self.seen)
                .enumerate()
                .filter(|(_, (fault, _))| fault.host.is_none_or(|only| only == host))
                .filter_map(|(number, (fault, seen))| {
                    let struck = match fault.trigger {
                        Trigger::Nth {
                            operation: on,
                            number,
                        } if on.matches(operation) => {
                            *seen += 1;
                            *seen == number
                        }
                        Trigger::From {
                            operation: on,
                            number,
                        } if on.matches(operation) => {
                            *seen += 1;
                            *seen >= number
                        }
                        Trigger::Chance {
                            operation: on,
                            per_million,
                        } if on.matches(operation) => random.chance(per_million),
                        _ => false,
                    };
                    struck.then_some((number, fault.action))
                })
                .collect();
            (!actions.is_empty()).then_some((index, actions))
        })
    }

    fn concerns(&self, host: HostId, operation: Operation) -> bool {
        !self.spent
            && self.faults.iter().any(|fault| {
                fault.host.is_none_or(|only| only == host)
                    && fault
                        .trigger
                        .operation()
                        .is_some_and(|on| on.matches(operation))
            })
    }
}

impl Hash for FaultPlan {
    /// Faults and what they saw; effects describe the past only.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.faults.hash(state);
        (&self.seen, self.spent).hash(state);
    }
}
