//! What a device is asked to do next: control commands, LLC, then data.

use super::SendKind;
use crate::command::{DataTurn, RdmaCommand, Segment};
use crate::connection::{Spans, Told, Work};
use crate::data_path::{DataPath, Rest};
use crate::engine::Engine;
use crate::id::{ConnId, DeviceId, LinkId, NONE, WrId};
use crate::planted::PlantedBug;
use crate::stats::count;
use crate::wire::cdc::ProducerFlags;

impl Engine<'_> {
    /// The next command for a device, derived from the state of its links and
    /// buffers; `None` if there is nothing to do.
    pub(crate) fn next_rdma(&mut self, device: DeviceId) -> Option<RdmaCommand> {
        let slot = usize::from(device.0);
        while let Some(buffer) = self.core.devices.get(slot)?.buffers.first() {
            if let Some(command) = self.next_buffer_command(buffer, device) {
                return Some(command);
            }
            self.unlist_buffer(buffer);
            // What it wants now may be another RNIC's.
            self.poke_buffer(buffer);
        }
        while let Some(link) = self.core.devices.get(slot)?.links.first() {
            if let Some(command) = self.next_link_command(link) {
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

    fn next_buffer_command(&mut self, index: u32, device: DeviceId) -> Option<RdmaCommand> {
        let id = self.buffer_id(index);
        let (wanted, at) = self.buffer_work(index)?;
        if at != device {
            return None;
        }
        let group = self.buffers.at(index)?.group;
        let links = self.links_of(group);
        let link = wanted
            .link_position()
            .and_then(|position| links.get(usize::from(position)).copied())
            .unwrap_or(NONE);
        let link_id = LinkId {
            index: link,
            generation: self.links.generation(link),
        };
        // The layout is settled after the first elements were given out, so the
        // eye catcher is written whenever it may be needed.
        let eye_catcher = self.core.config.eye_catcher;
        let command = self
            .buffers
            .at_mut(index)?
            .start_control(wanted, id, link_id, eye_catcher);
        if let RdmaCommand::RegisterBuffer { .. } = command
            && let Some(l) = self.links.at_mut(link)
        {
            l.registrations = l.registrations.saturating_add(1);
        }
        Some(command)
    }

    fn next_link_command(&mut self, link: u32) -> Option<RdmaCommand> {
        let id = self.link_id(link);
        let state = self.links.at_mut(link)?;
        if let Some(command) = state.next_control(id) {
            return Some(command);
        }
        if state.wants_llc()
            && let Some((payload, kind)) = self.next_llc(link)
        {
            count(&mut self.core.statistics.llc_sent);
            return self.post_send(link, id, kind, payload);
        }
        if let Some(command) = self.next_large_command(link, id) {
            return Some(command);
        }
        self.next_data_command(link, id)
    }

    #[inline(never)]
    fn next_large_command(&mut self, link: u32, id: LinkId) -> Option<RdmaCommand> {
        if !self.links.at(link)?.wants_llc() {
            return None;
        }
        let (length, kind) = self.next_large(link)?;
        count(&mut self.core.statistics.llc_sent);
        let number = self.links.at_mut(link)?.in_flight.push(kind)?;
        Some(RdmaCommand::SendLarge {
            link: id,
            wr_id: WrId(number),
            length,
        })
    }

    /// The next step of the connections on the link's list.
    fn next_data_command(&mut self, link: u32, id: LinkId) -> Option<RdmaCommand> {
        loop {
            let mut rest = Rest::Nothing;
            let command = self.data_path().next_data_command(link, id, &mut rest);
            self.carry_out(rest);
            if command.is_some() || rest == Rest::Nothing {
                return command;
            }
        }
    }

    fn post_send(
        &mut self,
        link: u32,
        id: LinkId,
        kind: SendKind,
        payload: [u8; 44],
    ) -> Option<RdmaCommand> {
        let state = self.links.at_mut(link)?;
        let wr = state.in_flight.push(kind)?;
        if self.core.config.connection.planted(PlantedBug::ForgetSend) {
            state.in_flight.take_back();
        }
        Some(RdmaCommand::Send {
            link: id,
            wr_id: WrId(wr),
            payload,
        })
    }
}

impl DataPath<'_> {
    /// The first link of a device, if nothing but data is to be sent next.
    #[inline(always)]
    fn data_link(&self, device: DeviceId) -> Option<LinkId> {
        let device = self.core.devices.get(usize::from(device.0))?;
        let link = device.links.first()?;
        let state = self.links.at(link)?;
        (device.buffers.is_empty() && state.has_data_slot() && !state.wants_llc())
            .then(|| self.link_id(link))
    }

    /// The next command for a device whose first link has only data to send.
    #[inline(always)]
    pub(crate) fn next_rdma(&mut self, device: DeviceId, rest: &mut Rest) -> Option<RdmaCommand> {
        let id = self.data_link(device)?;
        self.next_data_command(id.index, id, rest)
    }

    /// The whole turn of the connection at the front of the list of such a link.
    //= CDC-023
    //= CDC-031
    #[inline(always)]
    pub(crate) fn next_turn(
        &mut self,
        device: DeviceId,
        turn: &mut DataTurn,
        rest: &mut Rest,
    ) -> Option<()> {
        let link = self.data_link(device)?;
        let index = self.links.at(link.index)?.ready.first()?;
        let conn = self.conn_id(index);
        let now = self.core.now;
        let record = self.connections.at_mut(index)?;
        let connection = record.connection.as_mut()?;
        let told = connection.next_turn(
            now,
            &self.core.config.connection,
            record.remote.address,
            &mut turn.writes,
            &mut turn.payload,
        )?;
        turn.link = link;
        turn.conn = conn;
        turn.rkey = record.remote.rkey;
        turn.buffer = record.send_buffer_id();
        let [first, second] = turn.writes;
        self.count_write(first.len());
        self.count_write(second.len());
        turn.wr_id = self.notify(link.index, conn, told, rest)?;
        Some(())
    }

    #[inline(always)]
    fn count_write(&mut self, len: u32) {
        if len > 0 {
            let statistics = &mut self.core.statistics;
            count(&mut statistics.writes);
            statistics.octets_written = statistics.octets_written.wrapping_add(u64::from(len));
        }
    }

    /// Posts the CDC message that ends the turn of the connection at the front of
    /// the link's list.
    #[inline(always)]
    fn notify(&mut self, link: u32, conn: ConnId, told: Told, rest: &mut Rest) -> Option<WrId> {
        count(&mut self.core.statistics.cdc_sent);
        if told.blocked {
            count(&mut self.core.statistics.window_stalls);
        }
        let ConnId { index, generation } = conn;
        let state = self.links.at_mut(link)?;
        let wr = state.in_flight.push(SendKind::Notify {
            index,
            generation,
            record: told.record,
        });
        state.ready.remove(&mut self.connections, index);
        let goes_on = state.goes_on(index);
        *rest = self.after_connection(index);
        self.rotate_link(link, goes_on);
        wr.map(WrId)
    }

    /// The next step of the connection at the front of the link's list. A
    /// connection stays there until its CDC message is out, then the next one
    /// has its turn.
    //= CDC-023
    //= CDC-031
    #[inline(always)]
    fn next_data_command(&mut self, link: u32, id: LinkId, rest: &mut Rest) -> Option<RdmaCommand> {
        let now = self.core.now;
        let state = self.links.at_mut(link)?;
        if !state.has_data_slot() {
            return None;
        }
        let crowded = state.in_flight.len() > 2;
        let index = state.ready.first()?;
        let conn = self.conn_id(index);
        let record = self.connections.at_mut(index)?;
        if crowded
            && self.core.config.connection.planted(PlantedBug::DropCdc)
            && let Some(connection) = record.connection.as_mut()
        {
            connection.drop_message();
        }
        let work = record
            .connection
            .as_mut()
            .and_then(|c| c.next_work(now, &self.core.config.connection));
        match work {
            Some(Work::Write {
                source,
                remote_offset,
                len,
            }) => {
                let (rkey, address) = (record.remote.rkey, record.remote.address);
                let buffer = record.send_buffer_id();
                self.count_write(len);
                Some(RdmaCommand::Write {
                    link: id,
                    conn,
                    buffer,
                    source: segments(source, 0),
                    rkey,
                    address: address.wrapping_add(u64::from(remote_offset)),
                })
            }
            Some(Work::Notify { cdc, record }) => {
                let blocked = cdc.producer_flags.contains(ProducerFlags::WRITER_BLOCKED);
                let wr_id = self.notify(link, conn, Told { record, blocked }, rest)?;
                Some(RdmaCommand::Send {
                    link: id,
                    wr_id,
                    payload: cdc.emit(),
                })
            }
            None => {
                self.links
                    .at_mut(link)?
                    .ready
                    .remove(&mut self.connections, index);
                *rest = Rest::Idle(index);
                None
            }
        }
    }

    /// Lets other links of the device have their turn, unless connections of this
    /// one have not had theirs.
    #[inline(always)]
    pub(super) fn rotate_link(&mut self, link: u32, goes_on: bool) {
        let Some(state) = self.links.at(link) else {
            return;
        };
        let wanted = state.wants_device();
        if let Some(device) = self
            .core
            .devices
            .get_mut(usize::from(state.path.device.0))
            .filter(|device| !wanted || !(goes_on || device.links.is_only(link)))
        {
            device.links.remove(&mut self.links, link);
            if wanted {
                device.links.push_back(&mut self.links, link);
            }
        }
    }
}

/// Pieces of a ring as pieces of a buffer, the ring starting at `start`.
#[inline]
pub(crate) fn segments(spans: Spans, start: u32) -> [Segment; 2] {
    [spans.first(), spans.second()].map(|span| Segment {
        offset: start.wrapping_add(span.offset),
        length: span.len,
    })
}
