//! Outcomes of runs.

use std::collections::BTreeMap;

use smc_proto::wire::types::DiagnosisCode;
use smc_transport_sim::oracle::Outcome;

use super::resource::Refusal;
use super::run::{Ended, run};
use super::scenario::Scenario;

/// Outcomes of runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How many there were.
    pub runs: u64,
    /// Outcomes of their connections.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Why sides of them were plain TCP.
    pub codes: BTreeMap<DiagnosisCode, u64>,
    /// Whatever was wrong, with the run it was wrong in.
    pub failures: Vec<String>,
}

impl Tally {
    /// Adds a run of a scenario.
    pub fn add(&mut self, scenario: &Scenario, refusal: Refusal, ended: &Ended) {
        self.runs += 1;
        for outcome in ended.connections.iter().flatten() {
            *self.outcomes.entry(*outcome).or_default() += 1;
        }
        for code in &ended.codes {
            *self.codes.entry(*code).or_default() += 1;
        }
        let failures = ended.failures.iter();
        let name = scenario.name;
        self.failures
            .extend(failures.map(|what| format!("{name}: {refusal}: {what}")));
    }

    /// Adds other runs.
    pub fn join(&mut self, other: Self) {
        self.runs += other.runs;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        for (code, count) in other.codes {
            *self.codes.entry(code).or_default() += count;
        }
        self.failures.extend(other.failures);
    }
}

/// Makes all these runs of a scenario, and reports each.
#[must_use]
pub fn tally(scenario: &Scenario, refusals: &[Refusal], mut report: impl FnMut()) -> Tally {
    let mut tally = Tally::default();
    for refusal in refusals {
        tally.add(scenario, *refusal, &run(scenario, *refusal));
        report();
    }
    tally
}
