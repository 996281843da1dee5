//! Finding the processes that publish, by the memory files among their descriptors.
//!
//! Whatever a process publishes is hostile input: its descriptors are counted, the owner of its memory
//! file is checked, and its names are made printable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::layout::NAME;
use crate::read::View;
use crate::text;

/// Most memory files of a process that are opened to find its view.
const CANDIDATES: usize = 64;

/// A process that publishes its connections.
#[derive(Debug)]
pub struct Found {
    /// Its process ID in the PID namespace of the reader.
    pub process: u32,
    /// The name of its program, from `/proc/PID/comm`, with control characters replaced.
    pub program: String,
    /// When it was started, in the kernel's clock ticks since boot.
    pub started: u64,
    /// Its effective user ID.
    pub user: u32,
    /// What it publishes.
    pub view: View,
}

/// The processes that publish and that the caller may read: those of its user, or all for root, in the
/// order of their IDs. Each is searched for when the iterator reaches it, as hostile users may have
/// many processes.
///
/// # Errors
/// `/proc` cannot be read.
pub fn processes() -> io::Result<impl Iterator<Item = Found>> {
    Ok(ids()?.into_iter().filter_map(Found::at))
}

/// The processes that publish something that cannot be read, most likely in another version of the
/// layout: their IDs, in order, and the names of their programs.
///
/// # Errors
/// `/proc` cannot be read.
pub fn unreadable() -> io::Result<impl Iterator<Item = (u32, String)>> {
    let named = |process: u32| {
        let root = PathBuf::from(format!("/proc/{process}"));
        let opened = candidates(&root, NAME).ok()?.map(|path| View::open(&path));
        let mut failures = opened.filter_map(Result::err);
        failures.find(|error| error.kind() == io::ErrorKind::InvalidData)?;
        if Found::at(process).is_some() {
            return None;
        }
        Some((process, printable(&fs::read(root.join("comm")).ok()?)))
    };
    Ok(ids()?.into_iter().filter_map(named))
}

/// The IDs of all processes, in order.
fn ids() -> io::Result<Vec<u32>> {
    let ids = fs::read_dir("/proc")?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    Ok(ids)
}

impl Found {
    /// What the process with this ID publishes, if it does and the caller may read it.
    #[must_use]
    pub fn at(process: u32) -> Option<Self> {
        let search = || Self::search(process);
        let (started, found) = of_one_process(|| started(process), search)?;
        Some(Self { started, ..found })
    }

    /// What a process publishes, without the time when it was started.
    fn search(process: u32) -> Option<Self> {
        let Identity { root, own, user } = Identity::of(process).ok()?;
        // A view that was inherited at a fork has the parent's ID in it.
        let is_own = |view: &View| view.process() == own && is_of(view.owner(), user);
        let view = views(&root).find(is_own)?;
        let program = fs::read(root.join("comm")).ok()?;
        Some(Self {
            process,
            program: printable(&program),
            started: 0,
            user,
            view,
        })
    }
}

/// What a search finds, with the time when the process was started; `None` if its ID has been given to
/// another process meanwhile: parts of what was found may be of either.
fn of_one_process<T>(
    mut started: impl FnMut() -> Option<u64>,
    search: impl FnOnce() -> Option<T>,
) -> Option<(u64, T)> {
    let before = started()?;
    let found = search()?;
    (started() == Some(before)).then_some((before, found))
}

/// What the kernel reports of a process ID.
pub(crate) struct Identity {
    /// Its directory below `/proc`.
    pub(crate) root: PathBuf,
    /// Its ID in its own PID namespace: another one in a container.
    pub(crate) own: u32,
    /// Its effective user ID.
    pub(crate) user: u32,
}

impl Identity {
    /// Reads `/proc/PID/status`.
    pub(crate) fn of(process: u32) -> io::Result<Self> {
        let root = PathBuf::from(format!("/proc/{process}"));
        let status = fs::read(root.join("status"))?;
        // The program's name is part of it and may have any bytes.
        let status = String::from_utf8_lossy(&status);
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let own = field("NSpid:")
            .and_then(|numbers| numbers.split_whitespace().last())
            .and_then(|number| number.parse().ok())
            .unwrap_or(process);
        let user = field("Uid:").and_then(|users| users.split_whitespace().nth(1)?.parse().ok());
        let user = user.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { root, own, user })
    }
}

/// When a process was started, in the kernel's clock ticks since boot; `None` if there is no such
/// process.
#[must_use]
pub fn started(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The program's name, in parentheses, may have spaces and parentheses, too.
    let rest = stat.rsplit(|byte| *byte == b')').next()?;
    let field = rest.split(|byte| *byte == b' ').nth(20)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Whether a process of this user may have made a memory file of this owner: as itself, or as root
/// before it dropped its rights. Any other file is one that a program inherited which gained rights
/// when it was executed.
pub(crate) const fn is_of(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

/// The views among the descriptors of a process: its own, and those inherited from the process that it
/// was forked from.
fn views(root: &Path) -> impl Iterator<Item = View> {
    let candidates = candidates(root, NAME).into_iter().flatten();
    candidates.filter_map(|path| View::open(&path).ok())
}

/// Paths of a process's memory files of a name, [`CANDIDATES`] at most: a hostile process has as many
/// as it likes, and to open each takes time.
pub(crate) fn candidates(
    root: &Path,
    name: &'static str,
) -> io::Result<impl Iterator<Item = PathBuf>> {
    let candidates = fs::read_dir(root.join("fd"))?.filter_map(move |entry| {
        let path = entry.ok()?.path();
        let target = fs::read_link(&path).ok()?;
        let of = target.to_str()?.strip_prefix("/memfd:")?;
        (of.strip_suffix(" (deleted)").unwrap_or(of) == name).then_some(path)
    });
    Ok(candidates.take(CANDIDATES))
}

/// A name of the kernel, without its line end and with control characters replaced.
fn printable(name: &[u8]) -> String {
    text::printable(name.trim_ascii_end())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{CANDIDATES, NAME, candidates, of_one_process, printable};

    #[test]
    fn what_was_found_of_two_processes_is_of_none() {
        let times = |times: &'static [Option<u64>]| {
            let mut times = times.iter().copied();
            move || times.next().unwrap()
        };
        let found = |times, found: Option<u8>| of_one_process(times, || found);
        assert_eq!(found(times(&[Some(7), Some(7)]), Some(1)), Some((7, 1)));
        assert_eq!(found(times(&[Some(7), Some(8)]), Some(1)), None);
        assert_eq!(found(times(&[Some(7), None]), Some(1)), None);
        assert_eq!(found(times(&[None]), Some(1)), None);
        assert_eq!(found(times(&[Some(7)]), None), None);
    }

    #[test]
    fn few_of_many_descriptors_are_opened() {
        let root = std::env::temp_dir().join(format!("smc-view-many-{}", std::process::id()));
        fs::create_dir_all(root.join("fd")).unwrap();
        for number in 0..4 * CANDIDATES {
            let target = match number % 2 {
                0 => "/memfd:smc-view (deleted)",
                _ => "/memfd:other (deleted)",
            };
            symlink(target, root.join("fd").join(number.to_string())).unwrap();
        }
        let opened = candidates(&root, NAME).unwrap().count();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(opened, CANDIDATES);
    }

    #[test]
    fn names_move_no_cursor_of_a_terminal() {
        assert_eq!(
            printable(b"a\x1b[2J\nb\xff\x9b\n"),
            "a?[2J?b\u{fffd}\u{fffd}"
        );
        assert_eq!(printable("\u{9b}é".as_bytes()), "?é");
        // Nor turn the rest of the line around, or hide in it.
        let turned = "a\u{202e}b\u{2066}c\u{200b}d\u{2028}e\u{feff}";
        assert_eq!(printable(turned.as_bytes()), "a?b?c?d?e?");
    }
}
