//! What nearly all octets need: nothing is urgent, held back, lost or at its end.
//!
//! Each step here does what the general one does for such a connection, or nothing:
//! it tells so before anything has changed, and the general one follows.

use super::Connection;
use super::cursor::newer;
use super::work::NotifyRecord;
use crate::command::{DataTurn, DataWrite, Segment};
use crate::wire::cdc::{Cdc, CdcOctets, ConnectionFlags, ProducerFlags};

impl Connection {
    /// Whether there is nothing to look at but octets: no end in sight, nothing to
    /// tell to the owner or the peer.
    #[inline(always)]
    const fn is_ordinary(&self) -> bool {
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

    /// Whether nothing but octets is to be expected, which go to where they belong at once: no
    /// end in sight, nothing to do, held back, urgent or under way, and no deadline.
    pub(crate) fn is_about_octets_in_place(&self) -> bool {
        self.is_ordinary()
            && self.tx.attached
            && !self.tx.may_hold()
            && !self.tx.was_urgent()
            && !self.rx.urgent.is_present()
            && !self.has_work()
            && self.next_timeout().is_none()
    }

    /// [`Connection::next_turn`], if all that was committed is one piece in both rings,
    /// fits the window, and nothing could make it wait; or if only the consumer cursor is
    /// to be told.
    #[inline(always)]
    pub(crate) fn ordinary_turn(&mut self, address: u64, turn: &mut DataTurn) -> Option<Sent> {
        let tx = &self.tx;
        let octets = tx.unsent();
        let written = tx.written.cursor;
        let window = tx.window();
        if !self.is_ordinary()
            || tx.may_hold()
            || tx.was_urgent()
            || octets > window
            || octets > tx.peer.to_end(written.count)
            || self.waiting
        {
            return None;
        }
        if octets == 0 {
            if !self.rx.has_plain_peer() || !self.rx.may_owe_update() {
                return None;
            }
            self.counts.standalone = self.counts.standalone.wrapping_add(1);
        }
        let source = self.tx.one_piece(octets)?;
        //= FLOW-016
        let mut producer_flags = ProducerFlags::empty();
        producer_flags.set(ProducerFlags::WRITER_BLOCKED, octets == window);
        //= CDC-023
        //= CDC-025
        let [first, second] = &mut turn.writes;
        first.source = [
            Segment {
                offset: source,
                length: octets,
            },
            Segment::default(),
        ];
        first.address = address.wrapping_add(u64::from(written.count));
        if octets == 0 {
            *first = DataWrite::NONE;
        }
        *second = DataWrite::NONE;
        self.tx.written = self.tx.peer.advance(self.tx.written, octets);
        let record = self.tx.number();
        //= CDC-028
        //= FLOW-019
        self.rx.published = self.rx.consumed.total;
        let cdc = Cdc {
            sequence: record.sequence,
            alert_token: self.tx.alert_token_peer,
            producer: self.tx.written.cursor,
            consumer: self.rx.consumed.cursor,
            producer_flags,
            connection_flags: ConnectionFlags::empty(),
        };
        turn.payload = cdc.emit();
        debug_assert!(self.is_settled());
        Some(Sent {
            record,
            octets,
            blocked: octets == window,
        })
    }

    /// [`Connection::on_cdc`], if the message only moves cursors and no work follows
    /// from it: whether there are octets to read, or `None`.
    #[inline(always)]
    pub(crate) fn ordinary_cdc(&mut self, octets: CdcOctets<'_>) -> Option<bool> {
        let cdc = octets.read();
        if !self.is_ordinary()
            || !cdc.is_about_octets()
            || !self.rx.has_plain_peer()
            || !newer(cdc.sequence, self.rx.sequence)
        {
            return None;
        }
        let producer = self.rx.accept(cdc.producer)?;
        if self.rx.may_owe_update_after(producer) {
            return None;
        }
        // Who is blocked is told of anything that was read.
        let blocked = !self.rx.peer_flags.is_empty() || !cdc.producer_flags.is_empty();
        if blocked && (self.rx.gain() > 0 || !self.tx.is_published()) {
            return None;
        }
        // A connection that only receives need not look at what it sends.
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
    pub(crate) fn ordinary_completion(&mut self, record: NotifyRecord) -> Option<bool> {
        // Whether the peer is owed a cursor does not depend on it.
        if !self.is_ordinary() || !self.tx.is_published() {
            return None;
        }
        let writable = self.tx.complete(record) > 0 && self.tx.exhausted;
        if writable {
            self.tx.exhausted = false;
        }
        Some(writable)
    }
}

/// What an ordinary turn carries.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) record: NotifyRecord,
    pub(crate) octets: u32,
    /// It tells that the window is full.
    pub(crate) blocked: bool,
}
