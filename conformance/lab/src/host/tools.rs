//! Programs of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{Trouble, failed};

/// Where a program is found, if it is.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    // Administrators' programs are not in every user's path.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&paths)
        .chain(more)
        .map(|path| path.join(name))
        .find(|path| path.is_file())
}

/// A program without which the laboratory cannot run.
pub(crate) fn need(name: &str, package: &str) -> Result<PathBuf, Trouble> {
    find(name).ok_or_else(|| Trouble::Unable(format!("{name} is missing (Debian: {package})")))
}

/// Runs a command to its end.
///
/// # Errors
/// That it did not start, or ended with another status than 0, with its error stream.
pub(crate) fn run(command: &mut Command) -> Result<Output, Trouble> {
    let program = Path::new(command.get_program()).display().to_string();
    let output = command.output().map_err(failed(&program))?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last: Vec<_> = stderr.lines().rev().take(12).collect();
    let last: Vec<_> = last.into_iter().rev().collect();
    Err(Trouble::Failed(format!(
        "{program}: {}: {}",
        output.status,
        last.join("; ")
    )))
}

/// Runs a program and returns its output.
pub(crate) fn text(command: &mut Command) -> Result<String, Trouble> {
    Ok(String::from_utf8_lossy(&run(command)?.stdout).into_owned())
}
