//! `smcx policy check`: the meaning of a policy, line by line.

mod lines;
mod notes;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use smc_sockets::Policy;
use smc_sockets::policy::{ENVIRONMENT, places};

use crate::cli::PolicyCheckArguments;
use crate::output::{Failure, reason};

/// Most bytes of a policy.
const MOST: u64 = 1 << 20;

/// Runs the command.
///
/// # Errors
/// [`Failure::Problem`] if the policy has a mistake, [`Failure::Unusable`] if it cannot be
/// read.
pub fn run(arguments: &PolicyCheckArguments, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(path) = arguments.file.clone().or_else(found) else {
        return nothing(arguments.json, out);
    };
    let text = read(&path)
        .map_err(|error| Failure::Unusable(format!("{}: {}", path.display(), reason(&error))))?;
    let policy = match Policy::parse(&text) {
        Ok(policy) => policy,
        Err(error) => {
            let sentence = format!("{}: {error}", path.display());
            if arguments.json {
                let object = json!({
                    "file": path.display().to_string(),
                    "valid": false,
                    "mistake": error.to_string(),
                });
                writeln!(out, "{object}")?;
            }
            return Err(Failure::Problem(sentence));
        }
    };
    let lines = lines::of(&text, &policy);
    let notes = notes::of(&policy, &lines);
    if arguments.json {
        let object = json!({
            "file": path.display().to_string(),
            "valid": true,
            "lines": lines.iter().map(object).collect::<Vec<_>>(),
            "notes": notes,
        });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "{}: no mistake", path.display())?;
    for line in &lines {
        writeln!(out, "{:>5}  {}: {}", line.number, line.key, line.meaning)?;
    }
    if lines.is_empty() {
        writeln!(out, "       no key: everything is as by default")?;
    }
    for note in &notes {
        writeln!(out, "note:  {note}")?;
    }
    Ok(())
}

fn object(line: &lines::Line) -> Value {
    json!({ "line": line.number, "key": line.key, "meaning": line.meaning })
}

fn nothing(json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let sentence = "no policy file counts here: everything is as by default";
    match json {
        true => {
            let object = json!({ "file": null, "valid": true, "lines": [], "notes": [sentence] });
            writeln!(out, "{object}")?;
        }
        false => writeln!(out, "{sentence}")?,
    }
    Ok(())
}

/// The policy that counts for this process.
fn found() -> Option<PathBuf> {
    match std::env::var_os(ENVIRONMENT) {
        Some(path) if path.is_empty() => None,
        Some(path) => Some(path.into()),
        // A place without a regular file that can be read counts as empty.
        None => places().into_iter().find(|path| {
            let is_file = fs::metadata(path).is_ok_and(|of| of.is_file());
            is_file && File::open(path).is_ok()
        }),
    }
}

/// The text of a regular file of bounded size; reading never waits.
fn read(path: &Path) -> io::Result<String> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    file.take(MOST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(io::Error::other("the file is larger than 1 MiB"));
    }
    String::from_utf8(text).map_err(|_| io::Error::other("the file is not UTF-8"))
}
