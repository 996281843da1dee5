//! `conformance drawn`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use conformance::ledger::repository;
use conformance::mutants::{
    AREAS, Area, Campaign, Drawn, OF_AREA, Outcome, Problem, Tree, files, ranked,
};
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Args)]
pub(crate) struct Drawing {
    /// Areas to draw from; all without one: rendezvous, `link_group`, smc-transport-ism,
    /// smc-sockets.
    areas: Vec<String>,
    /// Only lists the changes of the first ranks, without compiling anything.
    #[arg(long)]
    list: bool,
    /// Draws from the sources of another checkout.
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Tries so many changes at the same time.
    #[arg(long, value_name = "N", default_value = "1")]
    abreast: NonZero<usize>,
    /// Tries missed changes once more.
    #[arg(long)]
    again: bool,
    /// Runs the tests of this suite alone; may be repeated.
    #[arg(long, value_name = "SUITE")]
    only: Vec<String>,
    /// Goes on with the programs of the last run, which had the same sources and areas, and
    /// with its survey.
    #[arg(long)]
    built: bool,
    /// Tests that take longer of the processor without a change are not run.
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    longest: humantime::Duration,
    /// Begins no change after this time: 30m, 8h.
    #[arg(long = "for", value_name = "DURATION")]
    time: Option<humantime::Duration>,
    /// Where the sources are copied to, and the outcome of each change is kept: a change that
    /// is named there is not tried again.
    #[arg(long, value_name = "FOLDER", default_value = "target/mutants")]
    folder: PathBuf,
}

impl Drawing {
    pub(crate) fn run(&self) -> ExitCode {
        self.campaign().unwrap_or_else(|problem| {
            eprintln!("conformance: {problem}");
            ExitCode::from(2)
        })
    }

    fn campaign(&self) -> Result<ExitCode, Problem> {
        let root = self.from.clone().unwrap_or_else(repository);
        let areas = self.areas()?;
        if self.list {
            let all = files(&root)?;
            for area in areas {
                let (drawn, total) = ranked(&root, &all, area)?;
                println!("{}: {total} changes, the first {OF_AREA}:", area.name);
                for each in drawn.iter().take(OF_AREA) {
                    println!("{:5} {}", each.number, each.place());
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        let begun = Instant::now();
        let kept = self.folder.join("drawn.txt");
        let tree = Tree::copy(&root, &self.folder.join("tree"))?;
        if !self.built {
            let _ = fs::remove_file(self.folder.join("survey.txt"));
        }
        let mut campaign = Campaign::build(&tree, &areas, &self.only, self.built)?;
        println!("built in {} s", begun.elapsed().as_secs());
        let bar = bar(campaign.tests(), "tests without a change");
        for test in campaign.survey(&self.folder, *self.longest, || bar.inc(1))? {
            bar.suspend(|| println!("fails without a change, or is slow: {test}"));
        }
        bar.finish_and_clear();
        println!("surveyed after {} s", begun.elapsed().as_secs());
        let mut known = known(&kept);
        if self.again {
            known.retain(|_, outcome| !outcome.starts_with("MISSED"));
        }
        let left = campaign.drawn().iter();
        let left: Vec<&Drawn> = left
            .filter(|each| !known.contains_key(&each.name))
            .collect();
        let bar = self::bar(left.len(), "changes");
        let file = fs::OpenOptions::new().create(true).append(true).open(&kept);
        let mut file = file.map_err(Problem::new)?;
        let more = || self.time.is_none_or(|time| begun.elapsed() <= *time);
        campaign.run(&left, self.abreast.get(), more, |drawn, outcome| {
            writeln!(file, "{}\t{outcome}", drawn.name).map_err(Problem::new)?;
            if matches!(outcome, Outcome::Missed(_)) {
                bar.suspend(|| println!("{} {}: {outcome}", drawn.number, drawn.place()));
            }
            known.insert(drawn.name.clone(), outcome.to_string());
            bar.inc(1);
            Ok(())
        })?;
        bar.finish_and_clear();
        Ok(report(&campaign, &areas, &known))
    }

    fn areas(&self) -> Result<Vec<Area>, Problem> {
        if self.areas.is_empty() {
            return Ok(AREAS.to_vec());
        }
        let area = |name: &String| {
            let mut all = AREAS.into_iter();
            all.find(|area| area.name == *name)
                .ok_or_else(|| Problem::new(format_args!("{name}: no such area")))
        };
        self.areas.iter().map(area).collect()
    }
}

fn bar(length: usize, of: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}, {elapsed}");
    let bar = ProgressBar::new(length as u64).with_style(style.expect("a valid template"));
    bar.set_message(of);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// Outcomes of earlier runs. The last one of a change counts.
fn known(kept: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(kept).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(name, outcome)| (name.to_owned(), outcome.to_owned()))
        .collect()
}

fn report(campaign: &Campaign, areas: &[Area], known: &BTreeMap<String, String>) -> ExitCode {
    let outcome = |each: &Drawn| known.get(&each.name).map(String::as_str);
    let missed = |each: &&Drawn| outcome(each).is_some_and(|text| text.starts_with("MISSED"));
    for area in areas {
        let mine: Vec<&Drawn> = campaign
            .drawn()
            .iter()
            .filter(|each| each.area == *area)
            .collect();
        let count = |begin: &str| {
            let with = |each: &&&Drawn| outcome(each).is_some_and(|text| text.starts_with(begin));
            mine.iter().filter(with).count()
        };
        println!(
            "{}: {} changes: {} noticed by a failure, {} by a test without end, {} missed, {} not \
             tried; {} more cannot be compiled",
            area.name,
            mine.len(),
            count("noticed"),
            count("without end"),
            count("MISSED"),
            mine.iter().filter(|each| outcome(each).is_none()).count(),
            campaign.unviable(*area),
        );
    }
    let all: Vec<&Drawn> = campaign.drawn().iter().filter(missed).collect();
    for each in &all {
        println!(
            "{:5} {}: {}",
            each.number,
            each.place(),
            outcome(each).unwrap_or_default()
        );
    }
    ExitCode::from(u8::from(!all.is_empty()))
}
