//! Counters. They describe, and never decide.

use crate::command::DataWrite;
use crate::connection::Sent;
use crate::connection_record::End;
use crate::event::CloseReason;

/// What an endpoint has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// CLC messages sent.
    pub clc_sent: u64,
    /// CLC messages received.
    pub clc_received: u64,
    /// LLC messages sent.
    pub llc_sent: u64,
    /// LLC messages received.
    pub llc_received: u64,
    /// CDC messages sent.
    pub cdc_sent: u64,
    /// CDC messages received and applied.
    pub cdc_received: u64,
    /// CDC messages not newer than the last one.
    pub cdc_stale: u64,
    /// CDC messages for no connection of the group.
    pub cdc_unknown: u64,
    /// CDC messages with a cursor behind the last one, which was kept (decision 6).
    pub backward_cursors: u64,
    /// RDMA WRITEs posted.
    pub writes: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// Connections carried by SMC-R.
    pub established: u64,
    /// Of these, the first of their link group.
    pub first_contacts: u64,
    /// Connections that became plain TCP.
    pub fallbacks: u64,
    /// Connections closed in order.
    pub closed_normally: u64,
    /// Connections closed in any other way.
    pub closed_abnormally: u64,
    /// Times a peer broke the protocol.
    pub violations: u64,
    /// Link groups that failed.
    pub groups_lost: u64,
    /// Times a connection moved to another link.
    pub failovers: u64,
    /// Times a sender met a full window.
    pub window_stalls: u64,
}

/// What a lent connection counts, as [`Statistics`] names it.
#[cfg(feature = "smc-d")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DataCounts {
    pub(crate) cdc_sent: u64,
    pub(crate) cdc_received: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_written: u64,
    pub(crate) window_stalls: u64,
}

#[cfg(feature = "smc-d")]
impl DataCounts {
    /// [`Statistics::sent`].
    #[inline(always)]
    pub(crate) fn sent(&mut self, sent: Sent, pieces: u32) {
        count(&mut self.cdc_sent);
        self.window_stalls = self.window_stalls.wrapping_add(u64::from(sent.blocked));
        self.writes = self.writes.wrapping_add(u64::from(pieces));
        self.bytes_written = self.bytes_written.wrapping_add(u64::from(sent.bytes));
    }
}

impl Statistics {
    pub(crate) const NEW: Self = Self {
        clc_sent: 0,
        clc_received: 0,
        llc_sent: 0,
        llc_received: 0,
        cdc_sent: 0,
        cdc_received: 0,
        cdc_stale: 0,
        cdc_unknown: 0,
        backward_cursors: 0,
        writes: 0,
        bytes_written: 0,
        established: 0,
        first_contacts: 0,
        fallbacks: 0,
        closed_normally: 0,
        closed_abnormally: 0,
        violations: 0,
        groups_lost: 0,
        failovers: 0,
        window_stalls: 0,
    };

    /// Counts a transmit of a CDC message and one WRITE at most.
    #[inline(always)]
    pub(crate) fn fast_transmit(&mut self, sent: Sent) {
        count(&mut self.cdc_sent);
        self.window_stalls = self.window_stalls.wrapping_add(u64::from(sent.blocked));
        self.writes = self.writes.wrapping_add(u64::from(sent.bytes > 0));
        self.bytes_written = self.bytes_written.wrapping_add(u64::from(sent.bytes));
    }

    /// Counts a transmit with its WRITEs.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, [first, second]: &[DataWrite; 2], sent: Sent) {
        let writes = u32::from(!first.is_empty()).wrapping_add(u32::from(!second.is_empty()));
        self.sent(sent, writes);
    }

    /// Counts a transmit whose bytes lie in so many pieces.
    #[inline(always)]
    pub(crate) fn sent(&mut self, sent: Sent, pieces: u32) {
        count(&mut self.cdc_sent);
        self.window_stalls = self.window_stalls.wrapping_add(u64::from(sent.blocked));
        self.writes = self.writes.wrapping_add(u64::from(pieces));
        self.bytes_written = self.bytes_written.wrapping_add(u64::from(sent.bytes));
    }

    pub(crate) fn closed(&mut self, reason: CloseReason) {
        let counter = match reason {
            CloseReason::Normal => &mut self.closed_normally,
            _ => &mut self.closed_abnormally,
        };
        *counter = counter.wrapping_add(1);
    }

    pub(crate) fn ended(&mut self, end: End) {
        match end {
            End::FellBack(_) => self.fallbacks = self.fallbacks.wrapping_add(1),
            End::Closed(reason) => self.closed(reason),
        }
    }
}

/// Adds one.
#[inline]
pub(crate) fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}
