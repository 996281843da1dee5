//! The receiving half: the ring in our RMB element.

use super::cursor::{Position, Ring, Step, StepFault};
use super::faults::PeerMisbehaved;
use super::spans::Spans;
use super::urgent::UrgentIn;
use super::window;
use crate::wire::cdc::ProducerFlags;
use crate::wire::types::Cursor;

/// Totals and positions, in bytes since the connection began:
/// `published <= consumed <= received <= published + ring`.
///
/// First what the sender of bytes touches as well, then what only their receiver does.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct Rx {
    /// Our consumer cursor.
    pub(super) consumed: Position,
    /// The consumer cursor of the last CDC message emitted (FLOW-019).
    pub(super) published: u64,
    /// The peer's producer cursor.
    pub(super) received: Position,
    pub(super) ring: Ring,
    /// A tenth of the ring, rounded up.
    tenth: u32,
    /// Number of the last CDC message applied.
    pub(super) sequence: u16,
    /// B, P, U and R of the last CDC message.
    pub(super) peer_flags: ProducerFlags,
    /// The peer announced that it sends no more data.
    pub(super) done: bool,
    pub(super) urgent: UrgentIn,
}

impl Rx {
    pub(super) fn new(ring: Ring, urgent_inline: bool) -> Self {
        Self {
            ring,
            tenth: ring.usable().div_ceil(10),
            received: ring.start(),
            consumed: ring.start(),
            published: 0,
            urgent: UrgentIn::new(urgent_inline),
            peer_flags: ProducerFlags::empty(),
            sequence: 0,
            done: false,
        }
    }

    /// Bytes received and not consumed.
    pub(super) fn unread(&self) -> u32 {
        self.received.since(self.consumed.total)
    }

    /// Bytes that can be read next: all, or those before an urgent byte.
    pub(super) fn readable(&self) -> u32 {
        self.urgent
            .barrier(self.consumed.total)
            .unwrap_or_else(|| self.unread())
    }

    /// Where the next bytes to be read are; `len` at most [`Rx::readable`].
    pub(super) fn spans_of(&self, len: u32) -> Spans {
        //= CDC-027
        self.ring.spans(self.consumed.cursor.count, len)
    }

    /// Checks a producer cursor of the peer. Changes nothing.
    pub(super) fn judge(&self, cursor: Cursor) -> Result<Step, PeerMisbehaved> {
        // The peer may fill the ring as of the consumer cursor we last sent; a
        // later one it cannot know. This bounds `unread` by the ring.
        let used = self.received.since(self.published);
        let limit = self.ring.usable().saturating_sub(used);
        self.ring
            .step(self.received, cursor, limit)
            .map_err(|fault| match fault {
                StepFault::Outside => PeerMisbehaved::ProducerOutsideRing,
                StepFault::TooFar => PeerMisbehaved::ProducerBeyondWindow,
                StepFault::FarBack => PeerMisbehaved::ProducerFarBack,
            })
    }

    /// Number of bytes that a producer cursor adds. `None` if the cursor does not move forward
    /// within the ring and the window: [`Rx::judge`] then decides what it is.
    #[inline(always)]
    pub(super) fn accept(&self, cursor: Cursor) -> Option<u32> {
        let bytes = self.ring.ahead(self.received, cursor)?;
        let end = self.received.total.wrapping_add(u64::from(bytes));
        let limit = self.published.wrapping_add(u64::from(self.ring.usable()));
        (end <= limit).then_some(bytes)
    }

    /// Moves the consumer cursor; returns whether it passed an urgent byte.
    #[inline(always)]
    pub(super) fn consume(&mut self, bytes: u32) -> bool {
        self.consumed = self.ring.advance(self.consumed, bytes);
        self.urgent.is_present() && self.pass_urgent()
    }

    #[inline(never)]
    fn pass_urgent(&mut self) -> bool {
        if self.urgent.is_step(self.consumed.total) {
            self.consumed = self.ring.advance(self.consumed, 1);
        }
        self.urgent.pass(self.consumed.total)
    }

    /// Bytes that were consumed and not advertised to the peer.
    pub(super) fn gain(&self) -> u32 {
        self.consumed.since(self.published)
    }

    /// Whether [`Rx::update_due`] may be true: a cheap check, which is false on most calls. True if
    /// an update is due, and whenever something was consumed and the peer has set a flag.
    #[inline(always)]
    pub(super) fn may_need_update(&self) -> bool {
        self.may_need_update_after(0)
    }

    /// Whether [`Rx::may_need_update`] will be true once `bytes` more are received.
    #[inline(always)]
    pub(super) fn may_need_update_after(&self, bytes: u32) -> bool {
        let gain = self.gain();
        if !self.peer_flags.is_empty() {
            return gain > 0;
        }
        let used = self.received.since(self.published).wrapping_add(bytes);
        gain >= self.tenth && used > self.ring.usable() >> 1
    }

    /// Whether the peer has set no flag, or only the one that its window is closed.
    #[inline(always)]
    pub(super) const fn has_plain_peer(&self) -> bool {
        self.peer_flags
            .difference(ProducerFlags::WRITER_BLOCKED)
            .is_empty()
    }

    /// Whether a CDC message is due that only advertises the consumer cursor.
    #[inline(always)]
    pub(super) fn update_due(&self) -> bool {
        self.may_need_update() && self.needs_update()
    }

    #[inline(never)]
    fn needs_update(&self) -> bool {
        let used = self.received.since(self.published);
        let view = self.ring.usable().saturating_sub(used);
        // P without U: the writer waits for room for its urgent byte.
        //= URG-010
        let pending = self.peer_flags
            & (ProducerFlags::URGENT_PENDING | ProducerFlags::URGENT_PRESENT)
            == ProducerFlags::URGENT_PENDING;
        let forced = pending || self.peer_flags.contains(ProducerFlags::WRITER_BLOCKED);
        window::update_due(self.ring.usable(), view, self.gain(), forced)
    }

    /// Whether the peer asked for the consumer cursor (R).
    pub(super) const fn is_update_requested(&self) -> bool {
        self.peer_flags
            .contains(ProducerFlags::CURSOR_UPDATE_REQUESTED)
    }

    /// Drops all received bytes that were not read.
    pub(super) fn purge(&mut self) {
        //= ABORT-008
        let unread = self.unread();
        self.consume(unread);
        // Behind a gap the stream has no end.
        self.done &= unread == 0;
    }

    pub(super) fn hash(&self, h: &mut impl core::hash::Hasher) {
        h.write_u32(self.unread());
        h.write_u32(self.gain());
        h.write_u32(self.received.cursor.count);
        h.write_u8(self.peer_flags.bits());
        h.write_u8(u8::from(self.done));
        self.urgent.hash(self.consumed.total, h);
    }
}
