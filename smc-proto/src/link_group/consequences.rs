//! Follow-up work of each change of a connection: its link is scheduled, the application
//! notified, and the connection freed when it has ended.

use crate::command::TcpCommand;
use crate::config::Config;
use crate::connection::{Connection, Notices};
use crate::connection_record::{End, Pending, Phase};
use crate::data_path::Deferred;
use crate::event::CloseReason;
use crate::id::ConnIdx;
use crate::link_group::Groups;
use crate::time::Instant;
use crate::trace::TraceEvent;

impl Groups<'_> {
    /// Runs `change` on a connection's protocol state, and does what follows from it. `None` if the
    /// connection has no protocol state, or none any more.
    pub(crate) fn with_connection<R>(
        &mut self,
        index: ConnIdx,
        change: impl FnOnce(&mut Connection, Instant, &Config) -> R,
    ) -> Option<R> {
        let now = self.data.core.now;
        let connection = self.data.connections.at_mut(index)?.connection.as_mut()?;
        let before = self.data.tap.marks_before(connection);
        let result = change(connection, now, &self.data.core.config);
        self.data.trace_conn_changes(index, before);
        self.follow_up(index);
        Some(result)
    }

    /// Notes that a connection is to end when it is given back, if it is lent: its path to the peer
    /// was lost.
    #[cfg(feature = "smc-d")]
    pub(crate) fn lose_if_lent(&mut self, index: ConnIdx) {
        if let Some(record) = self.data.connections.at_mut(index) {
            record.lose_if_lent();
        }
    }

    /// Does what follows from a change of a connection's state: schedules its link, notifies the
    /// application, frees the connection if it has ended.
    pub(crate) fn follow_up(&mut self, index: ConnIdx) {
        let deferred = self.data.follow_up(index);
        self.execute(deferred);
    }

    /// Executes follow-up work of the data path about a connection.
    pub(crate) fn execute(&mut self, deferred: Deferred) {
        match deferred {
            Deferred::Notices(index) => {
                let notices = self
                    .data
                    .connections
                    .at_mut(index)
                    .and_then(|record| record.connection.as_mut())
                    .map_or(Notices::empty(), Connection::take_notices);
                self.on_notices(index, notices);
                // The last message in flight may have completed.
                self.release(index);
            }
            Deferred::Release(index) => self.release(index),
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
        // The end is reported once the peer has ended the connection, too. That reads fail is
        // reported now.
        //= ABORT-004
        if notices.contains(Notices::RESET) && self.is_still_used(index) {
            pending |= Pending::READABLE;
            pending.set(Pending::RESET, self.keeps_received(index));
        }
        //= URG-008
        if notices.intersects(Notices::URGENT | Notices::URGENT_PENDING) {
            pending |= Pending::URGENT;
        }
        if !pending.is_empty() {
            self.data.notify(index, pending);
        }
        //= CLOSE-033
        if notices.contains(Notices::TCP_CLOSE) {
            self.data.command_tcp(index, TcpCommand::Close);
        }
        if notices.contains(Notices::TCP_RESET) {
            self.data.command_tcp(index, TcpCommand::Reset);
        }
        if notices.contains(Notices::CLOSED) {
            self.on_closed(index);
        }
    }

    /// Whether the application still uses a connection: it has not closed or aborted it.
    fn is_still_used(&self, index: ConnIdx) -> bool {
        let record = self.conn(index);
        record
            .and_then(|record| record.connection.as_ref())
            .is_some_and(|connection| !connection.is_given_up())
    }

    /// Whether a connection was reset, and what the peer had sent before is still there.
    pub(crate) fn keeps_received(&self, index: ConnIdx) -> bool {
        let record = self.conn(index);
        record
            .and_then(|record| record.connection.as_ref())
            .is_some_and(Connection::keeps_received)
    }

    /// Ends a connection that has reached CLOSED. CDC messages no longer find it; its slot is
    /// freed once nothing is in flight and its last event was polled.
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
        // No call that these events invite to is possible any more.
        record
            .notices
            .remove(Pending::READABLE | Pending::WRITABLE | Pending::URGENT | Pending::RESET);
        self.data.core.statistics.closed(reason);
        self.trace_conn(index, || TraceEvent::ConnClosed { reason });
        self.data.report(index, Pending::END);
        self.release(index);
    }

    /// Frees what an ended connection holds, unless something is in flight: its membership of the
    /// group, and its slot once all its events were polled.
    pub(crate) fn release(&mut self, index: ConnIdx) {
        let Some(record) = self.conn(index) else {
            return;
        };
        if !matches!(record.phase, Phase::Ended | Phase::Watching) {
            return;
        }
        let busy = record.connection.as_ref().is_some_and(|connection| {
            connection.outstanding_notifies() > 0 || connection.wants_work()
        });
        if busy {
            return;
        }
        let all_polled = record.notices.is_empty() && record.tcp.is_none();
        let ended = record.phase == Phase::Ended;
        if record.group.is_some() {
            self.leave_group(index);
        }
        if ended && all_polled {
            self.trace_conn(index, || TraceEvent::ConnFreed);
            self.data.connections.remove(index);
        }
    }
}
