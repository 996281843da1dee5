//! `conformance mutants`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use conformance::ledger::repository;
use conformance::mutants::{Decision, Problem, Tree, Trial, Verdict, cited_lines, decisions};
use indicatif::{ProgressBar, ProgressStyle};

/// The package whose lines decide.
const PACKAGE: &str = "smc-proto";

#[derive(Args)]
pub(crate) struct Mutants {
    /// Changes whose names contain one of these; all, if none is given.
    parts: Vec<String>,
    /// Tries every N-th change of the list.
    #[arg(long, value_name = "N", default_value = "1")]
    every: NonZero<usize>,
    /// The first one that is tried, from 0.
    #[arg(long, value_name = "N", default_value = "0")]
    from: usize,
    /// Begins none after this time: 30m, 8h.
    #[arg(long = "for", value_name = "DURATION")]
    time: Option<humantime::Duration>,
    /// Only print which changes would be tried, and which tests must notice.
    #[arg(long)]
    list: bool,
    /// Where the sources are copied to, and the outcome of each change is kept: what
    /// is there is not tried again.
    #[arg(long, value_name = "FOLDER", default_value = "target/mutants")]
    folder: PathBuf,
}

impl Mutants {
    pub(crate) fn run(&self) -> ExitCode {
        self.campaign().unwrap_or_else(|problem| {
            eprintln!("conformance: {problem}");
            ExitCode::from(2)
        })
    }

    fn campaign(&self) -> Result<ExitCode, Problem> {
        let root = repository();
        let all = decisions(&root, PACKAGE)?;
        let places = all.iter().map(|each| (&each.change.file, each.change.line));
        let places: BTreeSet<_> = places.collect();
        println!(
            "{} lines are cited, {} of them can be changed, in {} ways",
            cited_lines(&root, PACKAGE)?,
            places.len(),
            all.len()
        );
        let named = |each: &&Decision| {
            let mut parts = self.parts.iter();
            self.parts.is_empty() || parts.any(|part| each.change.name.contains(part.as_str()))
        };
        let chosen = all.iter().filter(named);
        let chosen = chosen.skip(self.from).step_by(self.every.get());
        let chosen: Vec<&Decision> = chosen.collect();
        if self.list {
            for each in chosen {
                let ids: Vec<_> = each.ids.iter().map(String::as_str).collect();
                println!(
                    "{} ({}), {} tests",
                    each.change.name,
                    ids.join(" "),
                    each.tests.len()
                );
            }
            return Ok(ExitCode::SUCCESS);
        }
        let kept = self.folder.join("decisions.txt");
        let known = known(&kept);
        let left = chosen
            .iter()
            .filter(|each| !known.contains_key(&each.change.name));
        let left: Vec<&Decision> = left.copied().collect();
        let verdicts = match left.is_empty() {
            true => known,
            false => self.try_each(&root, &left, known, &kept)?,
        };
        Ok(report(&chosen, &verdicts))
    }

    fn try_each(
        &self,
        root: &Path,
        left: &[&Decision],
        mut verdicts: BTreeMap<String, String>,
        kept: &Path,
    ) -> Result<BTreeMap<String, String>, Problem> {
        let begun = Instant::now();
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} changes, {elapsed}, {msg}");
        let bar = ProgressBar::new(left.len() as u64)
            .with_style(style.expect("a template that is right"));
        bar.enable_steady_tick(Duration::from_secs(1));
        let tree = Tree::copy(root, &self.folder.join("tree"))?;
        bar.set_message("building");
        let mut trial = Trial::build(&tree, left)?;
        bar.set_message("all tests without a change");
        let failed = trial.baseline()?;
        if !failed.is_empty() {
            return Err(Problem::new(format_args!(
                "fail without a change: {failed:?}"
            )));
        }
        bar.suspend(|| println!("{} changes in one build", trial.choices()));
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(kept)
            .map_err(Problem::new)?;
        let mut note = |decision: &Decision, verdict: Verdict| {
            let name = &decision.change.name;
            writeln!(file, "{name}\t{verdict}").map_err(Problem::new)?;
            if verdict == Verdict::Missed {
                bar.suspend(|| println!("MISSED {name}"));
            }
            verdicts.insert(name.clone(), verdict.to_string());
            bar.inc(1);
            Ok(())
        };
        let more = || self.time.is_none_or(|time| begun.elapsed() <= *time);
        bar.set_message("chosen when a test runs");
        trial.together(more, &mut note)?;
        bar.set_message("one at a time");
        trial.alone(more, &mut note)?;
        bar.finish_and_clear();
        Ok(verdicts)
    }
}

/// What is kept of earlier rounds.
fn known(kept: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(kept).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(name, verdict)| (name.to_owned(), verdict.to_owned()))
        .collect()
}

fn report(chosen: &[&Decision], verdicts: &BTreeMap<String, String>) -> ExitCode {
    let (mut caught, mut endless, mut unviable, mut untried) = (0, 0, 0, 0);
    let mut missed = Vec::new();
    for each in chosen {
        match verdicts.get(&each.change.name).map(String::as_str) {
            Some("MISSED") => missed.push(each),
            Some("without end") => endless += 1,
            Some("cannot be compiled") => unviable += 1,
            Some(_) => caught += 1,
            None => untried += 1,
        }
    }
    println!(
        "{} chosen: {caught} caught by a test that cites, {endless} without end, {} missed, \
         {unviable} cannot be compiled, {untried} not tried",
        chosen.len(),
        missed.len(),
    );
    for each in &missed {
        let ids: Vec<_> = each.ids.iter().map(String::as_str).collect();
        println!("MISSED {} ({})", each.change.name, ids.join(" "));
    }
    match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
