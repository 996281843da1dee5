//! The data path of one connection as an object of its own, which one thread uses while others
//! use the endpoint.
//!
//! ```text
//!   Endpoint ── lend ──────► LentConnection ── read, write ──► memory of both sides
//!            ◄─ take_back ──       ▲                   signal ──► the peer
//!                                  └── handle_signal ◄── head of the own DMB
//! ```
//!
//! Only a connection of SMC-D is lent of which nothing but bytes can be expected: it is
//! ACTIVE, its bytes lie in the memory of the peer, no deadline runs and nothing waits to be
//! polled. As soon as anything else follows, the connection is given back.

use core::fmt;

use super::Endpoint;
use crate::command::{BufferSpans, Signal};
use crate::config::ConnectionConfig;
use crate::connection::{ApiMisuse, Connection, FatalCause};
use crate::connection_record::{ConnectionRecord, Element, Lending, Phase};
use crate::data_path::Deferred;
use crate::id::{BufferId, ConnId};
use crate::link_group::owner_of;
use crate::stats::{DataCounts, Statistics, count};
use crate::storage::{Storage, for_call};
use crate::time::Instant;
use crate::trace::{MarksBefore, TraceEvent};
use crate::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, Endianness};

/// The data path of a connection that an endpoint has lent.
///
/// The endpoint does nothing for the connection before [`Endpoint::take_back`] has it again:
/// reads and writes by its handle fail, and a signal of its DMB has no effect. Its last
/// values are lost if it is dropped, and the connection with them.
pub struct LentConnection {
    connection: Connection,
    conn: ConnId,
    receive: Element,
    eye_catcher: bool,
    send_buffer: BufferId,
    now: Instant,
    config: ConnectionConfig,
    counts: DataCounts,
    /// How far it was when it was lent, for the events of what happened since.
    before: MarksBefore,
}

impl LentConnection {
    /// The handle of the connection.
    #[must_use]
    pub const fn conn(&self) -> ConnId {
        self.conn
    }

    /// The DMB in which the connection receives.
    #[must_use]
    pub const fn receive_buffer(&self) -> BufferId {
        self.receive.id()
    }

    /// The send buffer, which is the DMB of the peer.
    #[must_use]
    pub const fn send_buffer(&self) -> BufferId {
        self.send_buffer
    }

    /// Whether there are bytes to be read.
    #[inline]
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.connection.readable_bytes() > 0
    }

    /// Whether everything is done that follows from the calls so far. If not, give the
    /// connection back: the endpoint does the rest.
    #[inline]
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.connection.has_follow_up()
    }

    /// Frees as many bytes as `take` says to have copied out of the DMB: none, if there is
    /// nothing to read. `signal` has to execute what advertises the free space to the peer, if it is
    /// to know. Both are given `peer`.
    ///
    /// # Errors
    /// [`ApiMisuse::BeyondReadable`]: nothing was freed.
    #[inline(always)]
    pub fn read<T>(
        &mut self,
        peer: &mut T,
        take: impl FnOnce(&mut T, &BufferSpans) -> u32,
        signal: impl FnOnce(&mut T, &Signal),
    ) -> Result<u32, ApiMisuse> {
        let (receive, eye_catcher) = (self.receive, self.eye_catcher);
        let bytes = self.connection.read(
            #[inline(always)]
            |bytes| take(peer, &receive.spans(bytes, eye_catcher)),
        )?;
        if self.connection.has_work_of_reading() {
            self.signal(peer, signal);
        }
        Ok(bytes)
    }

    /// Sends as many bytes as `fill` says to have put into free space of the send buffer: none,
    /// if there is no space. `signal` has to execute what notifies the peer of them. Both are given
    /// `peer`.
    ///
    /// # Errors
    /// [`ApiMisuse::BeyondSpace`]: nothing was sent.
    #[inline(always)]
    pub fn write<T>(
        &mut self,
        peer: &mut T,
        fill: impl FnOnce(&mut T, &BufferSpans) -> u32,
        signal: impl FnOnce(&mut T, &Signal),
    ) -> Result<u32, ApiMisuse> {
        let buffer = self.send_buffer;
        let written = self.connection.write(
            self.now,
            &self.config,
            #[inline(always)]
            |space| fill(peer, &BufferSpans::of_send_buffer(buffer, space)),
        )?;
        if written > 0 {
            self.signal(peer, signal);
        }
        Ok(written)
    }

    /// Takes in the message at the head of the DMB: whether there are more bytes to be read
    /// than before. `None` if the message says more than that cursors moved, or more follows
    /// from it than a lent connection can do: then the connection is to be given back, and the
    /// message is to be handled as [`IsmCompletion::Signalled`].
    ///
    /// [`IsmCompletion::Signalled`]: crate::completion::IsmCompletion::Signalled
    //= D-043
    #[inline]
    #[must_use]
    pub fn handle_signal(&mut self, head: &[u8; CDC_ISM_LENGTH]) -> Option<bool> {
        let cdc = CdcIsm::parse(head, Endianness::NATIVE).ok()?;
        let (now, config) = (self.now, &self.config);
        let readable = self.connection.on_fast_cdc_ism(now, config, &cdc)?;
        if !self.connection.has_follow_up() {
            count(&mut self.counts.cdc_received);
            return Some(readable);
        }
        if readable {
            self.connection.note_readable();
        }
        None
    }

    #[inline(always)]
    fn signal<T>(&mut self, peer: &mut T, signal: impl FnOnce(&mut T, &Signal)) {
        let (conn, buffer) = (self.conn, self.send_buffer);
        let sent = self.connection.next_in_place(
            self.now,
            &self.config,
            #[inline(always)]
            |cdc| {
                let cdc = CdcIsm::from(cdc);
                signal(peer, &Signal { conn, buffer, cdc });
            },
        );
        if let Some((sent, pieces)) = sent {
            self.counts.sent(sent, pieces);
        }
    }
}

impl fmt::Debug for LentConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentConnection")
            .field("conn", &self.conn)
            .finish_non_exhaustive()
    }
}

impl<S: Storage> Endpoint<S> {
    /// Whether [`Self::lend`] would lend this connection.
    #[must_use]
    pub fn can_lend(&mut self, conn: ConnId) -> bool {
        let tables = self.storage.tables();
        let record = tables.connections.live(conn.index, conn.generation);
        record.is_some_and(ConnectionRecord::can_be_lent)
    }

    /// Lends the data path of a connection of SMC-D, until [`Self::take_back`]. `None` if the
    /// handle is stale, the connection is lent already, or anything else than bytes is to be
    /// expected of it now.
    #[must_use]
    pub fn lend(&mut self, now: Instant, conn: ConnId) -> Option<LentConnection> {
        let (mut tables, mut tap) = for_call(&mut self.storage);
        let record = tables
            .connections
            .live_mut(conn.index, conn.generation)
            .filter(|record| record.can_be_lent())?;
        let connection = record.connection.take()?;
        record.lending = Lending::Lent;
        let before = tap.marks_before(&connection);
        tap.note(now, || (conn.into(), TraceEvent::Lent));
        Some(LentConnection {
            eye_catcher: self.core.has_eye_catcher(connection.receive_ring()),
            connection,
            conn,
            receive: record.rmb,
            send_buffer: record.send_buffer_id(),
            now,
            config: self.core.config.connection,
            counts: DataCounts::default(),
            before,
        })
    }

    /// Takes back what [`Self::lend`] lent; what follows from its use is polled as ever. Whether
    /// the path to the peer was lost meanwhile: then the caller saves what can still be read, and
    /// calls [`Self::end_lost`].
    #[must_use]
    pub fn take_back(&mut self, now: Instant, lent: LentConnection) -> bool {
        self.core.begin(now);
        let mut engine = self.unchanged_engine();
        engine.groups.data.core.statistics.add(&lent.counts);
        let ConnId { index, generation } = lent.conn;
        let record = engine.groups.data.connections.live_mut(index, generation);
        let Some(record) = record.filter(|record| record.lending != Lending::No) else {
            return false;
        };
        let before = core::mem::replace(&mut record.lending, Lending::No);
        record.connection = Some(lent.connection);
        engine
            .groups
            .data
            .trace_conn(index, || TraceEvent::Returned {
                sent: u32::try_from(lent.counts.cdc_sent).unwrap_or(u32::MAX),
                received: u32::try_from(lent.counts.cdc_received).unwrap_or(u32::MAX),
            });
        engine.groups.data.trace_conn_changes(index, lent.before);
        let deferred = engine.groups.data.follow_up(index);
        if deferred != Deferred::Nothing {
            engine.groups.execute(deferred);
        }
        before == Lending::Lost
    }

    /// Ends a connection whose path to the peer was lost while it was lent.
    pub fn end_lost(&mut self, now: Instant, conn: ConnId) {
        let mut engine = self.engine(now);
        if let Some(index) = engine.live_conn(conn) {
            engine
                .groups
                .with_connection(index, |connection, now, config| {
                    connection.on_fatal(now, &config.connection, FatalCause::LinkLost);
                });
            engine.groups.release(index);
        }
        engine.run_wakes();
    }

    /// The connection that receives in a DMB of this side.
    #[must_use]
    pub fn receiver(&mut self, buffer: BufferId) -> Option<ConnId> {
        let engine = self.unchanged_engine();
        let index = owner_of(
            &engine.groups.buffers,
            &engine.groups.data.connections,
            buffer,
        )?;
        Some(engine.groups.data.conn_id(index))
    }

    /// The connection that writes to the DMB of a peer that this buffer is attached to.
    #[must_use]
    pub fn sender(&mut self, buffer: BufferId) -> Option<ConnId> {
        let mut engine = self.unchanged_engine();
        let (buffer, group) = engine.groups.attached(buffer)?;
        let index = engine.groups.sender_in(group, buffer)?;
        Some(engine.groups.data.conn_id(index))
    }
}

impl ConnectionRecord {
    /// Whether nothing but bytes is to be expected of the connection.
    fn can_be_lent(&self) -> bool {
        let idle = self.phase == Phase::Active
            && self.group.is_some()
            && self.notices.is_empty()
            && self.tcp.is_none()
            && !self.is_listed();
        idle && self
            .connection
            .as_ref()
            .is_some_and(Connection::is_about_bytes_in_place)
    }

    /// Notes that the path of a connection was lost, if the connection is lent.
    pub(crate) const fn lose_if_lent(&mut self) {
        if matches!(self.lending, Lending::Lent) {
            self.lending = Lending::Lost;
        }
    }
}

impl Statistics {
    /// Adds what a lent connection has counted.
    const fn add(&mut self, counts: &DataCounts) {
        self.cdc_sent = self.cdc_sent.wrapping_add(counts.cdc_sent);
        self.cdc_received = self.cdc_received.wrapping_add(counts.cdc_received);
        self.window_stalls = self.window_stalls.wrapping_add(counts.window_stalls);
        self.writes = self.writes.wrapping_add(counts.writes);
        self.bytes_written = self.bytes_written.wrapping_add(counts.bytes_written);
    }
}
