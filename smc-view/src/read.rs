//! Reading what one process publishes, while it goes on.
//!
//! Rows are latches: one that changes while it is read is read again, and left out if it changes each
//! time. Totals and rows are consistent by the counter `moves`, which is odd while a connection that
//! ends is moved from its row to the totals: a connection is then counted exactly once.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::counters::{Counters, FallbackCount, SIZES};
use crate::latch::Latch;
use crate::layout::{Layout, MAGIC};
use crate::memory::{Access, Memory, Pages};
use crate::processes::open_sockets;
use crate::record::{Connection, GroupRecord, LinkRecord, Progress, StackRecord, Technology};
use crate::sentence::Sentence;
use crate::statistics::{Fallback, Side, Statistics, Traffic, key};

/// Reads of rows and totals that change meanwhile. After that, totals are taken as they are, and rows
/// are left out.
const ATTEMPTS: usize = 8;

/// What one process publishes, mapped for reading.
#[derive(Debug)]
pub struct View {
    memory: Memory<Layout>,
    file: OwnedFd,
    /// Where the descriptors of the process are listed.
    descriptors: PathBuf,
    /// Pages found by the last search.
    pages: Mutex<Pages>,
}

/// What a process published, read within a moment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// Stacks of the process.
    pub stacks: Vec<StackRecord>,
    /// Link groups of the process.
    pub groups: Vec<GroupRecord>,
    /// Links of the process.
    pub links: Vec<LinkRecord>,
    /// Connections and listeners of the process, with what they count.
    pub connections: Vec<(Connection, Counted)>,
    /// What it has counted since it began to publish.
    pub statistics: Statistics,
    /// Rows that are missing: for which there was no room, since the process began to publish, and which
    /// changed each time they were read.
    pub hidden: u64,
}

/// What a connection has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
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
    /// Times a write found no room since the peer's buffer was full, which are part of `full`. The
    /// others found the send buffer full while the peer's had room.
    pub peer_full: u64,
    /// Times a read found the receive buffer full.
    pub receive_full: u64,
}

impl View {
    /// Maps the memory file that a path names.
    ///
    /// # Errors
    /// It cannot be opened or mapped, or is not one that a process publishes, of this version of
    /// the layout.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, memory) = Memory::<Layout>::open_file(path, Access::Read)?;
        let pages = Pages::of(&file)?;
        let is_written = pages.have(&memory, &memory.head);
        let pages = Mutex::new(pages);
        match is_written && memory.head.magic.load(Ordering::Acquire) == MAGIC {
            true => Ok(Self {
                memory,
                file,
                descriptors: path.parent().unwrap_or(path).to_owned(),
                pages,
            }),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The ID of the process that publishes, in its own PID namespace.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.memory.head.process.load(Ordering::Relaxed)
    }

    /// When the process began to publish, in nanoseconds since 1970.
    #[must_use]
    pub fn began(&self) -> u64 {
        self.memory.head.began.load(Ordering::Relaxed)
    }

    /// The sentence that was published under a key when the view was opened or last
    /// [read](Self::read), with control characters replaced.
    #[must_use]
    pub fn sentence(&self, key: u32) -> Option<String> {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |place: &Sentence, bytes| pages.have_first(&self.memory, place, bytes);
        // They are entered one after the other.
        let mut places = self.memory.sentences.iter().take_while(|place| {
            let used = if has(place, Sentence::HEAD) {
                place.used()
            } else {
                0
            };
            used > 0 && has(place, used)
        });
        let sentence = places.find_map(|place| place.read(key).filter(|_| key != 0))?;
        (!sentence.is_empty()).then(|| crate::text::printable(sentence.trim_ascii_end()))
    }

    /// Stacks of the process that publishes.
    #[must_use]
    pub fn stacks(&self) -> Vec<StackRecord> {
        self.stacks_and_hidden(&self.pages()).0
    }

    /// The pages that the process has written. Others are not read: reading one would make it, at the
    /// cost of the reader.
    fn pages(&self) -> Pages {
        let pages = Pages::of(&self.file).unwrap_or_default();
        let mut last = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone_from(&pages);
        pages
    }

    /// The rows of one kind that are used. Adds those that changed each time they were read to
    /// `hidden`.
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

    /// The owner of the memory file.
    pub(crate) fn owner(&self) -> u32 {
        self.memory.owner()
    }

    /// Stacks of the process that publishes, and the number of their rows that changed each time
    /// they were read.
    fn stacks_and_hidden(&self, pages: &Pages) -> (Vec<StackRecord>, u64) {
        let layout = &*self.memory;
        let mut hidden = 0;
        let rows = self.rows(pages, &layout.stacks, &layout.head.stacks, &mut hidden);
        let stacks = rows.filter_map(|words| StackRecord::decode(&words));
        (stacks.collect(), hidden)
    }

    /// Reads everything. The process that publishes neither helps nor waits. Connections whose end it does
    /// not note are left out if it has no descriptor of them, as far as its descriptors are listed beside
    /// the path that was opened.
    #[must_use]
    pub fn read(&self) -> Snapshot {
        let layout = &*self.memory;
        let mut hidden = u64::from(layout.head.hidden.load(Ordering::Relaxed));
        let head = &layout.head;
        let mut ended = Statistics::default();
        let mut connections = Vec::new();
        let mut missed = 0;
        let mut pages = Pages::default();
        for _ in 0..ATTEMPTS {
            let moves = layout.totals.moves.load(Ordering::Acquire);
            ended = totals(layout);
            pages = self.pages();
            (connections, missed) = self.connections(&pages);
            let is_same = layout.totals.moves.load(Ordering::Acquire) == moves;
            if is_same && moves & 1 == 0 {
                break;
            }
        }
        hidden += missed;
        self.leave_out_closed(&mut connections);
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

    /// Removes connections whose end the process does not note, and which have ended.
    fn leave_out_closed(&self, connections: &mut Vec<(Connection, Counted)>) {
        let unattended = connections.iter().filter(|(at, _)| at.unattended);
        let inodes: HashSet<_> = unattended.map(|(at, _)| at.inode).collect();
        if !inodes.is_empty() {
            let open = open_sockets(&self.descriptors, inodes);
            connections.retain(|(at, _)| !at.unattended || open.contains(&at.inode));
        }
    }

    /// The connections with their counters, and the number of those that changed each time.
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
                // The counters are another connection's if the row was reused meanwhile.
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

    /// The counters as they are now.
    pub(crate) fn of(counters: &Counters) -> Self {
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
            peer_full: load(&counters.peer_full),
            receive_full: load(&counters.receive_full),
        }
    }

    /// Adds the counters of an open connection to those of connections that have ended.
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
        self.each(connection.technology, |at, count| traffic.add(at, count));
        traffic.add(key::RECEIVE_USAGE, connection.receive_buffer.into());
        if connection.technology == Technology::SmcR {
            traffic.add(key::SEND_USAGE, connection.send_buffer.into());
        }
    }

    /// The counters of the statistics to which those of a connection of this technology are added:
    /// their keys, some more than once, and what is added.
    pub(crate) fn each(&self, technology: Technology, mut add: impl FnMut(usize, u64)) {
        add(key::SENT, self.sent);
        add(key::RECEIVED, self.received);
        add(key::FULL_PEER, self.peer_full);
        add(key::FULL_RECEIVED, self.receive_full);
        // SMC-D has no send buffers: bytes are written to the peer's.
        if technology == Technology::SmcR {
            add(key::FULL_SENT, self.full);
        }
        let sizes = self.sent_sizes.iter().zip(&self.received_sizes);
        for (class, (&sent, &received)) in sizes.enumerate() {
            add(key::REQUESTS_SENT + class, sent);
            add(key::REQUESTS_RECEIVED + class, received);
            add(key::SENT_COUNT, sent);
            add(key::RECEIVED_COUNT, received);
        }
    }
}

/// The totals of connections that have ended, and what is not counted for each connection.
fn totals(layout: &Layout) -> Statistics {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let totals = &layout.totals;
    let [smc_d, smc_r] = &totals.technologies;
    // Read before the reasons: the writer writes a reason before it adds to the total.
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
