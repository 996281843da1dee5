//! Writing and reading by the application.

use super::{DataPath, ReadOutcome};
use crate::command::BufferSpans;
use crate::connection::ApiMisuse;
use crate::connection_record::ConnectionRecord;
use crate::id::{ConnIdx, LinkIdx};
use crate::slots::Pool;
use crate::time::Instant;

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
            self.queue_to_transmit(link, index);
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
            self.queue_to_transmit(link, index);
        }
        Ok(ReadOutcome { bytes, follows })
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
