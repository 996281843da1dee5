//! cargo-fuzz and what it makes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::workspace;
use crate::fuzz::{Bytes, Target};

/// Why there is no round.
#[derive(Debug)]
pub enum Problem {
    /// A program cannot be run.
    Unavailable {
        /// Name of the program.
        program: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A program ended with a failure.
    Failed {
        /// The command.
        command: String,
        /// Last lines of the command's standard error.
        last_lines: String,
    },
    /// The output of a program is not understood.
    Unexpected {
        /// The command.
        command: String,
    },
    /// A directory or file cannot be used.
    File {
        /// Which.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { program, error } => write!(f, "cannot run {program}: {error}"),
            Self::Failed {
                command,
                last_lines,
            } => write!(f, "{command} failed: {last_lines}"),
            Self::Unexpected { command } => write!(f, "{command} printed something else"),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Problem {}

/// What a command printed, once it has succeeded.
pub(super) fn output(command: &mut Command) -> Result<String, Problem> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Problem::Unavailable { program, error })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last: Vec<_> = text.lines().rev().take(5).collect();
    Err(Problem::Failed {
        command: format!("{command:?}"),
        last_lines: last.into_iter().rev().collect::<Vec<_>>().join("\n"),
    })
}

/// A command of cargo-fuzz that builds into a directory.
pub(super) fn cargo_fuzz(what: &str, into: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", what]);
    command.current_dir(workspace());
    // The targets have a directory of their own, and no sanitizer: neither the engine
    // nor the bodies have unsafe code, and it costs a factor of ten.
    command.args(["-s", "none", "--target-dir"]).arg(into);
    command.env_remove("RUSTUP_TOOLCHAIN");
    command
}

pub(super) fn target_dir() -> PathBuf {
    workspace().join("target")
}

/// The name of this machine's kind, as directories are called.
pub(super) fn triple() -> Result<String, Problem> {
    let mut command = Command::new("rustc");
    command
        .args(["+nightly", "-vV"])
        .env_remove("RUSTUP_TOOLCHAIN");
    let version = output(&mut command)?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Problem::Unexpected {
        command: format!("{command:?}"),
    })
}

/// Where targets are built whose bytes are of a kind.
fn built(bytes: Bytes) -> PathBuf {
    match bytes {
        Bytes::Message => target_dir(),
        Bytes::Steps => target_dir().join("steps"),
    }
}

/// Builds targets.
///
/// # Errors
/// If there is no nightly toolchain or no cargo-fuzz, or a target does not build.
pub fn build(targets: &[&Target]) -> Result<(), Problem> {
    for target in targets {
        let mut command = cargo_fuzz("build", &built(target.bytes));
        if target.bytes == Bytes::Steps {
            // What is compared shows which bytes to write into a message. A step is one
            // byte, and reporting all that a world compares takes half of the time.
            command.arg("--no-trace-compares");
        }
        output(command.arg(target.name))?;
    }
    Ok(())
}

/// The program of a target that was built.
pub(super) fn program(target: &Target) -> Result<PathBuf, Problem> {
    let release = built(target.bytes).join(triple()?).join("release");
    Ok(release.join(target.name))
}

/// A directory that is there from now on.
pub(super) fn directory(path: PathBuf) -> Result<PathBuf, Problem> {
    match std::fs::create_dir_all(&path) {
        Ok(()) => Ok(path),
        Err(error) => Err(Problem::File { path, error }),
    }
}

/// The corpus of a target.
pub(super) fn corpus(target: &str) -> PathBuf {
    workspace().join("corpus").join(target)
}

/// What is known of a target's messages, if anything: `llc_v1` has `llc.dict`.
pub(super) fn dictionary(target: &str) -> Option<PathBuf> {
    let (kind, _) = target.split_once('_')?;
    let path = workspace().join("dictionaries").join(kind);
    Some(path.with_extension("dict")).filter(|path| Path::exists(path))
}
