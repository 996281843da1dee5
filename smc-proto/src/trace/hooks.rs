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

    /// The events of what changed of a connection since it was looked at.
    #[inline(always)]
    pub(crate) fn compare(&mut self, conn: ConnIdx, seen: MarksBefore) {
        if self.tap.is_on() {
            compare(&mut self.tap, self.core.now, &self.connections, conn, seen);
        }
    }

    /// The message of a transmit, behind what it says of bytes.
    #[inline(always)]
    pub(crate) fn trace_sent(&mut self, conn: ConnIdx, seen: MarksBefore, cdc: &Cdc) {
        if self.tap.is_on() {
            self.compare(conn, seen);
            self.trace_conn(conn, || sent(cdc));
        }
    }

    /// A message received, if it is one, and before what followed from it.
    #[inline(always)]
    pub(crate) fn trace_received(
        &mut self,
        conn: ConnIdx,
        seen: MarksBefore,
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
            self.compare(conn, seen);
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
    seen: MarksBefore,
) {
    let connection = connections
        .at(index)
        .and_then(|record| record.connection.as_ref());
    if let (Some(before), Some(now)) = (seen.marks(), connection.map(MarksBefore::of)) {
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
pub(crate) struct SeenLink(Option<(LinkState, QpState)>);

impl DataPath<'_> {
    /// Notes the state of a link before it changes.
    #[inline(always)]
    pub(crate) fn look_at_link(&self, link: LinkIdx) -> SeenLink {
        if !self.tap.is_on() {
            return SeenLink(None);
        }
        SeenLink(self.links.at(link).map(|l| (l.link_state, l.state)))
    }

    /// The events of what changed of a link since it was looked at.
    #[inline(always)]
    pub(crate) fn compare_link(&mut self, link: LinkIdx, seen: SeenLink) {
        if self.tap.is_on() {
            self.changed_link(link, seen);
        }
    }

    #[cold]
    #[inline(never)]
    fn changed_link(&mut self, link: LinkIdx, SeenLink(seen): SeenLink) {
        let now = self.links.at(link).map(|l| (l.link_state, l.state));
        let (Some((state, qp)), Some((new_state, new_qp))) = (seen, now) else {
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
