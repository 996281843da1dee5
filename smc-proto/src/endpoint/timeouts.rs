//! Deadlines that passed, table by table.

use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::time::Instant;

impl Engine<'_> {
    pub(super) fn on_timeout(&mut self) {
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
                self.give_up_watching(index);
            } else {
                self.with_connection(index, |connection, now, config| {
                    connection.on_timeout(now, &config.connection);
                });
            }
        }
    }
}
