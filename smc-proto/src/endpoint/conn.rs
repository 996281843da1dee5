//! One connection, for the application.

use core::fmt;

use crate::command::{BufferSpans, Segment};
use crate::config::Config;
use crate::connection::{ApiMisuse, CloseState, Connection, Progress, Shutdown};
use crate::connection_record::{ConnectionRecord, Phase};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{ConnIdx, GroupId, LinkId};
use crate::time::Instant;
use crate::wire::types::AlertToken;

/// One connection, for reading, writing and closing.
pub struct ConnMut<'a> {
    pub(super) engine: Engine<'a>,
    pub(super) index: ConnIdx,
}

impl ConnMut<'_> {
    /// The connection, while it has buffers.
    #[inline(always)]
    fn member(&self) -> Option<&ConnectionRecord> {
        self.engine
            .conn(self.index)
            .filter(|record| record.group.is_some())
    }

    /// Where the next bytes to send can be put: free space of the send buffer.
    #[inline]
    #[must_use]
    pub fn send_space(&self) -> Option<BufferSpans> {
        let record = self.member()?;
        let spans = record.connection.as_ref()?.send_space();
        Some(BufferSpans::of_send_buffer(record.send_buffer_id(), spans))
    }

    /// Sends the next `len` bytes, which were put into [`ConnMut::send_space`].
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    #[inline]
    pub fn commit(&mut self, now: Instant, len: u32) -> Result<(), ApiMisuse> {
        self.write(now, |_| len).map(|_| ())
    }

    /// [`ConnMut::send_space`] and [`ConnMut::commit`] in one: `fill` puts bytes
    /// into free space of the send buffer, of which there may be none, and says how
    /// many it put there. These are sent.
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    #[inline]
    pub fn write(
        &mut self,
        now: Instant,
        fill: impl FnOnce(&BufferSpans) -> u32,
    ) -> Result<u32, ApiMisuse> {
        self.engine.groups.data.core.begin(now);
        self.engine.groups.data.write(self.index, fill)
    }

    /// Commits bytes of which the last one is urgent (URG-001).
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    pub fn commit_urgent(&mut self, now: Instant, len: u32) -> Result<(), ApiMisuse> {
        self.engine.groups.data.core.begin(now);
        self.engine
            .mark_changed()
            .groups
            .with_connection(self.index, |c, now, config| {
                c.commit_urgent(now, &config.connection, len)
            })
            .unwrap_or(Err(ApiMisuse::SendClosed))
    }

    /// Whether small writes are held back until more follow, or are taken along by
    /// another message: half of the send buffer or 64 KiB at most, and for
    /// [`ConnectionConfig::cork`](crate::config::ConnectionConfig::cork). Taking the cork
    /// out sends what is held. Linux holds back 250 ms under `TCP_CORK`, TCP itself 200.
    pub fn set_cork(&mut self, now: Instant, cork: bool) {
        self.engine.groups.data.core.begin(now);
        self.engine
            .mark_changed()
            .groups
            .with_connection(self.index, |c, _, _| c.set_cork(cork));
    }

    /// Sends what is held back, by a cork or for coalescing.
    pub fn flush(&mut self, now: Instant) {
        self.engine.groups.data.core.begin(now);
        self.engine
            .mark_changed()
            .groups
            .with_connection(self.index, |c, _, _| c.flush());
    }

    /// Bytes that fit into the ring that the peer writes to, and into the send buffer,
    /// while there are buffers.
    #[must_use]
    pub fn buffer_sizes(&self) -> Option<(u32, u32)> {
        Some(self.member()?.connection.as_ref()?.buffer_sizes())
    }

    /// Whether the RMB element, and the send buffer, are of buffers that were there before the
    /// connection, for which nothing was allocated. `None` unless the connection has both.
    #[must_use]
    pub fn reused_buffers(&self) -> Option<(bool, bool)> {
        let record = self.member()?;
        let [rmb, send] = record.reused;
        (record.rmb.buffer.is_some() && record.send_buffer.is_some()).then_some((rmb, send))
    }

    /// How far the connection has got, and the alert token of this side; `None` before it
    /// is established.
    #[must_use]
    pub fn progress(&self) -> Option<(Progress, AlertToken)> {
        let record = self.member()?;
        Some((record.connection.as_ref()?.progress(), record.token))
    }

    /// Whether everything was sent that the application has committed, and the end of the
    /// connection if the application has ended it: nothing is in flight, held back or due. The
    /// peer's RNIC has acknowledged all of it.
    #[must_use]
    pub fn is_all_sent(&self) -> bool {
        let record = self.engine.conn(self.index);
        record
            .and_then(|record| record.connection.as_ref())
            .is_none_or(Connection::is_all_sent)
    }

    /// The link group of the connection, and the link that its writes go over: none over
    /// SMC-D.
    #[must_use]
    pub fn group_and_link(&self) -> Option<(GroupId, Option<LinkId>)> {
        let (group, link) = {
            let record = self.member()?;
            (record.group, record.link)
        };
        let link = (link.is_some()).then(|| self.engine.groups.data.link_id(link));
        Some((self.engine.groups.group_id(group), link))
    }

    /// Where received bytes are, in stream order.
    ///
    /// The peer's RNIC may write to this memory at any time outside of these
    /// pieces: copy out of it, never keep a reference.
    #[inline]
    #[must_use]
    pub fn readable(&self) -> Option<BufferSpans> {
        let record = self.member()?;
        let connection = record.connection.as_ref()?;
        let eye_catcher = self
            .engine
            .groups
            .data
            .core
            .has_eye_catcher(connection.receive_ring());
        let element = record.rmb;
        Some(element.spans(connection.readable(), eye_catcher))
    }

    /// Frees the first `len` readable bytes, which were copied out.
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was freed.
    #[inline]
    pub fn consume(&mut self, now: Instant, len: u32) -> Result<(), ApiMisuse> {
        self.read(now, |_| len).map(|_| ())
    }

    /// [`ConnMut::readable`] and [`ConnMut::consume`] in one: `take` copies bytes
    /// out, of which there may be none, and says how many it is done with. These
    /// are freed.
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was freed.
    #[inline]
    pub fn read(
        &mut self,
        now: Instant,
        take: impl FnOnce(&BufferSpans) -> u32,
    ) -> Result<u32, ApiMisuse> {
        self.engine.groups.data.core.begin(now);
        let taken = self.engine.groups.data.read(self.index, take)?;
        Ok(taken.bytes)
    }

    /// Whether the peer sends no more and everything was read.
    #[must_use]
    pub fn is_end_of_stream(&self) -> bool {
        self.engine
            .conn(self.index)
            .and_then(|record| record.connection.as_ref())
            .is_some_and(Connection::is_end_of_stream)
    }

    /// The urgent byte that was not read yet: how many bytes are before it,
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
                buffer: record.rmb.id(),
                segments: [octet, Segment::default()],
                eye_catcher_at: None,
            },
        ))
    }

    /// Notes that the urgent byte was copied out of line; reading steps over it.
    ///
    /// # Errors
    /// [`ApiMisuse::NoUrgent`] if there is none.
    pub fn take_urgent(&mut self, now: Instant) -> Result<(), ApiMisuse> {
        self.engine.groups.data.core.begin(now);
        self.engine
            .mark_changed()
            .groups
            .with_connection(self.index, |c, _, _| c.take_urgent().map(|_| ()))
            .unwrap_or(Err(ApiMisuse::NoUrgent))
    }

    /// Changes how urgent bytes are read; see [`ConnOptions::urgent_inline`](super::ConnOptions::urgent_inline).
    pub fn set_urgent_inline(&mut self, inline: bool) {
        self.engine
            .mark_changed()
            .groups
            .with_connection(self.index, |c, _, _| c.set_urgent_inline(inline));
    }

    /// State of the close machine (RFC 7609 4.8), `None` before the connection is
    /// established.
    #[must_use]
    pub fn state(&self) -> Option<CloseState> {
        Some(self.engine.conn(self.index)?.connection.as_ref()?.state())
    }

    /// Ends one direction, or both in order. During the rendezvous one direction
    /// is ended as soon as SMC-R carries the connection, both end it at once. After
    /// a fallback both end the watch for a Decline of the peer.
    ///
    /// A half close ends a direction, not the connection: also after either direction was ended by
    /// itself, or the peer has ended its own, the handle and the buffers are kept until
    /// [`Shutdown::Both`], [`abort`](Self::abort) or a reset, as a socket is that was shut down and
    /// not closed. [`Event::Closed`](crate::event::Event::Closed) follows that.
    pub fn shutdown(&mut self, now: Instant, how: Shutdown) {
        self.engine.groups.data.core.begin(now);
        if let (true, Shutdown::Read | Shutdown::Write) = (self.in_rendezvous(), how)
            && let Some(record) = self.engine.groups.data.connections.at_mut(self.index)
        {
            record.shutdown = Some(match record.shutdown {
                Some(earlier) if earlier != how => Shutdown::Both,
                _ => how,
            });
            return;
        }
        if how == Shutdown::Both {
            self.end_watch();
        }
        self.end_rendezvous_or(|c, now, config| c.shutdown(now, &config.connection, how));
    }

    /// Ends the connection at once, and after a fallback the watch for a Decline of
    /// the peer.
    pub fn abort(&mut self, now: Instant) {
        self.engine.groups.data.core.begin(now);
        self.end_watch();
        self.end_rendezvous_or(|c, now, config| c.abort(now, &config.connection));
    }

    /// The embedder does not read from the TCP connection any more.
    fn end_watch(&mut self) {
        let record = self.engine.conn(self.index);
        if record.is_some_and(|record| record.phase == Phase::Watching) {
            self.engine.mark_changed().give_up_watching(self.index);
        }
    }

    fn in_rendezvous(&self) -> bool {
        self.engine
            .conn(self.index)
            .is_some_and(|record| matches!(record.phase, Phase::Rendezvous(_)))
    }

    fn end_rendezvous_or(&mut self, change: impl FnOnce(&mut Connection, Instant, &Config)) {
        if self.in_rendezvous() {
            // Nothing was promised to the application yet.
            self.engine
                .mark_changed()
                .reset(self.index, CloseReason::LocalAbort);
        } else {
            self.engine
                .mark_changed()
                .groups
                .with_connection(self.index, change);
        }
        self.engine.mark_changed().run_wakes();
    }
}

impl fmt::Debug for ConnMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnMut")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
