//! All scenarios, run side by side.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::run::{Requests, requests};
use super::scenario::Scenario;
use super::tally::{Tally, tally};

/// A scenario, and the outcome of its runs.
#[derive(Clone, Debug)]
pub struct ScenarioOutcome {
    /// Name of the scenario.
    pub name: &'static str,
    /// What it asks for if nothing is refused.
    pub requests: Requests,
    /// Outcome with requests refused.
    pub tally: Tally,
}

/// Runs scenarios with requests refused: all of them, or of each resource the `few` that
/// [`Requests::refusals`] picks. `report` gets the number of runs to come, and each that is over.
#[must_use]
pub fn round(
    scenarios: Vec<Scenario>,
    few: Option<u64>,
    jobs: NonZero<usize>,
    report: impl Fn(Progress) + Sync,
) -> Vec<ScenarioOutcome> {
    let left: VecDeque<_> = scenarios.into_iter().enumerate().collect();
    let left = Mutex::new(left);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some((place, scenario)) = pop(&left) {
            let outcome = one(&scenario, few, &report);
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((place, outcome));
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get() {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// How far a round has come.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// Number of runs that are to come.
    Planned(u64),
    /// One is over.
    Ran,
}

fn pop(left: &Mutex<VecDeque<(usize, Scenario)>>) -> Option<(usize, Scenario)> {
    left.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop_front()
}

fn one(scenario: &Scenario, few: Option<u64>, report: &impl Fn(Progress)) -> ScenarioOutcome {
    let name = scenario.name;
    match requests(scenario) {
        Ok(requests) => {
            let refusals = requests.refusals(few);
            report(Progress::Planned(refusals.len() as u64));
            let tally = tally(scenario, &refusals, || report(Progress::Ran));
            ScenarioOutcome {
                name,
                requests,
                tally,
            }
        }
        Err(failures) => ScenarioOutcome {
            name,
            requests: Requests::default(),
            tally: Tally {
                failures: failures
                    .iter()
                    .map(|what| format!("{name}: nothing refused: {what}"))
                    .collect(),
                ..Tally::default()
            },
        },
    }
}
