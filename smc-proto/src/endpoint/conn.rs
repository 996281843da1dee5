//! One connection, for the application.

use core::fmt;

use crate::command::Segment;
use crate::config::Config;
use crate::connection::{ApiMisuse, CloseState, Connection, Shutdown};
use crate::connection_record::{ConnectionRecord, Phase};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{BufferId, NONE};
use crate::link_group::segments;
use crate::time::Instant;

/// Pieces of a buffer in the embedder's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferSpans {
    /// The buffer.
    pub buffer: BufferId,
    /// One or two pieces in stream order; an unused one has length 0.
    pub segments: [Segment; 2],
    /// First octet of the connection's element in an RMB with eye catcher, to be
    /// compared with [`EYE_CATCHER`](crate::command::EYE_CATCHER) before reading.
    pub eye_catcher_at: Option<u32>,
}

impl BufferSpans {
    /// Octets in both pieces.
    #[must_use]
    pub const fn len(&self) -> u32 {
        let [first, second] = self.segments;
        first.length.saturating_add(second.length)
    }

    /// Whether there is nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One connection, for reading, writing and closing.
pub struct ConnMut<'a> {
    pub(super) engine: Engine<'a>,
    pub(super) index: u32,
}

impl ConnMut<'_> {
    /// The connection, while it has buffers.
    #[inline(always)]
    fn member(&self) -> Option<&ConnectionRecord> {
        self.engine
            .connections
            .at(self.index)
            .filter(|record| record.group != NONE)
    }

    /// Where the next octets to send can be put: free space of the send buffer.
    #[inline]
    #[must_use]
    pub fn send_space(&self) -> Option<BufferSpans> {
        let record = self.member()?;
        let spans = record.connection.as_ref()?.send_space();
        Some(BufferSpans {
            buffer: record.send_buffer_id(),
            segments: segments(spans, 0),
            eye_catcher_at: None,
        })
    }

    /// Sends the next `len` octets, which were put into [`ConnMut::send_space`].
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    #[inline]
    pub fn commit(&mut self, now: Instant, len: u32) -> Result<(), ApiMisuse> {
        self.engine.core.begin(now);
        self.engine.data_path().commit(self.index, len)
    }

    /// The same; the last of these octets is urgent (URG-001).
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    pub fn commit_urgent(&mut self, now: Instant, len: u32) -> Result<(), ApiMisuse> {
        self.engine.core.begin(now);
        self.engine
            .with_connection(self.index, |c, now, config| {
                c.commit_urgent(now, &config.connection, len)
            })
            .unwrap_or(Err(ApiMisuse::SendClosed))
    }

    /// Where received octets stand, in stream order.
    ///
    /// The peer's RNIC may write to this memory at any time outside of these
    /// pieces: copy out of it, never keep a reference.
    #[inline]
    #[must_use]
    pub fn readable(&self) -> Option<BufferSpans> {
        let record = self.member()?;
        let connection = record.connection.as_ref()?;
        // Elements have eye catchers unless both peers said they have none.
        let own = self.engine.core.config.eye_catcher;
        let at = record.rmb.offset;
        Some(BufferSpans {
            buffer: record.rmb_id(),
            segments: segments(connection.readable(), at),
            eye_catcher_at: (own && connection.receive_ring().base() != 0).then_some(at),
        })
    }

    /// Frees the first `len` readable octets, which were copied out.
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was freed.
    #[inline]
    pub fn consume(&mut self, now: Instant, len: u32) -> Result<(), ApiMisuse> {
        self.engine.core.begin(now);
        self.engine.data_path().consume(self.index, len)
    }

    /// Whether the peer sends no more and everything was read.
    #[must_use]
    pub fn is_end_of_stream(&self) -> bool {
        self.engine
            .connections
            .at(self.index)
            .and_then(|record| record.connection.as_ref())
            .is_some_and(Connection::is_end_of_stream)
    }

    /// The urgent octet that was not read yet: how many octets stand before it,
    /// and where it is.
    #[must_use]
    pub fn urgent(&self) -> Option<(u32, BufferSpans)> {
        let record = self.member()?;
        let urgent = record.connection.as_ref()?.urgent()?;
        let octet = Segment {
            offset: record.rmb.offset.wrapping_add(urgent.offset),
            length: 1,
        };
        Some((
            urgent.ahead,
            BufferSpans {
                buffer: record.rmb_id(),
                segments: [octet, Segment::default()],
                eye_catcher_at: None,
            },
        ))
    }

    /// Notes that the urgent octet was copied out of line; reading steps over it.
    ///
    /// # Errors
    /// [`ApiMisuse::NoUrgent`] if there is none.
    pub fn take_urgent(&mut self, now: Instant) -> Result<(), ApiMisuse> {
        self.engine.core.begin(now);
        self.engine
            .with_connection(self.index, |c, _, _| c.take_urgent().map(|_| ()))
            .unwrap_or(Err(ApiMisuse::NoUrgent))
    }

    /// Changes how urgent octets are read; see [`ConnOptions::urgent_inline`](super::ConnOptions::urgent_inline).
    pub fn set_urgent_inline(&mut self, inline: bool) {
        self.engine
            .with_connection(self.index, |c, _, _| c.set_urgent_inline(inline));
    }

    /// State of the close machine (RFC 7609 4.8), `None` before the connection is
    /// established.
    #[must_use]
    pub fn state(&self) -> Option<CloseState> {
        Some(
            self.engine
                .connections
                .at(self.index)?
                .connection
                .as_ref()?
                .state(),
        )
    }

    /// Ends one direction, or both in order. During the rendezvous one direction
    /// is ended as soon as SMC-R carries the connection, both end it at once.
    pub fn shutdown(&mut self, now: Instant, how: Shutdown) {
        self.engine.core.begin(now);
        if let (true, Shutdown::Read | Shutdown::Write) = (self.in_rendezvous(), how)
            && let Some(record) = self.engine.connections.at_mut(self.index)
        {
            record.shutdown = Some(match record.shutdown {
                Some(earlier) if earlier != how => Shutdown::Both,
                _ => how,
            });
            return;
        }
        self.end_rendezvous_or(|c, now, config| c.shutdown(now, &config.connection, how));
    }

    /// Ends the connection at once.
    pub fn abort(&mut self, now: Instant) {
        self.engine.core.begin(now);
        self.end_rendezvous_or(|c, now, config| c.abort(now, &config.connection));
    }

    fn in_rendezvous(&self) -> bool {
        self.engine
            .connections
            .at(self.index)
            .is_some_and(|record| matches!(record.phase, Phase::Rendezvous(_)))
    }

    fn end_rendezvous_or(&mut self, change: impl FnOnce(&mut Connection, Instant, &Config)) {
        if self.in_rendezvous() {
            // Nothing was promised to the application yet.
            self.engine.reset(self.index, CloseReason::LocalAbort);
        } else {
            self.engine.with_connection(self.index, change);
        }
        self.engine.run_wakes();
    }
}

impl fmt::Debug for ConnMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnMut")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
