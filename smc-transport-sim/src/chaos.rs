//! Runs drawn from a seed: hosts with several RNICs, link groups, connections
//! both ways, and faults until enough of them took effect.
//!
//! Every fourth seed has hosts with ISM devices in place of RNICs, so that SMC-D carries
//! what the others carry by SMC-R ([`technology`]).
//!
//! Each run has two phases. In the first one connections open, talk and end while
//! faults strike, and the [invariants](crate::invariants) are checked after every
//! step. Then the faults stop, and everything must converge: connections end,
//! engines and RNICs give everything back. Last, the [oracle](crate::oracle)
//! judges each connection.
//!
//! ```
//! let report = smc_transport_sim::chaos::run(7);
//! assert!(report.failures.is_empty(), "{report}");
//! assert!(report.connections.len() >= 8);
//! ```
//!
//! [`run`] is for many seeds, [`replay`] for one that failed: the same run, with
//! the messages as a ladder and, if wanted, as a capture.

mod coverage;
mod fault;
mod report;
mod run;
mod scenario;
mod script;
mod smcd;

#[cfg(test)]
mod tests;

pub use coverage::Coverage;
pub use report::Report;
pub use run::{replay, run};
pub use smcd::technology;
