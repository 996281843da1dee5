//! Many runs on several threads. Which thread runs a seed changes nothing.

use std::any::Any;
use std::ops::Range;
use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use indicatif::ProgressBar;
use smc_capture::CaptureError;
use smc_checker::Live;
use smc_transport_sim::chaos::{self, Report};

use super::{Failed, Findings};

/// Runs all seeds, and judges their conversations if asked to.
pub(super) fn run(seeds: Range<u64>, check: bool, jobs: usize, bar: &ProgressBar) -> Findings {
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(Findings::default());
    let job = || {
        let mut mine = Findings::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            // Beyond the largest number the counter begins anew.
            if !seeds.contains(&seed) {
                break;
            }
            mine.run(seed, check);
            bar.inc(1);
            if let Some(failed) = mine.failed.last().filter(|failed| failed.seed == seed) {
                bar.set_message(format!("  seed {} failed", failed.seed));
            }
        }
        let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.merge(&mine);
    };
    let runs = usize::try_from(seeds.end - seeds.start).unwrap_or(usize::MAX);
    thread::scope(|scope| {
        for _ in 1..jobs.min(runs) {
            scope.spawn(job);
        }
        job();
    });
    all.into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Findings {
    /// Runs a seed, judges its conversations if that is asked for, and counts a panic as
    /// a failure of that seed.
    pub(super) fn run(&mut self, seed: u64, check: bool) {
        self.checked += u64::from(check);
        let run = || match check {
            true => judged(seed),
            false => chaos::run(seed),
        };
        match panic::catch_unwind(run) {
            Ok(report) => self.add(&report),
            Err(cause) => {
                self.coverage.runs += 1;
                self.coverage.failed.push(seed);
                let what = vec![format!("panicked: {}", text(cause.as_ref()))];
                self.failed.push(Failed { seed, what });
            }
        }
    }

    pub(super) fn add(&mut self, report: &Report) {
        self.coverage.add(report);
        if !report.is_well() {
            self.failed.push(Failed {
                seed: report.seed,
                what: report.failures.clone(),
            });
        }
    }
}

/// Runs a seed and has its conversations judged, too.
fn judged(seed: u64) -> Report {
    let live = Live::default();
    let run = || -> Result<Report, CaptureError> {
        let (mut report, _) = chaos::replay(seed, 0, Some(live.capture()?))?;
        let judged = live.finish()?;
        let findings = judged
            .for_our_engine(report.clocks_jumped())
            .map(ToString::to_string);
        report.failures.extend(findings);
        Ok(report)
    };
    match run() {
        Ok(report) => report,
        Err(error) => {
            let mut report = chaos::run(seed);
            report.failures.push(format!("cannot be judged: {error}"));
            report
        }
    }
}

/// Message of a panic.
fn text(cause: &(dyn Any + Send)) -> &str {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}
