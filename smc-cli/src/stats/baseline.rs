//! What had been counted when the statistics were begun anew, in the user's state directory.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use smc_view::{KEYS, Statistics, Traffic};

use crate::output::{Failure, reason};

/// Most bytes of the file.
const MOST: u64 = 1 << 26;
/// Most bytes of one process: its name with the time, and numbers of 20 digits with a comma.
const MOST_OF_ONE: usize = 64 + 21 * (2 * KEYS.len() + 5);

/// What each process had counted when the statistics were begun anew.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    /// The numbers of each process, by its name and the time when it began.
    counted: BTreeMap<String, Vec<u64>>,
    kept_at: u64,
}

fn directory() -> Result<PathBuf, Failure> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|at| at.is_absolute())
    };
    let place = absolute("XDG_STATE_HOME");
    let place = place.or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let none = "neither $XDG_STATE_HOME nor $HOME names a directory for the statistics' start";
    place
        .map(|place| place.join("smc"))
        .ok_or_else(|| Failure::Problem(none.to_owned()))
}

/// What was kept last; nothing if nothing was.
pub(super) fn read() -> Result<Baseline, Failure> {
    let Ok(directory) = directory() else {
        // Nothing can have been kept.
        return Ok(Baseline::default());
    };
    let path = directory.join("stats.json");
    let unusable = |why: String| {
        Failure::Problem(format!(
            "{}: {why}; remove it, or use --absolute",
            path.display()
        ))
    };
    let file = match fs::File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Baseline::default());
        }
        opened => opened.map_err(|error| unusable(reason(&error)))?,
    };
    let metadata = file.metadata().map_err(|error| unusable(reason(&error)))?;
    let mut text = String::new();
    let read = file.take(MOST).read_to_string(&mut text);
    read.map_err(|error| unusable(reason(&error)))?;
    let parsed = serde_json::from_str(&text);
    Ok(Baseline {
        counted: parsed.map_err(|error| unusable(error.to_string()))?,
        kept_at: metadata.modified().map_or(0, super::nanoseconds),
    })
}

/// Keeps what has been counted up to now.
pub(super) fn write(counted: &[(String, Statistics)]) -> Result<(), Failure> {
    let directory = directory()?;
    let kept = kept(counted);
    let (path, new) = (
        directory.join("stats.json"),
        directory.join(format!("stats.json.{}", std::process::id())),
    );
    let write = || {
        fs::create_dir_all(&directory)?;
        // What is left of a process that had the same number. Nothing that is there is written to.
        let _ = fs::remove_file(&new);
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(serde_json::to_string(&kept)?.as_bytes())?;
        fs::rename(&new, &path)
    };
    write().map_err(|error| Failure::Problem(format!("{}: {}", path.display(), reason(&error))))
}

/// The numbers of as many processes as the file may have: a user with very many of them must not
/// make it too long to be read.
fn kept(counted: &[(String, Statistics)]) -> BTreeMap<&str, Vec<u64>> {
    let most = MOST as usize / MOST_OF_ONE;
    let counted = counted.iter().take(most);
    counted
        .map(|(name, of)| (name.as_str(), numbers(of)))
        .collect()
}

/// The numbers that are kept: those of a fixed place. Reasons are counted since each process began.
fn numbers(of: &Statistics) -> Vec<u64> {
    let totals = of.tcp.iter().chain(&of.handshake_errors);
    let totals = totals.chain(std::iter::once(&of.link_moves));
    let traffic = of.smc_d.0.iter().chain(&of.smc_r.0);
    traffic.chain(totals).copied().collect()
}

impl Baseline {
    /// When the statistics were begun anew, in nanoseconds since 1970; 0 if they never were.
    pub(super) const fn kept_at(&self) -> u64 {
        self.kept_at
    }

    /// What a process has counted since.
    pub(super) fn since(&self, name: &str, counted: &Statistics) -> Statistics {
        let mut counted = counted.clone();
        let Some(before) = self.counted.get(name) else {
            return counted;
        };
        let mut before = before.iter().copied();
        for traffic in [&mut counted.smc_d, &mut counted.smc_r] {
            for (at, value) in traffic.0.iter_mut().enumerate() {
                let old = before.next().unwrap_or(0);
                if !Traffic::is_level(at) {
                    *value = value.saturating_sub(old);
                }
            }
        }
        let totals = counted.tcp.iter_mut().chain(&mut counted.handshake_errors);
        for value in totals.chain(std::iter::once(&mut counted.link_moves)) {
            *value = value.saturating_sub(before.next().unwrap_or(0));
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user has as many processes as the kernel permits, each with any numbers.
    #[test]
    fn what_is_kept_of_many_processes_is_read_again() {
        let mut most = Statistics::default();
        (most.smc_d.0, most.smc_r.0) = ([u64::MAX; KEYS.len()], [u64::MAX; KEYS.len()]);
        (most.tcp, most.handshake_errors, most.link_moves) = ([u64::MAX; 2], [u64::MAX; 2], 1);
        let name = |at: u32| format!("{}-{}", u32::MAX - at, u64::MAX);
        let one = serde_json::to_string(&kept(&[(name(0), most.clone())])).unwrap();
        assert!(one.len() <= MOST_OF_ONE, "{}", one.len());
        let many: Vec<_> = (0..30_000)
            .map(|at| (name(at), Statistics::default()))
            .collect();
        assert!(kept(&many).len() * MOST_OF_ONE <= MOST as usize);
    }
}
