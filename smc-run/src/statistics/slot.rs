//! The counters of one process.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Most distinct causes of a process; connections of further ones count in the totals only.
const CAUSES: usize = 12;

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

/// Connections of one cause: a diagnosis code, never 0.
#[derive(Debug, Default)]
#[repr(C)]
struct Cause {
    code: AtomicU32,
    count: AtomicU32,
}

/// The counters of one process, in memory shared with `smcx run`.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
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
    causes: [Cause; CAUSES],
}

impl Slot {
    /// Counts a connection that SMC carries.
    pub fn count_smc(&self, carried: Carried) {
        let counter = match carried {
            Carried::Ism => &self.ism,
            Carried::Verbs => &self.verbs,
        };
        add(counter, 1);
    }

    /// Counts a connection that stays TCP; `code` is the diagnosis code of the cause.
    pub fn count_tcp(&self, code: u32, wanted: Wanted) {
        let counter = match wanted {
            Wanted::Yes => &self.tcp_wanted,
            Wanted::No => &self.tcp_forbidden,
        };
        add(counter, 1);
        // A cause without an entry is the difference between the totals and the causes.
        if let Some(cause) = self.causes.iter().find(|cause| cause.claim(code)) {
            cause.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a call that was refused since SMC cannot serve it.
    pub fn count_refused(&self) {
        add(&self.refused, 1);
    }

    /// Counts bytes of payload sent over SMC.
    pub fn add_sent(&self, bytes: u64) {
        add(&self.sent, bytes);
    }

    /// Counts bytes of payload received over SMC.
    pub fn add_received(&self, bytes: u64) {
        add(&self.received, bytes);
    }

    /// Names the process that counts here; bytes of `name` beyond 16 are left out.
    pub(super) fn enter(&self, process: u32, name: &[u8]) {
        for (at, byte) in self.name.iter().zip(name) {
            at.store(*byte, Ordering::Relaxed);
        }
        self.process.store(process, Ordering::Release);
    }

    /// The current counts.
    pub(super) fn read(&self) -> Counts {
        let process = self.process.load(Ordering::Acquire);
        let name = self.name.iter().map(|byte| byte.load(Ordering::Relaxed));
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
            causes: self.causes.iter().filter_map(Cause::read).collect(),
        }
    }
}

impl Cause {
    /// Whether the entry counts a code, for which a free one is taken.
    fn claim(&self, code: u32) -> bool {
        let order = Ordering::Relaxed;
        let found = self.code.compare_exchange(0, code, order, order);
        found.is_ok() || found == Err(code)
    }

    fn read(&self) -> Option<(u32, u64)> {
        let code = self.code.load(Ordering::Relaxed);
        (code != 0).then(|| (code, self.count.load(Ordering::Relaxed).into()))
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
    /// TCP connections by diagnosis code; fewer than the totals in a process with many
    /// causes.
    pub causes: Vec<(u32, u64)>,
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
