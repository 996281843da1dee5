//! Deadlines that passed, table by table.

use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::id::Idx;
use crate::trace::{Subject, TimerKind, TraceEvent};

impl Engine<'_> {
    pub(super) fn on_timeout(&mut self) {
        let now = self.now();
        // Each round moves the first deadline of a table or clears it.
        while let Some(link) = self.groups.data.links.due(now) {
            self.step();
            self.fired(TimerKind::Link, self.groups.data.link_id(link));
            self.groups.on_link_timeout(link);
        }
        while let Some(group) = self.groups.data.groups.due(now) {
            self.step();
            self.fired(TimerKind::Group, self.groups.group_id(group));
            self.groups.on_group_timeout(group);
        }
        while let Some(buffer) = self.groups.buffers.due(now) {
            self.step();
            self.fired(TimerKind::Buffer, self.groups.buffer_id(buffer));
            self.groups.on_buffer_timeout(buffer);
        }
        while let Some(handshake) = self.handshakes.due(now) {
            self.step();
            let conn = self.handshakes.at(handshake).map_or(Idx::NONE, |h| h.conn);
            self.fired(TimerKind::Rendezvous, self.groups.data.conn_id(conn));
            self.on_handshake_timeout(handshake);
            self.run_wakes();
        }
        while let Some(conn) = self.groups.data.connections.due(now) {
            self.step();
            self.fired(TimerKind::Connection, self.groups.data.conn_id(conn));
            self.groups.data.connections.set_deadline(conn, None);
            if self.conn(conn).is_some_and(|r| r.phase == Phase::Watching) {
                self.give_up_watching(conn);
            } else {
                self.groups
                    .with_connection(conn, |connection, now, config| {
                        connection.on_timeout(now, &config.connection);
                    });
            }
        }
    }

    /// The event of a deadline that passed.
    #[inline(always)]
    fn fired(&mut self, timer: TimerKind, subject: impl Into<Subject>) {
        self.groups
            .data
            .trace(|| (subject.into(), TraceEvent::TimerFired { timer }));
    }
}
