//! Connections that wait to transmit over one path to the peer, in the order in which they
//! transmit.

use core::hash::{Hash, Hasher};

use crate::connection_record::ConnectionRecord;
use crate::connection_record::list::READY;
use crate::id::{ConnIdx, Idx};
use crate::slots::List;

/// Connections with something to send over one path, which is a link or the ISM device of an
/// SMC-D group.
///
/// They transmit in rounds. A round begins with the connections that are ready then, and ends when
/// each of these has transmitted once; the path keeps its place on its device's list until then. So
/// connections of large groups get no less than those of small ones.
#[derive(Clone, Debug)]
pub(crate) struct TransmitQueue {
    /// Connections with something to send.
    pub(crate) ready: List<ConnectionRecord, READY>,
    /// The last connection of the present round.
    round_last: ConnIdx,
    /// Most transmits that are left of the present round, 0 between rounds.
    round_left: u16,
}

impl TransmitQueue {
    pub(crate) const EMPTY: Self = Self {
        ready: List::EMPTY,
        round_last: Idx::NONE,
        round_left: 0,
    };

    /// Whether no connection waits to transmit.
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Counts a transmit of this connection, one of `connections` of the path, in the round.
    /// Returns whether the path keeps its place on its device's list.
    #[inline(always)]
    pub(crate) fn advance_round(&mut self, index: ConnIdx, connections: u16) -> bool {
        if self.round_left == 0 {
            let Some(last) = self.ready.last() else {
                return false;
            };
            self.round_last = last;
            self.round_left = connections;
        }
        self.round_left = self.round_left.saturating_sub(1);
        if index == self.round_last {
            self.round_left = 0;
        }
        if self.round_left == 0 {
            self.round_last = Idx::NONE;
        }
        self.round_left > 0
    }

    /// Hashes the round. Which connections are ready is hashed with the connections.
    pub(crate) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (self.round_last, self.round_left).hash(hasher);
    }
}
