//! A connection moves to another link (RFC 7609 2.3, 4.6).
//!
//! ```text
//!                  resume point                    high
//!   ------------------+------------------------------+-------------->
//!    known to have    | written again over the new   | written for the
//!    arrived          | link, merged with new data   | first time
//! ```
//!
//! First goes a failover validation with the number of the last completed CDC
//! message, then data from the resume point with new numbers. D, C, A, B, P and U
//! are levels of the state, so sending them again is harmless.

use super::Connection;
use super::cursor::bytes_between;
use super::notices::CloseCause;
use super::tx::Tx;
use super::work::{NotifyRecord, Wants};
use crate::config::ConnectionConfig;
use crate::time::Instant;

impl Connection {
    /// Work goes to another link from now on. What was not reported as completed
    /// counts as not sent; later completions of the old link are ignored.
    pub fn on_link_changed(&mut self, now: Instant, cfg: &ConnectionConfig) {
        let incomplete = self.tx.sequence() != self.tx.completed_sequence;
        if self.silent {
            self.tx.rewind();
            // The wait for the peer ended before the link was found dead: it
            // still has to learn that all is over (and nothing else is sent).
            //= FAILOVER-016
            if incomplete && self.close.final_emitted() && self.may_notify_peer() {
                self.silent = false;
                self.wants = Wants::VALIDATE | Wants::NOTIFY;
            }
            return;
        }
        let released = self.tx.rewind();
        if !incomplete && self.close.final_emitted() && !self.wants.contains(Wants::NOTIFY) {
            // The peer has our C or A: nothing may follow it, on any link.
            return;
        }
        //= FAILOVER-005
        //= FAILOVER-008
        self.wants.insert(Wants::VALIDATE);
        if incomplete {
            // Also a lost cursor alone would close the peer's window for ever.
            //= FAILOVER-012
            self.wants.insert(Wants::NOTIFY);
        }
        if released > 0 {
            self.note_writable();
        }
        self.finish_close(now, cfg);
    }
}

impl Connection {
    fn may_notify_peer(&self) -> bool {
        match self.close.cause {
            Some(CloseCause::Fatal(cause)) => cause.can_notify_peer(),
            _ => true,
        }
    }
}

impl Tx {
    /// A failover validation: the number of the last completed CDC message again.
    pub(super) fn validate(&mut self) -> NotifyRecord {
        //= FAILOVER-006
        //= FAILOVER-009
        self.record(self.completed_sequence, self.completed)
    }

    /// Moves to another link: what is not known to have arrived is written again.
    /// Returns the bytes of the send buffer this releases.
    pub(super) fn rewind(&mut self) -> u32 {
        // A completion can be lost after the peer has consumed the data, so the
        // later of both counts (decision 7).
        let resume = self.completed.max(self.consumer.total);
        let released = bytes_between(self.completed, resume);
        let back = self.written.since(resume);
        //= FAILOVER-016
        //= FAILOVER-019
        //= FAILOVER-020
        self.written = self.peer.retreat(self.written, back);
        self.completed = resume;
        self.outstanding = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.urgent.rewind(resume);
        released
    }
}
