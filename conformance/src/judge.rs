//! The judge of a simulation's conversations, which gives its verdict at the end of each
//! test in the simulator.

use core::fmt;

use smc_checker::{Finding, Live};
use smc_proto::storage::Storage;
use smc_transport_sim::sim::Simulation;

/// Watches the wires of a simulation, and holds its engines to the rules of
/// `docs/checker.md`.
#[derive(Clone)]
pub struct Judge(Live);

impl Judge {
    /// Watches a simulation from now on: before anything is sent in it.
    ///
    /// # Panics
    /// Never: the capture is written into memory.
    #[must_use]
    pub fn watch<S: Storage>(simulation: &mut Simulation<S>) -> Self {
        Self(Live::watch(simulation).expect("into memory"))
    }

    /// What broke a rule so far, a sentence each.
    ///
    /// # Panics
    /// If the capture cannot be read, which a sound writer rules out.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let findings = self.0.findings().expect("a sound capture");
        let ours = findings
            .iter()
            .filter(|finding| finding.is_ours_to_answer());
        ours.map(Finding::to_string).collect()
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Judge")
    }
}
