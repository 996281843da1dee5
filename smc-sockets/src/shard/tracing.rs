//! Events for readers, as far as the endpoint has to do something for them.

use smc_proto::id::ConnId;
use smc_proto::trace::Observer;

use super::{Shard, State};
use crate::socket::Socket;

impl State {
    /// Begins to write events if there is a new reader of them.
    #[inline(always)]
    pub(super) fn follow(&mut self, shard: &Shard) {
        if self.engine.observer().is_requested() {
            self.trace(shard);
        }
    }

    /// A reader is there: events are written for a while.
    #[cold]
    #[inline(never)]
    fn trace(&mut self, shard: &Shard) {
        self.engine.observer().renew(shard.coarse());
        if self.lent > 0 {
            // Data paths are taken back by the driver.
            shard.ring();
        }
    }

    /// Whether events are written.
    #[inline]
    pub(crate) fn is_traced(&mut self) -> bool {
        self.engine.observer().is_on()
    }

    /// A connection has begun.
    #[inline]
    pub(super) fn trace_entered(&mut self, conn: ConnId, socket: &Socket) {
        if self.is_traced()
            && let Ok(ends) = socket.ends()
        {
            self.engine.observer().entered(conn, ends);
        }
    }
}
