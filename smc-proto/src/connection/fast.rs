//! The fast path of a connection: nothing is urgent, held back, lost or at its end.
//!
//! Each step here does what its general counterpart does for such a connection, or it
//! reports that it does not apply before anything has changed, and the general path follows.

use super::Connection;
use super::cursor::newer;
use super::work::{NotifyRecord, Sent};
use crate::command::{DataTransmit, DataWrite, Segment};
use crate::wire::cdc::{Cdc, CdcOctets, ConnectionFlags, ProducerFlags};

impl Connection {
    /// Whether the fast path applies: the connection is not ending, and neither its owner
    /// nor the peer has to be notified of anything but bytes.
    #[inline(always)]
    const fn is_fast(&self) -> bool {
        debug_assert!(self.steady == self.close.is_steady());
        // One comparison, as far as they lie side by side.
        let levels = [
            self.silent as u8,
            self.steady as u8,
            self.moved_timeout as u8,
            self.read_shut as u8,
        ];
        u32::from_ne_bytes(levels) == u32::from_ne_bytes([0, 1, 0, 0])
            && self.notices.is_empty()
            && self.wants.is_empty()
    }

    /// Whether only bytes are expected, and they are placed in the peer's memory at once: the
    /// connection is not ending, nothing is due, held back, urgent or in flight, and no
    /// deadline runs.
    #[cfg(feature = "smc-d")]
    pub(crate) fn is_about_bytes_in_place(&self) -> bool {
        self.is_fast()
            && self.tx.attached
            && !self.tx.may_hold()
            && !self.tx.was_urgent()
            && !self.rx.urgent.is_present()
            && !self.has_work()
            && self.next_timeout().is_none()
    }

    /// [`Connection::next_transmit`], if all that was committed is one piece in both rings,
    /// fits the window, and nothing could make it wait; or if only the consumer cursor has
    /// to be advertised.
    #[inline(always)]
    pub(crate) fn fast_transmit(
        &mut self,
        address: u64,
        transmit: &mut DataTransmit,
    ) -> Option<Sent> {
        let tx = &self.tx;
        let bytes = tx.unsent();
        let written = tx.written.cursor;
        let window = tx.window();
        if !self.is_fast()
            || tx.may_hold()
            || tx.was_urgent()
            || bytes > window
            || bytes > tx.peer.to_end(written.count)
            || self.waiting
        {
            return None;
        }
        if bytes == 0 {
            if !self.rx.has_plain_peer() || !self.rx.may_need_update() {
                return None;
            }
            self.counts.standalone = self.counts.standalone.wrapping_add(1);
        }
        let source = self.tx.one_piece(bytes)?;
        //= FLOW-016
        let mut producer_flags = ProducerFlags::empty();
        producer_flags.set(ProducerFlags::WRITER_BLOCKED, bytes == window);
        //= CDC-023
        //= CDC-025
        let [first, second] = &mut transmit.writes;
        first.source = [
            Segment {
                offset: source,
                length: bytes,
            },
            Segment::default(),
        ];
        first.address = address.wrapping_add(u64::from(written.count));
        if bytes == 0 {
            *first = DataWrite::NONE;
        }
        *second = DataWrite::NONE;
        self.tx.written = self.tx.peer.advance(self.tx.written, bytes);
        let record = self.tx.number();
        //= CDC-028
        //= FLOW-019
        self.rx.published = self.rx.consumed.total;
        transmit.cdc = Cdc {
            sequence: record.sequence,
            alert_token: self.tx.alert_token_peer,
            producer: self.tx.written.cursor,
            consumer: self.rx.consumed.cursor,
            producer_flags,
            connection_flags: ConnectionFlags::empty(),
        };
        debug_assert!(!self.has_follow_up());
        Some(Sent {
            record,
            bytes,
            blocked: bytes == window,
        })
    }

    /// [`Connection::on_cdc`], if the message only moves cursors and no work follows
    /// from it: whether there are bytes to read, or `None`.
    #[inline(always)]
    pub(crate) fn fast_cdc(&mut self, bytes: CdcOctets<'_>) -> Option<bool> {
        let cdc = bytes.read();
        if !self.is_fast()
            || !cdc.is_about_octets()
            || !self.rx.has_plain_peer()
            || !newer(cdc.sequence, self.rx.sequence)
        {
            return None;
        }
        let producer = self.rx.accept(cdc.producer)?;
        if self.rx.may_need_update_after(producer) {
            return None;
        }
        // A blocked writer needs to know of anything that was read.
        let blocked = !self.rx.peer_flags.is_empty() || !cdc.producer_flags.is_empty();
        if blocked && (self.rx.gain() > 0 || !self.tx.is_published()) {
            return None;
        }
        // A connection that only receives need not check what it sends.
        if cdc.consumer != self.tx.consumer.cursor {
            if !self.tx.is_published() {
                return None;
            }
            let consumer = self.tx.accept(cdc.consumer)?;
            self.tx.acknowledge(consumer, cdc.consumer);
        }
        self.rx.sequence = cdc.sequence;
        //= CDC-030
        self.rx.peer_flags = cdc.producer_flags;
        self.rx.received = self.rx.received.moved(producer, cdc.producer);
        Some(producer > 0)
    }

    /// [`Connection::on_notify_completed`], if nothing waits for it but the application:
    /// whether there is room again where there was none, or `None`.
    #[inline(always)]
    pub(crate) fn fast_completion(&mut self, record: NotifyRecord) -> Option<bool> {
        // A completion makes no CDC message due.
        if !self.is_fast() || !self.tx.is_published() {
            return None;
        }
        let writable = self.tx.complete(record) > 0 && self.tx.exhausted;
        if writable {
            self.tx.exhausted = false;
        }
        Some(writable)
    }
}
