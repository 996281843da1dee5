//! What changed of a connection: how far it was before a call, compared with how far it is.

use super::{Subject, Tap, TraceEvent};
use crate::connection::{CloseCause, CloseState, Connection};
use crate::time::Instant;

/// How far a connection has got, as far as events say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    pub(crate) state: CloseState,
    pub(crate) cause: Option<CloseCause>,
    pub(crate) produced: u64,
    pub(crate) written: u64,
    pub(crate) completed: u64,
    pub(crate) peer_consumed: u64,
    pub(crate) received: u64,
    pub(crate) consumed: u64,
    /// Room in the peer's ring.
    pub(crate) window: u32,
    /// The send buffer has no room, and the application waits for some.
    pub(crate) exhausted: bool,
    /// The peer announced urgent data, and whether it is here.
    pub(crate) urgent: (bool, bool),
}

/// Marks before a change, or nothing while no one observes.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct MarksBefore {
    #[cfg(feature = "trace")]
    marks: Option<Marks>,
}

#[cfg(feature = "trace")]
impl MarksBefore {
    pub(crate) const NOTHING: Self = Self { marks: None };

    #[cold]
    #[inline(never)]
    pub(crate) fn of(connection: &Connection) -> Self {
        Self {
            marks: Some(connection.marks()),
        }
    }

    #[inline(always)]
    pub(crate) const fn marks(self) -> Option<Marks> {
        self.marks
    }
}

#[cfg(not(feature = "trace"))]
impl MarksBefore {
    pub(crate) const NOTHING: Self = Self {};

    #[inline(always)]
    pub(crate) const fn of(_connection: &Connection) -> Self {
        Self::NOTHING
    }

    #[inline(always)]
    #[expect(clippy::unused_self, reason = "the same call as with the feature")]
    pub(crate) const fn marks(self) -> Option<Marks> {
        None
    }
}

impl Marks {
    /// Makes the events of what changed since.
    #[cold]
    #[inline(never)]
    pub(crate) fn compare(self, tap: &mut Tap<'_>, at: Instant, subject: Subject, now: &Self) {
        let mut emit = |event| tap.emit(at, subject, event);
        if now.produced > self.produced {
            let (bytes, total) = (moved(self.produced, now.produced), now.produced);
            emit(TraceEvent::Produced { bytes, total });
        }
        if now.written > self.written {
            let (bytes, total) = (moved(self.written, now.written), now.written);
            emit(TraceEvent::Written { bytes, total });
        } else if now.written < self.written {
            let (bytes, total) = (moved(now.written, self.written), now.written);
            emit(TraceEvent::Rewound { bytes, total });
        }
        if now.peer_consumed > self.peer_consumed {
            let (bytes, total) = (
                moved(self.peer_consumed, now.peer_consumed),
                now.peer_consumed,
            );
            emit(TraceEvent::PeerConsumed { bytes, total });
        }
        if now.received > self.received {
            let (bytes, total) = (moved(self.received, now.received), now.received);
            emit(TraceEvent::Received { bytes, total });
        }
        if now.consumed > self.consumed {
            let (bytes, total) = (moved(self.consumed, now.consumed), now.consumed);
            emit(TraceEvent::Consumed { bytes, total });
        }
        if now.completed > self.completed {
            let (bytes, total) = (moved(self.completed, now.completed), now.completed);
            emit(TraceEvent::Released { bytes, total });
        }
        match (self.window, now.window) {
            (1.., 0) => emit(TraceEvent::WindowFull),
            (0, bytes @ 1..) => emit(TraceEvent::WindowOpen { bytes }),
            _ => {}
        }
        match (self.exhausted, now.exhausted) {
            (false, true) => emit(TraceEvent::BufferFull),
            (true, false) => emit(TraceEvent::BufferOpen),
            _ => {}
        }
        if now.urgent != self.urgent && now.urgent != (false, false) {
            let (_, present) = now.urgent;
            emit(TraceEvent::UrgentReceived { present });
        }
        if now.state != self.state || (now.cause != self.cause && now.cause.is_some()) {
            emit(TraceEvent::ConnMoved {
                old: self.state,
                new: now.state,
                cause: now.cause,
            });
        }
    }
}

/// How far a total moved.
fn moved(before: u64, now: u64) -> u32 {
    u32::try_from(now.wrapping_sub(before)).unwrap_or(u32::MAX)
}
