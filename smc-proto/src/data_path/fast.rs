//! The fast path of SMC-R: transmit, receive and completion of a connection on which only bytes
//! are pending.
//!
//! Each method either does all of its work and returns `true`, or changes nothing and returns
//! `false`; its general counterpart is called then. Methods call only functions that are
//! inlined, so that what they have read stays in registers. That makes them fast: their general
//! counterparts reload it after each call.

use super::DataPath;
use crate::command::DataTransmit;
use crate::connection_record::list::READY;
use crate::connection_record::{Pending, Phase};
use crate::id::{ConnId, DeviceId, LinkId, WrId};
use crate::link_group::SendKind;
use crate::slots::Linked;
use crate::stats::count;
use crate::wire::cdc::CdcOctets;

impl DataPath<'_> {
    /// Does what [`DataPath::next_transmit`] does, if the first link of the RNIC and the first
    /// connection of that link have nothing else to do.
    #[inline(always)]
    pub(crate) fn fast_transmit(&mut self, device: DeviceId, transmit: &mut DataTransmit) -> bool {
        let core = &mut *self.core;
        let Some(device) = core.devices.rnic_mut(device) else {
            return false;
        };
        let Some(link) = device.links.first() else {
            return false;
        };
        let Some((link_generation, state)) = self.links.entry(link) else {
            debug_assert!(false, "a list has live entries only");
            return false;
        };
        if !state.is_flowing(core.changes) {
            return false;
        }
        debug_assert!(state.is_for_data() || !state.has_free_slot());
        debug_assert!(device.buffers.is_empty());
        let Some(index) = state.queue.ready.first() else {
            return false;
        };
        if !state.has_free_slot() {
            return false;
        }
        let Some((generation, record)) = self.connections.entry(index) else {
            debug_assert!(false, "a list has live entries only");
            return false;
        };
        let Some(connection) = record.connection.as_mut() else {
            return false;
        };
        let Some(sent) = connection.fast_transmit(record.target.address, transmit) else {
            return false;
        };
        let kind = SendKind::Notify {
            index,
            generation,
            record: sent.record,
        };
        let number = state.in_flight.put(kind);
        transmit.link = LinkId {
            index: link,
            generation: link_generation,
        };
        transmit.conn = ConnId { index, generation };
        transmit.rkey = record.target.rkey;
        transmit.buffer = record.send_buffer_id();
        transmit.wr_id = WrId(number);
        core.statistics.fast_transmit(sent);
        let behind = state.queue.ready.unlink_front(record);
        behind.set_front(&mut self.connections);
        let keeps_place = state.advance_round(index);
        let has_work = state.wants_transmit();
        if !has_work || !(keeps_place || device.links.is_only(link)) {
            let behind = device.links.unlink_front(state);
            behind.set_front(&mut self.links);
            if has_work {
                device.links.push_back(&mut self.links, link);
            }
        }
        true
    }

    /// Does what [`DataPath::on_received`] does, if the message is a CDC message from which
    /// nothing follows but perhaps a notification that bytes arrived.
    //= CDC-005
    //= CDC-032
    #[inline(always)]
    pub(crate) fn fast_received(&mut self, link: LinkId, payload: &[u8]) -> bool {
        let core = &mut *self.core;
        let Some(l) = self.links.live_mut(link.index, link.generation) else {
            return false;
        };
        let Ok(cdc) = CdcOctets::of(payload) else {
            return false;
        };
        let (group, token) = (l.group, cdc.alert_token());
        let mut index = core.last_receiver;
        let record = match self.connections.at_mut(index) {
            Some(record) if record.is_receiver(group, token) => record,
            _ => {
                let Some(tokens) = &core.tokens else {
                    return false;
                };
                index = tokens.open(token);
                match self.connections.at_mut(index) {
                    Some(record) if record.is_receiver(group, token) => record,
                    _ => return false,
                }
            }
        };
        let Some(connection) = record.connection.as_mut() else {
            return false;
        };
        let Some(readable) = connection.fast_cdc(cdc) else {
            return false;
        };
        l.last_received = core.now;
        core.last_receiver = index;
        count(&mut core.statistics.cdc_received);
        if readable {
            record.notices |= Pending::READABLE;
            if let Some(before) = core.connection_events.append(record, index) {
                before.set_next(&mut self.connections, index);
            }
        }
        true
    }

    /// Does what [`DataPath::on_sent`] does, if exactly one CDC message completed, and nothing
    /// follows but perhaps a notification that there is space to write.
    #[inline(always)]
    pub(crate) fn fast_sent(&mut self, link: LinkId, wr_id: WrId) -> bool {
        let Some(l) = self.links.live_mut(link.index, link.generation) else {
            return false;
        };
        // Connections may wait for a slot of a full link.
        if !l.has_free_slot() || !l.is_active() {
            return false;
        }
        let Some(SendKind::Notify {
            index,
            generation,
            record,
        }) = l.in_flight.front(wr_id.0)
        else {
            return false;
        };
        let core = &mut *self.core;
        let Some(owner) = self.connections.live_mut(index, generation) else {
            return false;
        };
        let active = owner.phase == Phase::Active;
        let Some(connection) = owner.connection.as_mut().filter(|_| active) else {
            return false;
        };
        let Some(writable) = connection.fast_completion(record) else {
            return false;
        };
        debug_assert!(!connection.has_work() || Linked::<READY>::links(owner).is_linked());
        l.in_flight.skip();
        core.step();
        if writable {
            owner.notices |= Pending::WRITABLE;
            if let Some(before) = core.connection_events.append(owner, index) {
                before.set_next(&mut self.connections, index);
            }
        }
        true
    }
}
