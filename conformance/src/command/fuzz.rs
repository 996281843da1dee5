//! `conformance fuzz`.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use conformance::campaign::{self, Bound, FileCoverage, Problem, Progress, Round, Verdict};
use conformance::fuzz::{TARGETS, Target};
use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

#[derive(Args)]
pub(crate) struct Fuzz {
    /// Targets; all, if none is named.
    #[arg(value_parser = target)]
    targets: Vec<&'static Target>,
    /// How long each target runs: 30s, 10m, 8h.
    #[arg(long = "for", value_name = "DURATION", default_value = "30s")]
    time: humantime::Duration,
    /// Executions after which a target ends sooner.
    #[arg(long, value_name = "N")]
    executions: Option<u64>,
    /// Targets that run at a time; as many as there are cores, if not given.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Runs nothing, but shows which regions of this directory the corpora reach; needs
    /// llvm-tools of the nightly toolchain.
    #[arg(
        long,
        value_name = "DIRECTORY",
        num_args = 0..=1,
        default_missing_value = "smc-proto/src/wire"
    )]
    coverage: Option<String>,
    /// JSON in place of tables, an object a line: that of a target as soon as it ends.
    #[arg(long)]
    json: bool,
}

fn target(name: &str) -> Result<&'static Target, String> {
    let named = TARGETS.iter().find(|target| target.name == name);
    named.ok_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        format!("there are {}", names.join(", "))
    })
}

impl Fuzz {
    pub(crate) fn run(&self) -> ExitCode {
        let done = match &self.coverage {
            Some(under) => self.coverage(under),
            None => self.rounds(),
        };
        done.unwrap_or_else(|problem| {
            eprintln!("conformance: {problem}");
            ExitCode::from(2)
        })
    }

    fn targets(&self) -> Vec<&'static Target> {
        if self.targets.is_empty() {
            return TARGETS.iter().collect();
        }
        self.targets.clone()
    }

    fn rounds(&self) -> Result<ExitCode, Problem> {
        let targets = self.targets();
        waiting("building the targets", || campaign::build(&targets))?;
        let left = Mutex::new(VecDeque::from(targets));
        let rounds = Mutex::new(Vec::new());
        let bars = MultiProgress::new();
        let work = || -> Result<(), Problem> {
            loop {
                let next = lock(&left).pop_front();
                let Some(target) = next else {
                    return Ok(());
                };
                let bar = bars.add(self.bar(target.name));
                let report = |progress| show(&bar, self.executions, progress);
                let bound = Bound {
                    time: self.time.into(),
                    executions: self.executions,
                };
                let round = campaign::round(target, bound, report);
                bar.finish_and_clear();
                let round = round?;
                // At once: a campaign of hours that is stopped keeps what it has shown.
                if self.json {
                    println!("{}", round_json(&round));
                }
                lock(&rounds).push(round);
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.jobs.unwrap_or(cores).max(1))
                .map(|_| scope.spawn(work))
                .collect();
            // A thread that panicked has printed that.
            let ends = threads.into_iter().filter_map(|thread| thread.join().ok());
            ends.collect::<Result<(), Problem>>()
        })?;
        let mut rounds = rounds.into_inner().unwrap_or_else(PoisonError::into_inner);
        rounds.sort_by(|one, other| one.target.cmp(&other.target));
        if !self.json {
            println!("{}", round_table(&rounds));
        }
        let mut failed = false;
        for round in &rounds {
            if let Verdict::Failed(lines) = &round.verdict {
                failed = true;
                eprintln!("{}:\n{lines}\n", round.target);
            }
        }
        Ok(ExitCode::from(u8::from(failed)))
    }

    fn bar(&self, target: &'static str) -> ProgressBar {
        let template = match self.executions {
            Some(_) => "{prefix:22} {bar:20} {elapsed} {msg}",
            None => "{prefix:22} {spinner} {elapsed} {msg}",
        };
        let style = ProgressStyle::with_template(template).expect("a template that is right");
        let bar = match self.executions {
            Some(executions) => ProgressBar::new(executions),
            None => ProgressBar::new_spinner(),
        };
        bar.enable_steady_tick(Duration::from_millis(200));
        bar.with_style(style).with_prefix(target)
    }

    fn coverage(&self, under: &str) -> Result<ExitCode, Problem> {
        let bar = spinner("");
        let targets = self.targets();
        let names: Vec<_> = targets.iter().map(|target| target.name).collect();
        let report = |target: &str| bar.set_message(format!("coverage of {target}"));
        let files = campaign::coverage(&names, under, report)?;
        bar.finish_and_clear();
        if self.json {
            files
                .iter()
                .for_each(|file| println!("{}", coverage_json(file)));
        } else {
            println!("{}", coverage_table(&files));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spinner(message: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    let bar = ProgressBar::new_spinner().with_style(style.expect("a template that is right"));
    bar.set_message(message);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn waiting<T>(message: &'static str, what: impl FnOnce() -> T) -> T {
    let bar = spinner(message);
    let done = what();
    bar.finish_and_clear();
    done
}

fn show(bar: &ProgressBar, executions: Option<u64>, progress: Progress) {
    if executions.is_some() {
        bar.set_position(progress.executions);
    }
    bar.set_message(format!(
        "{} executions, {} edges",
        HumanCount(progress.executions),
        progress.edges
    ));
}

fn rate(round: &Round) -> u64 {
    let seconds = round.time.as_secs_f64().max(1e-3);
    (round.progress.executions as f64 / seconds) as u64
}

fn numbers_to_the_right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn round_table(rounds: &[Round]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "target",
        "executions",
        "a second",
        "edges",
        "features",
        "inputs",
        "result",
    ]);
    for round in rounds {
        let progress = round.progress;
        table.add_row([
            round.target.clone(),
            HumanCount(progress.executions).to_string(),
            HumanCount(rate(round)).to_string(),
            progress.edges.to_string(),
            progress.features.to_string(),
            progress.inputs.to_string(),
            round.verdict.to_string(),
        ]);
    }
    numbers_to_the_right(&mut table);
    table
}

fn round_json(round: &Round) -> Value {
    let failure = match &round.verdict {
        Verdict::Clean => None,
        Verdict::Failed(lines) => Some(lines),
    };
    json!({
        "target": round.target,
        "executions": round.progress.executions,
        "seconds": round.time.as_secs_f64(),
        "edges": round.progress.edges,
        "features": round.progress.features,
        "inputs": round.progress.inputs,
        "failure": failure,
    })
}

fn percent(reached: u64, regions: u64) -> String {
    format!("{:.1} %", 100.0 * reached as f64 / regions.max(1) as f64)
}

fn coverage_table(files: &[FileCoverage]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["file", "regions", "reached", ""]);
    let row = |name: &str, regions: u64, reached: u64| {
        let of = percent(reached, regions);
        [name.into(), regions.to_string(), reached.to_string(), of]
    };
    for file in files {
        table.add_row(row(&file.file, file.regions, file.reached));
    }
    let regions = files.iter().map(|file| file.regions).sum();
    let reached = files.iter().map(|file| file.reached).sum();
    table.add_row(row("all", regions, reached));
    numbers_to_the_right(&mut table);
    table
}

fn coverage_json(file: &FileCoverage) -> Value {
    json!({"file": file.file, "regions": file.regions, "reached": file.reached})
}
