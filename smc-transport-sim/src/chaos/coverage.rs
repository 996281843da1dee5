//! Which faults struck in which phases, over many runs.

use std::collections::BTreeMap;
use std::fmt;

use smc_proto::version::Technology;

use super::Report;
use crate::fault::{FaultKind, Phase};
use crate::oracle::Outcome;

/// Sums over many runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Runs.
    pub runs: u64,
    /// Runs of SMC-D among them.
    pub smcd_runs: u64,
    /// Seeds of runs in which something was wrong.
    pub failed: Vec<u64>,
    /// Connections by outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Faults that took effect, by kind and phase.
    pub effects: BTreeMap<(FaultKind, Phase), u64>,
    /// Bytes that applications read.
    pub bytes: u64,
    /// Steps of the simulations.
    pub steps: u64,
    /// The most steps one call into an engine took.
    pub most_steps: u32,
    /// Link groups.
    pub groups: u64,
    /// Links.
    pub links: u64,
}

impl Coverage {
    /// Adds a run.
    pub fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.smcd_runs += u64::from(report.technology == Technology::SmcD);
        if !report.is_well() {
            self.failed.push(report.seed);
        }
        for outcome in report.connections.iter().flatten() {
            *self.outcomes.entry(*outcome).or_default() += 1;
        }
        for effect in &report.effects {
            *self.effects.entry((effect.kind, effect.phase)).or_default() += effect.times;
        }
        self.bytes += report.bytes;
        self.steps += report.steps;
        self.most_steps = self.most_steps.max(report.most_steps);
        self.groups += report.groups as u64;
        self.links += report.links as u64;
    }

    /// Adds the sums of other runs.
    pub fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.smcd_runs += other.smcd_runs;
        self.failed.extend_from_slice(&other.failed);
        self.failed.sort_unstable();
        for (outcome, count) in &other.outcomes {
            *self.outcomes.entry(*outcome).or_default() += count;
        }
        for (effect, count) in &other.effects {
            *self.effects.entry(*effect).or_default() += count;
        }
        self.bytes += other.bytes;
        self.steps += other.steps;
        self.most_steps = self.most_steps.max(other.most_steps);
        self.groups += other.groups;
        self.links += other.links;
    }

    /// How often faults of a kind took effect in a phase.
    #[must_use]
    pub fn times(&self, kind: FaultKind, phase: Phase) -> u64 {
        self.effects.get(&(kind, phase)).copied().unwrap_or(0)
    }
}

impl Coverage {
    /// Why a kind of fault can never take effect in a phase, if so.
    #[must_use]
    pub const fn impossible(kind: FaultKind, phase: Phase) -> Option<&'static str> {
        match (kind, phase) {
            (
                FaultKind::AcknowledgeAndLose
                | FaultKind::FewReceives
                | FaultKind::LoseCompletions
                | FaultKind::SilenceLink
                | FaultKind::SilencePort
                | FaultKind::SlowPort
                | FaultKind::WithholdReceives,
                Phase::Handshake,
            ) => Some(
                "takes effect on work of a queue pair; while its CLC messages are exchanged \
                 none is ready to send",
            ),
            (
                FaultKind::FailMove
                | FaultKind::FailDmb
                | FaultKind::LateSignals
                | FaultKind::PeerVanishes
                | FaultKind::RemoveIsm,
                Phase::FirstContact
                | Phase::AddingLink
                | Phase::DeletingLink
                | Phase::Rkeys
                | Phase::FailingOver,
            ) => Some("a group of SMC-D has one way and no LLC messages"),
            _ => None,
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs, {} of SMC-D, {} groups, {} links, {} octets, {} steps, at most {} in a call",
            self.runs,
            self.smcd_runs,
            self.groups,
            self.links,
            self.bytes,
            self.steps,
            self.most_steps
        )?;
        for (outcome, count) in &self.outcomes {
            writeln!(f, "{count:>8} connections {outcome}")?;
        }
        write!(f, "{:24}", "")?;
        for phase in Phase::ALL {
            write!(f, "{phase:>16}")?;
        }
        writeln!(f)?;
        for kind in FaultKind::ALL {
            write!(f, "{kind:24}")?;
            for phase in Phase::ALL {
                match (self.times(kind, phase), Self::impossible(kind, phase)) {
                    (0, Some(_)) => write!(f, "{:>16}", "impossible")?,
                    (times, _) => write!(f, "{times:>16}")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f, "{} runs failed: {:?}", self.failed.len(), self.failed)
    }
}
