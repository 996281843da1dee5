//! Where the engine makes its events: each of these does nothing while no one observes.

use super::marks::MarksBefore;
use super::{Flags, LinkStep, Subject, Tap, TraceEvent};
use crate::connection::CdcOutcome;
use crate::connection_record::ConnectionRecord;
use crate::data_path::DataPath;
use crate::engine::Engine;
use crate::id::{BufferIdx, ConnId, ConnIdx, GroupIdx, LinkIdx};
use crate::link_group::{Groups, LinkState, QpState};
use crate::slots::Pool;
use crate::time::Instant;
use crate::wire::cdc::Cdc;

impl DataPath<'_> {
    /// An event of the endpoint itself, or of an object whose handle is known.
    #[inline(always)]
    pub(crate) fn trace(&mut self, event: impl FnOnce() -> (Subject, TraceEvent)) {
        self.tap.note(self.core.now, event);
    }

    /// An event of a connection.
    #[inline(always)]
    pub(crate) fn trace_conn(&mut self, conn: ConnIdx, event: impl FnOnce() -> TraceEvent) {
        if self.tap.is_on() {
            let id = self.conn_id(conn);
            self.tap.emit(self.core.now, id.into(), event());
        }
    }

    /// An event of a link.
    #[inline(always)]
    pub(crate) fn trace_link(&mut self, link: LinkIdx, event: impl FnOnce() -> TraceEvent) {
        if self.tap.is_on() {
            let id = self.link_id(link);
            self.tap.emit(self.core.now, id.into(), event());
        }
    }

    /// Emits an event for each mark of a connection that has changed since `before`.
    #[inline(always)]
    pub(crate) fn trace_conn_changes(&mut self, conn: ConnIdx, before: MarksBefore) {
        if self.tap.is_on() {
            compare(
                &mut self.tap,
                self.core.now,
                &self.connections,
                conn,
                before,
            );
        }
    }

    /// Emits the events of a transmit: changes of the connection, then the CDC message.
    #[inline(always)]
    pub(crate) fn trace_sent(&mut self, conn: ConnIdx, before: MarksBefore, cdc: &Cdc) {
        if self.tap.is_on() {
            self.trace_conn_changes(conn, before);
            self.trace_conn(conn, || sent(cdc));
        }
    }

    /// Emits the events of a received message: the message if it is a CDC message, its outcome, then
    /// changes of the connection.
    #[inline(always)]
    pub(crate) fn trace_received(
        &mut self,
        conn: ConnIdx,
        before: MarksBefore,
        cdc: Option<Cdc>,
        outcome: CdcOutcome,
    ) {
        if self.tap.is_on() {
            if let Some(cdc) = cdc {
                self.trace_conn(conn, || received(&cdc));
            }
            if let Some(event) = judged(outcome) {
                self.trace_conn(conn, || event);
            }
            self.trace_conn_changes(conn, before);
        }
    }
}

#[cold]
#[inline(never)]
fn compare(
    tap: &mut Tap<'_>,
    at: Instant,
    connections: &Pool<'_, ConnectionRecord>,
    index: ConnIdx,
    before: MarksBefore,
) {
    let connection = connections
        .at(index)
        .and_then(|record| record.connection.as_ref());
    if let (Some(before), Some(now)) = (before.marks(), connection.map(MarksBefore::of)) {
        let generation = connections.generation(index);
        let subject = ConnId { index, generation }.into();
        if let Some(now) = now.marks() {
            before.compare(tap, at, subject, &now);
        }
    }
}

#[cold]
fn sent(cdc: &Cdc) -> TraceEvent {
    TraceEvent::CdcSent {
        sequence: cdc.sequence,
        producer: cdc.producer.count,
        consumer: cdc.consumer.count,
        producer_flags: Flags(cdc.producer_flags.bits()),
        connection_flags: Flags(cdc.connection_flags.bits()),
    }
}

#[cold]
fn received(cdc: &Cdc) -> TraceEvent {
    TraceEvent::CdcReceived {
        sequence: cdc.sequence,
        producer: cdc.producer.count,
        consumer: cdc.consumer.count,
        producer_flags: Flags(cdc.producer_flags.bits()),
        connection_flags: Flags(cdc.connection_flags.bits()),
    }
}

/// What a message was found to be, unless it was applied as it is.
const fn judged(outcome: CdcOutcome) -> Option<TraceEvent> {
    Some(match outcome {
        CdcOutcome::Applied => return None,
        CdcOutcome::Stale => TraceEvent::CdcStale,
        CdcOutcome::BackwardCursor => TraceEvent::CdcBackward,
        CdcOutcome::Ignored(state) => TraceEvent::CdcIgnored { state },
        CdcOutcome::Validated => TraceEvent::CdcValidated,
        CdcOutcome::DataLost => TraceEvent::CdcDataLost,
        CdcOutcome::Misbehaved(fault) => TraceEvent::CdcViolation { fault },
    })
}

impl Groups<'_> {
    /// An event of a connection.
    #[inline(always)]
    pub(crate) fn trace_conn(&mut self, conn: ConnIdx, event: impl FnOnce() -> TraceEvent) {
        self.data.trace_conn(conn, event);
    }

    /// An event of a link.
    #[inline(always)]
    pub(crate) fn trace_link(&mut self, link: LinkIdx, event: impl FnOnce() -> TraceEvent) {
        self.data.trace_link(link, event);
    }

    /// An event of a link group.
    #[inline(always)]
    pub(crate) fn trace_group(&mut self, group: GroupIdx, event: impl FnOnce() -> TraceEvent) {
        if self.data.tap.is_on() {
            let id = self.group_id(group);
            self.data.tap.emit(self.now(), id.into(), event());
        }
    }

    /// An event of a buffer.
    #[inline(always)]
    pub(crate) fn trace_buffer(&mut self, buffer: BufferIdx, event: impl FnOnce() -> TraceEvent) {
        if self.data.tap.is_on() {
            let id = self.buffer_id(buffer);
            self.data.tap.emit(self.now(), id.into(), event());
        }
    }
}

impl Engine<'_> {
    /// An event of a connection.
    #[inline(always)]
    pub(crate) fn trace_conn(&mut self, conn: ConnIdx, event: impl FnOnce() -> TraceEvent) {
        self.groups.data.trace_conn(conn, event);
    }
}

/// State of a link before a change, or nothing while no one observes.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct LinkBefore(Option<(LinkState, QpState)>);

impl DataPath<'_> {
    /// States of a link before a change, for [`Self::trace_link_changes`].
    #[inline(always)]
    pub(crate) fn link_before(&self, link: LinkIdx) -> LinkBefore {
        if !self.tap.is_on() {
            return LinkBefore(None);
        }
        LinkBefore(self.links.at(link).map(|l| (l.link_state, l.state)))
    }

    /// Emits an event for each state of a link that has changed since `before`.
    #[inline(always)]
    pub(crate) fn trace_link_changes(&mut self, link: LinkIdx, before: LinkBefore) {
        if self.tap.is_on() {
            self.changed_link(link, before);
        }
    }

    #[cold]
    #[inline(never)]
    fn changed_link(&mut self, link: LinkIdx, LinkBefore(before): LinkBefore) {
        let now = self.links.at(link).map(|l| (l.link_state, l.state));
        let (Some((state, qp)), Some((new_state, new_qp))) = (before, now) else {
            return;
        };
        if qp != new_qp {
            let (old, new) = (qp.into(), new_qp.into());
            self.trace_link(link, || TraceEvent::QpMoved { old, new });
        }
        let (old, new) = (LinkStep::from(state), LinkStep::from(new_state));
        if old != new {
            let removal = new_state.removal();
            self.trace_link(link, || TraceEvent::LinkMoved {
                old,
                new,
                reason: removal.map(|removal| removal.reason),
                failed: removal.is_some_and(|removal| !removal.graceful),
            });
        }
    }
}
