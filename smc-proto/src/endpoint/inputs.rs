//! Inputs: what happened in the world.

use super::{Endpoint, TcpEvent};
use crate::completion::RdmaCompletion;
use crate::data_path::Deferred;
use crate::id::{ConnId, LinkId, WrId};
use crate::path::PathEvent;
use crate::rendezvous::{ClcError, ClcProgress};
use crate::storage::Storage;
use crate::time::Instant;

impl<S: Storage> Endpoint<S> {
    /// Shows bytes received on a connection's TCP stream during its rendezvous,
    /// always from the first one not consumed yet.
    ///
    /// # Errors
    /// The bytes broke the protocol; the connection is being reset, which
    /// [`Endpoint::poll_tcp`] returns (RFC 7609 C.6).
    pub fn handle_clc(
        &mut self,
        now: Instant,
        conn: ConnId,
        bytes: &[u8],
    ) -> Result<ClcProgress, ClcError> {
        let mut engine = self.engine(now);
        let Some(index) = engine.live_conn(conn) else {
            return Ok(ClcProgress::NotClc);
        };
        let result = engine.on_clc(index, bytes);
        engine.run_wakes();
        result
    }

    /// Reports what happened to a connection's TCP connection.
    pub fn handle_tcp(&mut self, now: Instant, conn: ConnId, event: TcpEvent) {
        let mut engine = self.engine(now);
        if let Some(index) = engine.live_conn(conn) {
            engine.on_tcp(index, event);
        }
        engine.run_wakes();
    }

    /// Reports what an RNIC answered or received. At most the payload of one
    /// message is read.
    #[inline]
    pub fn handle_rdma(&mut self, now: Instant, completion: RdmaCompletion<'_>) {
        self.core.begin(now);
        self.core.step();
        match completion {
            RdmaCompletion::Received { link, payload } => self.on_received(link, payload),
            RdmaCompletion::Sent { link, wr_id } => self.on_sent(link, wr_id),
            _ => self.finish_completion(&completion, Deferred::Nothing),
        }
    }

    #[inline(never)]
    fn on_received(&mut self, link: LinkId, payload: &[u8]) {
        let done = self.core.wakes.is_empty()
            && self
                .fast_path()
                .is_some_and(|mut path| path.fast_received(link, payload));
        if !done {
            self.on_general_received(link, payload);
        }
    }

    #[inline(never)]
    fn on_general_received(&mut self, link: LinkId, payload: &[u8]) {
        let deferred = self.data_path().on_received(link, payload);
        if deferred != Deferred::Nothing || !self.core.wakes.is_empty() {
            self.finish_completion(&RdmaCompletion::Received { link, payload }, deferred);
        }
    }

    #[inline(never)]
    fn on_sent(&mut self, link: LinkId, wr_id: WrId) {
        let done = self.core.wakes.is_empty()
            && self
                .fast_path()
                .is_some_and(|mut path| path.fast_sent(link, wr_id));
        if !done {
            self.on_general_sent(link, wr_id);
        }
    }

    #[inline(never)]
    fn on_general_sent(&mut self, link: LinkId, wr_id: WrId) {
        let deferred = self.data_path().on_sent(link, wr_id);
        if deferred != Deferred::Nothing || !self.core.wakes.is_empty() {
            self.finish_completion(&RdmaCompletion::Sent { link, wr_id }, deferred);
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_completion(&mut self, completion: &RdmaCompletion<'_>, deferred: Deferred) {
        let mut engine = self.unchanged_engine();
        engine.on_rdma(completion, deferred);
        engine.run_wakes();
    }

    /// Reports a change of a port or a device.
    pub fn handle_path(&mut self, now: Instant, event: PathEvent) {
        let mut engine = self.engine(now);
        engine.on_path(event);
        engine.run_wakes();
    }

    /// Lets timers fire; calling early or often is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut engine = self.engine(now);
        engine.on_timeout();
        engine.run_wakes();
    }
}
