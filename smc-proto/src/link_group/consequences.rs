//! What follows from each change of a connection: work for its link, events, its end.

use crate::command::TcpCommand;
use crate::config::Config;
use crate::connection::{Connection, Notices};
use crate::connection_record::{End, Pending, Phase};
use crate::data_path::Deferred;
use crate::event::CloseReason;
use crate::id::ConnIdx;
use crate::link_group::Groups;
use crate::planted::PlantedBug;
use crate::time::Instant;
use crate::trace::TraceEvent;

impl Groups<'_> {
    /// Runs `change` on a connection's protocol state, then draws the consequences.
    pub(crate) fn with_connection<R>(
        &mut self,
        index: ConnIdx,
        change: impl FnOnce(&mut Connection, Instant, &Config) -> R,
    ) -> Option<R> {
        let now = self.data.core.now;
        let connection = self.data.connections.at_mut(index)?.connection.as_mut()?;
        let seen = self.data.tap.look(connection);
        let result = change(connection, now, &self.data.core.config);
        self.data.compare(index, seen);
        self.after_connection(index);
        Some(result)
    }

    /// Notes that what a connection needs was lost, if the connection is lent: it ends when it is
    /// given back.
    pub(crate) fn lose_if_lent(&mut self, index: ConnIdx) {
        if let Some(record) = self.data.connections.at_mut(index) {
            record.lose_if_lent();
        }
    }

    /// Draws the consequences of a change: work for the link, events, the end.
    pub(crate) fn after_connection(&mut self, index: ConnIdx) {
        let rest = self.data.after_connection(index);
        self.execute(rest);
    }

    /// Does what the data path left.
    pub(crate) fn execute(&mut self, rest: Deferred) {
        match rest {
            Deferred::Connection(index) => {
                let notices = self
                    .data
                    .connections
                    .at_mut(index)
                    .and_then(|record| record.connection.as_mut())
                    .map_or(Notices::empty(), Connection::take_notices);
                self.on_notices(index, notices);
                // What was in flight may have been the last.
                self.release(index);
            }
            Deferred::Idle(index) => self.release(index),
            _ => {}
        }
    }

    fn on_notices(&mut self, index: ConnIdx, notices: Notices) {
        let mut pending = Pending::empty();
        if notices.intersects(Notices::READABLE | Notices::END_OF_STREAM) {
            pending |= Pending::READABLE;
        }
        if notices.contains(Notices::WRITABLE) {
            pending |= Pending::WRITABLE;
        }
        // That it is over is reported when the peer is through with it as well; that reads
        // fail, now.
        //= ABORT-004
        if notices.contains(Notices::RESET) && self.is_still_used(index) {
            pending |= Pending::READABLE;
        }
        //= URG-008
        if notices.intersects(Notices::URGENT | Notices::URGENT_PENDING) {
            pending |= Pending::URGENT;
        }
        if !pending.is_empty() {
            self.data.notify(index, pending);
        }
        if notices.contains(Notices::TCP_RESET) {
            self.data.command_tcp(index, TcpCommand::Reset);
        }
        //= CLOSE-033
        if notices.contains(Notices::TCP_CLOSE) {
            self.data.command_tcp(index, TcpCommand::Close);
        }
        if notices.contains(Notices::CLOSED) {
            self.on_closed(index);
        }
    }

    /// Whether the application has not ended a connection itself.
    fn is_still_used(&self, index: ConnIdx) -> bool {
        let record = self.conn(index);
        record
            .and_then(|record| record.connection.as_ref())
            .is_some_and(|connection| !connection.is_given_up())
    }

    /// The connection reached CLOSED: its token is void, its slot waits for work
    /// in flight and for events to be polled.
    //= CLOSE-027
    fn on_closed(&mut self, index: ConnIdx) {
        let Some(record) = self.data.connections.at_mut(index) else {
            return;
        };
        if record.phase == Phase::Ended {
            return;
        }
        let reason = record
            .connection
            .as_ref()
            .and_then(Connection::cause)
            .map_or(CloseReason::Normal, CloseReason::from);
        record.phase = Phase::Ended;
        record.end = Some(End::Closed(reason));
        // Of what could be done before, nothing can be any more.
        record
            .notices
            .remove(Pending::READABLE | Pending::WRITABLE | Pending::URGENT);
        self.data.core.statistics.closed(reason);
        self.trace_conn(index, || TraceEvent::ConnClosed { reason });
        self.data.report(index, Pending::END);
        self.release(index);
    }

    /// Frees what an ended connection holds, as far as nothing is in flight.
    pub(crate) fn release(&mut self, index: ConnIdx) {
        let Some(record) = self.conn(index) else {
            return;
        };
        let early = self.data.core.planted(PlantedBug::ReuseEarly)
            && record
                .connection
                .as_ref()
                .is_some_and(Connection::has_sent_last);
        if !matches!(record.phase, Phase::Ended | Phase::Watching) && !early {
            return;
        }
        let busy = record.connection.as_ref().is_some_and(|connection| {
            connection.outstanding_notifies() > 0 || connection.wants_work()
        });
        if busy {
            return;
        }
        let sent = record.notices.is_empty() && record.tcp.is_none();
        let ended = record.phase == Phase::Ended;
        if record.group.is_some() {
            self.leave_group(index);
        }
        if ended && (sent || self.data.core.planted(PlantedBug::FreeListedSlot)) {
            self.trace_conn(index, || TraceEvent::ConnFreed);
            self.data.connections.remove(index);
        }
    }
}
