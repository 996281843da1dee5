//! The next command for an RNIC: control commands first, then LLC messages, then data.

use super::SendKind;
use crate::command::RdmaCommand;
use crate::connection_record::Phase;
use crate::data_path::{DataPath, Deferred};
use crate::devices::BufferDevice;
use crate::id::{BufferIdx, DeviceId, Idx, LinkId, LinkIdx, WrId};
use crate::link_group::Groups;
use crate::stats::count;
use crate::trace;

impl Groups<'_> {
    /// The next command for a device, derived from the state of its links and
    /// buffers; `None` if there is nothing to do.
    pub(crate) fn next_rdma(&mut self, device: DeviceId) -> Option<RdmaCommand> {
        while let Some(buffer) = self.data.core.devices.rnic(device)?.buffers.first() {
            if let Some(command) = self.next_buffer_command(buffer, device) {
                return Some(command);
            }
            self.unlist_buffer(buffer);
            // Its next command may be one for another RNIC.
            self.schedule_buffer(buffer);
        }
        while let Some(link) = self.data.core.devices.rnic(device)?.links.first() {
            if let Some(command) = self.next_link_command(link) {
                return Some(command);
            }
            self.data.unlist_link(link);
        }
        None
    }

    fn next_buffer_command(&mut self, index: BufferIdx, device: DeviceId) -> Option<RdmaCommand> {
        let id = self.buffer_id(index);
        let (wanted, at) = self.buffer_work(index)?;
        if at != BufferDevice::Rnic(device) {
            return None;
        }
        let group = self.buffers.at(index)?.group;
        let links = self.links_of(group);
        let link = wanted
            .link_position()
            .and_then(|position| links.get(usize::from(position)).copied())
            .unwrap_or(Idx::NONE);
        let link_id = LinkId {
            index: link,
            generation: self.data.links.generation(link),
        };
        // The layout is decided after the first elements were given out, so the
        // eye catcher is written whenever it may be needed.
        let eye_catcher = self.data.core.config.eye_catcher;
        let command =
            self.buffers
                .at_mut(index)?
                .start_control(wanted, id, link_id, eye_catcher)?;
        if let RdmaCommand::RegisterBuffer { .. } = command
            && let Some(l) = self.data.links.at_mut(link)
        {
            l.registrations = l.registrations.saturating_add(1);
        }
        Some(command)
    }

    fn next_link_command(&mut self, link: LinkIdx) -> Option<RdmaCommand> {
        let id = self.data.link_id(link);
        let state = self.data.links.at_mut(link)?;
        if let Some(command) = state.next_control(id) {
            return Some(command);
        }
        if state.transmit.is_some() {
            return self.continue_transmit(link);
        }
        if state.wants_llc()
            && let Some((payload, kind)) = self.next_llc(link)
        {
            count(&mut self.data.core.statistics.llc_sent);
            self.trace_link(link, || trace::llc_sent(&payload));
            return self.post_send(link, id, kind, payload);
        }
        if let Some(command) = self.next_large_command(link, id) {
            return Some(command);
        }
        //= CDC-003
        self.open_transmit(|data, deferred| data.open_transmit(link, deferred))?;
        self.continue_transmit(link)
    }

    #[inline(never)]
    fn next_large_command(&mut self, link: LinkIdx, id: LinkId) -> Option<RdmaCommand> {
        if !self.link(link)?.wants_llc() {
            return None;
        }
        let (length, kind) = self.next_large(link)?;
        count(&mut self.data.core.statistics.llc_sent);
        let number = self.data.links.at_mut(link)?.in_flight.push(kind)?;
        Some(RdmaCommand::SendLarge {
            link: id,
            wr_id: WrId(number),
            length,
        })
    }

    /// Starts the transmit of the first connection of a path that has anything to send. `open` does
    /// so for the connection at the front of the path's list, and takes it off the list. `None` if
    /// there is no such connection, or the path has no free slot.
    pub(super) fn open_transmit(
        &mut self,
        open: impl Fn(&mut DataPath<'_>, &mut Deferred) -> Option<()>,
    ) -> Option<()> {
        loop {
            let mut deferred = Deferred::Nothing;
            let opened = open(&mut self.data, &mut deferred);
            self.execute(deferred);
            if opened.is_some() || deferred == Deferred::Nothing {
                return opened;
            }
        }
    }

    /// The next command of the link's open transmit: a write, or the SEND behind them.
    fn continue_transmit(&mut self, link: LinkIdx) -> Option<RdmaCommand> {
        let state = self.data.links.at_mut(link)?;
        let open = state.transmit.as_mut()?;
        let record = self.data.connections.at(open.conn.index);
        // A connection that has lost its element writes no more to it (AMB-50), nor does one
        // that has ended: the peer may use the element for another connection by now.
        //= ABORT-007
        let may_write = record
            .is_some_and(|record| record.remote.rmb.is_some() && record.phase != Phase::Ended);
        if let Some(write) = open.next_write() {
            if may_write {
                return Some(write);
            }
            // The message announces bytes that were not written. Unless a message with A follows,
            // this one has it.
            let connection = record.and_then(|record| record.connection.as_ref());
            if connection.is_none_or(|connection| !connection.wants_work()) {
                open.abort();
            }
        }
        let (send, keeps_place) = (open.send(), open.keeps_place);
        state.transmit = None;
        let has_work = state.wants_device();
        self.data.rotate_link(link, has_work, keeps_place);
        Some(send)
    }

    fn post_send(
        &mut self,
        link: LinkIdx,
        id: LinkId,
        kind: SendKind,
        payload: [u8; 44],
    ) -> Option<RdmaCommand> {
        let state = self.data.links.at_mut(link)?;
        //= LLC-002
        let wr = state.in_flight.push(kind)?;
        Some(RdmaCommand::Send {
            link: id,
            wr_id: WrId(wr),
            payload,
        })
    }
}
