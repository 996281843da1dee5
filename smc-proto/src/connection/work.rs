//! What a connection wants done on its link, built from its state when asked.

use super::Connection;
use super::close::{CloseState, Pending};
use super::notices::Notices;
use super::spans::Spans;
use crate::config::ConnectionConfig;
use crate::time::Instant;
use crate::wire::cdc::{Cdc, ProducerFlags};

/// One step on the link of a connection. Steps of one connection are executed in
/// the order given, which the reliable connection keeps (CDC-023).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Write octets of the local send ring into the peer's RMB element, without
    /// immediate data (CDC-024) and without completion.
    Write {
        /// Where the octets are in the send ring.
        source: Spans,
        /// Where they go: octets from the start of the peer's element. The whole
        /// write lies inside the element's ring.
        remote_offset: u32,
        /// Number of octets, at least 1.
        len: u32,
    },
    /// Send a CDC message, with completion.
    Notify {
        /// The message.
        cdc: Cdc,
        /// To be returned to `Connection::on_notify_completed`.
        record: NotifyRecord,
    },
}

/// What the completion of a CDC message says; opaque to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NotifyRecord {
    /// Low half of the total of octets published.
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
    /// Whether [`Connection::next_work`] would return something.
    #[must_use]
    #[inline]
    pub fn wants_work(&self) -> bool {
        // Most often everything committed is out and nothing was read since.
        if self.tx.produced == self.tx.published
            && self.wants.is_empty()
            && !self.rx.may_owe_update()
        {
            return false;
        }
        self.wants_work_now()
    }

    fn wants_work_now(&self) -> bool {
        if self.silent {
            return false;
        }
        self.wants.contains(Wants::VALIDATE)
            || self.wants_notify()
            || (self.may_write() && self.tx.can_write(self.is_flushing()))
    }

    /// The next step, or `None`. After the first `Write` or a failover validation
    /// the engine keeps asking until `None`; before it, a send slot is free.
    pub fn next_work(&mut self, now: Instant, cfg: &ConnectionConfig) -> Option<Work> {
        if self.silent {
            return None;
        }
        if self.wants.contains(Wants::VALIDATE) {
            return Some(self.validation());
        }
        let notify = self.wants_notify();
        //= CDC-023
        //= CDC-024
        // A message that goes anyway takes along what coalescing holds.
        if self.may_write()
            && self.tx.can_write(notify || self.is_flushing())
            && let Some(segment) = self.tx.next_segment()
        {
            return Some(Work::Write {
                source: segment.source,
                remote_offset: segment.remote_offset,
                len: segment.len,
            });
        }
        if notify || self.wants_notify() {
            return Some(self.notification(now, cfg));
        }
        None
    }

    /// Whether writes are still allowed: no C or A is decided.
    fn may_write(&self) -> bool {
        //= CLOSE-029
        //= CLOSE-030
        //= ABORT-019
        !self.close.final_decided()
    }

    fn is_flushing(&self) -> bool {
        self.wants.contains(Wants::FLUSH) || self.close.pending != Pending::Nothing
    }

    fn wants_notify(&self) -> bool {
        if self.close.final_decided() {
            return self.wants.contains(Wants::NOTIFY);
        }
        if self.tx.is_unpublished() {
            return true;
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

    fn validation(&mut self) -> Work {
        self.wants.remove(Wants::VALIDATE);
        let record = self.tx.validate();
        //= FAILOVER-008
        //= FAILOVER-010
        let cdc = Cdc {
            sequence: record.sequence,
            alert_token: self.alert_token_peer,
            producer: self.tx.written.cursor,
            consumer: self.rx.consumed.cursor,
            producer_flags: ProducerFlags::FAILOVER_VALIDATION,
            connection_flags: self.close.flags,
        };
        Work::Notify { cdc, record }
    }

    fn notification(&mut self, now: Instant, cfg: &ConnectionConfig) -> Work {
        let standalone = !self.tx.is_unpublished();
        let record = self.tx.publish();
        self.stats.notifies = self.stats.notifies.wrapping_add(1);
        self.stats.standalone = self.stats.standalone.wrapping_add(u32::from(standalone));

        // R is a diagnostic aid that this stack has no use for (FLOW-015).
        //= FLOW-015
        let mut producer_flags = self.tx.urgent.flags(self.tx.written.total);
        //= FLOW-009
        //= FLOW-016
        //= FLOW-017
        //= CDC-030
        //= URG-004
        producer_flags.set(ProducerFlags::WRITER_BLOCKED, self.tx.window() == 0);

        //= CDC-028
        //= FLOW-008
        //= FLOW-019
        self.rx.published = self.rx.consumed.total;
        self.wants.remove(Wants::NOTIFY | Wants::FLUSH);
        self.timers.lag = Instant::MAX;
        self.timers.coalesce = Instant::MAX;

        let cdc = Cdc {
            sequence: record.sequence,
            //= CDC-004
            alert_token: self.alert_token_peer,
            //= CDC-013
            producer: self.tx.written.cursor,
            //= CDC-020
            consumer: self.rx.consumed.cursor,
            producer_flags,
            //= CLOSE-023
            connection_flags: self.close.flags,
        };
        if self.wants.contains(Wants::TCP_CLOSE) {
            self.wants.remove(Wants::TCP_CLOSE);
            self.notices.insert(Notices::TCP_CLOSE);
        }
        let act = self.close.emitted();
        self.perform(now, cfg, act);
        Work::Notify { cdc, record }
    }

    /// CDC messages emitted and neither completed nor lost with their link.
    #[must_use]
    pub fn outstanding_notifies(&self) -> u16 {
        self.tx.outstanding
    }

    /// Whether nothing is left to do: CLOSED, the last message out and completed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.close.state == CloseState::Closed && self.tx.outstanding == 0 && !self.wants_work()
    }
}
