//! The sending half: local send ring, peer's ring, and what is where between them.

use super::cursor::Step;
use super::cursor::{Position, Ring, StepFault, bytes_between, newer};
use super::faults::PeerMisbehaved;
use super::segments::segments;
use super::spans::Spans;
use super::urgent::UrgentOut;
use super::work::NotifyRecord;
use crate::command::DataWrite;
use crate::config::UrgentFlags;
use crate::wire::cdc::ProducerFlags;
use crate::wire::types::{AlertToken, Cursor};

/// Most bytes that a cork holds back, where half the send buffer is more: those behind
/// them would find the peer idle.
const CORKED: u32 = 64 << 10;

/// Totals and positions, in bytes since the connection began:
/// `completed <= written <= produced`, and the peer has consumed at most `high`.
/// What is written is covered by a CDC message of the same transmit.
///
/// In this order: what is rare; what only the sender of bytes touches, a cache line;
/// what their receiver touches as well, see [`Connection`](super::Connection).
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Tx {
    pub(super) urgent: UrgentOut,
    /// Ring in the peer's RMB element.
    pub(super) peer: Ring,
    /// Ring of the local send buffer.
    pub(super) buffer: Ring,
    /// Committed by the application.
    pub(super) produced: u64,
    /// Covered by a completed CDC message, so free in the send buffer.
    pub(super) completed: u64,
    /// Low half of the most that `written` ever was: the peer may have seen this much.
    high: u32,
    /// Offset of `produced` in the send buffer.
    head: u32,
    /// CDC messages emitted on this link and not completed.
    pub(super) outstanding: u16,
    /// The free space was used up, and the application may wait for more.
    pub(super) exhausted: bool,
    /// The application holds small writes back.
    pub(super) corked: bool,
    /// CDC messages emitted, failover validations excepted; its low half is the number
    /// of the last one.
    pub(super) emitted: u32,
    /// Number of the last one completed; all before it are, too (AMB-14).
    pub(super) completed_sequence: u16,
    /// Counts changes of link, to recognise late completions of the old one.
    pub(super) epoch: u8,
    /// The send buffer is the peer's ring itself.
    pub(super) attached: bool,
    /// The peer's token, sent in every CDC message (CDC-004).
    pub(super) alert_token_peer: AlertToken,
    /// Most bytes that may wait for a completion, 0 without coalescing.
    hold: u32,
    /// Bytes were urgent at least once.
    was_urgent: bool,
    /// The peer's consumer cursor.
    pub(super) consumer: Position,
    /// Written to the peer's ring and announced.
    pub(super) written: Position,
}

impl Tx {
    pub(super) fn new(
        alert_token_peer: AlertToken,
        peer: Ring,
        send_buffer: u32,
        hold: u32,
        urgent_flags: UrgentFlags,
    ) -> Self {
        let buffer = Ring::local(send_buffer);
        Self {
            peer,
            buffer,
            produced: 0,
            head: 0,
            written: peer.start(),
            high: 0,
            completed: 0,
            consumer: peer.start(),
            urgent: UrgentOut::new(urgent_flags),
            //= FLOW-021
            hold: hold.min(buffer.usable() >> 1),
            alert_token_peer,
            was_urgent: false,
            emitted: 0,
            completed_sequence: 0,
            outstanding: 0,
            exhausted: false,
            attached: false,
            corked: false,
            epoch: 0,
        }
    }

    /// Makes the peer's ring the send buffer, at offset `head` of its memory.
    #[cfg(feature = "smc-d")]
    pub(super) fn attach(&mut self, head: u32) {
        self.buffer = self.peer.shifted(head);
        self.head = self.buffer.base();
        self.attached = true;
        self.urgent.set_overwritten();
    }

    /// Frees what the peer has read of a send buffer that is its ring; whether that
    /// is anything.
    #[cfg(feature = "smc-d")]
    pub(super) fn release_consumed(&mut self) -> bool {
        let more = self.attached && self.consumer.total > self.completed;
        if more {
            self.completed = self.consumer.total;
        }
        more
    }

    /// Free bytes of the send buffer.
    #[inline]
    pub(super) fn space(&self) -> u32 {
        let used = bytes_between(self.completed, self.produced);
        self.buffer.usable().wrapping_sub(used)
    }

    /// Where the next bytes to be sent go; `len` at most [`Tx::space`].
    pub(super) fn spans_of(&self, len: u32) -> Spans {
        self.buffer.spans(self.head, len)
    }

    /// Takes `len` bytes of the free `space`; the caller checked that they fit.
    #[inline]
    pub(super) fn commit(&mut self, len: u32, space: u32) {
        self.exhausted = space == len;
        self.produced = self.produced.wrapping_add(u64::from(len));
        self.head = self.buffer.count_after(self.head, len);
    }

    /// Bytes that may still be written into the peer's ring.
    #[inline]
    pub(super) fn window(&self) -> u32 {
        //= FLOW-001
        //= FLOW-002
        //= FLOW-010
        //= FLOW-018
        //= CDC-014
        //= CDC-022
        let used = self.written.since(self.consumer.total);
        self.peer.usable().wrapping_sub(used)
    }

    /// Marks the bytes committed so far: the last of them is urgent.
    pub(super) const fn mark_urgent(&mut self) {
        self.urgent.next = self.produced;
        self.was_urgent = true;
    }

    /// Whether a CDC message emitted now announces urgent data that waits.
    pub(super) fn announces_urgent(&self) -> bool {
        self.urgent
            .is_announced(self.written.total, self.consumer.total)
    }

    /// Whether anything ever was urgent.
    #[inline(always)]
    pub(super) const fn was_urgent(&self) -> bool {
        self.was_urgent
    }

    /// Number of the last CDC message emitted.
    #[inline(always)]
    pub(super) const fn sequence(&self) -> u16 {
        self.emitted as u16
    }

    /// Bytes the peer may have seen beyond its consumer cursor.
    #[inline(always)]
    const fn seen(&self) -> u32 {
        self.high.wrapping_sub(self.consumer.total as u32)
    }

    /// Bytes committed and not written.
    #[inline(always)]
    pub(super) const fn unsent(&self) -> u32 {
        bytes_between(self.written.total, self.produced)
    }

    /// Where they are in the send buffer, if `bytes` is all of them and they are
    /// one piece.
    #[inline(always)]
    pub(super) const fn one_piece(&self, bytes: u32) -> Option<u32> {
        self.buffer.one_piece_before(self.head, bytes)
    }

    /// Bytes that window and urgent data allow to write now.
    #[inline(always)]
    fn sendable(&self) -> u32 {
        let limit = self
            .urgent
            .limit(self.written.total, self.consumer.total, self.produced);
        bytes_between(self.written.total, limit).min(self.window())
    }

    /// Whether anything is in flight for which data could wait, or it waits anyway.
    #[inline(always)]
    pub(super) const fn may_hold(&self) -> bool {
        self.outstanding > 0 || self.corked
    }

    /// Whether data waits only because coalescing holds it back.
    #[inline(always)]
    pub(super) fn is_held(&self) -> bool {
        self.may_hold() && self.is_worth_holding()
    }

    #[inline(never)]
    fn is_worth_holding(&self) -> bool {
        let unsent = self.unsent();
        // What the application holds back itself is no concern of `nodelay`.
        let hold = match self.corked {
            true => CORKED.min(self.buffer.usable() >> 1),
            false => self.hold,
        };
        //= FLOW-003
        // A window about to fill is no reason to wait: the peer must learn that
        // this side is blocked. (After a change of link
        // a CDC message is wanted anyway, so lost data does not wait either.)
        unsent > 0
            && unsent <= hold
            && unsent < self.window()
            && !self.urgent.is_waiting(self.written.total)
    }

    /// Whether something can be written. `flush`: nothing may be held back.
    pub(super) fn can_write(&self, flush: bool) -> bool {
        self.sendable() > 0 && (flush || !self.is_held())
    }

    /// Writes all that may be written into the peer's element at `address`, in at
    /// most two pieces because its ring wraps at most once: how many bytes. `writes`
    /// is left alone if there is nothing.
    #[inline(always)]
    pub(super) fn write(&mut self, address: u64, writes: &mut [DataWrite; 2]) -> u32 {
        let bytes = self.sendable();
        if bytes == 0 {
            return 0;
        }
        let [first, second] = writes;
        let to_end = self.peer.to_end(self.written.cursor.count);
        *first = self.write_piece(bytes.min(to_end), address);
        *second = DataWrite::NONE;
        if bytes > to_end {
            *second = self.write_piece(bytes.wrapping_sub(to_end), address);
        }
        bytes
    }

    /// [`Tx::write`] for bytes that lie in the peer's ring already: how many, and in how
    /// many pieces.
    #[cfg(feature = "smc-d")]
    #[inline(always)]
    pub(super) fn write_in_place(&mut self) -> (u32, u32) {
        let bytes = self.sendable();
        let to_end = self.peer.to_end(self.written.cursor.count);
        self.written = self.peer.advance(self.written, bytes);
        let pieces = u32::from(bytes > 0).wrapping_add(u32::from(bytes > to_end));
        (bytes, pieces)
    }

    #[inline(always)]
    fn write_piece(&mut self, len: u32, address: u64) -> DataWrite {
        //= CDC-025
        let remote_offset = self.written.cursor.count;
        let behind = bytes_between(self.written.total, self.produced);
        let source = self.buffer.count_before(self.head, behind);
        self.written = self.peer.advance(self.written, len);
        DataWrite {
            source: segments(self.buffer.spans(source, len), 0),
            address: address.wrapping_add(u64::from(remote_offset)),
        }
    }

    /// P and U of the CDC message of this transmit, which publishes `bytes` and has no number
    /// yet.
    #[inline(always)]
    pub(super) fn urgent_flags(&mut self, bytes: u32) -> ProducerFlags {
        if !self.was_urgent {
            return ProducerFlags::empty();
        }
        let (written, consumed) = (self.written.total, self.consumer.total);
        if bytes == 0 {
            return self.urgent.repeat(written, consumed);
        }
        let again = !self.is_beyond_seen();
        self.urgent.publish(written, consumed, again)
    }

    /// Whether bytes are written that the peer cannot have seen.
    #[inline(always)]
    fn is_beyond_seen(&self) -> bool {
        self.written.since(self.consumer.total) > self.seen()
    }

    /// Gives the CDC message of this transmit its number.
    #[inline(always)]
    pub(super) fn number(&mut self) -> NotifyRecord {
        if self.is_beyond_seen() {
            self.high = self.written.total as u32;
        }
        //= CDC-006
        //= CDC-007
        //= CDC-010
        //= CDC-012
        self.emitted = self.emitted.wrapping_add(1);
        self.record(self.sequence(), self.written.total)
    }

    pub(super) fn record(&mut self, sequence: u16, position: u64) -> NotifyRecord {
        self.outstanding = self.outstanding.saturating_add(1);
        NotifyRecord {
            position: position as u32,
            sequence,
            epoch: self.epoch,
        }
    }

    /// Counts a CDC message as completed.
    #[inline(always)]
    pub(super) fn count_completed(&mut self, record: NotifyRecord) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if newer(record.sequence, self.completed_sequence) {
            self.completed_sequence = record.sequence;
        }
    }

    /// Applies the completion of a CDC message; returns the bytes it released.
    #[inline(always)]
    pub(super) fn complete(&mut self, record: NotifyRecord) -> u32 {
        if record.epoch != self.epoch {
            // Counted as not sent when the link changed.
            return 0;
        }
        self.count_completed(record);
        let released = record.position.wrapping_sub(self.completed as u32);
        if released > bytes_between(self.completed, self.written.total) {
            return 0;
        }
        self.completed = self.completed.wrapping_add(u64::from(released));
        released
    }

    /// Judges a consumer cursor of the peer; nothing changes.
    pub(super) fn judge(&self, cursor: Cursor) -> Result<Step, PeerMisbehaved> {
        // The peer reads only what was published. Bounded by the peer's ring, not
        // ours: clamping to the smaller one would stall a larger peer.
        self.peer
            .step(self.consumer, cursor, self.seen())
            .map_err(|fault| match fault {
                StepFault::Outside => PeerMisbehaved::ConsumerOutsideRing,
                StepFault::TooFar => PeerMisbehaved::ConsumerBeyondPublished,
                StepFault::FarBack => PeerMisbehaved::ConsumerFarBack,
            })
    }

    /// The bytes that a consumer cursor releases, if there is nothing to judge.
    #[inline(always)]
    pub(super) fn accept(&self, cursor: Cursor) -> Option<u32> {
        let bytes = self.peer.ahead(self.consumer, cursor)?;
        (bytes <= self.seen()).then_some(bytes)
    }

    /// Applies a consumer cursor that [`Tx::judge`] accepted.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, bytes: u32, cursor: Cursor) {
        self.consumer = self.consumer.moved(bytes, cursor);
        if self.consumer.total > self.written.total {
            // Possible only after a change of link: the peer has read what we
            // were about to write again.
            self.written = self.consumer;
        }
    }

    /// Whether all data and the CDC messages behind it are completed.
    pub(super) fn is_drained(&self) -> bool {
        self.written.total == self.produced && self.outstanding == 0
    }

    /// Whether all data is published, though not all is completed.
    pub(super) fn is_published(&self) -> bool {
        self.written.total == self.produced
    }

    /// Whether data was committed that is not known to have arrived: it is
    /// neither completed nor has the peer consumed it. (Its completion may be
    /// reported after the answer to it, so the peer's cursor counts.)
    pub(super) fn is_undelivered(&self) -> bool {
        self.produced > self.completed.max(self.consumer.total)
    }

    /// Drops what is not written.
    pub(super) fn purge(&mut self) {
        //= ABORT-018
        self.produced = self.written.total;
        self.urgent.purge(self.produced);
    }

    pub(super) fn hash(&self, h: &mut impl core::hash::Hasher) {
        let from = self.consumer.total;
        h.write_u64(self.produced.wrapping_sub(from));
        h.write_u64(self.written.total.wrapping_sub(from));
        h.write_u64(u64::from(self.seen()));
        h.write_u64(self.completed.wrapping_sub(from));
        h.write_u32(self.written.cursor.count);
        h.write_u32(self.head);
        h.write_u16(self.sequence().wrapping_sub(self.completed_sequence));
        h.write_u16(self.outstanding);
        h.write_u8(u8::from(self.attached) | u8::from(self.corked) << 1);
        let flags = self.urgent.repeat(self.written.total, from);
        h.write_u8(flags.bits());
        for mark in [self.urgent.next, self.urgent.sent] {
            // A mark that was passed long ago no longer matters.
            h.write_u64(mark.saturating_sub(from));
        }
    }
}
