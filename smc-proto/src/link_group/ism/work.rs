//! The next command for an ISM device: answers to events first, then control commands, then data.

use super::super::{QpState, SendKind};
use super::{Lower, ism_slot};
use crate::command::{IsmCommand, RdmaCommand, Signal};
use crate::config::MAX_DEVICES;
use crate::connection::Connection;
use crate::id::{DeviceId, LinkIdx};
use crate::link_group::Groups;

impl Groups<'_> {
    /// The next command for an ISM device, derived from the state of its groups and
    /// buffers; `None` if there is nothing to do.
    pub(crate) fn next_ism(&mut self, device: DeviceId) -> Option<IsmCommand> {
        if usize::from(device.0) >= MAX_DEVICES {
            return None;
        }
        if let Some(answer) = self.next_answer(device) {
            return Some(answer);
        }
        let slot = usize::from(ism_slot(device).0);
        while let Some(buffer) = self.data.core.devices.get(slot)?.buffers.first() {
            if let Some(command) = self.next_dmb_command(buffer) {
                return Some(command);
            }
            self.unlist_buffer(buffer);
        }
        while let Some(link) = self.data.core.devices.get(slot)?.links.first() {
            if let Some(command) = self.next_ism_command(link) {
                return Some(command);
            }
            self.data.unlist_link(link);
        }
        None
    }

    fn next_ism_command(&mut self, link: LinkIdx) -> Option<IsmCommand> {
        let l = self.link(link)?;
        if l.state == QpState::Drained {
            let ism_peer = self.ism_peer_of(l.group)?;
            let farewell = l.lower == Lower::Ism { farewell: true };
            let command = farewell.then(|| self.farewell(ism_peer));
            self.on_destroyed(link);
            return command;
        }
        if l.transmit.is_none() {
            self.open_transmit(link)?;
        }
        self.next_step(link)
    }

    /// The next command of the link's open transmit: a move, unless the bytes are in the peer's DMB
    /// already, or the signal with the CDC message behind them.
    //= D-045
    fn next_step(&mut self, link: LinkIdx) -> Option<IsmCommand> {
        let state = self.data.links.at_mut(link)?;
        let open = state.transmit.as_mut()?;
        let conn = open.conn();
        let in_place = self
            .data
            .connections
            .at(conn.index)
            .and_then(|record| record.connection.as_ref())
            .is_some_and(Connection::is_attached);
        if !in_place
            && let Some(RdmaCommand::Write {
                conn,
                buffer,
                source,
                address,
                ..
            }) = open.next_write()
        {
            return Some(IsmCommand::Move {
                conn,
                buffer,
                source,
                offset: address as u32,
            });
        }
        let (buffer, cdc, keeps_place) = (open.buffer(), open.cdc().into(), open.keeps_place);
        state.transmit = None;
        let sent = state.in_flight.pop();
        let has_work = state.wants_device();
        self.data.rotate_link(link, has_work, keeps_place);
        // A command that was taken is executed before the next call.
        if let Some((
            _,
            SendKind::Notify {
                index,
                generation,
                record,
            },
        )) = sent
            && self.data.connections.is_live(index, generation)
        {
            self.with_connection(index, |connection, now, config| {
                connection.on_signalled(now, &config.connection, record);
            });
            self.release(index);
        }
        Some(Signal { conn, buffer, cdc }.into())
    }
}
