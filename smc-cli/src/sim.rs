//! `smcx sim`: many simulations with faults, each drawn from its seed.

mod many;
mod report;
mod single;

use std::io::Write;
use std::time::Instant as RealInstant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use smc_transport_sim::chaos::Coverage;

use crate::cli::{Profile, Seeds, SimArguments};
use crate::output::{Failure, Screen};

/// What came of all runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Sums over all runs.
    pub coverage: Coverage,
    /// Runs whose conversations were judged.
    pub checked: u64,
    /// Runs in which something was wrong, by seed.
    pub failed: Vec<Failed>,
}

/// A run in which something was wrong.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Failed {
    /// Seed of the run.
    pub seed: u64,
    /// What was wrong.
    pub what: Vec<String>,
}

impl Failed {
    /// The command that runs it again, shows its messages and writes its frames.
    #[must_use]
    pub fn replay(&self) -> String {
        let (seed, next) = (self.seed, self.seed.saturating_add(1));
        format!("smcx sim --seeds {seed}..{next} --pcap seed-{seed}.pcapng --trace")
    }
}

impl Findings {
    /// Adds the findings of other runs.
    pub fn merge(&mut self, other: &Self) {
        self.coverage.merge(&other.coverage);
        self.checked += other.checked;
        self.failed.extend_from_slice(&other.failed);
        self.failed.sort_unstable();
    }
}

/// Runs the simulations and reports to `stdout`.
///
/// # Errors
/// [`Failure`] if a run failed, or something cannot be written.
pub fn run(
    arguments: &SimArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    let Profile::Chaos = arguments.profile;
    let start = RealInstant::now();
    let Seeds(seeds) = arguments.seeds.clone();
    let (findings, messages) = if arguments.trace || arguments.pcap.is_some() {
        single::run(seeds.start, arguments, stdout)?
    } else {
        let jobs = arguments
            .jobs
            .or_else(|| std::thread::available_parallelism().ok());
        let shown = screen.progress && !arguments.json && !arguments.quiet;
        let bar = progress(shown, seeds.end - seeds.start);
        let findings = many::run(seeds, arguments.judges(), jobs.map_or(1, usize::from), &bar);
        bar.finish_and_clear();
        (findings, None)
    };
    let seconds = start.elapsed().as_secs_f64();
    report(&findings, arguments, seconds, messages, screen, stdout)
}

/// Shows what runs were, and fails if something was wrong in one of them.
///
/// # Errors
/// [`Failure::Problem`] if a run failed, [`Failure::Output`] if this cannot be shown.
pub fn report(
    findings: &Findings,
    arguments: &SimArguments,
    seconds: f64,
    messages: Option<Vec<String>>,
    screen: &Screen,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    let shown = if arguments.json {
        report::json(findings, arguments, seconds, messages, stdout)
    } else if arguments.quiet && findings.failed.is_empty() {
        Ok(())
    } else {
        report::text(findings, arguments, seconds, screen, stdout).map_err(Failure::from)
    };
    report::verdict(findings)?;
    shown
}

fn progress(shown: bool, runs: u64) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let draw = ProgressDrawTarget::stderr_with_hz(10);
    let bar = ProgressBar::with_draw_target(Some(runs), draw);
    let template = "{bar:50} {percent:>3}%  {human_pos} of {human_len} runs  {per_sec}  {eta}{msg}";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("━╸ ")),
        Err(_) => bar,
    }
}
