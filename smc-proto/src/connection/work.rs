//! The next transmit of a connection, built from its state when asked.

use super::Connection;
use super::close::{CloseState, Pending};
use crate::command::{DataTransmit, DataWrite};
use crate::config::ConnectionConfig;
use crate::time::Instant;
use crate::wire::cdc::{Cdc, ProducerFlags};

/// The CDC message that ends a transmit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// To be returned to [`Connection::on_notify_completed`].
    pub record: NotifyRecord,
    /// Bytes of the writes before it.
    pub bytes: u32,
    /// Whether the message says that the window is full.
    pub blocked: bool,
}

/// Record of a CDC message that its completion returns; opaque to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NotifyRecord {
    /// Low half of the total of bytes published.
    pub(super) position: u32,
    pub(super) sequence: u16,
    pub(super) epoch: u8,
}

bitflags::bitflags! {
    /// What goes out at the next opportunity. Levels, so that any number of
    /// reasons makes one message.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub(super) struct Wants: u8 {
        /// A CDC message.
        const NOTIFY = 1;
        /// Before that, a failover validation.
        const VALIDATE = 2;
        /// Data is no longer held back for coalescing.
        const FLUSH = 4;
        /// The end of the TCP connection, after the last CDC message.
        const TCP_CLOSE = 8;
    }
}

impl Connection {
    /// Whether [`Connection::next_transmit`] would return something.
    #[must_use]
    pub fn wants_work(&self) -> bool {
        self.has_work()
    }

    /// [`Connection::wants_work`], for the data path.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        // Most often everything committed is out and nothing was read since.
        if self.tx.produced == self.tx.written.total
            && self.wants.is_empty()
            && !self.rx.may_need_update()
        {
            return false;
        }
        self.wants_work_now()
    }

    /// Whether reading made work: a CDC message for the consumer cursor. What else there
    /// is to do is known already.
    #[inline(always)]
    pub(crate) fn has_work_of_reading(&self) -> bool {
        (!self.wants.is_empty() || self.rx.may_need_update()) && self.wants_work_now()
    }

    #[inline(never)]
    fn wants_work_now(&self) -> bool {
        if self.silent {
            return false;
        }
        self.wants.contains(Wants::VALIDATE)
            || self.wants_notify()
            || (self.may_write() && self.tx.can_write(self.is_flushing()))
    }

    /// Puts the next transmit into `writes` and `cdc` of `transmit`, or returns `None` if
    /// there is nothing to send: up to two writes into the peer's element, which is at
    /// `address`, without immediate data (CDC-024) and without completion, and
    /// behind them a CDC message with completion. All of it has to be sent, in this
    /// order (CDC-023): the completion shows that the writes are done, too.
    //= CDC-026
    #[inline(always)]
    pub fn next_transmit(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        address: u64,
        transmit: &mut DataTransmit,
    ) -> Option<Sent> {
        if self.silent {
            return None;
        }
        if self.wants.contains(Wants::VALIDATE) {
            return Some(self.validation(transmit));
        }
        //= CDC-023
        //= CDC-024
        let may_write = self.may_write();
        // A message that goes anyway takes along what coalescing holds.
        let bytes =
            if may_write && (!self.tx.is_held() || self.wants_notify() || self.is_flushing()) {
                self.tx.write(address, &mut transmit.writes)
            } else {
                0
            };
        if bytes == 0 {
            if !self.wants_notify() {
                return None;
            }
            transmit.writes = [DataWrite::NONE; 2];
        }
        let (cdc, record) = self.notification(now, cfg, bytes);
        transmit.cdc = cdc;
        let blocked = cdc.producer_flags.contains(ProducerFlags::WRITER_BLOCKED);
        Some(Sent {
            record,
            bytes,
            blocked,
        })
    }

    /// [`Connection::next_transmit`], if it consists of a message about bytes that
    /// are in the peer's memory already. `emit` gets the message, which counts as completed;
    /// the number says in how many pieces the bytes lie.
    //= D-045
    #[cfg(feature = "smc-d")]
    #[inline(always)]
    pub(crate) fn next_in_place(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        emit: impl FnOnce(Cdc),
    ) -> Option<(Sent, u32)> {
        // Nothing is in flight, and the application holds nothing back.
        let fast = self.steady && self.tx.attached && !self.tx.may_hold();
        if !fast || self.silent || self.wants.contains(Wants::VALIDATE) {
            return None;
        }
        let (bytes, pieces) = self.tx.write_in_place();
        if bytes == 0 && !self.wants_notify() {
            return None;
        }
        let (cdc, record) = self.notification(now, cfg, bytes);
        emit(cdc);
        self.tx.count_completed(record);
        let blocked = cdc.producer_flags.contains(ProducerFlags::WRITER_BLOCKED);
        let sent = Sent {
            record,
            bytes,
            blocked,
        };
        Some((sent, pieces))
    }

    /// Whether writes are still allowed: no C or A is decided.
    #[inline]
    fn may_write(&self) -> bool {
        //= CLOSE-029
        //= CLOSE-030
        //= ABORT-019
        self.steady || !self.close.final_decided()
    }

    #[inline]
    fn is_flushing(&self) -> bool {
        self.wants.contains(Wants::FLUSH) || self.close.pending != Pending::Nothing
    }

    #[inline(always)]
    fn wants_notify(&self) -> bool {
        debug_assert_eq!(self.steady, self.close.is_steady());
        if self.steady {
            return self.wants.contains(Wants::NOTIFY) || self.rx.update_due();
        }
        self.wants_notify_at_end()
    }

    #[cold]
    fn wants_notify_at_end(&self) -> bool {
        if self.close.final_decided() {
            return self.wants.contains(Wants::NOTIFY) && !self.is_abort_deferred();
        }
        // D or C goes when every message is completed and takes the cursor along;
        // further messages before it would put that off without end.
        if self.close.pending != Pending::Nothing
            && self.tx.is_published()
            && self.tx.outstanding > 0
        {
            return false;
        }
        self.wants.contains(Wants::NOTIFY) || self.rx.update_due()
    }

    #[cold]
    fn validation(&mut self, transmit: &mut DataTransmit) -> Sent {
        self.wants.remove(Wants::VALIDATE);
        let record = self.tx.validate();
        //= FAILOVER-008
        //= FAILOVER-010
        let cdc = Cdc {
            sequence: record.sequence,
            alert_token: self.tx.alert_token_peer,
            producer: self.tx.written.cursor,
            consumer: self.rx.consumed.cursor,
            producer_flags: ProducerFlags::FAILOVER_VALIDATION,
            connection_flags: self.close.flags,
        };
        transmit.writes = [DataWrite::NONE; 2];
        transmit.cdc = cdc;
        Sent {
            record,
            bytes: 0,
            blocked: false,
        }
    }

    #[inline(always)]
    fn notification(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        bytes: u32,
    ) -> (Cdc, NotifyRecord) {
        //= URG-004
        let mut producer_flags = self.tx.urgent_flags(bytes);
        let record = self.tx.number();
        self.counts.standalone = self.counts.standalone.wrapping_add(u32::from(bytes == 0));

        // R is a diagnostic aid that this stack has no use for (FLOW-015).
        //= FLOW-015
        //= FLOW-009
        //= FLOW-016
        //= FLOW-017
        //= CDC-030
        producer_flags.set(ProducerFlags::WRITER_BLOCKED, self.tx.window() == 0);

        //= CDC-028
        //= FLOW-008
        //= FLOW-019
        self.rx.published = self.rx.consumed.total;
        self.wants.remove(Wants::NOTIFY | Wants::FLUSH);
        self.stop_waiting();

        let cdc = Cdc {
            sequence: record.sequence,
            //= CDC-004
            alert_token: self.tx.alert_token_peer,
            //= CDC-013
            producer: self.tx.written.cursor,
            //= CDC-020
            consumer: self.rx.consumed.cursor,
            producer_flags,
            //= CLOSE-023
            connection_flags: self.close.flags,
        };
        if !self.steady {
            self.emitted_at_end(now, cfg);
        }
        (cdc, record)
    }

    #[cold]
    fn emitted_at_end(&mut self, now: Instant, cfg: &ConnectionConfig) {
        if self.wants.contains(Wants::TCP_CLOSE) {
            self.wants.remove(Wants::TCP_CLOSE);
            self.close_tcp();
        }
        let act = self.close.emitted();
        self.perform(now, cfg, act | self.follow_kept());
    }

    /// Whether this side's C is out: it has delivered all its data, and writes no more.
    pub(crate) const fn has_closed(&self) -> bool {
        self.close.close_emitted()
    }

    /// Whether RDMA writes may follow, or be repeated over another link. None do once D, C or
    /// A is decided: D and C wait until all data is completed, A gives the rest up.
    pub(crate) const fn may_still_write(&self) -> bool {
        self.close.flags.is_empty()
    }

    /// Whether the peer may still write data that the application of this side can read. An
    /// application that has closed both directions reads nothing more, whether or not C is
    /// emitted yet.
    pub(crate) const fn awaits_data(&self) -> bool {
        matches!(
            self.close.state,
            CloseState::Active | CloseState::PeerCloseWait1
        ) && !self.close.full
    }

    /// CDC messages emitted and neither completed nor lost with their link.
    #[must_use]
    pub fn outstanding_notifies(&self) -> u16 {
        self.tx.outstanding
    }

    /// Whether everything that was committed, and the end if that is decided, was sent and has
    /// completed.
    pub(crate) fn is_all_sent(&self) -> bool {
        self.tx.is_drained() && self.close.pending == Pending::Nothing && !self.wants_work()
    }

    /// Whether nothing is left to do: CLOSED, the last message out and completed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.close.state == CloseState::Closed && self.tx.outstanding == 0 && !self.wants_work()
    }
}
