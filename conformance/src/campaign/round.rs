//! One target within its bounds.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::tools::{Problem, corpus, dictionary, directory, program, target_dir};
use super::workspace;
use crate::fuzz::{Bytes, Target};

/// Bytes of the longest inputs: all that a message of any kind has, or some hundred
/// steps.
const LONGEST: u32 = 700;
/// Seconds after which an input counts as one that does not end.
const TIMEOUT: u32 = 20;
/// Lines of a failure that are kept.
const KEPT: usize = 40;

/// Where a round ends, if nothing is found.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// After this time.
    pub time: Duration,
    /// After as many executions.
    pub executions: Option<u64>,
}

/// Outcome of a round.
#[derive(Clone, Debug)]
pub struct Round {
    /// The target.
    pub target: String,
    /// How far it came.
    pub progress: Progress,
    /// How long it took.
    pub time: Duration,
    /// Whether it found anything.
    pub verdict: Verdict,
}

/// Whether a round found anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No input failed.
    Clean,
    /// A run failed: the last lines of the target.
    Failed(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "clean",
            Self::Failed(_) => "FAILED",
        })
    }
}

/// Runs a target that was built, and reports its progress.
///
/// # Errors
/// If the program cannot be run, or a directory not be used.
pub fn round(
    target: &Target,
    bound: Bound,
    mut report: impl FnMut(Progress),
) -> Result<Round, Problem> {
    let program = program(target)?;
    let name = target.name;
    let grown = directory(target_dir().join("grown").join(name))?;
    let artifacts = directory(workspace().join("artifacts").join(name))?;
    let mut command = Command::new(&program);
    command
        .arg(format!("-max_total_time={}", bound.time.as_secs().max(1)))
        .arg(format!("-max_len={LONGEST}"))
        .arg(format!("-timeout={TIMEOUT}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1");
    if let Some(executions) = bound.executions {
        command.arg(format!("-runs={executions}"));
    }
    if target.bytes == Bytes::Steps {
        // Which inputs reach what is rare is counted in lists of all that is rare: in a
        // world there is much, and the search takes half of the time.
        command.arg("-entropic=0");
    }
    if let Some(dictionary) = dictionary(name) {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    // The first is where new ones go.
    command.arg(grown).arg(corpus(name));
    let begin = Instant::now();
    let unavailable = |error| Problem::Unavailable {
        program: program.display().to_string(),
        error,
    };
    let child = command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = child.stderr(Stdio::piped()).spawn().map_err(unavailable)?;
    let mut progress = Progress::default();
    let mut lines = Vec::new();
    if let Some(errors) = child.stderr.take() {
        for line in BufReader::new(errors).split(b'\n') {
            let line = line.map_err(unavailable)?;
            let line = String::from_utf8_lossy(&line);
            if progress.read(&line) {
                report(progress);
            } else {
                lines.push(line.into_owned());
                // Before a failure, libFuzzer lists what it read.
                let spare = lines.len().saturating_sub(KEPT);
                lines.drain(..spare);
            }
        }
    }
    let status = child.wait().map_err(unavailable)?;
    Ok(Round {
        target: name.to_owned(),
        progress,
        time: begin.elapsed(),
        verdict: match status.success() {
            true => Verdict::Clean,
            false => Verdict::Failed(lines.join("\n")),
        },
    })
}
