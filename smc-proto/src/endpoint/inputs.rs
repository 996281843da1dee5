//! Inputs: what happened in the world.

use super::{Endpoint, TcpEvent};
use crate::completion::{IsmCompletion, RdmaCompletion};
use crate::connection_record::Pending;
use crate::data_path::{DataPath, Deferred, SignalOutcome};
use crate::id::{BufferId, ConnId, ConnIdx, LinkId, WrId};
use crate::link_group::owner_of;
use crate::path::PathEvent;
use crate::rendezvous::{ClcError, ClcProgress};
use crate::storage::{Storage, for_call};
use crate::time::Instant;
use crate::trace::Tap;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;

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

    /// Reports what an ISM device answered or received. At most one CDC message is
    /// read.
    pub fn handle_ism(&mut self, now: Instant, completion: IsmCompletion) {
        self.core.begin(now);
        self.core.step();
        let IsmCompletion::Signalled { buffer, cdc } = &completion else {
            return self.on_other_ism(&completion);
        };
        match self.on_fast_signal(*buffer, cdc) {
            Some((index, SignalOutcome::Readable)) => {
                self.data_path().notify(index, Pending::READABLE)
            }
            Some((_, SignalOutcome::Deferred(Deferred::Nothing))) => {}
            Some((_, SignalOutcome::Deferred(deferred))) => self.execute(deferred),
            None => self.on_other_ism(&completion),
        }
    }

    #[inline(always)]
    pub(super) fn on_fast_signal(
        &mut self,
        buffer: BufferId,
        cdc: &[u8; CDC_ISM_LENGTH],
    ) -> Option<(ConnIdx, SignalOutcome)> {
        let (tables, tap) = for_call(&mut self.storage);
        if tap.is_on() {
            return None;
        }
        let owner = owner_of(&tables.buffers, &tables.connections, buffer)?;
        let follows =
            DataPath::new(&mut self.core, (tables, Tap::OFF)).on_fast_signal(owner, cdc)?;
        Some((owner, follows))
    }

    #[inline(never)]
    pub(super) fn on_other_ism(&mut self, completion: &IsmCompletion) {
        let mut engine = self.unchanged_engine();
        engine.on_ism_report(completion);
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
