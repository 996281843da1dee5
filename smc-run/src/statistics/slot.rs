//! The counters of one process.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Most distinct reasons of a process; connections of further ones count in the totals only.
const REASONS: usize = 12;

/// Bytes of a process name, as in `/proc/PID/comm`.
const NAME: usize = 16;

/// What carries an SMC connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// Shared memory (SMC-D).
    Ism,
    /// RDMA (SMC-R).
    Verbs,
}

/// Whether the policy permitted SMC for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The policy permitted SMC.
    Yes,
    /// The policy kept the connection on TCP.
    No,
}

/// Connections of one reason: the key of its sentence, never 0.
#[derive(Debug, Default)]
#[repr(C)]
struct Reasoned {
    key: AtomicU32,
    count: AtomicU32,
}

/// The counters of one process, in memory shared with `smcx run`.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    process: AtomicU32,
    reserved: AtomicU32,
    name: [AtomicU8; NAME],
    ism: AtomicU64,
    verbs: AtomicU64,
    tcp_wanted: AtomicU64,
    tcp_forbidden: AtomicU64,
    refused: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    reasons: [Reasoned; REASONS],
}

impl Slot {
    pub(super) fn count_smc(&self, carried: Carried) {
        let counter = match carried {
            Carried::Ism => &self.ism,
            Carried::Verbs => &self.verbs,
        };
        add(counter, 1);
    }

    /// Counts a TCP connection by the key of its reason.
    pub(super) fn count_tcp(&self, key: u32, wanted: Wanted) {
        let counter = match wanted {
            Wanted::Yes => &self.tcp_wanted,
            Wanted::No => &self.tcp_forbidden,
        };
        add(counter, 1);
        // A reason without an entry is the difference between the totals and the reasons.
        if let Some(entry) = self.reasons.iter().find(|entry| entry.claim(key)) {
            entry.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn count_refused(&self) {
        add(&self.refused, 1);
    }

    pub(super) fn add_sent(&self, bytes: u64) {
        add(&self.sent, bytes);
    }

    pub(super) fn add_received(&self, bytes: u64) {
        add(&self.received, bytes);
    }

    /// Names the process that counts here; bytes of `name` beyond 16 are left out.
    pub(super) fn enter(&self, process: u32, name: &[u8]) {
        for (at, byte) in self.name.iter().zip(name) {
            at.store(*byte, Ordering::Relaxed);
        }
        self.process.store(process, Ordering::Release);
    }

    /// The current counts; `sentence` looks up that of a key.
    pub(super) fn read(&self, sentence: impl Fn(u32) -> Vec<u8>) -> Counts {
        let process = self.process.load(Ordering::Acquire);
        let name = self.name.iter().map(|byte| byte.load(Ordering::Relaxed));
        let reasons = self.reasons.iter().filter_map(Reasoned::read);
        Counts {
            process: (process != 0).then_some(process),
            name: name.take_while(|byte| *byte != 0).collect(),
            ism: read(&self.ism),
            verbs: read(&self.verbs),
            tcp_wanted: read(&self.tcp_wanted),
            tcp_forbidden: read(&self.tcp_forbidden),
            refused: read(&self.refused),
            sent: read(&self.sent),
            received: read(&self.received),
            reasons: reasons.map(|(key, count)| (sentence(key), count)).collect(),
        }
    }
}

impl Reasoned {
    /// Whether the entry counts the reason of a key, for which a free entry is taken.
    fn claim(&self, key: u32) -> bool {
        let order = Ordering::Relaxed;
        let found = self.key.compare_exchange(0, key, order, order);
        found.is_ok() || found == Err(key)
    }

    fn read(&self) -> Option<(u32, u64)> {
        let key = self.key.load(Ordering::Relaxed);
        (key != 0).then(|| (key, self.count.load(Ordering::Relaxed).into()))
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// What a process counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// The process; `None` for those that found no slot left, which count together.
    pub process: Option<u32>,
    /// The name of its program, at most 16 bytes of any value.
    pub name: Vec<u8>,
    /// Connections over shared memory.
    pub ism: u64,
    /// Connections over RDMA.
    pub verbs: u64,
    /// Connections over TCP for which the policy permitted SMC.
    pub tcp_wanted: u64,
    /// Connections that the policy kept on TCP.
    pub tcp_forbidden: u64,
    /// Calls that were refused since SMC cannot serve them.
    pub refused: u64,
    /// Bytes of payload sent over SMC.
    pub sent: u64,
    /// Bytes of payload received over SMC.
    pub received: u64,
    /// TCP connections by the sentence that says why, of any bytes; empty if it is
    /// unknown. Fewer than the totals in a process with many reasons.
    pub reasons: Vec<(Vec<u8>, u64)>,
}

impl Counts {
    /// Connections over SMC.
    #[must_use]
    pub const fn smc(&self) -> u64 {
        self.ism.saturating_add(self.verbs)
    }

    /// Connections over TCP.
    #[must_use]
    pub const fn tcp(&self) -> u64 {
        self.tcp_wanted.saturating_add(self.tcp_forbidden)
    }

    /// Whether nothing was counted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.smc() == 0 && self.tcp() == 0 && self.refused == 0
    }
}
