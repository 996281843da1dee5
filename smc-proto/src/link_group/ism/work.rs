//! What an ISM device is asked to do next: answers, control commands, then data.

use super::super::work::segments;
use super::{Lower, ism_slot};
use crate::command::IsmCommand;
use crate::config::MAX_DEVICES;
use crate::connection::Work;
use crate::data_path::{DataPath, Rest};
use crate::engine::Engine;
use crate::id::DeviceId;
use crate::link_group::QpState;
use crate::stats::count;
use crate::wire::cdc::ProducerFlags;
use crate::wire::cdc_ism::{CdcIsm, Endianness};

impl Engine<'_> {
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
        while let Some(buffer) = self.core.devices.get(slot)?.buffers.first() {
            if let Some(command) = self.next_dmb_command(buffer) {
                return Some(command);
            }
            self.unlist_buffer(buffer);
        }
        while let Some(link) = self.core.devices.get(slot)?.links.first() {
            if let Some(command) = self.next_way_command(link) {
                return Some(command);
            }
            self.core
                .devices
                .get_mut(slot)?
                .links
                .remove(&mut self.links, link);
        }
        None
    }

    fn next_way_command(&mut self, link: u32) -> Option<IsmCommand> {
        let l = self.links.at(link)?;
        if l.state == QpState::Drained {
            let way = self.way_of(l.group)?;
            let farewell = l.lower == Lower::Ism { farewell: true };
            let command = farewell.then(|| self.farewell(way));
            self.on_destroyed(link);
            return command;
        }
        loop {
            let mut rest = Rest::Nothing;
            let command = self.data_path().next_move(link, &mut rest);
            self.carry_out(rest);
            if command.is_some() || rest == Rest::Nothing {
                return command;
            }
        }
    }
}

impl DataPath<'_> {
    /// The next step of the connection at the front of the list of a way. A connection
    /// stays there until its CDC message is out, then the next one has its turn.
    //= D-045
    fn next_move(&mut self, link: u32, rest: &mut Rest) -> Option<IsmCommand> {
        let now = self.core.now;
        let state = self.links.at_mut(link)?;
        if !state.has_data_slot() {
            return None;
        }
        let index = state.ready.first()?;
        let conn = self.conn_id(index);
        let record = self.connections.at_mut(index)?;
        let (buffer, base) = (record.send_buffer_id(), record.remote.address);
        let config = &self.core.config.connection;
        // Two writes at most, then the message.
        for _ in 0..3 {
            let connection = record.connection.as_mut()?;
            match connection.next_work(now, config) {
                Some(Work::Write { len, .. }) if connection.is_attached() => {
                    count_octets(&mut self.core.statistics.octets_written, len);
                }
                Some(Work::Write {
                    source,
                    remote_offset,
                    len,
                }) => {
                    count(&mut self.core.statistics.writes);
                    count_octets(&mut self.core.statistics.octets_written, len);
                    return Some(IsmCommand::Move {
                        conn,
                        buffer,
                        source: segments(source, 0),
                        offset: remote_offset.wrapping_add(base as u32),
                    });
                }
                Some(Work::Notify { cdc, record: told }) => {
                    // A command that was taken is executed before the next one.
                    connection.on_signalled(now, config, told);
                    count(&mut self.core.statistics.cdc_sent);
                    if cdc.producer_flags.contains(ProducerFlags::WRITER_BLOCKED) {
                        count(&mut self.core.statistics.window_stalls);
                    }
                    let state = self.links.at_mut(link)?;
                    state.ready.remove(&mut self.connections, index);
                    let goes_on = state.goes_on(index);
                    *rest = self.after_connection(index);
                    if *rest == Rest::Nothing {
                        *rest = Rest::Idle(index);
                    }
                    self.rotate_link(link, goes_on);
                    return Some(IsmCommand::Signal {
                        conn,
                        buffer,
                        cdc: CdcIsm::from(cdc).emit(Endianness::NATIVE),
                    });
                }
                None => break,
            }
        }
        self.links
            .at_mut(link)?
            .ready
            .remove(&mut self.connections, index);
        *rest = Rest::Idle(index);
        None
    }
}

fn count_octets(counter: &mut u64, len: u32) {
    *counter = counter.wrapping_add(u64::from(len));
}
