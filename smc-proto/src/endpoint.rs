//! The facade: every input, every output, and nothing that decides.

use core::fmt;
use core::hash::Hasher;

use crate::command::{RdmaCommand, Segment, TcpCommand};
use crate::completion::RdmaCompletion;
use crate::config::Config;
use crate::connection::{ApiMisuse, CloseState, Shutdown};
use crate::connection_record::{End, Pending, Phase};
use crate::engine::{Core, Engine};
use crate::event::{CloseReason, Event};
use crate::id::{BufferId, ConnId, DeviceId, GroupId};
use crate::link_group::{GroupNotices, Role, segments};
use crate::path::{LocalPath, PathEvent};
pub use crate::rendezvous::{ClcError, ClcProgress, ConnOptions, Next};
use crate::stats::Statistics;
use crate::storage::Storage;
use crate::time::{Instant, earliest};
use crate::wire::BufferTooSmall;
use crate::wire::clc::Proposal;
use crate::wire::types::DiagnosisCode;

/// One SMC stack: any number of connections, link groups and RNICs.
///
/// Methods are of four kinds.
///
/// - **Inputs** (`handle_*`) tell what happened in the world. They never fail
///   because of the peer, and each does a bounded amount of work.
/// - **Commands** (`connect`, `listen`, `accept`, `decline`, and everything on
///   [`ConnMut`]) are the application's.
/// - **Outputs** (`poll_*`) are drained until they give nothing, after any of
///   the above: CLC octets, TCP commands, RDMA commands per device, events.
///   What they give is derived from state when asked: an output that is not
///   polled is not lost and does not pile up.
/// - **Queries** change nothing.
#[derive(Clone, Debug)]
pub struct Endpoint<S> {
    core: Core,
    storage: S,
}

/// Why a connection could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A table is full: use plain TCP, or try later.
    Full,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no free slot for a connection"),
        }
    }
}

impl core::error::Error for OpenError {}

/// Why a Proposal could not be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AnswerError {
    /// The connection has no Proposal that waits for an answer.
    NotProposed,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotProposed => f.write_str("no Proposal waits for an answer"),
        }
    }
}

impl core::error::Error for AnswerError {}

/// What happened to a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TcpEvent {
    /// The peer sent FIN.
    PeerFin,
    /// The peer sent RST.
    PeerReset,
    /// The connection timed out or failed in another way.
    Failed,
}

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

impl<S: Storage> Endpoint<S> {
    /// A stack with these settings and tables.
    ///
    /// `random_seed` must be unpredictable to peers and differ between starts:
    /// alert tokens and packet sequence numbers come from it.
    pub const fn new(config: Config, random_seed: u64, storage: S) -> Self {
        Self {
            core: Core::new(config, random_seed),
            storage,
        }
    }

    #[inline]
    fn engine(&mut self, now: Instant) -> Engine<'_> {
        let mut engine = Engine::new(&mut self.core, self.storage.tables());
        engine.begin(now);
        engine
    }

    #[inline]
    fn quiet_engine(&mut self) -> Engine<'_> {
        Engine::new(&mut self.core, self.storage.tables())
    }

    // ---- inputs --------------------------------------------------------------

    /// Shows octets received on a connection's TCP stream during its rendezvous,
    /// always from the first one not consumed yet.
    ///
    /// # Errors
    /// The octets broke the protocol; the connection is being reset, which
    /// [`Endpoint::poll_tcp`] tells (RFC 7609 C.6).
    pub fn handle_clc(
        &mut self,
        now: Instant,
        conn: ConnId,
        octets: &[u8],
    ) -> Result<ClcProgress, ClcError> {
        let mut engine = self.engine(now);
        let Some(index) = engine.live_conn(conn) else {
            return Ok(ClcProgress::NotClc);
        };
        let result = engine.on_clc(index, octets);
        engine.run_wakes();
        result
    }

    /// Tells what happened to a connection's TCP connection.
    pub fn handle_tcp(&mut self, now: Instant, conn: ConnId, event: TcpEvent) {
        let mut engine = self.engine(now);
        if let Some(index) = engine.live_conn(conn) {
            engine.on_tcp(index, event);
        }
        engine.run_wakes();
    }

    /// Tells what an RNIC answered or received. At most the payload of one
    /// message is looked at.
    #[inline]
    pub fn handle_rdma(&mut self, now: Instant, completion: RdmaCompletion<'_>) {
        let mut engine = self.engine(now);
        engine.on_completion(&completion);
        engine.run_wakes();
    }

    /// Tells of a change of a port or an RNIC.
    pub fn handle_path(&mut self, now: Instant, event: PathEvent) {
        let mut engine = self.engine(now);
        engine.on_path(event);
        engine.run_wakes();
    }

    /// Lets timers fire; calling early or often is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut engine = self.engine(now);
        engine.on_timeout();
        engine.run_wakes();
    }

    // ---- commands ------------------------------------------------------------

    /// Client: starts the rendezvous of a TCP connection that is established.
    /// `paths` are the ports that may carry it, the preferred one first; without
    /// any the connection is declined.
    ///
    /// # Errors
    /// [`OpenError::Full`]; the TCP connection is untouched.
    pub fn connect(
        &mut self,
        now: Instant,
        options: ConnOptions,
        paths: &[LocalPath],
    ) -> Result<ConnId, OpenError> {
        let mut engine = self.engine(now);
        let index = engine.open(Role::Client, options, paths)?;
        Ok(engine.conn_id(index))
    }

    /// Server: starts the rendezvous of a TCP connection that was accepted.
    ///
    /// # Errors
    /// [`OpenError::Full`]; the TCP connection is untouched.
    pub fn listen(&mut self, now: Instant, options: ConnOptions) -> Result<ConnId, OpenError> {
        let mut engine = self.engine(now);
        let index = engine.open(Role::Server, options, &[])?;
        Ok(engine.conn_id(index))
    }

    /// Server: answers [`Event::Proposed`] with the ports that may carry the
    /// connection; the engine chooses and decides (RENDEZVOUS-002).
    ///
    /// # Errors
    /// [`AnswerError::NotProposed`].
    pub fn accept(
        &mut self,
        now: Instant,
        conn: ConnId,
        paths: &[LocalPath],
    ) -> Result<(), AnswerError> {
        let mut engine = self.engine(now);
        let index = engine.live_conn(conn).ok_or(AnswerError::NotProposed)?;
        engine.accept(index, paths)?;
        engine.run_wakes();
        Ok(())
    }

    /// Server: answers [`Event::Proposed`] with Decline.
    ///
    /// # Errors
    /// [`AnswerError::NotProposed`].
    pub fn decline(
        &mut self,
        now: Instant,
        conn: ConnId,
        why: DiagnosisCode,
    ) -> Result<(), AnswerError> {
        let mut engine = self.engine(now);
        let index = engine.live_conn(conn).ok_or(AnswerError::NotProposed)?;
        engine.refuse(index, why)
    }

    /// Ends a link group in order; its connections are reset (CLOSE-038).
    pub fn delete_group(&mut self, now: Instant, group: GroupId) {
        let mut engine = self.engine(now);
        if engine.groups.is_live(group.index, group.generation) {
            engine.delete_group(group.index);
        }
        engine.run_wakes();
    }

    /// A connection for reading and writing, unless the handle is stale.
    #[inline]
    pub fn conn(&mut self, conn: ConnId) -> Option<ConnMut<'_>> {
        let engine = self.quiet_engine();
        let index = engine.live_conn(conn)?;
        Some(ConnMut { engine, index })
    }

    // ---- outputs -------------------------------------------------------------

    /// Writes the next CLC message into `buffer`: for which connection, and how
    /// many octets. Send them before anything else on that TCP connection.
    ///
    /// # Errors
    /// [`BufferTooSmall`]: nothing happened; a buffer of
    /// [`MAX_LENGTH`](crate::wire::clc::MAX_LENGTH) octets always suffices.
    pub fn poll_clc(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<Option<(ConnId, usize)>, BufferTooSmall> {
        let mut engine = self.quiet_engine();
        let result = engine.next_clc(buffer);
        engine.run_wakes();
        result
    }

    /// The next command for a TCP connection.
    pub fn poll_tcp(&mut self) -> Option<(ConnId, TcpCommand)> {
        let mut engine = self.quiet_engine();
        let index = engine.core.tcp_out.pop_front(&mut engine.connections)?;
        let command = engine.connections.at_mut(index)?.tcp.take()?;
        let conn = engine.conn_id(index);
        engine.release(index);
        Some((conn, command))
    }

    /// The next command for a device. Poll only while the device can take one.
    #[inline]
    pub fn poll_rdma(&mut self, now: Instant, device: DeviceId) -> Option<RdmaCommand> {
        if !self.core.has_work(device) {
            return None;
        }
        self.engine(now).next_rdma(device)
    }

    /// The next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.core.connection_events.is_empty() && self.core.group_events.is_empty() {
            return None;
        }
        self.quiet_engine().next_event()
    }

    /// When to call [`Endpoint::handle_timeout`] at the latest.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let tables = self.storage.tables();
        let deadlines = [
            tables.connections.earliest(),
            tables.handshakes.earliest(),
            tables.groups.earliest(),
            tables.links.earliest(),
            tables.buffers.earliest(),
        ];
        deadlines.into_iter().fold(None, |first, next| {
            earliest(first, next.map(|(deadline, _)| deadline))
        })
    }

    // ---- queries -------------------------------------------------------------

    /// What the client of a connection proposed, while it waits for an answer.
    pub fn proposal(&mut self, conn: ConnId) -> Option<Proposal> {
        let engine = self.quiet_engine();
        let index = engine.live_conn(conn)?;
        let handshake = engine.handshake_of(index, Role::Server)?;
        engine.handshakes.at(handshake)?.proposal.clone()
    }

    /// Counters since the endpoint was made.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.core.statistics
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.core.config
    }

    /// How many steps the last input or command took: each message, object and
    /// list entry looked at is one. Bounded whatever the peer does (reliability I13).
    #[must_use]
    pub const fn last_steps(&self) -> u32 {
        self.core.steps
    }

    /// How many objects of each kind exist.
    pub fn usage(&mut self) -> Usage {
        let tables = self.storage.tables();
        Usage {
            connections: tables.connections.used(),
            handshakes: tables.handshakes.used(),
            groups: tables.groups.used(),
            links: tables.links.used(),
            buffers: tables.buffers.used(),
            remote_rmbs: tables.remote_rmbs.used(),
        }
    }

    /// Feeds the state into a hasher in a canonical form: deadlines relative to
    /// `now`, positions and numbers relative to each other, no counters.
    pub fn fingerprint<H: Hasher>(&mut self, now: Instant, hasher: &mut H) {
        crate::fingerprint::endpoint(&self.storage.tables(), now, hasher);
    }
}

/// How many objects of each kind an endpoint has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Connections, until their last event was polled.
    pub connections: u32,
    /// Of these, in rendezvous.
    pub handshakes: u32,
    /// Link groups.
    pub groups: u32,
    /// Links.
    pub links: u32,
    /// RMBs and send buffers.
    pub buffers: u32,
    /// RMBs of peers.
    pub remote_rmbs: u32,
}

impl Engine<'_> {
    fn on_tcp(&mut self, index: u32, event: TcpEvent) {
        let Some(phase) = self.connections.at(index).map(|record| record.phase) else {
            return;
        };
        match (phase, event) {
            (Phase::Rendezvous(_), _) => {
                self.leave_founded_group(index, CloseReason::RendezvousFailed);
                self.end(index, End::Closed(CloseReason::TcpReset));
            }
            // RDMA carries the connection now; FIN never ends it (decision 5).
            //= CLOSE-034
            (Phase::Active, TcpEvent::PeerFin) => {}
            //= ABORT-010
            //= ABORT-016
            (Phase::Active, TcpEvent::PeerReset | TcpEvent::Failed) => {
                if self.core.config.tcp_reset_aborts {
                    self.with_connection(index, |connection, now, config| {
                        connection.on_tcp_reset(now, &config.connection);
                    });
                }
            }
            (Phase::Watching, _) => self.stop_watching(index),
            (Phase::Ended, _) => {}
        }
    }

    fn on_path(&mut self, event: PathEvent) {
        let (device, port) = match event {
            PathEvent::PortUp { .. } => return,
            PathEvent::PortDown { device, port } => (device, Some(port)),
            PathEvent::DeviceRemoved { device } => (device, None),
        };
        for index in 0..self.groups.capacity() {
            let hit = self
                .groups
                .at(index)
                .and_then(|g| self.links.at(g.link))
                .is_some_and(|l| l.path.device == device && port.is_none_or(|p| l.path.port == p));
            if hit {
                self.step();
                self.end_group(
                    index,
                    CloseReason::LinksLost,
                    Some(DiagnosisCode::LINK_READY),
                );
            }
        }
    }

    fn on_timeout(&mut self) {
        let now = self.now();
        let due = |first: Option<(Instant, u32)>| {
            first
                .filter(|(deadline, _)| *deadline <= now)
                .map(|(_, owner)| owner)
        };
        // Each round moves the first deadline of a table or clears it.
        while let Some(index) = due(self.links.earliest()) {
            self.step();
            self.on_link_timeout(index);
        }
        while let Some(index) = due(self.groups.earliest()) {
            self.step();
            self.on_group_timeout(index);
        }
        while let Some(index) = due(self.buffers.earliest()) {
            self.step();
            self.on_buffer_timeout(index);
        }
        while let Some(index) = due(self.handshakes.earliest()) {
            self.step();
            self.on_handshake_timeout(index);
            self.run_wakes();
        }
        while let Some(index) = due(self.connections.earliest()) {
            self.step();
            self.connections.set_deadline(index, None);
            if self
                .connections
                .at(index)
                .is_some_and(|r| r.phase == Phase::Watching)
            {
                self.stop_watching(index);
            } else {
                self.with_connection(index, |connection, now, config| {
                    connection.on_timeout(now, &config.connection);
                });
            }
        }
    }

    #[inline]
    fn next_event(&mut self) -> Option<Event> {
        while let Some(index) = self.core.connection_events.first() {
            let conn = self.conn_id(index);
            let record = self.connections.at_mut(index)?;
            let pending = record.notices;
            let Some(next) = pending.first() else {
                self.core
                    .connection_events
                    .remove(&mut self.connections, index);
                self.release(index);
                continue;
            };
            record.notices.remove(next);
            let (group, first_contact, end) = (record.group, record.first_contact, record.end);
            if record.notices.is_empty() {
                self.core
                    .connection_events
                    .remove(&mut self.connections, index);
                self.release(index);
            }
            return Some(match next {
                Pending::PROPOSED => Event::Proposed { conn },
                Pending::ESTABLISHED => Event::Established {
                    conn,
                    group: self.group_id(group),
                    first_contact,
                },
                Pending::URGENT => Event::Urgent { conn },
                Pending::READABLE => Event::Readable { conn },
                Pending::WRITABLE => Event::Writable { conn },
                _ => match end {
                    Some(End::FellBack(why)) => Event::FellBack { conn, why },
                    Some(End::Closed(reason)) => Event::Closed { conn, reason },
                    None => continue,
                },
            });
        }
        let index = self.core.group_events.first()?;
        let group = self.group_id(index);
        let g = self.groups.at_mut(index)?;
        let up = g.notices.contains(GroupNotices::UP);
        g.notices.remove(if up {
            GroupNotices::UP
        } else {
            GroupNotices::DOWN
        });
        if g.notices.is_empty() {
            self.core.group_events.remove(&mut self.groups, index);
        }
        if up {
            return Some(Event::GroupUp { group });
        }
        self.groups.remove(index);
        Some(Event::GroupDown { group })
    }
}

/// One connection, for reading, writing and closing.
pub struct ConnMut<'a> {
    engine: Engine<'a>,
    index: u32,
}

impl ConnMut<'_> {
    /// Where the next octets to send can be put: free space of the send buffer.
    #[inline]
    #[must_use]
    pub fn send_space(&self) -> Option<BufferSpans> {
        let record = self.engine.connections.at(self.index)?;
        let spans = record.connection.as_ref()?.send_space();
        Some(BufferSpans {
            buffer: self.engine.buffer_id(record.send_buffer),
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
        self.engine.begin(now);
        self.engine
            .with_connection(self.index, |c, now, config| {
                c.commit(now, &config.connection, len)
            })
            .unwrap_or(Err(ApiMisuse::SendClosed))
    }

    /// The same; the last of these octets is urgent (URG-001).
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    pub fn commit_urgent(&mut self, now: Instant, len: u32) -> Result<(), ApiMisuse> {
        self.engine.begin(now);
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
        let record = self.engine.connections.at(self.index)?;
        let spans = record.connection.as_ref()?.readable();
        let base = self
            .engine
            .groups
            .at(record.group)
            .map_or(0, |g| g.ring_base);
        Some(BufferSpans {
            buffer: self.engine.buffer_id(record.rmb.buffer),
            segments: segments(spans, record.rmb.offset),
            eye_catcher_at: (base != 0).then_some(record.rmb.offset),
        })
    }

    /// Frees the first `len` readable octets, which were copied out.
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was freed.
    #[inline]
    pub fn consume(&mut self, now: Instant, len: u32) -> Result<(), ApiMisuse> {
        self.engine.begin(now);
        self.engine
            .with_connection(self.index, |c, _, _| c.consume(len))
            .unwrap_or(Err(ApiMisuse::Closed))
    }

    /// Whether the peer sends no more and everything was read.
    #[must_use]
    pub fn is_end_of_stream(&self) -> bool {
        self.engine
            .connections
            .at(self.index)
            .and_then(|record| record.connection.as_ref())
            .is_some_and(crate::connection::Connection::is_end_of_stream)
    }

    /// The urgent octet that was not read yet: how many octets stand before it,
    /// and where it is.
    #[must_use]
    pub fn urgent(&self) -> Option<(u32, BufferSpans)> {
        let record = self.engine.connections.at(self.index)?;
        let urgent = record.connection.as_ref()?.urgent()?;
        let octet = Segment {
            offset: record.rmb.offset.wrapping_add(urgent.offset),
            length: 1,
        };
        Some((
            urgent.ahead,
            BufferSpans {
                buffer: self.engine.buffer_id(record.rmb.buffer),
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
        self.engine.begin(now);
        self.engine
            .with_connection(self.index, |c, _, _| c.take_urgent().map(|_| ()))
            .unwrap_or(Err(ApiMisuse::NoUrgent))
    }

    /// Changes how urgent octets are read; see [`ConnOptions::urgent_inline`].
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

    /// Ends one direction, or both in order.
    pub fn shutdown(&mut self, now: Instant, how: Shutdown) {
        self.engine.begin(now);
        self.end_rendezvous_or(|c, now, config| c.shutdown(now, &config.connection, how));
    }

    /// Ends the connection at once.
    pub fn abort(&mut self, now: Instant) {
        self.engine.begin(now);
        self.end_rendezvous_or(|c, now, config| c.abort(now, &config.connection));
    }

    fn end_rendezvous_or(
        &mut self,
        change: impl FnOnce(&mut crate::connection::Connection, Instant, &Config),
    ) {
        let phase = self
            .engine
            .connections
            .at(self.index)
            .map(|record| record.phase);
        if let Some(Phase::Rendezvous(_)) = phase {
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
