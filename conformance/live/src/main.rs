//! `smc-live`: the scripts of the conformance suite against live sockets.

#[cfg(target_os = "linux")]
mod command {
    use std::fs;
    use std::io;
    use std::path::PathBuf;
    use std::process::ExitCode;
    use std::time::Duration;

    use clap::Parser;
    use conformance::scripts;
    use smc_live::{Choice, Summary, run};

    /// Plays the scripts of the conformance suite on sockets of our own stack, over TCP and
    /// queue pairs in software, in real time.
    #[derive(Parser)]
    pub(crate) struct Live {
        /// Beginnings of names, such as `clc` or `close/abort`; all scripts without one.
        names: Vec<String>,
        /// Scripts that wait longer than this in all are left to the simulated clock.
        #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = humantime::parse_duration)]
        longest: Duration,
        /// So many scripts at a time.
        #[arg(long, value_name = "N", default_value_t = 8)]
        at_once: usize,
        /// Writes the run as JUnit XML.
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
        /// Writes a capture of each script that failed into this folder.
        #[arg(long, value_name = "FOLDER")]
        pcap_dir: Option<PathBuf>,
    }

    impl Live {
        pub(crate) fn run(&self) -> io::Result<ExitCode> {
            let named = |(name, _): &(String, PathBuf)| {
                let mut names = self.names.iter();
                self.names.is_empty() || names.any(|each| name.starts_with(each.as_str()))
            };
            let all = scripts::all(&scripts::folder())?;
            let all: Vec<_> = all.into_iter().filter(named).collect();
            let choice = Choice {
                at_once: self.at_once,
                longest: self.longest,
            };
            let outcomes = run(&all, &choice);
            for outcome in &outcomes {
                let Some(problem) = &outcome.problem else {
                    continue;
                };
                println!("FAILED {}\n{problem}\n", outcome.name);
                if let Some(folder) = &self.pcap_dir {
                    outcome.keep_capture(folder)?;
                }
            }
            if let Some(path) = &self.junit {
                let file = io::BufWriter::new(fs::File::create(path)?);
                io::Write::flush(&mut scripts::junit(&outcomes, file)?)?;
            }
            let summary = Summary::of(&outcomes);
            println!("{}\n{summary}", scripts::table(&outcomes));
            // Nothing but scripts that are not for a live peer is no failure.
            let unfit = summary.passed + summary.failed == 0 && !outcomes.is_empty();
            Ok(ExitCode::from(u8::from(!(summary.is_well() || unfit))))
        }
    }

    pub(crate) fn parsed() -> Live {
        Live::parse()
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<std::process::ExitCode> {
    command::parsed().run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
