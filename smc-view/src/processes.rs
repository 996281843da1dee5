//! Finding the processes that publish, by the memory files among their descriptors.
//!
//! Whatever a process publishes is hostile input: its descriptors are counted, the owner of its memory
//! file is checked, and its names are made printable.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::layout::NAME;
use crate::read::View;
use crate::text;

/// Most memory files of a process that are opened to find its view.
const CANDIDATES: usize = 64;

/// Most descriptors of a process that are checked to find its view, some 10 us each.
pub const MAX_DESCRIPTORS: usize = 1 << 16;

/// A process that publishes its connections.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// ID of the process in the PID namespace of the reader.
    pub process: u32,
    /// The name of its program, from `/proc/PID/comm`, with control characters replaced.
    pub program: String,
    /// When it was started, in the kernel's clock ticks since boot.
    pub started: u64,
    /// Effective user ID of the process.
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

/// A process that [`processes`] leaves out although it may publish something.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unlisted {
    /// ID of the process in the PID namespace of the reader.
    pub process: u32,
    /// The name of its program, with control characters replaced.
    pub program: String,
    /// Why it is left out.
    pub why: WhyUnlisted,
}

/// Why a process is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WhyUnlisted {
    /// The process publishes something that cannot be read, most likely in another version of the
    /// layout.
    Version,
    /// The process publishes nothing by its first [`MAX_DESCRIPTORS`] descriptors, and has more.
    Descriptors,
}

/// The processes that are left out although they may publish something, in the order of their IDs.
///
/// # Errors
/// `/proc` cannot be read.
pub fn unlisted() -> io::Result<impl Iterator<Item = Unlisted>> {
    Ok(ids()?.into_iter().filter_map(|process| {
        let root = PathBuf::from(format!("/proc/{process}"));
        let why = why_unlisted(&root, process)?;
        let program = printable(&fs::read(root.join("comm")).ok()?);
        Some(Unlisted {
            process,
            program,
            why,
        })
    }))
}

fn why_unlisted(root: &Path, process: u32) -> Option<WhyUnlisted> {
    let mut candidates = candidates(root, NAME).ok()?;
    let opened = candidates.by_ref().map(|path| View::open(&path));
    let mut failures = opened.filter_map(Result::err);
    let why = match failures.find(|error| error.kind() == io::ErrorKind::InvalidData) {
        Some(_) => WhyUnlisted::Version,
        None if candidates.left_out() => WhyUnlisted::Descriptors,
        None => return None,
    };
    Found::at(process).is_none().then_some(why)
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
    /// Directory of the process below `/proc`.
    pub(crate) root: PathBuf,
    /// ID of the process in its own PID namespace: another one in a container.
    pub(crate) own: u32,
    /// Effective user ID of the process.
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

/// Paths of a process's memory files of a name, [`CANDIDATES`] at most, among its first
/// [`MAX_DESCRIPTORS`] descriptors: a hostile process has as many of either as it likes, and to
/// check each takes time.
pub(crate) fn candidates(root: &Path, name: &'static str) -> io::Result<Candidates> {
    Candidates::among(root, name, MAX_DESCRIPTORS)
}

/// Memory files of a process, see [`candidates`].
pub(crate) struct Candidates {
    descriptors: fs::ReadDir,
    name: &'static str,
    /// Descriptors that are still checked.
    left: usize,
    /// Files that are still returned.
    files: usize,
}

impl Candidates {
    /// Checks this number of descriptors at most.
    fn among(root: &Path, name: &'static str, most: usize) -> io::Result<Self> {
        Ok(Self {
            descriptors: fs::read_dir(root.join("fd"))?,
            name,
            left: most,
            files: CANDIDATES,
        })
    }

    /// Whether the process has descriptors that are not checked because it has so many.
    fn left_out(&mut self) -> bool {
        self.left == 0 && self.descriptors.next().is_some()
    }
}

impl Iterator for Candidates {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        while self.files > 0 && self.left > 0 {
            self.left -= 1;
            let Ok(entry) = self.descriptors.next()? else {
                continue;
            };
            let path = entry.path();
            let Ok(target) = fs::read_link(&path) else {
                continue;
            };
            let Some(of) = target.to_str().and_then(|at| at.strip_prefix("/memfd:")) else {
                continue;
            };
            if of.strip_suffix(" (deleted)").unwrap_or(of) == self.name {
                self.files -= 1;
                return Some(path);
            }
        }
        None
    }
}

/// Which of these inodes are of sockets among the first [`MAX_DESCRIPTORS`] descriptors that a folder
/// lists.
pub(crate) fn open_sockets(descriptors: &Path, mut inodes: HashSet<u64>) -> HashSet<u64> {
    let mut open = HashSet::new();
    let entries = fs::read_dir(descriptors).into_iter().flatten();
    for entry in entries.take(MAX_DESCRIPTORS) {
        if inodes.is_empty() {
            break;
        }
        let target = entry.and_then(|entry| fs::read_link(entry.path()));
        let inode = target.ok().and_then(|target| {
            let inode = target.to_str()?.strip_prefix("socket:[")?;
            inode.strip_suffix(']')?.parse().ok()
        });
        open.extend(inode.filter(|inode| inodes.remove(inode)));
    }
    open
}

/// A name of the kernel, without its line end and with control characters replaced.
fn printable(name: &[u8]) -> String {
    text::printable(name.trim_ascii_end())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{CANDIDATES, Candidates, NAME, candidates, of_one_process, printable};

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
        assert_eq!(opened, CANDIDATES);
        // Whatever the others are, a bounded number of descriptors is checked.
        for (most, left_out) in [
            (10, true),
            (4 * CANDIDATES, false),
            (4 * CANDIDATES + 1, false),
        ] {
            let mut found = Candidates::among(&root, "other name", most).unwrap();
            assert_eq!(found.by_ref().count(), 0);
            assert_eq!(found.left_out(), left_out, "{most}");
        }
        let mut found = Candidates::among(&root, NAME, 10).unwrap();
        assert!(found.by_ref().count() <= 10);
        assert!(found.left_out());
        fs::remove_dir_all(&root).unwrap();
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
