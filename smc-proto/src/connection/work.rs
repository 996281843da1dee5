//! What a connection wants done on its link, built from its state when asked.

use super::Connection;
use super::close::{CloseState, Pending};
use super::notices::Notices;
use super::spans::Spans;
use crate::command::DataWrite;
use crate::config::ConnectionConfig;
use crate::planted::PlantedBug;
use crate::time::Instant;
use crate::wire::cdc::{CDC_LENGTH, Cdc, ProducerFlags};

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

/// A CDC message that [`Connection::next_turn`] put out.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    /// To be returned to [`Connection::on_notify_completed`].
    pub(crate) record: NotifyRecord,
    /// It tells that the window is full.
    pub(crate) blocked: bool,
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
    pub fn wants_work(&self) -> bool {
        self.has_work()
    }

    /// [`Connection::wants_work`], for the data path.
    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        // Most often everything committed is out and nothing was read since.
        if self.tx.produced == self.tx.published
            && self.wants.is_empty()
            && !self.rx.may_owe_update()
        {
            return false;
        }
        self.wants_work_now()
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

    /// The next step, or `None`. After the first `Write` or a failover validation
    /// the engine keeps asking until `None`; before it, a send slot is free.
    #[inline]
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
        if (self.may_write() || cfg.planted(PlantedBug::WriteAfterAbort))
            && let Some(segment) = self.tx.next_segment(notify || self.is_flushing())
        {
            return Some(Work::Write {
                source: segment.source,
                remote_offset: segment.remote_offset,
                len: segment.len,
            });
        }
        notify.then(|| {
            let (cdc, record) = self.notification(now, cfg);
            Work::Notify { cdc, record }
        })
    }

    /// All steps up to a CDC message at once, put into `turn`, or `None` if
    /// [`Connection::next_work`] has to be asked. The peer's element is at `address`.
    #[inline(never)]
    pub(crate) fn next_turn(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        address: u64,
        writes: &mut [DataWrite; 2],
        payload: &mut [u8; CDC_LENGTH],
    ) -> Option<Told> {
        if self.silent || self.wants.contains(Wants::VALIDATE) {
            return None;
        }
        let notify = self.wants_notify();
        let [first, second] = writes;
        *second = DataWrite::NONE;
        //= CDC-023
        //= CDC-024
        if self.may_write()
            && let Some(segment) = self.tx.next_segment(notify || self.is_flushing())
        {
            *first = segment.at(address);
            if let Some(segment) = self.tx.rest_of_round() {
                *second = segment.at(address);
            }
        } else if notify {
            *first = DataWrite::NONE;
        } else {
            return None;
        }
        let (cdc, record) = self.notification(now, cfg);
        *payload = cdc.emit();
        let blocked = cdc.producer_flags.contains(ProducerFlags::WRITER_BLOCKED);
        Some(Told { record, blocked })
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
            return self.tx.is_unpublished()
                || self.wants.contains(Wants::NOTIFY)
                || self.rx.update_due();
        }
        self.wants_notify_at_end()
    }

    #[cold]
    fn wants_notify_at_end(&self) -> bool {
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

    #[cold]
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

    #[inline(always)]
    fn notification(&mut self, now: Instant, cfg: &ConnectionConfig) -> (Cdc, NotifyRecord) {
        let standalone = !self.tx.is_unpublished();
        let record = self.tx.publish();
        self.counts.notifies = self.counts.notifies.wrapping_add(1);
        self.counts.standalone = self.counts.standalone.wrapping_add(u32::from(standalone));

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
        self.stop_waiting();

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
        if !self.steady {
            self.emitted_at_end(now, cfg);
        }
        (cdc, record)
    }

    #[cold]
    fn emitted_at_end(&mut self, now: Instant, cfg: &ConnectionConfig) {
        if self.wants.contains(Wants::TCP_CLOSE) {
            self.wants.remove(Wants::TCP_CLOSE);
            self.notices.insert(Notices::TCP_CLOSE);
        }
        let act = self.close.emitted();
        self.perform(now, cfg, act);
    }

    /// Takes what was to be told as told, which is a mistake.
    pub(crate) fn drop_message(&mut self) {
        self.wants.remove(Wants::NOTIFY | Wants::FLUSH);
        self.rx.published = self.rx.consumed.total;
    }

    /// Whether this side's last message is out.
    pub(crate) const fn said_last(&self) -> bool {
        self.close.final_emitted()
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
