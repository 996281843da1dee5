//! CDC messages from the peer: judged as a whole, then applied.

use super::Connection;
use super::close::CloseState;
use super::cursor::{Step, newer};
use super::faults::{FatalCause, PeerMisbehaved};
use super::notices::{CdcOutcome, CloseCause, Notices};
use crate::config::ConnectionConfig;
use crate::time::Instant;
use crate::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};

impl Connection {
    /// A CDC message for this connection arrived, on whichever link (CDC-032).
    /// The alert token was checked by the engine.
    #[inline]
    pub fn on_cdc(&mut self, now: Instant, cfg: &ConnectionConfig, cdc: &Cdc) -> CdcOutcome {
        if let Some((producer, consumer)) = self.fast_steps(cdc) {
            self.apply_fast_noting(now, cfg, cdc, producer, consumer);
            return CdcOutcome::Applied;
        }
        self.on_general_cdc(now, cfg, cdc)
    }

    /// Returns the bytes by which both cursors move if the message is one for the fast
    /// path: no flags, before or now, and a connection that is not ending.
    #[inline(always)]
    pub(super) fn fast_steps(&self, cdc: &Cdc) -> Option<(u32, u32)> {
        if !self.steady
            || !cdc.is_plain()
            || !self.rx.peer_flags.is_empty()
            || !newer(cdc.sequence, self.rx.sequence)
        {
            return None;
        }
        Some((self.rx.accept(cdc.producer)?, self.tx.accept(cdc.consumer)?))
    }

    /// Applies a message of the fast path and leaves a notice if bytes arrived.
    #[inline(always)]
    fn apply_fast_noting(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        cdc: &Cdc,
        producer: u32,
        consumer: u32,
    ) {
        if self.apply_fast(now, cfg, cdc, producer, consumer) {
            self.notices.insert(Notices::READABLE);
        }
    }

    /// Applies a message of the fast path; returns whether bytes arrived, of which no
    /// notice is left.
    #[inline(always)]
    pub(super) fn apply_fast(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        cdc: &Cdc,
        producer: u32,
        consumer: u32,
    ) -> bool {
        self.rx.sequence = cdc.sequence;
        if consumer > 0 {
            self.tx.acknowledge(consumer, cdc.consumer);
            self.arm_coalesce(now, cfg);
        }
        if producer > 0 {
            self.rx.received = self.rx.received.moved(producer, cdc.producer);
        }
        producer > 0
    }

    fn on_general_cdc(&mut self, now: Instant, cfg: &ConnectionConfig, cdc: &Cdc) -> CdcOutcome {
        let state = self.close.state;
        //= CLOSE-027
        if matches!(state, CloseState::Closed | CloseState::ProcessAbort) {
            return CdcOutcome::Ignored(state);
        }
        //= CDC-034
        //= FAILOVER-011
        //= FAILOVER-015
        if cdc
            .producer_flags
            .contains(ProducerFlags::FAILOVER_VALIDATION)
        {
            return self.on_validation(now, cfg, cdc.sequence);
        }
        //= CDC-008
        //= CDC-009
        //= FAILOVER-018
        //= V2-217
        if !newer(cdc.sequence, self.rx.sequence) {
            self.counts.stale = self.counts.stale.wrapping_add(1);
            return CdcOutcome::Stale;
        }
        //= D-061
        self.close.peer_finished |= cdc
            .connection_flags
            .intersects(ConnectionFlags::PEER_CONNECTION_CLOSED | ConnectionFlags::ABNORMAL_CLOSE);
        //= ABORT-003
        //= ABORT-017
        if state == CloseState::PeerAbortWait {
            self.rx.sequence = cdc.sequence;
            // The peer's last message: A, or C if ours was sent before the abort.
            let last = if self.close.close_emitted() {
                ConnectionFlags::ABNORMAL_CLOSE | ConnectionFlags::PEER_CONNECTION_CLOSED
            } else {
                ConnectionFlags::ABNORMAL_CLOSE
            };
            if !cdc.connection_flags.intersects(last) {
                return CdcOutcome::Ignored(state);
            }
            let act = self.close.peer_abort();
            self.perform(now, cfg, act);
            return CdcOutcome::Applied;
        }
        let (producer, consumer) = match self.judge(cdc) {
            Ok(steps) => steps,
            Err(what) => {
                //= ABORT-015
                let act = self.close.abort(CloseCause::PeerMisbehaved(what));
                self.perform(now, cfg, act);
                return CdcOutcome::Misbehaved(what);
            }
        };
        self.apply(now, cfg, cdc, producer, consumer)
    }

    /// Applies a message whose cursors were judged.
    fn apply(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        cdc: &Cdc,
        producer: Step,
        consumer: Step,
    ) -> CdcOutcome {
        // Contents are cumulative, so a gap in the numbers does no harm.
        //= CDC-011
        self.rx.sequence = cdc.sequence;
        self.apply_consumer(consumer, cdc);
        self.apply_producer(producer, cdc);
        self.arm_lag(now, cfg);
        self.arm_coalesce(now, cfg);
        //= CDC-036
        //= CLOSE-037
        if !cdc.connection_flags.is_empty() {
            self.apply_connection_flags(now, cfg, cdc.connection_flags);
        }
        self.finish_close(now, cfg);
        if producer == Step::Backward || consumer == Step::Backward {
            self.counts.backward = self.counts.backward.wrapping_add(1);
            CdcOutcome::BackwardCursor
        } else {
            CdcOutcome::Applied
        }
    }

    /// Both cursors, in wide arithmetic, before anything changes.
    fn judge(&self, cdc: &Cdc) -> Result<(Step, Step), PeerMisbehaved> {
        Ok((self.rx.judge(cdc.producer)?, self.tx.judge(cdc.consumer)?))
    }

    fn apply_consumer(&mut self, step: Step, cdc: &Cdc) {
        if let Step::Forward(bytes @ 1..) = step {
            self.tx.acknowledge(bytes, cdc.consumer);
        }
    }

    fn apply_producer(&mut self, step: Step, cdc: &Cdc) {
        let before = self.rx.peer_flags;
        //= CDC-029
        //= CDC-030
        self.rx.peer_flags = cdc.producer_flags;
        //= URG-008
        if cdc
            .producer_flags
            .difference(before)
            .contains(ProducerFlags::URGENT_PENDING)
        {
            self.notices.insert(Notices::URGENT_PENDING);
        }
        let Step::Forward(bytes @ 1..) = step else {
            return;
        };
        if self.rx.done {
            // The peer had announced that there would be none; the reader may have
            // been notified of the end already.
            self.counts.late_data = self.counts.late_data.wrapping_add(1);
            return;
        }
        //= CLOSE-024
        self.rx.received = self.rx.received.moved(bytes, cdc.producer);
        if self.close.full {
            // The application does not read any more. Taking the bytes keeps the peer from
            // blocking while our own data drains (AMB-32).
            self.rx.consume(bytes);
            return;
        }
        self.notices.insert(Notices::READABLE);
        if cdc.producer_flags.contains(ProducerFlags::URGENT_PRESENT) {
            //= URG-011
            self.rx.urgent.arrive(self.rx.received.total);
            self.notices
                .insert(Notices::URGENT | Notices::URGENT_PENDING);
        }
    }

    #[cold]
    fn apply_connection_flags(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        flags: ConnectionFlags,
    ) {
        self.rx.done |= flags.contains(ConnectionFlags::SENDING_DONE);
        let act = if flags.contains(ConnectionFlags::ABNORMAL_CLOSE) {
            self.close.peer_abort()
        } else if flags.contains(ConnectionFlags::PEER_CONNECTION_CLOSED) {
            let undelivered = self.tx.is_undelivered();
            // C implies D, unless it resets the connection.
            self.rx.done |= !undelivered;
            self.close.peer_closed(undelivered)
        } else {
            self.close.peer_done()
        };
        self.perform(now, cfg, act);
    }

    /// Whether a CDC message of the peer has changed anything yet.
    #[must_use]
    pub const fn has_received(&self) -> bool {
        self.rx.sequence != 0
            || self.rx.received.total > 0
            || self.tx.consumer.total > 0
            || self.validated
    }

    /// A failover validation of the peer: has everything arrived that its adapter
    /// reported as completed?
    #[cold]
    fn on_validation(&mut self, now: Instant, cfg: &ConnectionConfig, sequence: u16) -> CdcOutcome {
        self.validated = true;
        //= FAILOVER-007
        //= FAILOVER-013
        let all = !newer(sequence, self.rx.sequence);
        if all {
            return CdcOutcome::Validated;
        }
        if self.close.state == CloseState::PeerAbortWait {
            return CdcOutcome::Ignored(self.close.state);
        }
        //= FAILOVER-014
        let act = self.close.abort(CloseCause::Fatal(FatalCause::DataLost));
        self.perform(now, cfg, act);
        CdcOutcome::DataLost
    }
}
