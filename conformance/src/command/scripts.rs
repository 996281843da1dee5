//! `conformance scripts`.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use conformance::scripts;

#[derive(Args)]
pub(crate) struct Scripts {
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
    pub(crate) fn run(&self) -> io::Result<ExitCode> {
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
            for outcome in &outcomes {
                if outcome.problem.is_some() || self.all_captures {
                    outcome.keep_capture(folder)?;
                }
            }
        }
        if let Some(path) = &self.junit {
            let file = io::BufWriter::new(fs::File::create(path)?);
            scripts::junit(&outcomes, file)?.flush()?;
        }
        // The reader of a pipe may have closed it.
        let _ = writeln!(io::stdout().lock(), "{}", scripts::table(&outcomes));
        let well = failed.count() == 0 && !outcomes.is_empty();
        Ok(ExitCode::from(u8::from(!well)))
    }
}
