//! `smcx generate`: the files that an installation of the command has beside it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::Shell;

use crate::cli::GenerateCommand;
use crate::output::{Failure, reason};

mod manual;

/// Runs the command.
///
/// # Errors
/// [`Failure::Problem`] if a file cannot be written, and [`Failure::Output`].
pub fn run(what: &GenerateCommand, command: Command, out: &mut dyn Write) -> Result<(), Failure> {
    let (GenerateCommand::Man { directory } | GenerateCommand::Completions { directory }) = what;
    let files = match what {
        GenerateCommand::Man { .. } => manual::pages(command),
        GenerateCommand::Completions { .. } => Ok(completions(command)),
    };
    let problem = |path: &Path, error: &io::Error| {
        Failure::Problem(format!("{}: {}", path.display(), reason(error)))
    };
    fs::create_dir_all(directory).map_err(|error| problem(directory, &error))?;
    for (name, content) in files? {
        let path = directory.join(name);
        fs::write(&path, content).map_err(|error| problem(&path, &error))?;
        writeln!(out, "{}", path.display())?;
    }
    Ok(())
}

/// Completions by the names that shells search for.
fn completions(mut command: Command) -> Vec<(String, Vec<u8>)> {
    let files = [
        (Shell::Bash, "smcx"),
        (Shell::Zsh, "_smcx"),
        (Shell::Fish, "smcx.fish"),
    ];
    let script = |(shell, name): (Shell, &str)| {
        // Into memory: the generator panics if it cannot write.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "smcx", &mut script);
        (name.to_owned(), script)
    };
    files.into_iter().map(script).collect()
}
