//! The arguments of `sim`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::{Seeds, jobs};

/// What runs are drawn from their seeds.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Hosts with several RNICs, connections both ways, faults of all kinds.
    Chaos,
}

/// Arguments of `sim`.
#[derive(Args, Debug, Clone)]
pub struct SimArguments {
    /// Seeds from A up to, but not including, B.
    #[arg(long, value_name = "A..B", default_value = "0..100")]
    pub seeds: Seeds,
    /// What is drawn from a seed.
    #[arg(long, value_enum, default_value_t = Profile::Chaos)]
    pub profile: Profile,
    /// Run so many seeds at once [default: as many as there are cores]; the
    /// results are the same.
    #[arg(long, value_name = "N", value_parser = jobs)]
    pub jobs: Option<NonZeroUsize>,
    /// One seed only: show its messages.
    #[arg(long)]
    pub trace: bool,
    /// One seed only: write every frame to this pcapng capture.
    #[arg(long, value_name = "OUT")]
    pub pcap: Option<PathBuf>,
    /// Do not judge the conversations of the runs as `check` does, which takes about half
    /// of the time.
    #[arg(long)]
    pub no_check: bool,
    /// Judge the conversations of every run: the default, accepted for older scripts.
    #[arg(long, hide = true, conflicts_with = "no_check")]
    pub check: bool,
    /// One JSON object.
    #[arg(long)]
    pub json: bool,
    /// Print nothing if all goes well.
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
}

impl SimArguments {
    /// Whether conversations are judged.
    #[must_use]
    pub fn judges(&self) -> bool {
        !self.no_check
    }

    /// Whether the arguments fit each other.
    ///
    /// # Errors
    /// A sentence that names what does not.
    pub fn check(&self) -> Result<(), String> {
        let Seeds(seeds) = &self.seeds;
        if seeds.end - seeds.start == 1 || (!self.trace && self.pcap.is_none()) {
            return Ok(());
        }
        let what = if self.trace { "--trace" } else { "--pcap" };
        let (one, next) = (seeds.start, seeds.start + 1);
        Err(format!(
            "{what} is for one seed, such as --seeds {one}..{next}"
        ))
    }
}
