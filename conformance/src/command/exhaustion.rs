//! `conformance exhaustion`.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use conformance::exhaustion::{Progress, Resource, ScenarioOutcome, Tally, round, scenarios};
use indicatif::{ProgressBar, ProgressStyle};

/// Failures that are printed in full.
const SHOWN: usize = 40;

#[derive(Args)]
pub(crate) struct Exhaustion {
    /// Scenarios whose names contain this; all, if it is not given.
    scenario: Option<String>,
    /// So many requests of each host for each resource, spread evenly; all, if not given.
    #[arg(long, value_name = "N")]
    few: Option<u64>,
    /// Scenarios run at a time; as many as there are cores, if not given.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
}

impl Exhaustion {
    pub(crate) fn run(&self) -> ExitCode {
        let mut chosen = scenarios();
        if let Some(part) = &self.scenario {
            chosen.retain(|scenario| scenario.name.contains(part));
        }
        if chosen.is_empty() {
            let names: Vec<_> = scenarios().iter().map(|scenario| scenario.name).collect();
            eprintln!("conformance: there are {}", names.join("; "));
            return ExitCode::from(2);
        }
        let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed}");
        let bar = ProgressBar::new(0).with_style(style.expect("a template that is right"));
        let jobs = self.jobs.unwrap_or_else(cores);
        let outcomes = round(chosen, self.few, jobs, |progress| match progress {
            Progress::Planned(runs) => bar.inc_length(runs),
            Progress::Ran => bar.inc(1),
        });
        bar.finish_and_clear();
        println!("{}", table(&outcomes));
        let mut all = Tally::default();
        for one in outcomes {
            all.join(one.tally);
        }
        println!("{} runs", all.runs);
        println!("Connections: {}", counted(&all.outcomes));
        println!("Over TCP: {}", counted(&all.codes));
        for failure in all.failures.iter().take(SHOWN) {
            println!("FAILURE {failure}");
        }
        match all.failures.len() {
            0 => ExitCode::SUCCESS,
            failures => {
                println!("{failures} failures");
                ExitCode::FAILURE
            }
        }
    }
}

fn counted<K: std::fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let each = counts.iter().map(|(what, count)| format!("{count} {what}"));
    each.collect::<Vec<_>>().join(", ")
}

fn table(outcomes: &[ScenarioOutcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let heads = Resource::ALL.iter().map(|resource| resource.short());
    let heads = ["scenario"]
        .into_iter()
        .chain(heads)
        .chain(["runs", "failed"]);
    table.set_header(heads);
    for one in outcomes {
        let counts = Resource::ALL.iter().map(|r| match one.requests.of(*r) {
            0 => "-".to_owned(),
            count => count.to_string(),
        });
        let ends = [one.tally.runs, one.tally.failures.len() as u64].map(|n| n.to_string());
        table.add_row([one.name.to_owned()].into_iter().chain(counts).chain(ends));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_padding((0, 1));
    }
    table
}
