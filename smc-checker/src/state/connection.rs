//! Connections over SMC-R.

use smc_proto::wire::types::AlertToken;

use super::flow::Flow;
use super::ring::Ring;
use super::rmb::RmbNumber;
use super::side::{Pair, Side};

/// Which connection, in the order of their Accepts.
pub(crate) type ConnectionNumber = u64;

/// Description of its sender's end in an Accept or Confirm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) token: AlertToken,
    pub(crate) rmb: RmbNumber,
    pub(crate) index: u8,
    /// Bytes of the element.
    pub(crate) size: u32,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Its TCP connection.
    pub(crate) stream: u64,
    pub(crate) ends: Pair<Option<End>>,
    pub(crate) flows: Pair<Flow>,
    /// Whether TCP ended it, so that either side may forget it.
    pub(crate) tcp_over: bool,
    /// Whether it was declined.
    pub(crate) declined: bool,
}

impl Connection {
    pub(crate) fn new(stream: u64) -> Self {
        Self {
            stream,
            ends: Pair::default(),
            flows: Pair::default(),
            tcp_over: false,
            declined: false,
        }
    }

    /// The ring that a side writes into: in the peer's element.
    pub(crate) fn ring(&self, writer: Side, base: u32) -> Option<Ring> {
        let size = self.ends.of(writer.other()).as_ref()?.size;
        Some(Ring { size, base })
    }

    /// Whether it is surely alive: both sides are in it and neither began to end it.
    pub(crate) fn is_alive(&self) -> bool {
        let confirmed = Side::BOTH.iter().all(|s| self.ends.of(*s).is_some());
        let ending = Side::BOTH
            .iter()
            .any(|s| !self.flows.of(*s).flags().is_empty());
        confirmed && !ending && !self.tcp_over && !self.declined
    }

    /// Whether nothing of it is to come.
    pub(crate) fn is_over(&self) -> bool {
        self.declined || Side::BOTH.iter().all(|s| self.flows.of(*s).is_over())
    }
}
