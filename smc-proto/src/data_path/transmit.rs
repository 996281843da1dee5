//! Transmits: what a device polls for connections that have something to send.
//!
//! A transmit of SMC-R is one or two RDMA writes and a CDC message behind them. A transmit of
//! SMC-D is the CDC message alone, where the application writes to the peer's DMB in place.
//!
//! Each device has a list of links with work, each link a list of connections that are ready.
//! The link at the front gets one transmit, for the connection at its front. It moves behind
//! the other links when its round is over ([`Link::advance_round`]).
//!
//! [`next_transmit`](DataPath::next_transmit) and [`next_signal`](DataPath::next_signal) hand
//! out a whole transmit at once. A device that polls command by command is served by
//! `link_group/work.rs` and `link_group/ism/work.rs`, with
//! [`take_transmit`](DataPath::take_transmit).

use super::{DataPath, Deferred};
use crate::command::DataTransmit;
use crate::id::{ConnId, DeviceId, LinkId, LinkIdx, WrId};
use crate::link_group::{Link, SendKind};

impl DataPath<'_> {
    /// Puts the transmit of the next connection of an RNIC into `transmit`. Returns `false` if
    /// the RNIC has other work first, or none; [`Groups::next_rdma`] then has its next command.
    ///
    /// [`Groups::next_rdma`]: crate::link_group::Groups::next_rdma
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
        let Some(keeps_place) = self.take_transmit(link, transmit, deferred) else {
            return false;
        };
        // A link for data has no other work.
        let has_work = self.links.at(link).is_some_and(Link::wants_transmit);
        self.rotate_link(link, has_work, keeps_place);
        true
    }

    /// Puts the transmit of the connection at the front of a link's list into `transmit`, and
    /// takes the connection off the list. The link has to have a free slot, which the transmit
    /// occupies until its completion.
    ///
    /// Returns whether the link keeps its place on its device's list, or `None` if no connection
    /// is ready, or the first one has nothing to send. Follow-up work is put into `deferred`.
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
        let index = state.queue.ready.first()?;
        let (generation, record) = self.connections.entry(index)?;
        let config = &self.core.config.connection;
        let address = record.target.address;
        let connection = record.connection.as_mut()?;
        let before = self.tap.marks_before(connection);
        let Some(sent) = connection.next_transmit(self.core.now, config, address, transmit) else {
            state.queue.ready.remove(&mut self.connections, index);
            *deferred = Deferred::Release(index);
            return None;
        };
        let has_follow_up = connection.has_follow_up();
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
        state.queue.ready.remove(&mut self.connections, index);
        let keeps_place = state.advance_round(index);
        self.trace_sent(index, before, &transmit.cdc);
        if has_follow_up {
            *deferred = self.follow_up(index);
        }
        Some(keeps_place)
    }

    /// Updates a link's place on its device's list after a transmit. A link without further work
    /// for the device leaves the list; another one moves behind the other links, unless it
    /// `keeps_place`.
    #[inline(always)]
    pub(crate) fn rotate_link(&mut self, link: LinkIdx, has_work: bool, keeps_place: bool) {
        let Some(state) = self.links.at(link) else {
            debug_assert!(false, "the link has just transmitted");
            return;
        };
        if let Some(device) = self
            .core
            .devices
            .get_mut(usize::from(state.path.device.0))
            .filter(|device| !has_work || !(keeps_place || device.links.is_only(link)))
        {
            device.links.remove(&mut self.links, link);
            if has_work {
                device.links.push_back(&mut self.links, link);
            }
        }
    }
}
