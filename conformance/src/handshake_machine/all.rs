//! All scenarios, one after the other.

use std::collections::BTreeMap;
use std::fmt;

use smc_proto::version::SmcVersion;

use super::{Action, Bounds, Condition, Held, Outcome, Scenario, Transport, explore};
use crate::explore::{Fault, Found, Machine, Progress};

/// What was found in all scenarios.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// How many scenarios there are.
    pub scenarios: usize,
    /// Their states and steps together, and the depth of the deepest.
    pub found: Found,
    /// How often both sides ended with which answer.
    pub ends: BTreeMap<Outcome, usize>,
}

/// Explores what may happen to hosts of which everything works, first and subsequent
/// contact, in these transports.
///
/// # Errors
/// The first thing that must not be, with its scenario and the shortest way there.
pub fn explore_working(
    transports: &[Transport],
    bounds: Bounds,
    mut progress: impl FnMut(&Scenario, Progress),
) -> Result<Summary, (Scenario, Fault<Action>)> {
    let mut summary = Summary::default();
    for base in Scenario::bases().filter(|base| transports.contains(&base.transport)) {
        summary.explore(&base, bounds, &mut progress)?;
    }
    Ok(summary)
}

/// Explores every scenario: what works, and each thing that does not; `progress` gets the
/// scenario and the number of its states, now and then.
///
/// # Errors
/// The first thing that must not be, with its scenario and the shortest way there.
pub fn explore_all(
    bounds: Bounds,
    mut progress: impl FnMut(&Scenario, Progress),
) -> Result<Summary, (Scenario, Fault<Action>)> {
    let mut summary = Summary::default();
    for base in Scenario::bases() {
        summary.explore(&base, bounds, &mut progress)?;
        for condition in base.conditions() {
            let scenario = Scenario {
                condition: Some(condition),
                ..base
            };
            summary.explore(&scenario, bounds, &mut progress)?;
        }
        for side in [0, 1] {
            // Until a side gives its devices no more commands than that.
            for nth in 0.. {
                let scenario = Scenario {
                    held: Some(Held { side, nth }),
                    ..base
                };
                if !summary.explore(&scenario, bounds, &mut progress)? {
                    break;
                }
            }
        }
    }
    Ok(summary)
}

impl Summary {
    /// Whether a command was kept waiting in any state.
    fn explore(
        &mut self,
        scenario: &Scenario,
        bounds: Bounds,
        progress: &mut impl FnMut(&Scenario, Progress),
    ) -> Result<bool, (Scenario, Fault<Action>)> {
        let mut has_held = false;
        let ends = &mut self.ends;
        let see = |world: &super::World| {
            has_held |= world.has_held();
            if world.is_over() {
                let [outcome, _] = world.outcomes();
                *ends.entry(outcome).or_default() += 1;
            }
        };
        let found = explore(scenario, bounds, see, |states| progress(scenario, states));
        let found = found.map_err(|fault| (*scenario, fault))?;
        self.scenarios += 1;
        self.found.states += found.states;
        self.found.transitions += found.transitions;
        self.found.ends += found.ends;
        self.found.depth = self.found.depth.max(found.depth);
        Ok(has_held)
    }
}

impl Scenario {
    /// Everything works, in every transport; and no option in the SYNs.
    fn bases() -> impl Iterator<Item = Self> {
        Transport::ALL.into_iter().flat_map(|transport| {
            let first = Self::new(transport);
            let plain = Self {
                option: false,
                ..first
            };
            let next = Self {
                subsequent: true,
                ..first
            };
            let shared = Self {
                elements: 2,
                ..next
            };
            let is_smcr = matches!(transport, Transport::SmcR(_));
            let all = [
                Some(first),
                Some(plain),
                Some(next),
                is_smcr.then_some(shared),
            ];
            all.into_iter().flatten()
        })
    }

    /// What may not work.
    fn conditions(&self) -> Vec<Condition> {
        let is_smcr = matches!(self.transport, Transport::SmcR(_));
        let is_v2 = matches!(
            self.transport,
            Transport::SmcR(SmcVersion::V2) | Transport::SmcD(SmcVersion::V2)
        );
        let mut all = Vec::new();
        for side in [0, 1] {
            all.extend([Condition::NoConnection(side), Condition::NoBuffer(side)]);
            // A second connection needs no more of these than the first one.
            if !self.subsequent {
                all.extend([Condition::NoDevice(side), Condition::NoHandshake(side)]);
                all.extend([Condition::NoGroup(side), Condition::NoLink(side)]);
            }
            if is_smcr && self.elements == 1 {
                all.push(Condition::NoRemoteRmb(side));
            }
        }
        if !self.subsequent {
            all.extend([Condition::Policy, Condition::OtherVersion]);
            all.extend(is_v2.then_some(Condition::OtherEid));
        }
        match self.option {
            true => all,
            // Other conditions have no effect.
            false => vec![Condition::NoConnection(0), Condition::NoConnection(1)],
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} scenarios: {}", self.scenarios, self.found)?;
        for (outcome, count) in &self.ends {
            write!(f, ", {count} in {outcome:?}")?;
        }
        f.write_str(
            "; both sides have the same answer in each, and no octet was in the wrong hands",
        )
    }
}
