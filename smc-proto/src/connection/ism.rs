//! What SMC-D does otherwise than SMC-R: a CDC message lies in memory, without a
//! number, and the send buffer may be the peer's element itself.
//!
//! ```text
//!  send buffer mapped to the peer's element (attached)
//!
//!    consumer (the peer's)      published         produced      consumer + ring
//!   ----+----------------------------+-----------------+-------------+------->
//!       | the peer reads here        | in place, CDC   | free space  |
//!       |                            | message due     |             |
//! ```

use super::close::CloseState;
use super::{
    CdcOutcome, CloseCause, Connection, FatalCause, Notices, NotifyRecord, PeerMisbehaved,
};
use crate::config::ConnectionConfig;
use crate::time::Instant;
use crate::wire::cdc::ProducerFlags;
use crate::wire::cdc_ism::CdcIsm;

impl Connection {
    /// Makes the peer's element the send buffer, its ring beginning at offset `head`:
    /// for a connection on which nothing was sent yet.
    #[must_use]
    pub fn attached(mut self, head: u32) -> Self {
        self.tx.attach(head);
        self.smcd = true;
        self
    }

    /// Makes this a connection of SMC-D, whose CDC messages overwrite each other.
    #[must_use]
    pub fn over_smcd(mut self) -> Self {
        self.tx.urgent.set_overwritten();
        self.smcd = true;
        self
    }

    /// Whether bytes committed lie in the peer's element already, so that a transmit
    /// needs no writes.
    #[must_use]
    pub const fn is_attached(&self) -> bool {
        self.tx.attached
    }

    /// The CDC message at the head of the DMB, after a signal. Judged and applied as
    /// one of SMC-R with the next number (D-046); the same one again changes nothing.
    //= D-043
    //= D-046
    pub fn on_cdc_ism(&mut self, now: Instant, cfg: &ConnectionConfig, cdc: &CdcIsm) -> CdcOutcome {
        if let Some(readable) = self.on_fast_cdc_ism(now, cfg, cdc) {
            if readable {
                self.note_readable();
            }
            return CdcOutcome::Applied;
        }
        let before = (self.rx.peer_flags, self.rx.received.total);
        let outcome = self.on_cdc(now, cfg, &cdc.numbered(self.rx.sequence.wrapping_add(1)));
        if outcome == CdcOutcome::Applied {
            self.note_late_mark(before);
        }
        if self.tx.release_consumed() {
            self.note_writable();
        }
        outcome
    }

    /// [`Connection::on_cdc_ism`], if the message only moves cursors: then,
    /// whether bytes arrived, which the caller may note by [`Connection::note_readable`].
    #[inline(always)]
    pub(crate) fn on_fast_cdc_ism(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        cdc: &CdcIsm,
    ) -> Option<bool> {
        let cdc = cdc.numbered(self.rx.sequence.wrapping_add(1));
        let (producer, consumer) = self.fast_steps(&cdc)?;
        let readable = self.apply_fast(now, cfg, &cdc, producer, consumer);
        if self.tx.release_consumed() {
            self.note_writable();
        }
        Some(readable)
    }

    /// Bytes arrived.
    pub(crate) fn note_readable(&mut self) {
        self.notices.insert(Notices::READABLE);
    }

    /// The producer cursor was seen before the flags that were written with it: what it
    /// published turns out to have been urgent, unless that is read already.
    //= D-047
    fn note_late_mark(&mut self, (flags, received): (ProducerFlags, u64)) {
        let rx = &mut self.rx;
        let marked = rx.peer_flags.difference(flags);
        if marked.contains(ProducerFlags::URGENT_PRESENT)
            && rx.received.total == received
            && rx.consumed.total < received
        {
            rx.urgent.arrive(received);
            self.notices
                .insert(Notices::URGENT | Notices::URGENT_PENDING);
        }
    }

    /// The head of the DMB is something else than a CDC message.
    pub fn on_foreign_head(&mut self, now: Instant, cfg: &ConnectionConfig) -> CdcOutcome {
        let state = self.close.state;
        if matches!(state, CloseState::Closed | CloseState::ProcessAbort) {
            return CdcOutcome::Ignored(state);
        }
        let what = PeerMisbehaved::ForeignHead;
        let act = self.close.abort(CloseCause::PeerMisbehaved(what));
        self.perform(now, cfg, act);
        CdcOutcome::Misbehaved(what)
    }

    /// A CDC message was moved to the peer's DMB, and everything before it. (The peer
    /// frees a send buffer that is its own ring.)
    pub fn on_signalled(&mut self, now: Instant, cfg: &ConnectionConfig, record: NotifyRecord) {
        if self.tx.attached {
            self.tx.count_completed(record);
            self.finish_close(now, cfg);
        } else {
            self.on_notify_completed(now, cfg, record);
        }
    }

    /// The peer took its element back. If it has not sent its last message, it will not, and
    /// what it may still have to read is lost.
    //= D-059
    pub fn on_peer_withdrew(&mut self, now: Instant, cfg: &ConnectionConfig) {
        if !self.close.peer_closed {
            let act = self.close.lose(CloseCause::Fatal(FatalCause::LinkLost));
            self.perform(now, cfg, act);
        }
    }

    /// The DMB of this side failed: what it holds cannot be read.
    //= D-053
    pub(crate) fn on_dmb_failed(&mut self, now: Instant, cfg: &ConnectionConfig) {
        self.rx.purge();
        self.on_move_failed(now, cfg);
    }

    /// A move failed: the peer is notified, unless the notification is what failed.
    //= D-053
    pub fn on_move_failed(&mut self, now: Instant, cfg: &ConnectionConfig) {
        let state = self.close.state;
        let act = if matches!(state, CloseState::PeerAbortWait | CloseState::ProcessAbort) {
            self.close.lose(CloseCause::Fatal(FatalCause::LinkLost))
        } else {
            self.close
                .abort(CloseCause::Fatal(FatalCause::AccessRefused))
        };
        self.perform(now, cfg, act);
    }
}
