//! One direction of a connection: what its sender wrote and announced.

use std::collections::VecDeque;

use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};

use super::link::LinkIndex;
use super::ring::{Ring, Spans};

/// How long a message may be on its way while others cross it, in nanoseconds.
pub(crate) const CROSSING: u64 = 1_000_000_000;
/// CDC messages that are remembered: more than can be in flight.
const HISTORY: usize = 256;

/// What a sender did, as far as the capture shows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// Latest CDC message of the sender, validations left out.
    pub(crate) last: Option<Cdc>,
    /// Position of its producer cursor: bytes it published.
    pub(crate) produced: u64,
    /// The furthest one it ever published.
    pub(crate) furthest: u64,
    /// Position of its consumer cursor: bytes it announced as read.
    pub(crate) consumed: u64,
    /// Bytes it wrote and did not publish.
    pub(crate) written: Spans,
    /// The link it uses.
    pub(crate) link: Option<LinkIndex>,
    /// The validation that began its present link, until a message follows it.
    pub(crate) moved: Option<u16>,
    /// Producer positions by number, the latest ones.
    history: VecDeque<(u16, u64)>,
    /// Position of urgent data that it published last.
    pub(crate) urgent: Option<u64>,
    /// When it last asked to be notified of everything that is read, and which position it
    /// had published then.
    pub(crate) asked: Option<(u64, u64)>,
    /// Whether messages of it are missing, so that the next one may change anything.
    pub(crate) lost: bool,
}

impl Flow {
    pub(crate) fn flags(&self) -> ConnectionFlags {
        self.last
            .map_or(ConnectionFlags::empty(), |cdc| cdc.connection_flags)
    }

    /// Whether the sender sent its last message.
    pub(crate) fn is_over(&self) -> bool {
        let last = ConnectionFlags::PEER_CONNECTION_CLOSED | ConnectionFlags::ABNORMAL_CLOSE;
        self.flags().intersects(last)
    }

    /// Position that a message's producer cursor is at.
    pub(crate) fn producer(&self, ring: Ring, cdc: &Cdc) -> i64 {
        let last = self.last.map_or(ring.start(), |cdc| cdc.producer);
        self.produced.cast_signed() + ring.advance(last, cdc.producer)
    }

    /// Position that a message's consumer cursor is at.
    pub(crate) fn consumer(&self, ring: Ring, cdc: &Cdc) -> i64 {
        let last = self.last.map_or(ring.start(), |cdc| cdc.consumer);
        self.consumed.cast_signed() + ring.advance(last, cdc.consumer)
    }

    /// The producer position of a message that was seen.
    pub(crate) fn position_of(&self, number: u16) -> Option<u64> {
        let mut all = self.history.iter().rev();
        all.find(|(seen, _)| *seen == number)
            .map(|(_, position)| *position)
    }

    /// Whether the peer, which has read up to `consumer`, may think that this side wants
    /// to be notified of everything that it reads: messages both ways cross each other, and
    /// a reader behind the position at which this side asked may not know of the request.
    pub(crate) fn wants_updates(&self, consumer: i64, now: u64) -> bool {
        let last = self.last.is_some_and(|last| asks(last.producer_flags));
        last || self.asked.is_some_and(|(time, position)| {
            now.saturating_sub(time) < CROSSING || consumer <= position.cast_signed()
        })
    }

    /// Takes a message. `into` is the ring its sender writes into, `own` the one it
    /// reads; before the Confirm the latter is not known, and empty.
    pub(crate) fn note(
        &mut self,
        into: Option<Ring>,
        own: Option<Ring>,
        cdc: &Cdc,
        link: LinkIndex,
        time: u64,
    ) {
        self.link = Some(link);
        if cdc
            .producer_flags
            .contains(ProducerFlags::FAILOVER_VALIDATION)
        {
            self.moved = Some(cdc.sequence);
            self.written.clear();
            return;
        }
        self.moved = None;
        self.lost = false;
        let produced = self.produced.cast_signed();
        let producer = into.map_or(produced, |into| self.producer(into, cdc));
        let consumer = own.map_or(0, |own| self.consumer(own, cdc));
        self.produced = u64::try_from(producer).unwrap_or(0);
        self.furthest = self.furthest.max(self.produced);
        self.consumed = u64::try_from(consumer).unwrap_or(0);
        self.written.forget_before(self.produced);
        if asks(cdc.producer_flags) {
            self.asked = Some((time, self.produced));
        }
        if cdc.producer_flags.contains(ProducerFlags::URGENT_PRESENT) {
            self.urgent = Some(self.produced);
        }
        self.last = Some(*cdc);
        self.history.push_back((cdc.sequence, self.produced));
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

/// Whether a writer with these flags wants to be notified of everything that is read.
fn asks(flags: ProducerFlags) -> bool {
    flags.intersects(
        ProducerFlags::WRITER_BLOCKED
            | ProducerFlags::CURSOR_UPDATE_REQUESTED
            | ProducerFlags::URGENT_PENDING
            | ProducerFlags::URGENT_PRESENT,
    )
}
