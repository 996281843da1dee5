//! Outcome of a run.

use std::fmt;

use smc_proto::stats::Statistics;
use smc_proto::time::Instant;
use smc_proto::version::Technology;

use crate::fault::{Effect, FaultKind};
use crate::oracle::Outcome;

/// Outcome of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// What it was drawn from.
    pub seed: u64,
    /// What carried its connections, if not TCP.
    pub technology: Technology,
    /// Which faults took effect, and in which phase.
    pub effects: Vec<Effect>,
    /// How many of the faults took effect.
    pub faults: usize,
    /// Outcome of each connection; `None` for one that must not be.
    pub connections: Vec<Option<Outcome>>,
    /// Whatever was wrong, in words.
    pub failures: Vec<String>,
    /// The last events of each engine, if anything was wrong: a line each.
    pub events: String,
    /// Counters of each host's engine, of its last instance if it crashed.
    pub statistics: Vec<Statistics>,
    /// Link groups in which at least one link came up, or of SMC-D that carried a
    /// connection.
    pub groups: usize,
    /// Links that came up.
    pub links: usize,
    /// Bytes that applications read.
    pub bytes: u64,
    /// Steps of the simulation.
    pub steps: u64,
    /// The most steps one call into an engine took.
    pub most_steps: u32,
    /// Simulated time.
    pub time: Instant,
    /// Hash of the state at the end: equal for equal runs.
    pub fingerprint: u64,
}

impl Report {
    /// Whether nothing was wrong.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        self.failures.is_empty()
    }

    /// Whether a clock of a host ran ahead of the others.
    #[must_use]
    pub fn clocks_jumped(&self) -> bool {
        let jump = |effect: &Effect| effect.kind == FaultKind::JumpClock && effect.times > 0;
        self.effects.iter().any(jump)
    }

    /// How many connections had this outcome.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        let mut outcomes = self.connections.iter();
        let is = |o: &&Option<Outcome>| **o == Some(outcome);
        outcomes.by_ref().filter(is).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {}: {} connections in {} groups with {} links, {} octets, {} steps, {}",
            self.seed,
            self.technology,
            self.connections.len(),
            self.groups,
            self.links,
            self.bytes,
            self.steps,
            self.time,
        )?;
        for Effect { kind, phase, times } in &self.effects {
            writeln!(f, "  {kind} while {phase}, {times} times")?;
        }
        for (number, outcome) in self.connections.iter().enumerate() {
            match outcome {
                Some(outcome) => writeln!(f, "  connection {number}: {outcome}")?,
                None => writeln!(f, "  connection {number}: failed")?,
            }
        }
        for failure in &self.failures {
            writeln!(f, "  FAILURE {failure}")?;
        }
        f.write_str(&self.events)?;
        if !self.is_well() {
            let (seed, next) = (self.seed, self.seed.saturating_add(1));
            writeln!(
                f,
                "  replay: cargo run --release -- sim --seeds {seed}..{next}"
            )?;
        }
        Ok(())
    }
}
