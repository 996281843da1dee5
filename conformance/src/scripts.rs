//! Conversations with the engine, written down as text.
//!
//! A script names what a peer sends, what the engine has to answer, and when; it is read
//! from `conformance/scripts/`, where a README explains the format. Scripts know the
//! wire and the application's side of the engine, nothing of how both are brought about:
//! that is the [`Wire`] and the [`Host`] they are played on, of which [`Direct`] is one.

mod capture;
mod describe;
mod direct;
mod layout;
pub mod names;
mod normal;
mod parsed;
mod peer;
mod read;
mod report;
mod run;
mod text;
mod wire;

use core::time::Duration;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use capture::{Record, Recorded, write as write_capture};
pub use direct::{Direct, bytes};
pub use layout::field;
pub use normal::{count, messages, shape};
pub use parsed::{
    Act, AppAct, AppSees, Data, Form, Kind, Message, ParsedScript, Pattern, Place, RnicAct,
    Setting, Setup, Step, Transmission, Value, When, Where,
};
pub use read::{all, citations, folder, script};
pub use report::{junit, table};
pub use run::{Failure, Played, play};
pub use text::Unclear;
pub use wire::{Announced, End, Failed, Host, Received, Seen, Target, Wire};

/// Outcome of a script.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Chapter and name.
    pub name: String,
    /// What is wrong, if something is.
    pub problem: Option<Problem>,
    /// What was on the wire.
    pub record: Vec<Record>,
    /// Messages it speaks of.
    pub messages: usize,
    /// Why it is not for this bench, if it is not.
    pub skipped: Option<String>,
    /// The script was played a second time, and more slowly, because it failed in real time.
    pub again: bool,
    /// Lines about what the host's applications cannot see, which were left out.
    pub left_out: usize,
    /// Time that passed in it, virtual if the bench's is.
    pub virtual_time: Duration,
    /// Time it took.
    pub time: Duration,
}

/// What is wrong with a script, or with the engine.
#[derive(Clone, Debug)]
pub enum Problem {
    /// The script is not understood.
    Unclear(Unclear),
    /// The engine did something else.
    Failed(Failure),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclear(unclear) => unclear.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl Outcome {
    /// Writes what was on the wire into a folder, which is made, under the script's name.
    ///
    /// # Errors
    /// The file system's.
    pub fn keep_capture(&self, folder: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}.pcapng", self.name.replace('/', "-")));
        let file = io::BufWriter::new(File::create(&path)?);
        let mut written = write_capture(&self.record, file).map_err(io::Error::other)?;
        written.flush()?;
        Ok(path)
    }

    /// Of a script that was not played yet.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            problem: None,
            record: Vec::new(),
            messages: 0,
            skipped: None,
            again: false,
            left_out: 0,
            virtual_time: Duration::ZERO,
            time: Duration::ZERO,
        }
    }

    /// The chapter.
    #[must_use]
    pub fn chapter(&self) -> &str {
        self.name.split('/').next().unwrap_or(&self.name)
    }
}

/// Reads a script and plays it on an engine that is set up for it.
#[must_use]
pub fn run(name: &str, path: &Path) -> Outcome {
    let started = Instant::now();
    let mut outcome = Outcome::of(name);
    let made = script(name, path).and_then(|script| {
        let bench = Direct::new(&script.setup)?;
        Ok((script, bench))
    });
    match made {
        Ok((script, mut bench)) => {
            outcome.messages = count(&script);
            let played = play(&script, &mut bench);
            outcome.virtual_time = played.time;
            outcome.record = played.record;
            outcome.problem = played.failure.map(Problem::Failed);
        }
        Err(unclear) => outcome.problem = Some(Problem::Unclear(unclear)),
    }
    outcome.time = started.elapsed();
    outcome
}
