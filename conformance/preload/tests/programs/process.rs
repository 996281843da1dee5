//! A role of a case as a process, and what it prints.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use smc_run::statistics::{Counts, Table};
use smc_run::variables;
use smc_view::handed;

use crate::program::Program;

/// What a role printed, and how it ended.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Transcript {
    lines: String,
    status: String,
}

impl Transcript {
    /// The lines that it printed.
    pub(crate) fn text(&self) -> &str {
        &self.lines
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.lines.lines() {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "    ({})", self.status)
    }
}

/// A role that runs. The programs end by themselves within a bounded time (`LIMIT` of
/// `case.h`).
pub(crate) struct Role {
    child: Child,
    stdout: BufReader<ChildStdout>,
    statistics: Option<(std::os::fd::OwnedFd, Table)>,
}

/// Where Cargo builds the library for this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.with_file_name("libsmc_preload.so");
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

impl Role {
    /// Starts a role, with the library or without.
    pub(crate) fn start(program: &Program, arguments: &[&str], preloaded: bool) -> Self {
        let mut command = Command::new(&program.path);
        let statistics = preloaded.then(|| Table::create().unwrap());
        for variable in [
            variables::DEBUG,
            variables::RECEIVE_BUFFER,
            variables::SEND_BUFFER,
        ] {
            command.env_remove(variable);
        }
        command.envs(program.variables.iter().cloned());
        if let Some((file, _)) = &statistics {
            command.env("LD_PRELOAD", library());
            command.env(variables::STATISTICS, handed::path_of(file));
        }
        let mut child = command
            .args(arguments)
            .env("SMC_POLICY", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            stdout,
            statistics,
        }
    }

    /// The port that a server prints first.
    pub(crate) fn port(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let port = line.trim_end().strip_prefix("port ");
        port.unwrap_or_else(|| panic!("no port, but {line:?}"))
            .to_owned()
    }

    /// What it printed until its end, and what it counted.
    pub(crate) fn finish(mut self) -> (Transcript, Vec<Counts>) {
        // A program that prints wrong bytes is to be seen.
        let mut lines = Vec::new();
        let read = self.stdout.read_to_end(&mut lines);
        let lines = String::from_utf8_lossy(&lines).into_owned();
        let status = self.child.wait().unwrap().to_string();
        read.unwrap();
        let counts = self.statistics.take();
        let counts = counts.map_or_else(Vec::new, |(_file, table)| table.read());
        (Transcript { lines, status }, counts)
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // After a failure of the other role; the process is this one's child still.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
