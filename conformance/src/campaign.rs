//! Rounds of the fuzz targets: built by cargo-fuzz, run within bounds, and reported in
//! numbers.
//!
//! The corpora of the repository are only read; what a round finds beyond them goes to
//! `fuzz/target/grown`, and inputs that fail to `fuzz/artifacts`, as cargo-fuzz has it.

mod coverage;
mod progress;
mod round;
mod tools;

pub use coverage::{FileCoverage, coverage};
pub use progress::Progress;
pub use round::{Bound, Round, Verdict, round};
pub use tools::{Problem, build};

use std::path::PathBuf;

use crate::ledger::repository;

/// The workspace of the targets.
fn workspace() -> PathBuf {
    repository().join("fuzz")
}
