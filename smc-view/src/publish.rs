//! The writing side.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::counters::{FallbackCount, add, add_shared, class_of};
use crate::latch::Latch;
use crate::layout::{
    CONNECTION_WORDS, CONNECTIONS, ConnectionSlot, GROUP_WORDS, GROUPS, LINK_WORDS, LINKS, Layout,
    MAGIC, NAME, STACK_WORDS, STACKS, UNATTENDED,
};
use crate::memory::{Memory, back_part, back_places};
use crate::read::Counted;
use crate::record::{
    Connection, GroupRecord, LinkRecord, Progress, StackRecord, Technology, set_shut, set_state,
};
use crate::sentence::key_of;
use crate::statistics::{Extra, Side, key};

/// What a process publishes, for as long as it lives.
pub struct Publisher {
    layout: &'static Layout,
    process: u32,
    places: Mutex<Places>,
    /// Rows of connections whose end is not noted, the oldest first.
    unattended: Mutex<VecDeque<ConnectionRow>>,
    /// Places of sentences that have memory, from the first one on.
    sentences: AtomicUsize,
    is_own: OnceLock<fn(&'static Self) -> bool>,
}

/// Rows that are free.
struct Places {
    connections: Free,
    groups: Free,
    links: Free,
    stacks: Free,
    last: u64,
}

/// Rows of one kind: those that were given back, the first that was never used, and the first that has
/// no memory yet.
struct Free {
    freed: Vec<u32>,
    next: u32,
    backed: u32,
    most: u32,
}

impl Free {
    const fn new(most: usize) -> Self {
        let most = most as u32;
        Self {
            freed: Vec::new(),
            next: 0,
            backed: 0,
            most,
        }
    }

    /// The index of a row that is free and has memory.
    fn take<R>(&mut self, slots: &[R], used: &AtomicU32) -> Option<u32> {
        if let Some(index) = self.freed.pop() {
            return Some(index);
        }
        if self.next == self.most {
            return None;
        }
        if self.next == self.backed {
            let more = back_places(slots, self.next as usize) as u32;
            if more == 0 {
                return None;
            }
            self.backed += more;
        }
        self.next += 1;
        used.store(self.next, Ordering::Release);
        Some(self.next - 1)
    }
}

impl Publisher {
    /// Begins to publish. The memory stays as long as the process: make one of them only. Readers
    /// find it for as long as the descriptor is open.
    ///
    /// # Errors
    /// What keeps the kernel from making the memory.
    pub fn start() -> io::Result<(OwnedFd, &'static Self)> {
        let (file, memory) = Memory::<Layout>::create(NAME, true)?;
        Ok((file, Self::of(memory)?))
    }

    /// Publishes in this memory from now on.
    pub(crate) fn of(memory: Memory<Layout>) -> io::Result<&'static Self> {
        back_part(&memory.head)?;
        back_part(&memory.totals)?;
        let layout = memory.leak();
        let process = std::process::id();
        let head = &layout.head;
        head.process.store(process, Ordering::Relaxed);
        head.began.store(nanoseconds(), Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::Release);
        let publisher = Box::leak(Box::new(Self {
            layout,
            process,
            is_own: OnceLock::new(),
            unattended: Mutex::default(),
            sentences: AtomicUsize::new(0),
            places: Mutex::new(Places {
                connections: Free::new(CONNECTIONS),
                groups: Free::new(GROUPS),
                links: Free::new(LINKS),
                stacks: Free::new(STACKS),
                last: 0,
            }),
        }));
        Ok(publisher)
    }

    /// Whether this process is the one that publishes, and no child of it.
    fn is_own(&'static self) -> bool {
        match self.is_own.get() {
            Some(is_own) => is_own(self),
            None => std::process::id() == self.process,
        }
    }

    /// Sets how it is found out whether this process publishes, and not one that it was forked
    /// from, without a system call. Only the first one counts.
    pub fn set_own(&self, is_own: fn(&'static Self) -> bool) {
        let _ = self.is_own.set(is_own);
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a connection or a listener until the row is dropped. The serial number and the
    /// time are the row's.
    #[must_use]
    pub fn connection(&'static self, connection: &Connection) -> Option<ConnectionRow> {
        if !self.is_own() {
            return None;
        }
        let mut places = self.places();
        let head = &self.layout.head;
        let slots = &self.layout.connections;
        let Some(index) = places.connections.take(slots, &head.connections) else {
            head.hidden.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        places.last += 1;
        let slot = slots.get(index as usize)?;
        slot.counters.begin(places.last);
        let row = ConnectionRow {
            publisher: self,
            slot,
            index,
            serial: places.last,
            since: nanoseconds(),
            technology: AtomicU8::new(0),
        };
        row.write(&places, connection);
        Some(row)
    }

    /// Publishes a connection that is the kernel's alone, and whose end this process does not note:
    /// readers find that out by its inode. The newest 1,024 of them are published.
    pub fn unattended(&'static self, connection: &Connection) {
        if !self.is_own() {
            return;
        }
        let unattended = self.unattended.lock();
        let mut unattended = unattended.unwrap_or_else(PoisonError::into_inner);
        if unattended.len() == UNATTENDED {
            unattended.pop_front();
        }
        unattended.extend(self.connection(&Connection {
            unattended: true,
            ..*connection
        }));
    }

    /// Publishes a link group until the row is dropped.
    #[must_use]
    pub fn group(&'static self, group: &GroupRecord) -> Option<GroupRow> {
        let slots = &self.layout.groups;
        let used = &self.layout.head.groups;
        let row = self.row(slots, used, |places| &mut places.groups)?;
        let since = nanoseconds();
        row.set(&GroupRecord { since, ..*group }.encode());
        Some(GroupRow { row, since })
    }

    /// Publishes a link until the row is dropped.
    #[must_use]
    pub fn link(&'static self, link: &LinkRecord) -> Option<LinkRow> {
        let slots = &self.layout.links;
        let used = &self.layout.head.links;
        let row = self.row(slots, used, |places| &mut places.links)?;
        row.set(&link.encode());
        Some(LinkRow { row })
    }

    /// Publishes a stack until the row is dropped.
    #[must_use]
    pub fn stack(&'static self, stack: &StackRecord) -> Option<StackRow> {
        let slots = &self.layout.stacks;
        let used = &self.layout.head.stacks;
        let row = self.row(slots, used, |places| &mut places.stacks)?;
        let number = row.index + 1;
        row.set(&StackRecord { number, ..*stack }.encode());
        Some(StackRow { row })
    }

    fn row<const WORDS: usize>(
        &'static self,
        slots: &'static [Latch<WORDS>],
        used: &AtomicU32,
        places: fn(&mut Places) -> &mut Free,
    ) -> Option<Row<WORDS>> {
        if !self.is_own() {
            return None;
        }
        let Some(index) = places(&mut self.places()).take(slots, used) else {
            self.layout.head.hidden.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let slot = slots.get(index as usize)?;
        Some(Row {
            publisher: self,
            slot,
            index,
            places,
        })
    }

    /// The key of a sentence, which is published with it if there is room.
    #[must_use]
    pub fn sentence(&self, sentence: &str) -> u32 {
        let key = key_of(sentence.as_bytes());
        let mut places = self.layout.sentences.iter().enumerate();
        places
            .find(|(at, place)| !self.backs_sentence(*at) || place.enter(key, sentence.as_bytes()));
        key
    }

    /// Whether the place of a sentence has memory.
    fn backs_sentence(&self, at: usize) -> bool {
        if at < self.sentences.load(Ordering::Relaxed) {
            return true;
        }
        let more = back_places(&self.layout.sentences, at);
        self.sentences.fetch_max(at + more, Ordering::Relaxed);
        more > 0
    }

    /// Counts a connection that SMC carries, with a send and a receive buffer of these sizes in
    /// bytes. `reused` says of both whether they are of an earlier connection, and not new.
    pub fn established(
        &self,
        technology: Technology,
        side: Side,
        version: u8,
        buffers: [u32; 2],
        reused: [bool; 2],
    ) {
        let Some(counters) = self.counters(technology) else {
            return;
        };
        let [send, receive] = buffers.map(|size| class_of(size as usize));
        let [send_reused, receive_reused] = reused;
        let send_origin = match send_reused {
            true => key::REUSED_SENT,
            false => key::ALLOCATED_SENT,
        };
        let receive_origin = match receive_reused {
            true => key::REUSED_RECEIVED,
            false => key::ALLOCATED_RECEIVED,
        };
        let version = usize::from(version != 1);
        let side = match side {
            Side::Client => 0,
            Side::Server => 2,
        };
        for at in [
            key::BUFFERS_SENT + send,
            key::BUFFERS_RECEIVED + receive,
            send_origin,
            receive_origin,
            key::CLIENT_V1 + side + version,
        ] {
            if let Some(counter) = counters.get(at) {
                add_shared(counter, 1);
            }
        }
    }

    /// Counts a connection that TCP carries, for a reason.
    pub fn fell_back(&self, side: Side, code: u32) {
        let totals = &self.layout.totals;
        let [client, server] = &totals.tcp;
        let (total, bit) = match side {
            Side::Client => (client, 0),
            Side::Server => (server, 1),
        };
        let key = FallbackCount::USED | bit << 32 | u64::from(code);
        // A reason without an entry is the difference between the totals and the reasons.
        if let Some(entry) = totals.fallbacks.iter().find(|entry| entry.claim(key)) {
            add_shared(&entry.count, 1);
        }
        // A reader that reads the total first finds at least as many reasons.
        total.fetch_add(1, Ordering::Release);
    }

    /// Counts a handshake that failed where no fallback was left.
    pub fn handshake_failed(&self, side: Side) {
        let [client, server] = &self.layout.totals.handshake_errors;
        let counter = match side {
            Side::Client => client,
            Side::Server => server,
        };
        add_shared(counter, 1);
    }

    /// Counts connections that moved to another link.
    pub fn moved(&self, connections: u64) {
        add_shared(&self.layout.totals.link_moves, connections);
    }

    /// Counts a call that the statistics name.
    pub fn extra(&self, technology: Technology, extra: Extra) {
        let counters = self.counters(technology);
        if let Some(counter) = counters.and_then(|counters| counters.get(extra.key())) {
            add_shared(counter, 1);
        }
    }

    fn counters(&self, technology: Technology) -> Option<&'static [AtomicU64]> {
        let [smc_d, smc_r] = &self.layout.totals.technologies;
        match technology {
            Technology::SmcD => Some(smc_d),
            Technology::SmcR => Some(smc_r),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn layout(&self) -> &'static Layout {
        self.layout
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

/// A connection that is published until this is dropped. What it counts is kept in the statistics
/// of the process.
pub struct ConnectionRow {
    publisher: &'static Publisher,
    slot: &'static ConnectionSlot,
    index: u32,
    serial: u64,
    since: u64,
    technology: AtomicU8,
}

impl ConnectionRow {
    /// Counts bytes that one call sent. The caller excludes others that count for the connection.
    #[inline(always)]
    pub fn sent(&self, bytes: usize) {
        self.slot.counters.sent(bytes);
    }

    /// Counts bytes that one call received. The caller excludes others that count for the
    /// connection.
    #[inline(always)]
    pub fn received(&self, bytes: usize) {
        self.slot.counters.received(bytes);
    }

    /// Counts a write that found no room; `peer_full` says whether the peer's buffer was full. The
    /// caller excludes others that count for the connection.
    #[inline]
    pub fn stalled(&self, peer_full: bool) {
        let counters = &self.slot.counters;
        add(&counters.full, 1);
        add(&counters.peer_full, peer_full.into());
    }

    /// Counts a read that found the receive buffer full. The caller excludes others that count for
    /// the connection.
    #[inline]
    pub fn receive_full(&self) {
        add(&self.slot.counters.receive_full, 1);
    }

    /// Publishes how far the connection has got.
    #[inline]
    pub fn progress(&self, progress: &Progress) {
        let counters = &self.slot.counters;
        for (counter, value) in [
            (&counters.written, progress.written),
            (&counters.completed, progress.completed),
            (&counters.peer_consumed, progress.peer_consumed),
            (&counters.arrived, progress.arrived),
            (&counters.messages, progress.messages),
            (&counters.progress_time, progress.at),
        ] {
            counter.store(value, Ordering::Relaxed);
        }
    }

    /// Publishes what is known of the connection now. The serial number and the time are the
    /// row's.
    pub fn set(&self, connection: &Connection) {
        if self.publisher.is_own() {
            self.write(&self.publisher.places(), connection);
        }
    }

    /// Publishes the state alone, see [`state`](crate::state).
    pub fn set_state(&self, state: u8) {
        self.change_first(|bytes| set_state(bytes, state));
    }

    /// Publishes that a direction was ended: reading, or writing.
    pub fn set_shut(&self, reading: bool) {
        self.change_first(|bytes| set_shut(bytes, reading));
    }

    /// Changes the word of the row that has its states.
    fn change_first(&self, change: impl FnOnce(&mut [u8; 8])) {
        if !self.publisher.is_own() {
            return;
        }
        // Only the thread that has the places writes rows.
        let _alone = self.publisher.places();
        self.slot.row.change(0, |word| {
            let mut bytes = word.to_ne_bytes();
            change(&mut bytes);
            u64::from_ne_bytes(bytes)
        });
    }

    /// Only the thread that has the places writes rows.
    fn write(&self, _: &Places, connection: &Connection) {
        let technology = match connection.technology {
            Technology::SmcD => 1,
            Technology::SmcR => 2,
            _ => 0,
        };
        self.technology.store(technology, Ordering::Relaxed);
        let connection = Connection {
            serial: self.serial,
            since: self.since,
            ..*connection
        };
        self.slot.row.write(&connection.encode());
    }

    /// What was published last.
    #[must_use]
    pub fn get(&self) -> Option<Connection> {
        Connection::decode(&self.slot.row.read()?)
    }

    /// Moves the counters to those of the process.
    fn fold(&self) {
        let totals = &self.publisher.layout.totals;
        let (index, technology) = match self.technology.load(Ordering::Relaxed) {
            1 => (0, Technology::SmcD),
            2 => (1, Technology::SmcR),
            _ => return,
        };
        let (Some(sums), Some(messages)) =
            (totals.technologies.get(index), totals.messages.get(index))
        else {
            return;
        };
        let counted = Counted::of(&self.slot.counters);
        counted.each(technology, |at, count| {
            if let Some(sum) = sums.get(at) {
                add_shared(sum, count);
            }
        });
        add_shared(messages, counted.progress.messages);
    }
}

impl Drop for ConnectionRow {
    fn drop(&mut self) {
        if !self.publisher.is_own() {
            return;
        }
        let mut places = self.publisher.places();
        let moves = &self.publisher.layout.totals.moves;
        moves.fetch_add(1, Ordering::AcqRel);
        self.fold();
        self.slot.row.write(&[0; CONNECTION_WORDS]);
        moves.fetch_add(1, Ordering::AcqRel);
        places.connections.freed.push(self.index);
    }
}

impl fmt::Debug for ConnectionRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionRow")
            .field("serial", &self.serial)
            .finish_non_exhaustive()
    }
}

/// A row of another kind.
struct Row<const WORDS: usize> {
    publisher: &'static Publisher,
    slot: &'static Latch<WORDS>,
    index: u32,
    places: fn(&mut Places) -> &mut Free,
}

impl<const WORDS: usize> Row<WORDS> {
    fn set(&self, words: &[u64; WORDS]) {
        if self.publisher.is_own() {
            let _alone = self.publisher.places();
            self.slot.write(words);
        }
    }
}

impl<const WORDS: usize> Drop for Row<WORDS> {
    fn drop(&mut self) {
        if self.publisher.is_own() {
            let mut places = self.publisher.places();
            self.slot.write(&[0; WORDS]);
            (self.places)(&mut places).freed.push(self.index);
        }
    }
}

/// A link group that is published until this is dropped.
pub struct GroupRow {
    row: Row<GROUP_WORDS>,
    since: u64,
}

impl GroupRow {
    /// Publishes what is known of the group now. The time is the row's.
    pub fn set(&self, group: &GroupRecord) {
        let since = self.since;
        self.row.set(&GroupRecord { since, ..*group }.encode());
    }
}

/// A link that is published until this is dropped.
pub struct LinkRow {
    row: Row<LINK_WORDS>,
}

impl LinkRow {
    /// Publishes what is known of the link now.
    pub fn set(&self, link: &LinkRecord) {
        self.row.set(&link.encode());
    }
}

/// A stack that is published until this is dropped.
pub struct StackRow {
    row: Row<STACK_WORDS>,
}

impl StackRow {
    /// The number of the stack in the process.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.row.index + 1
    }
}

macro_rules! debug {
    ($($name:ident)*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("index", &self.row.index).finish()
            }
        }
    )*};
}
debug!(GroupRow LinkRow StackRow);

fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
