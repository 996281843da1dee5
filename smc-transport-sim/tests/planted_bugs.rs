//! Mistakes put into the engines on purpose: each must be found, and soon. A check
//! that finds none of them is none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use smc_proto::planted::PlantedBug;
use smc_transport_sim::chaos;

/// The reliability goals allow so many seeds; without optimization fewer are run.
const MOST: u64 = if cfg!(debug_assertions) { 300 } else { 10_000 };

/// The rule by which a mistake must be found, unless what it is for cannot be seen
/// from outside or shows in many ways.
const fn named(bug: PlantedBug) -> Option<&'static str> {
    match bug {
        PlantedBug::ClearInUse
        | PlantedBug::ReuseEarly
        | PlantedBug::ReuseDmb
        | PlantedBug::FreeBeforeDrained => Some("I4"),
        PlantedBug::WriteAfterAbort => Some("I3"),
        PlantedBug::ForgetSend => Some("I5"),
        PlantedBug::LoseWake => Some("I8"),
        PlantedBug::EndTwice => Some("I9"),
        PlantedBug::LeakBuffer => Some("I11"),
        PlantedBug::SilentFallback => Some("I12"),
        PlantedBug::WalkAll => Some("I13"),
        PlantedBug::NoLlcTimer => Some("I7"),
        _ => None,
    }
}

fn names(failures: &[String], rule: &str) -> bool {
    let words = format!(": {rule}: ");
    failures.iter().any(|failure| failure.contains(&words))
}

/// Whether a seed has the engines run what a mistake is in.
fn concerns(bug: PlantedBug, seed: u64) -> bool {
    bug.technology()
        .is_none_or(|technology| chaos::technology(seed) == technology)
}

/// The first seed that finds a mistake, and what it found. An engine that stops
/// itself by an assertion found it, too.
fn find(bug: PlantedBug) -> Option<(u64, String)> {
    (0..MOST)
        .filter(|seed| concerns(bug, *seed))
        .find_map(|seed| {
            let run = || chaos::run_with(seed, |config| config.plant(bug));
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(report) if report.is_well() || !chaos::run(seed).is_well() => None,
                // Other rules may break before or besides the one the mistake is for.
                Ok(report) if named(bug).is_some_and(|rule| !names(&report.failures, rule)) => None,
                Ok(report) => {
                    let rule = named(bug).unwrap_or("I");
                    let mut failures = report.failures.iter();
                    let found = failures.find(|failure| failure.contains(&format!(": {rule}")));
                    Some((seed, found.or(report.failures.first())?.clone()))
                }
                Err(_) if named(bug).is_some() => None,
                Err(_) => Some((seed, "an assertion of the engine".to_owned())),
            }
        })
}

#[test]
fn every_planted_bug_is_found() {
    let next = AtomicU64::new(0);
    let search = || {
        let mut missed = Vec::new();
        while let Some(&bug) = PlantedBug::ALL.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            match find(bug) {
                Some((seed, how)) => println!("{bug:?}: after {} seeds: {how}", seed + 1),
                None => missed.push(bug),
            }
        }
        missed
    };
    let missed: Vec<_> = thread::scope(|scope| {
        let searches = [(); 2].map(|()| scope.spawn(search));
        searches
            .into_iter()
            .flat_map(|search| search.join().expect("a search ends"))
            .collect()
    });
    assert!(missed.is_empty(), "not found in {MOST} seeds: {missed:?}");
}
