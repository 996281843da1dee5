//! The next command for an ISM device: answers to events first, then control commands, then data.

use super::super::open_transmit::IsmTransmit;
use crate::command::IsmCommand;
use crate::config::ConnectionConfig;
use crate::connection::{Connection, NotifyRecord};
use crate::id::{DeviceId, GroupIdx};
use crate::link_group::Groups;
use crate::time::Instant;

impl Groups<'_> {
    /// The next command for an ISM device, derived from the state of its groups and
    /// buffers; `None` if there is nothing to do.
    pub(crate) fn next_ism(&mut self, device: DeviceId) -> Option<IsmCommand> {
        if let Some(answer) = self.next_answer(device) {
            return Some(answer);
        }
        while let Some(buffer) = self.data.core.devices.ism(device)?.buffers.first() {
            if let Some(command) = self.next_dmb_command(buffer) {
                return Some(command);
            }
            self.unlist_buffer(buffer);
        }
        while let Some(group) = self.data.core.devices.ism(device)?.groups.first() {
            if let Some(command) = self.next_group_command(group) {
                return Some(command);
            }
            self.data.unlist_group(group);
        }
        None
    }

    fn next_group_command(&mut self, group: GroupIdx) -> Option<IsmCommand> {
        let g = self.data.groups.at_mut(group)?;
        if g.is_ending() {
            return self.next_farewell(group);
        }
        if g.smcd_mut()?.transmit.is_none() {
            self.open_transmit(|data, deferred| data.open_smcd_transmit(group, deferred))?;
        }
        self.next_step(group)
    }

    /// The next command of the group's open transmit: a move, unless the bytes are in the peer's DMB
    /// already, or the signal with the CDC message behind them.
    //= D-045
    fn next_step(&mut self, group: GroupIdx) -> Option<IsmCommand> {
        let smcd = self.data.groups.at_mut(group)?.smcd_mut()?;
        let transmit = smcd.transmit.as_mut()?;
        let in_place = self
            .data
            .connections
            .at(transmit.conn.index)
            .and_then(|record| record.connection.as_ref())
            .is_some_and(Connection::is_attached);
        if !in_place && let Some(command) = transmit.next_move() {
            return Some(command);
        }
        let (signal, keeps_place) = (transmit.signal(), transmit.keeps_place);
        let has_work = !smcd.queue.is_empty();
        let sent = smcd.transmit.take();
        self.data.rotate_group(group, has_work, keeps_place);
        // A command that was taken is executed before the next call.
        if let Some(transmit) = sent {
            self.complete_transmit(&transmit, Connection::on_signalled);
        }
        Some(signal.into())
    }

    /// Completes a transmit, as `complete` does in its connection.
    pub(super) fn complete_transmit(
        &mut self,
        transmit: &IsmTransmit,
        complete: impl FnOnce(&mut Connection, Instant, &ConnectionConfig, NotifyRecord),
    ) {
        let (conn, record) = (transmit.conn, transmit.of_path);
        if self.data.connections.is_live(conn.index, conn.generation) {
            self.with_connection(conn.index, |connection, now, config| {
                complete(connection, now, &config.connection, record);
            });
            self.release(conn.index);
        }
    }
}
