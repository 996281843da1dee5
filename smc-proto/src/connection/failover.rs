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
use super::work::Wants;
use crate::config::ConnectionConfig;
use crate::time::Instant;

impl Connection {
    /// Work goes to another link from now on. What was not reported as completed
    /// counts as not sent; later completions of the old link are ignored.
    pub fn on_link_changed(&mut self, now: Instant, cfg: &ConnectionConfig) {
        if self.silent {
            self.tx.rewind();
            return;
        }
        let incomplete = self.tx.sequence != self.tx.completed_sequence;
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
        self.settle(now, cfg);
    }
}
