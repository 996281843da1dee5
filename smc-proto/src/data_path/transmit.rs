//! What connections send: over an RNIC writes and the message behind them, over an ISM
//! device most often the message alone.

use super::{DataPath, Deferred};
use crate::command::{DataTransmit, IsmCommand, Signal};
use crate::connection_record::Phase;
use crate::id::{ConnId, DeviceId, LinkId, LinkIdx, WrId};
use crate::link_group::{Link, SendKind, ism_slot};
use crate::wire::cdc_ism::CdcIsm;

impl DataPath<'_> {
    /// Puts the whole transmit of the next connection into `transmit`, if that is the next
    /// work of the device; returns whether it is.
    #[inline(always)]
    pub(crate) fn next_transmit(
        &mut self,
        device: DeviceId,
        transmit: &mut DataTransmit,
        deferred: &mut Deferred,
    ) -> bool {
        let Some(device) = self.core.devices.get(usize::from(device.0)) else {
            return false;
        };
        let Some(link) = device.links.first() else {
            return false;
        };
        let state = self.links.at_mut(link).filter(|link| link.is_for_data());
        let Some(state) = state.filter(|_| device.buffers.is_empty()) else {
            return false;
        };
        state.flow(self.core.changes);
        let Some(goes_on) = self.take_transmit(link, transmit, deferred) else {
            return false;
        };
        // It wants nothing that it did not want before.
        let wanted = self.links.at(link).is_some_and(Link::wants_transmit);
        self.rotate_link(link, wanted, goes_on);
        true
    }

    /// Takes the transmit of the connection at the front of the list of a link with a free
    /// slot. Returns whether the link keeps its place, or `None` if the connection had
    /// nothing to send.
    //= CDC-023
    //= CDC-031
    #[inline(always)]
    pub(crate) fn take_transmit(
        &mut self,
        link: LinkIdx,
        transmit: &mut DataTransmit,
        deferred: &mut Deferred,
    ) -> Option<bool> {
        let (generation, state) = self.links.entry(link)?;
        transmit.link = LinkId {
            index: link,
            generation,
        };
        let index = state.ready.first()?;
        let (generation, record) = self.connections.entry(index)?;
        let config = &self.core.config.connection;
        let address = record.target.address;
        let connection = record.connection.as_mut()?;
        let seen = self.tap.look(connection);
        let Some(sent) = connection.next_transmit(self.core.now, config, address, transmit) else {
            state.ready.remove(&mut self.connections, index);
            *deferred = Deferred::Idle(index);
            return None;
        };
        let settled = connection.is_settled();
        transmit.conn = ConnId { index, generation };
        transmit.rkey = record.target.rkey;
        transmit.buffer = record.send_buffer_id();
        self.core.statistics.transmit(&transmit.writes, sent);
        let number = state.in_flight.push(SendKind::Notify {
            index,
            generation,
            record: sent.record,
        })?;
        transmit.wr_id = WrId(number);
        state.ready.remove(&mut self.connections, index);
        let goes_on = state.goes_on(index);
        self.trace_sent(index, seen, &transmit.cdc);
        if !settled {
            *deferred = self.after_connection(index);
        }
        Some(goes_on)
    }

    /// Moves a link behind the others of its device, unless connections of its present
    /// round have not transmitted yet.
    #[inline(always)]
    pub(crate) fn rotate_link(&mut self, link: LinkIdx, wanted: bool, goes_on: bool) {
        let Some(state) = self.links.at(link) else {
            return;
        };
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

    /// The whole transmit of the next connection of a device, if that is the next work and
    /// consists of a message. What follows from it is left in `deferred`.
    //= D-045
    #[inline(always)]
    pub(crate) fn next_signal(
        &mut self,
        device: DeviceId,
        deferred: &mut Deferred,
    ) -> Option<IsmCommand> {
        let answer = self.core.ism_answers.get(usize::from(device.0))?;
        if answer.is_some() || !self.core.wakes.is_empty() {
            return None;
        }
        let slot = usize::from(ism_slot(device).0);
        let device = self.core.devices.get(slot)?;
        let link = device.links.first()?;
        if !device.buffers.is_empty() {
            return None;
        }
        let state = self.links.at_mut(link).filter(|link| link.is_for_data())?;
        let index = state.ready.first()?;
        let (generation, record) = self.connections.entry(index)?;
        if record.phase != Phase::Active {
            return None;
        }
        let connection = record.connection.as_mut()?;
        let mut message = None;
        let (now, config) = (self.core.now, &self.core.config.connection);
        let (sent, pieces) = connection.next_in_place(now, config, |cdc| message = Some(cdc))?;
        let cdc = CdcIsm::from(message?);
        let settled = connection.is_settled();
        let buffer = record.send_buffer_id();
        self.core.statistics.sent(sent, pieces);
        state.ready.remove(&mut self.connections, index);
        let (goes_on, wanted) = (state.goes_on(index), state.wants_transmit());
        self.rotate_link(link, wanted, goes_on);
        if !settled {
            *deferred = self.after_connection(index);
        }
        let conn = ConnId { index, generation };
        Some(Signal { conn, buffer, cdc }.into())
    }
}
