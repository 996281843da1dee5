//! What a process has counted since it began.

use std::ops::{Index, IndexMut};

use crate::counters;
use crate::record::Technology;

/// Names of the counters of a technology, as `smcr stats json` and `smcd stats json` order them.
pub const KEYS: [&str; counters::KEYS] = [
    "SMC_INT_TX_BUF_8K",
    "SMC_INT_TX_BUF_16K",
    "SMC_INT_TX_BUF_32K",
    "SMC_INT_TX_BUF_64K",
    "SMC_INT_TX_BUF_128K",
    "SMC_INT_TX_BUF_256K",
    "SMC_INT_TX_BUF_512K",
    "SMC_INT_TX_BUF_1024K",
    "SMC_INT_TX_BUF_G_1024K",
    "SMC_INT_RX_BUF_8K",
    "SMC_INT_RX_BUF_16K",
    "SMC_INT_RX_BUF_32K",
    "SMC_INT_RX_BUF_64K",
    "SMC_INT_RX_BUF_128K",
    "SMC_INT_RX_BUF_256K",
    "SMC_INT_RX_BUF_512K",
    "SMC_INT_RX_BUF_1024K",
    "SMC_INT_RX_BUF_G_1024K",
    "SMC_USR_TX_BUF_8K",
    "SMC_USR_TX_BUF_16K",
    "SMC_USR_TX_BUF_32K",
    "SMC_USR_TX_BUF_64K",
    "SMC_USR_TX_BUF_128K",
    "SMC_USR_TX_BUF_256K",
    "SMC_USR_TX_BUF_512K",
    "SMC_USR_TX_BUF_1024K",
    "SMC_USR_TX_BUF_G_1024K",
    "SMC_USR_RX_BUF_8K",
    "SMC_USR_RX_BUF_16K",
    "SMC_USR_RX_BUF_32K",
    "SMC_USR_RX_BUF_64K",
    "SMC_USR_RX_BUF_128K",
    "SMC_USR_RX_BUF_256K",
    "SMC_USR_RX_BUF_512K",
    "SMC_USR_RX_BUF_1024K",
    "SMC_USR_RX_BUF_G_1024K",
    "SMC_INT_TX_BUF_SIZE_SM_PEER_CNT",
    "SMC_INT_TX_BUF_SIZE_SM_CNT",
    "SMC_INT_TX_BUF_FULL_PEER_CNT",
    "SMC_INT_TX_BUF_FULL_CNT",
    "SMC_INT_TX_BUF_REUSE_CNT",
    "SMC_INT_TX_BUF_ALLOC_CNT",
    "SMC_INT_TX_BUF_DGRADE_CNT",
    "SMC_INT_RX_BUF_SIZE_SM_PEER_CNT",
    "SMC_INT_RX_BUF_SIZE_SM_CNT",
    "SMC_INT_RX_BUF_FULL_PEER_CNT",
    "SMC_INT_RX_BUF_FULL_CNT",
    "SMC_INT_RX_BUF_REUSE_CNT",
    "SMC_INT_RX_BUF_ALLOC_CNT",
    "SMC_INT_RX_BUF_DGRADE_CNT",
    "SMC_CLNT_V1_SUCC_CNT",
    "SMC_CLNT_V2_SUCC_CNT",
    "SMC_SRV_V1_SUCC_CNT",
    "SMC_SRV_V2_SUCC_CNT",
    "SMC_SENDPAGE_CNT",
    "SMC_URG_DATA_CNT",
    "SMC_SPLICE_CNT",
    "SMC_CORK_CNT",
    "SMC_NDLY_CNT",
    "SMC_RX_BYTES",
    "SMC_TX_BYTES",
    "SMC_RX_CNT",
    "SMC_TX_CNT",
    "SMC_RX_RMB_USAGE",
    "SMC_TX_RMB_USAGE",
];

/// Most distinct reasons of fallbacks in a sum, by side: several times those that there are.
const FALLBACKS: usize = 256;

/// Positions of [`KEYS`].
pub(crate) mod key {
    pub(crate) const BUFFERS_SENT: usize = 0;
    pub(crate) const BUFFERS_RECEIVED: usize = 9;
    pub(crate) const REQUESTS_SENT: usize = 18;
    pub(crate) const REQUESTS_RECEIVED: usize = 27;
    pub(crate) const SMALL_SENT_PEER: usize = 36;
    pub(crate) const SMALL_SENT: usize = 37;
    pub(crate) const FULL_PEER: usize = 38;
    pub(crate) const FULL_SENT: usize = 39;
    pub(crate) const REUSED_SENT: usize = 40;
    pub(crate) const ALLOCATED_SENT: usize = 41;
    pub(crate) const SMALL_RECEIVED: usize = 44;
    pub(crate) const FULL_RECEIVED: usize = 46;
    pub(crate) const REUSED_RECEIVED: usize = 47;
    pub(crate) const ALLOCATED_RECEIVED: usize = 48;
    pub(crate) const CLIENT_V1: usize = 50;
    pub(crate) const URGENT: usize = 55;
    pub(crate) const CORK: usize = 57;
    pub(crate) const NODELAY: usize = 58;
    pub(crate) const RECEIVED: usize = 59;
    pub(crate) const SENT: usize = 60;
    pub(crate) const RECEIVED_COUNT: usize = 61;
    pub(crate) const SENT_COUNT: usize = 62;
    pub(crate) const RECEIVE_USAGE: usize = 63;
    pub(crate) const SEND_USAGE: usize = 64;
}

/// Which side of a connection a process was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The process connected.
    Client,
    /// The process accepted.
    Server,
}

/// A call that the statistics name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Extra {
    /// Urgent data was sent.
    Urgent,
    /// `TCP_CORK` was set: small writes are held back.
    Cork,
    /// `TCP_NODELAY` was set: what was held back is sent.
    NoDelay,
    /// A call sent more than the send buffer holds.
    SendBufferTooSmall,
    /// A call sent more than the peer's buffer holds.
    PeerBufferTooSmall,
    /// A call received into more than the receive buffer holds.
    ReceiveBufferTooSmall,
}

impl Extra {
    pub(crate) const fn key(self) -> usize {
        match self {
            Self::Urgent => key::URGENT,
            Self::Cork => key::CORK,
            Self::NoDelay => key::NODELAY,
            Self::SendBufferTooSmall => key::SMALL_SENT,
            Self::PeerBufferTooSmall => key::SMALL_SENT_PEER,
            Self::ReceiveBufferTooSmall => key::SMALL_RECEIVED,
        }
    }
}

/// The counters of a technology, in the order of [`KEYS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic(pub [u64; counters::KEYS]);

impl Default for Traffic {
    fn default() -> Self {
        Self([0; counters::KEYS])
    }
}

impl Traffic {
    /// The counter of a key of [`KEYS`]; 0 for any other name.
    #[must_use]
    pub fn get(&self, key: &str) -> u64 {
        let at = KEYS.iter().position(|at| *at == key);
        at.and_then(|at| self.0.get(at)).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, at: usize, amount: u64) {
        if let Some(counter) = self.0.get_mut(at) {
            *counter = counter.wrapping_add(amount);
        }
    }

    /// Whether a counter, by its position, is a level and not a sum.
    #[must_use]
    pub const fn is_level(at: usize) -> bool {
        matches!(at, key::RECEIVE_USAGE | key::SEND_USAGE)
    }
}

/// The code that says why a connection is TCP: the peer's, unless it sent none (0).
#[must_use]
pub const fn deciding_code(own: u32, peer: u32) -> u32 {
    if peer == 0 { own } else { peer }
}

/// TCP connections for a reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Fallback {
    /// The reason: the peer's if it gave one.
    pub code: u32,
    /// The side of this process.
    pub side: Side,
    /// How many.
    pub count: u64,
}

impl Fallback {
    /// `count` TCP connections for a reason, on a side.
    #[must_use]
    pub const fn new(code: u32, side: Side, count: u64) -> Self {
        Self { code, side, count }
    }
}

/// What a process has counted since it began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Counters of SMC-D.
    pub smc_d: Traffic,
    /// Counters of SMC-R.
    pub smc_r: Traffic,
    /// TCP connections as client and as server.
    pub tcp: [u64; 2],
    /// Fallbacks by reason; fewer in a process with many reasons.
    pub fallbacks: Vec<Fallback>,
    /// Handshakes that failed where no fallback was left, as client and as server.
    pub handshake_errors: [u64; 2],
    /// CDC messages sent over SMC-D and SMC-R.
    pub messages: [u64; 2],
    /// Times a connection moved to another link.
    pub link_moves: u64,
}

impl Index<Technology> for Statistics {
    type Output = Traffic;

    /// The counters of SMC-R, or for everything else those of SMC-D.
    fn index(&self, technology: Technology) -> &Traffic {
        match technology {
            Technology::SmcR => &self.smc_r,
            _ => &self.smc_d,
        }
    }
}

impl IndexMut<Technology> for Statistics {
    fn index_mut(&mut self, technology: Technology) -> &mut Traffic {
        match technology {
            Technology::SmcR => &mut self.smc_r,
            _ => &mut self.smc_d,
        }
    }
}

impl Statistics {
    /// Adds what another process counted.
    pub fn add(&mut self, other: &Self) {
        let technologies = [Technology::SmcD, Technology::SmcR];
        for technology in technologies {
            let (sums, more) = (&mut self[technology].0, &other[technology].0);
            add_all(sums, more);
        }
        add_all(&mut self.tcp, &other.tcp);
        add_all(&mut self.handshake_errors, &other.handshake_errors);
        add_all(&mut self.messages, &other.messages);
        self.link_moves = self.link_moves.wrapping_add(other.link_moves);
        for fallback in &other.fallbacks {
            let same = |at: &Fallback| (at.code, at.side) == (fallback.code, fallback.side);
            let has_room = self.fallbacks.len() < FALLBACKS;
            match self.fallbacks.iter_mut().find(|at| same(at)) {
                Some(at) => at.count = at.count.wrapping_add(fallback.count),
                None if has_room => self.fallbacks.push(*fallback),
                // It is in the totals alone: hostile processes make reasons up.
                None => {}
            }
        }
    }
}

fn add_all(sums: &mut [u64], more: &[u64]) {
    sums.iter_mut()
        .zip(more)
        .for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
}
