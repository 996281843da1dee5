//! The reading side.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::counters::{Counters, FallbackCount, SIZES};
use crate::latch::Latch;
use crate::layout::{Layout, MAGIC, NAME};
use crate::memory::{Access, Memory, Pages};
use crate::record::{Connection, GroupRecord, LinkRecord, Progress, StackRecord, Technology};
use crate::statistics::{Fallback, Side, Statistics, Traffic, key};

/// Reads of the statistics while connections end, before they are taken as they are.
const ATTEMPTS: usize = 8;

/// Most memory files of a process that are opened to find its view.
const CANDIDATES: usize = 64;

/// A process that publishes.
#[derive(Debug)]
pub struct Found {
    /// Its number here.
    pub process: u32,
    /// The name of its program, as the kernel has it.
    pub program: String,
    /// When it was started, in the kernel's ticks since the system was.
    pub started: u64,
    /// Its user.
    pub user: u32,
    /// What it publishes.
    pub view: View,
}

/// The processes that publish and that this process may look into: those of its user, or all for
/// root. In the order of their numbers, each found when it is asked for: hostile users have many
/// processes.
///
/// # Errors
/// `/proc` cannot be read.
pub fn processes() -> io::Result<impl Iterator<Item = Found>> {
    Ok(numbers()?.into_iter().filter_map(Found::at))
}

/// The processes that have a view, but none that can be read here: that of another version of the
/// layout, most likely. Each with the name of its program, in the order of their numbers.
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
    Ok(numbers()?.into_iter().filter_map(named))
}

/// The numbers of all processes, in their order.
fn numbers() -> io::Result<Vec<u32>> {
    let numbers = fs::read_dir("/proc")?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    Ok(numbers)
}

impl Found {
    /// What a process publishes, if it does and this process may see it.
    #[must_use]
    pub fn at(process: u32) -> Option<Self> {
        let Identity { root, own, user } = Identity::of(process).ok()?;
        let is_own = |view: &View| view.process() == own && is_of(view.memory.owner(), user);
        let view = views(&root).find(is_own)?;
        let program = fs::read(root.join("comm")).ok()?;
        Some(Self {
            process,
            program: printable(&program),
            started: started(process)?,
            user,
            view,
        })
    }
}

/// Which process a number is.
pub(crate) struct Identity {
    /// Its directory below `/proc`.
    pub(crate) root: PathBuf,
    /// The number by which it goes itself, which is another one in a container.
    pub(crate) own: u32,
    /// Its user.
    pub(crate) user: u32,
}

impl Identity {
    pub(crate) fn of(process: u32) -> io::Result<Self> {
        let root = PathBuf::from(format!("/proc/{process}"));
        let status = fs::read(root.join("status"))?;
        // The name of the program is in it, and may be any bytes.
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

/// When a process was started, in the kernel's ticks since the system was; `None` if there is no
/// such process.
#[must_use]
pub fn started(process: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may have any of these characters, too.
    let rest = stat.rsplit(|byte| *byte == b')').next()?;
    let field = rest.split(|byte| *byte == b' ').nth(20)?;
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Whether a process of this user may have made a memory file of this owner: itself, or before it
/// gave the rights of root up. A program that gained rights when it was executed has descriptors
/// of whoever executed it.
pub(crate) const fn is_of(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

/// The memory files of the right kind among the descriptors of a process, its own and those of
/// the process that it was forked from.
fn views(root: &Path) -> impl Iterator<Item = View> {
    let candidates = candidates(root, NAME).into_iter().flatten();
    candidates.filter_map(|path| View::open(&path).ok())
}

/// Descriptors of memory files of a name, the first ones alone: a hostile process has as many as
/// it likes, and each takes time.
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

fn printable(name: &[u8]) -> String {
    crate::text::printable(name.trim_ascii_end())
}

/// What one process publishes, mapped for reading.
#[derive(Debug)]
pub struct View {
    memory: Memory<Layout>,
    file: OwnedFd,
}

/// What a process published at about one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its stacks.
    pub stacks: Vec<StackRecord>,
    /// Its link groups.
    pub groups: Vec<GroupRecord>,
    /// Its links.
    pub links: Vec<LinkRecord>,
    /// Its connections and listeners, with what they count.
    pub connections: Vec<(Connection, Counted)>,
    /// What it counted since it began.
    pub statistics: Statistics,
    /// Rows that found no place since it began, and rows that changed whenever they were read.
    pub hidden: u64,
}

/// What a connection has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Bytes that the program sent.
    pub sent: u64,
    /// Bytes that the program received.
    pub received: u64,
    /// Calls that sent, by sizes: up to 8, 16, 32, 64, 128, 256, 512, 1024 KiB, and more.
    pub sent_sizes: [u64; SIZES],
    /// Calls that received, by sizes.
    pub received_sizes: [u64; SIZES],
    /// How far the connection had got when the program last waited for it, or its state changed.
    pub progress: Progress,
    /// Times a write found no room.
    pub full: u64,
}

impl View {
    /// Maps the memory file that a path names.
    ///
    /// # Errors
    /// It cannot be opened or mapped, or is not one that a process publishes, of this version of
    /// the layout.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, memory) = Memory::<Layout>::open_file(path, Access::Read)?;
        let is_written = Pages::of(&file)?.have(&memory, &memory.head);
        match is_written && memory.head.magic.load(Ordering::Acquire) == MAGIC {
            true => Ok(Self { memory, file }),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The process that publishes, by the number that it has in its own namespace.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.memory.head.process.load(Ordering::Relaxed)
    }

    /// When the process began to publish, in nanoseconds since 1970.
    #[must_use]
    pub fn began(&self) -> u64 {
        self.memory.head.began.load(Ordering::Relaxed)
    }

    /// The sentence of a key.
    #[must_use]
    pub fn sentence(&self, key: u32) -> Option<String> {
        let pages = self.pages();
        let places = self.memory.sentences.iter();
        let mut places = places.filter(|place| pages.have(&self.memory, *place));
        let sentence = places.find_map(|place| place.read(key).filter(|_| key != 0))?;
        (!sentence.is_empty()).then(|| printable(&sentence))
    }

    /// Its stacks.
    #[must_use]
    pub fn stacks(&self) -> Vec<StackRecord> {
        self.stacks_and_hidden(&self.pages()).0
    }

    /// The pages that may be read: a hostile process would have others be made for it at the cost
    /// of the reader.
    fn pages(&self) -> Pages {
        Pages::of(&self.file).unwrap_or_default()
    }

    /// The rows of one kind that were used.
    fn rows<'a, const WORDS: usize>(
        &'a self,
        pages: &'a Pages,
        slots: &'a [Latch<WORDS>],
        used: &AtomicU32,
        hidden: &'a mut u64,
    ) -> impl Iterator<Item = [u64; WORDS]> {
        let slots = slots.iter().take(used.load(Ordering::Acquire) as usize);
        let slots = slots.filter(|slot| pages.have(&self.memory, *slot));
        slots.filter_map(|slot| {
            let words = slot.read();
            *hidden += u64::from(words.is_none());
            words
        })
    }

    /// Its stacks, and how many of their rows changed whenever they were read.
    fn stacks_and_hidden(&self, pages: &Pages) -> (Vec<StackRecord>, u64) {
        let layout = &*self.memory;
        let mut hidden = 0;
        let rows = self.rows(pages, &layout.stacks, &layout.head.stacks, &mut hidden);
        let stacks = rows.filter_map(|words| StackRecord::decode(&words));
        (stacks.collect(), hidden)
    }

    /// Reads everything. The process need not do anything for it, and is not kept from anything.
    #[must_use]
    pub fn read(&self) -> Snapshot {
        let layout = &*self.memory;
        let mut hidden = u64::from(layout.head.hidden.load(Ordering::Relaxed));
        let head = &layout.head;
        // At least one attempt is made.
        let mut ended = Statistics::default();
        let mut connections = Vec::new();
        let mut missed = 0;
        let mut pages = Pages::default();
        for _ in 0..ATTEMPTS {
            let moves = layout.totals.moves.load(Ordering::Acquire);
            ended = totals(layout);
            pages = self.pages();
            (connections, missed) = self.connections(&pages);
            let same = layout.totals.moves.load(Ordering::Acquire) == moves;
            if same && moves & 1 == 0 {
                break;
            }
        }
        hidden += missed;
        for (connection, counted) in &connections {
            counted.add_to(connection, &mut ended);
        }
        let (stacks, missed) = self.stacks_and_hidden(&pages);
        hidden += missed;
        let groups = self.rows(&pages, &layout.groups, &head.groups, &mut hidden);
        let groups = groups.filter_map(|words| GroupRecord::decode(&words));
        let groups = groups.collect();
        let links = self.rows(&pages, &layout.links, &head.links, &mut hidden);
        let links = links.filter_map(|words| LinkRecord::decode(&words));
        let links = links.collect();
        Snapshot {
            stacks,
            groups,
            links,
            connections,
            statistics: ended,
            hidden,
        }
    }

    /// The connections, and how many changed at each attempt.
    fn connections(&self, pages: &Pages) -> (Vec<(Connection, Counted)>, u64) {
        let used = self.memory.head.connections.load(Ordering::Acquire);
        let mut missed = 0;
        let slots = self.memory.connections.iter().take(used as usize);
        let slots = slots.filter(|slot| pages.have(&self.memory, *slot));
        let connections = slots.filter_map(|slot| {
            for _ in 0..ATTEMPTS {
                let Some(words) = slot.row.read() else { break };
                let connection = Connection::decode(&words)?;
                let counted = Counted::of(&slot.counters);
                // They are of another one if the row was given to that meanwhile.
                if slot.counters.serial.load(Ordering::Acquire) == connection.serial {
                    return Some((connection, counted));
                }
            }
            missed += 1;
            None
        });
        (connections.collect(), missed)
    }
}

impl Counted {
    /// Calls that sent, and calls that received, of any size.
    #[must_use]
    pub fn calls(&self) -> [u64; 2] {
        [self.sent_sizes, self.received_sizes]
            .map(|sizes| sizes.into_iter().fold(0, u64::saturating_add))
    }

    fn of(counters: &Counters) -> Self {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            sent: load(&counters.sent),
            received: load(&counters.received),
            sent_sizes: counters.sent_sizes.each_ref().map(load),
            received_sizes: counters.received_sizes.each_ref().map(load),
            progress: Progress {
                written: load(&counters.written),
                completed: load(&counters.completed),
                peer_consumed: load(&counters.peer_consumed),
                arrived: load(&counters.arrived),
                messages: load(&counters.messages),
                at: load(&counters.progress_time),
            },
            full: load(&counters.full),
        }
    }

    fn add_to(&self, connection: &Connection, statistics: &mut Statistics) {
        let technology = match connection.technology {
            Technology::SmcD => 0,
            Technology::SmcR => 1,
            _ => return,
        };
        if let Some(messages) = statistics.messages.get_mut(technology) {
            *messages = messages.wrapping_add(self.progress.messages);
        }
        let traffic = &mut statistics[connection.technology];
        traffic.add(key::SENT, self.sent);
        traffic.add(key::RECEIVED, self.received);
        traffic.add(key::FULL_PEER, self.full);
        for (class, (sent, received)) in
            self.sent_sizes.iter().zip(&self.received_sizes).enumerate()
        {
            traffic.add(key::REQUESTS_SENT + class, *sent);
            traffic.add(key::REQUESTS_RECEIVED + class, *received);
            traffic.add(key::SENT_COUNT, *sent);
            traffic.add(key::RECEIVED_COUNT, *received);
        }
        traffic.add(key::RECEIVE_USAGE, connection.receive_buffer.into());
        // Over SMC-D the peer's buffer is written to.
        if connection.technology == Technology::SmcR {
            traffic.add(key::SEND_USAGE, connection.send_buffer.into());
        }
    }
}

/// What was counted of connections that have ended, and what is counted once.
fn totals(layout: &Layout) -> Statistics {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let totals = &layout.totals;
    let [smc_d, smc_r] = &totals.technologies;
    // Before the reasons: those of which the total is the last to be written are complete.
    let tcp = totals.tcp.each_ref().map(|at| at.load(Ordering::Acquire));
    let fallbacks = totals.fallbacks.iter().filter_map(|entry| {
        let (key, count) = (load(&entry.key), load(&entry.count));
        let side = match key >> 32 & 1 {
            0 => Side::Client,
            _ => Side::Server,
        };
        (key & FallbackCount::USED != 0).then_some(Fallback {
            code: key as u32,
            side,
            count,
        })
    });
    Statistics {
        smc_d: Traffic(smc_d.each_ref().map(load)),
        smc_r: Traffic(smc_r.each_ref().map(load)),
        tcp,
        fallbacks: fallbacks.collect(),
        handshake_errors: totals.handshake_errors.each_ref().map(load),
        messages: totals.messages.each_ref().map(load),
        link_moves: load(&totals.link_moves),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{CANDIDATES, NAME, candidates, printable};

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
