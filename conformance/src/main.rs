//! What is proven about the engine, and by what.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use conformance::close_machine::{self, Bounds};
use conformance::ledger::{self, Ledger, Row};
use conformance::scripts;
use indicatif::{ProgressBar, ProgressStyle};

/// What is proven about the engine, and by what.
#[derive(Parser)]
#[command(name = "conformance", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Each requirement with the lines that decide it and the tests that prove it.
    ///
    /// Requirements are the numbered statements of docs/rfc7609.md, docs/smc-v2.md,
    /// docs/smc-d.md and docs/shared-memory.md. The exit status is 1 if one of them
    /// has no line or no test, and no exception either.
    Ledger(Selection),
    /// Each defect and attack of docs/regressions.md with the tests against it.
    ///
    /// The exit status is 1 if one of them has no test.
    Regressions(Selection),
    /// Everything that can happen to two connections that end, in every order, within
    /// bounds.
    ///
    /// The exit status is 1 if something can happen that must not; then the shortest way
    /// there is told.
    CloseMachine(CloseMachine),
    /// Plays the scripts of conformance/scripts, each a conversation between the engine
    /// and a peer that is played by hand.
    ///
    /// The exit status is 1 if the engine does anything else than a script says.
    Scripts(Scripts),
}

#[derive(Args)]
struct Scripts {
    /// Beginnings of names, such as `clc` or `close/abort`; all scripts without one.
    names: Vec<String>,
    /// Writes the run as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Writes a capture of each script that failed into this folder.
    #[arg(long, value_name = "FOLDER")]
    pcap_dir: Option<PathBuf>,
    /// Captures of those that passed as well.
    #[arg(long, requires = "pcap_dir")]
    all_captures: bool,
}

impl Scripts {
    fn run(&self) -> io::Result<ExitCode> {
        let mut outcomes = Vec::new();
        for (name, path) in scripts::all(&scripts::folder())? {
            let named = |each: &String| name.starts_with(each.as_str());
            if self.names.is_empty() || self.names.iter().any(named) {
                outcomes.push(scripts::run(&name, &path));
            }
        }
        let failed = outcomes.iter().filter(|outcome| outcome.problem.is_some());
        for outcome in failed.clone() {
            if let Some(problem) = &outcome.problem {
                println!("FAILED {}\n{problem}\n", outcome.name);
            }
        }
        if let Some(folder) = &self.pcap_dir {
            fs::create_dir_all(folder)?;
            for outcome in &outcomes {
                if outcome.problem.is_some() || self.all_captures {
                    let name = outcome.name.replace('/', "-");
                    let file = fs::File::create(folder.join(format!("{name}.pcapng")))?;
                    scripts::write_capture(&outcome.record, io::BufWriter::new(file))
                        .map_err(io::Error::other)?;
                }
            }
        }
        if let Some(path) = &self.junit {
            let file = io::BufWriter::new(fs::File::create(path)?);
            scripts::junit(&outcomes, file)?.flush()?;
        }
        // Whoever reads a pipe may have seen enough.
        let _ = writeln!(io::stdout().lock(), "{}", scripts::table(&outcomes));
        let well = failed.count() == 0 && !outcomes.is_empty();
        Ok(ExitCode::from(u8::from(!well)))
    }
}

#[derive(Args)]
struct CloseMachine {
    /// CDC messages under way in each direction.
    #[arg(long, default_value_t = 3)]
    queue: usize,
    /// Octets that each application writes.
    #[arg(long, default_value_t = 1)]
    octets: u8,
    /// Links of the group.
    #[arg(long, default_value_t = 2)]
    links: u8,
    /// Messages overtake each other.
    #[arg(long)]
    reorder: bool,
    /// Completions come late, or not at all.
    #[arg(long)]
    late_completions: bool,
}

impl CloseMachine {
    fn run(&self) -> ExitCode {
        let bounds = Bounds {
            queue: self.queue,
            octets: self.octets,
            links: self.links,
            reorder: self.reorder,
            late_completions: self.late_completions,
        };
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("a template that is right"));
        let explored = close_machine::explore(bounds, |progress| {
            bar.set_message(format!(
                "{} states, {} to explore",
                progress.found,
                progress.found - progress.explored
            ));
            bar.tick();
        });
        bar.finish_and_clear();
        match explored {
            Ok(explored) => {
                println!("{explored}");
                ExitCode::SUCCESS
            }
            Err(fault) => {
                println!("{fault}");
                ExitCode::FAILURE
            }
        }
    }
}

#[derive(Args)]
struct Selection {
    /// IDs, or the beginnings of some: CLC, CLC-014, V2-2.
    ids: Vec<String>,
    /// Only what is missing.
    #[arg(long)]
    open: bool,
    /// JSON in place of tables.
    #[arg(long)]
    json: bool,
}

impl Selection {
    fn has(&self, row: &Row) -> bool {
        let id = &row.statement.id;
        let named = self.ids.is_empty() || self.ids.iter().any(|each| id.starts_with(each));
        named && (!self.open || row.missing().next().is_some())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (selection, regressions) = match &cli.command {
        Command::Ledger(selection) => (selection, false),
        Command::Regressions(selection) => (selection, true),
        Command::CloseMachine(machine) => return machine.run(),
        Command::Scripts(scripts) => {
            return scripts.run().unwrap_or_else(|error| {
                eprintln!("conformance: {error}");
                ExitCode::from(2)
            });
        }
    };
    let ledger = match Ledger::read(&ledger::repository()) {
        Ok(ledger) => ledger,
        Err(unreadable) => {
            eprintln!("conformance: {unreadable}");
            return ExitCode::from(2);
        }
    };
    let rows = ledger.rows.iter();
    let rows: Vec<&Row> = rows
        .filter(|row| row.is_regression() == regressions && selection.has(row))
        .collect();
    let text = if selection.json {
        format!("{:#}", ledger::json(&rows))
    } else {
        ledger::table(&rows)
    };
    // Whoever reads a pipe may have seen enough.
    let _ = writeln!(io::stdout().lock(), "{text}");
    for fault in &ledger.faults {
        eprintln!("conformance: {fault}");
    }
    let open = rows.iter().filter(|row| row.missing().next().is_some());
    let open = open.count();
    if open > 0 {
        eprintln!("conformance: {open} without code or test");
    }
    ExitCode::from(u8::from(open > 0 || !ledger.faults.is_empty()))
}
