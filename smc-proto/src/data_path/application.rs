//! Writing and reading by the application.

use super::{DataPath, Deferred, ReadOutcome};
use crate::command::{BufferSpans, Signal};
use crate::connection::ApiMisuse;
use crate::connection_record::{ConnectionRecord, Phase};
use crate::id::{ConnId, ConnIdx, LinkIdx};
use crate::slots::Pool;
use crate::time::Instant;
use crate::wire::cdc_ism::CdcIsm;

impl DataPath<'_> {
    /// Commits the bytes that `fill` puts into free space of the send buffer, and schedules the
    /// connection on its link. Returns their number.
    ///
    /// The link finds out when it is polled whether the bytes can be sent, or are held back.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        index: ConnIdx,
        fill: impl FnOnce(&BufferSpans) -> u32,
    ) -> Result<u32, ApiMisuse> {
        let Some(record) = member(&mut self.connections, index) else {
            return Err(ApiMisuse::SendClosed);
        };
        let (link, buffer) = (record.link, record.send_buffer_id());
        let Some(connection) = record.connection.as_mut() else {
            return Err(ApiMisuse::SendClosed);
        };
        let before = self.tap.marks_before(connection);
        let written = connection.write(self.core.now, &self.core.config.connection, |space| {
            fill(&BufferSpans::of_send_buffer(buffer, space))
        })?;
        let moved = connection.moved_deadline();
        self.trace_conn_changes(index, before);
        self.after_write(link, index, moved, written);
        Ok(written)
    }

    /// Does what follows from a write of `written` bytes. `moved` is the connection's deadline, if
    /// the write has changed it.
    #[inline(always)]
    pub(crate) fn after_write(
        &mut self,
        link: LinkIdx,
        index: ConnIdx,
        moved: Option<Option<Instant>>,
        written: u32,
    ) {
        if let Some(deadline) = moved {
            self.set_conn_deadline(index, deadline);
        }
        if written > 0 {
            self.queue_on_link(link, index);
        }
    }

    /// Frees the bytes that `take` has copied out of the receive ring, and schedules a CDC message
    /// if the peer is to know of the free space.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        index: ConnIdx,
        take: impl FnOnce(&BufferSpans) -> u32,
    ) -> Result<ReadOutcome, ApiMisuse> {
        let Some(record) = member(&mut self.connections, index) else {
            return Err(ApiMisuse::Closed);
        };
        let (link, element) = (record.link, record.rmb);
        let Some(connection) = record.connection.as_mut() else {
            return Err(ApiMisuse::Closed);
        };
        let eye_catcher = self.core.has_eye_catcher(connection.receive_ring());
        let before = self.tap.marks_before(connection);
        let bytes = connection.read(
            #[inline(always)]
            |bytes| take(&element.spans(bytes, eye_catcher)),
        )?;
        let follows = connection.has_work_of_reading();
        self.trace_conn_changes(index, before);
        if follows {
            self.queue_on_link(link, index);
        }
        Ok(ReadOutcome { bytes, follows })
    }

    /// Writes as [`DataPath::write`] does. If `fill` has put the bytes into the peer's DMB, and no
    /// other connection of the group waits to transmit, passes the CDC message to `signal` at once,
    /// instead of leaving it to [`DataPath::next_signal`]. Both are given `peer`.
    ///
    /// The message goes out before statistics and follow-up work, since the peer waits for it.
    //= D-045
    #[inline(always)]
    pub(crate) fn write_and_signal<T>(
        &mut self,
        index: ConnIdx,
        peer: &mut T,
        fill: impl FnOnce(&mut T, &BufferSpans) -> u32,
        signal: impl FnOnce(&mut T, &Signal),
        deferred: &mut Deferred,
    ) -> Result<u32, ApiMisuse> {
        let (core, connections, links, _) = self.parts();
        let Some((generation, record)) = connections.into_entry(index) else {
            return Err(ApiMisuse::SendClosed);
        };
        let link = record.link;
        let idle = record.phase == Phase::Active
            && links.at(link).is_some_and(|link| link.is_idle_for_data());
        let buffer = record.send_buffer_id();
        let (now, config) = (core.now, &core.config.connection);
        let has_buffers = record.group.is_some();
        let Some(connection) = record.connection.as_mut().filter(|_| has_buffers) else {
            return Err(ApiMisuse::SendClosed);
        };
        let written = connection.write(
            now,
            config,
            #[inline(always)]
            |space| fill(peer, &BufferSpans::of_send_buffer(buffer, space)),
        )?;
        if !idle || !connection.is_attached() {
            let moved = connection.moved_deadline();
            self.after_write(link, index, moved, written);
            return Ok(written);
        }
        if written == 0 {
            return Ok(0);
        }
        let conn = ConnId { index, generation };
        let sent = connection.next_in_place(
            now,
            config,
            #[inline(always)]
            |cdc| {
                let cdc = CdcIsm::from(cdc);
                signal(peer, &Signal { conn, buffer, cdc });
            },
        );
        if let Some((sent, pieces)) = sent {
            core.statistics.sent(sent, pieces);
        }
        if sent.is_none() || connection.has_follow_up() {
            *deferred = self.follow_up(index);
        }
        Ok(written)
    }
}

/// The record of a connection that is a member of a group, and so has buffers.
#[inline(always)]
fn member<'a>(
    connections: &'a mut Pool<'_, ConnectionRecord>,
    index: ConnIdx,
) -> Option<&'a mut ConnectionRecord> {
    connections
        .at_mut(index)
        .filter(|record| record.group.is_some())
}
