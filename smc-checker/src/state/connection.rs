//! The checker's state of one SMC-R connection: the ends that Accept and Confirm describe, and
//! the flow of data in each direction. The checker updates it for each captured message; the
//! rules read it.

use smc_proto::wire::types::AlertToken;

use super::flow::Flow;
use super::ring::Ring;
use super::rmb::RmbNumber;
use super::side::{Pair, Side};

/// Number of a connection within a capture, in the order of the Accepts.
pub(crate) type ConnectionNumber = u64;

/// One end of a connection, as that side describes it in its Accept or Confirm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Token by which CDC messages to this side name the connection.
    pub(crate) token: AlertToken,
    /// The RMB that this side receives into.
    pub(crate) rmb: RmbNumber,
    /// Index of the RMB element.
    pub(crate) index: u8,
    /// Length of the RMB element in bytes.
    pub(crate) size: u32,
}

/// State of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Number of the TCP connection.
    pub(crate) stream: u64,
    /// The end of each side, once its Accept or Confirm was seen.
    pub(crate) ends: Pair<Option<End>>,
    /// The data and cursors that each side sends.
    pub(crate) flows: Pair<Flow>,
    /// Whether the TCP connection has ended, after which either side may discard its state.
    pub(crate) tcp_over: bool,
    /// Whether either side sent a Decline.
    pub(crate) declined: bool,
}

impl Connection {
    /// A connection of which no message was seen yet.
    pub(crate) fn new(stream: u64) -> Self {
        Self {
            stream,
            ends: Pair::default(),
            flows: Pair::default(),
            tcp_over: false,
            declined: false,
        }
    }

    /// The ring buffer that a side writes into, which is the peer's RMB element; `None` before
    /// the peer has described it.
    pub(crate) fn ring(&self, writer: Side, base: u32) -> Option<Ring> {
        let size = self.ends.of(writer.other()).as_ref()?.size;
        Some(Ring { size, base })
    }

    /// Whether the connection is certainly open: both sides have confirmed it, neither has begun
    /// to close it, and TCP has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        let confirmed = Side::BOTH.iter().all(|s| self.ends.of(*s).is_some());
        let ending = Side::BOTH
            .iter()
            .any(|s| !self.flows.of(*s).flags().is_empty());
        confirmed && !ending && !self.tcp_over && !self.declined
    }

    /// Whether no further message of the connection may come.
    pub(crate) fn is_over(&self) -> bool {
        self.declined || Side::BOTH.iter().all(|s| self.flows.of(*s).is_over())
    }
}
