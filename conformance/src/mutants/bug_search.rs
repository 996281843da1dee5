//! Searches for the mistake that this run of the engine has, in simulations: prints after how many
//! seeds it is found, and how. The exit status is 1 if it is not found. In a copy of the sources only.
//!
//!     bug_search SEEDS TECHNOLOGY|any INVARIANT|any

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use smc_transport_sim::chaos;

/// How a seed finds the mistake; an engine that stops itself by an assertion found it, too.
fn find(seed: u64, invariant: &str) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| chaos::run(seed))) {
        Ok(report) if report.is_well() => None,
        // Other invariants may break before or besides the one that the mistake is for.
        Ok(report) => {
            let mark = match invariant {
                "any" => ": I".to_owned(),
                _ => format!(": {invariant}: "),
            };
            let mut failures = report.failures.iter();
            let found = failures.find(|failure| failure.contains(&mark)).cloned();
            match invariant {
                "any" => found.or(report.failures.first().cloned()),
                _ => found,
            }
        }
        Err(_) => (invariant == "any").then(|| "an assertion of the engine".to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, most, technology, invariant] = arguments.as_slice() else {
        eprintln!("usage: bug_search SEEDS TECHNOLOGY|any INVARIANT|any");
        return ExitCode::from(2);
    };
    let most: u64 = most.parse().expect("a number of seeds");
    // The message of an assertion is not shown here.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in 0..most {
        let of_seed = chaos::technology(seed).to_string();
        if technology != "any" && *technology != of_seed {
            continue;
        }
        if let Some(how) = find(seed, invariant) {
            println!("after {} seeds: {how}", seed + 1);
            return ExitCode::SUCCESS;
        }
    }
    println!("NOT FOUND in {most} seeds");
    ExitCode::FAILURE
}
