//! Transmits: what a device polls for connections that have something to send.
//!
//! A transmit of SMC-R is one or two RDMA writes and a CDC message behind them. A transmit of
//! SMC-D is the CDC message alone, where the application writes to the peer's DMB in place.
//!
//! Each RNIC has a list of links with work, each ISM device one of SMC-D groups; each of these
//! paths has a [`TransmitQueue`] of connections that are ready. The path at the front gets one
//! transmit, for the connection at its front. It moves behind the other paths when its round is
//! over.
//!
//! [`next_transmit`](DataPath::next_transmit) and [`next_signal`](DataPath::next_signal) hand
//! out a whole transmit at once. A device that polls command by command is served by
//! `link_group/work.rs` and `link_group/ism/work.rs`, with
//! [`open_transmit`](DataPath::open_transmit) and its counterpart for SMC-D.

use super::{DataPath, Deferred};
use crate::command::DataTransmit;
use crate::connection::NotifyRecord;
use crate::connection_record::ConnectionRecord;
use crate::core::Core;
use crate::id::{ConnId, DeviceId, Idx, LinkId, LinkIdx, WrId};
use crate::link_group::{Link, LinkTransmit, SendKind, TransmitQueue};
use crate::slots::{Linked, List, Pool};
use crate::trace::{MarksBefore, Tap};

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
        let Some(device) = self.core.devices.rnic(device) else {
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
    #[inline(always)]
    fn take_transmit(
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
        debug_assert!(state.has_free_slot(), "the caller has checked that");
        let taken = take_next(
            self.core,
            &mut self.connections,
            &self.tap,
            &mut state.queue,
            state.connections,
            transmit,
            deferred,
        )?;
        let ConnId { index, generation } = transmit.conn;
        let number = state.in_flight.push(SendKind::Notify {
            index,
            generation,
            record: taken.record,
        })?;
        transmit.wr_id = WrId(number);
        let keeps_place = taken.keeps_place;
        self.finish_transmit(taken, transmit, deferred);
        Some(keeps_place)
    }

    /// Opens the transmit of the connection at the front of a link's list, for a device that polls it
    /// command by command. `None` if no connection is ready, the first one has nothing to send, or
    /// the link has no free slot. Follow-up work is put into `deferred`.
    pub(crate) fn open_transmit(&mut self, link: LinkIdx, deferred: &mut Deferred) -> Option<()> {
        let state = self.links.at(link)?;
        if !state.has_data_slot() {
            return None;
        }
        let mut transmit = DataTransmit::EMPTY;
        let keeps_place = self.take_transmit(link, &mut transmit, deferred)?;
        self.links.at_mut(link)?.transmit = Some(LinkTransmit::over_link(&transmit, keeps_place));
        Some(())
    }

    /// Does what follows from a transmit once it has its place: makes its events, and puts follow-up
    /// work into `deferred`.
    #[inline(always)]
    pub(super) fn finish_transmit(
        &mut self,
        taken: Taken,
        transmit: &DataTransmit,
        deferred: &mut Deferred,
    ) {
        let index = transmit.conn.index;
        self.trace_sent(index, taken.before, &transmit.cdc);
        if taken.has_follow_up {
            *deferred = self.follow_up(index);
        }
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
        if let Some(device) = self.core.devices.rnic_mut(state.path.device) {
            let list = &mut device.links;
            rotate(list, &mut self.links, link, has_work, keeps_place);
        }
    }
}

/// What [`take_next`] returns of a transmit, besides the transmit itself.
pub(super) struct Taken {
    /// What completes its CDC message.
    pub(super) record: NotifyRecord,
    /// Whether the path keeps its place on its device's list.
    pub(super) keeps_place: bool,
    /// Marks of the connection before.
    before: MarksBefore,
    /// Whether follow-up work of the connection is left.
    has_follow_up: bool,
}

/// Puts the transmit of the connection at the front of the queue of a path into `transmit`, but for
/// what a link adds, and takes the connection off the queue. `connection_count` is the number of
/// connections of the path.
///
/// Returns `None` if no connection is ready, or the first one has nothing to send. That one is put
/// into `deferred`, and may be released.
///
/// SMC-R and SMC-D share it, so that it is not inlined.
//= CDC-023
//= CDC-031
#[inline(never)]
pub(super) fn take_next(
    core: &mut Core,
    connections: &mut Pool<'_, ConnectionRecord>,
    tap: &Tap<'_>,
    queue: &mut TransmitQueue,
    connection_count: u16,
    transmit: &mut DataTransmit,
    deferred: &mut Deferred,
) -> Option<Taken> {
    let index = queue.ready.first()?;
    let (generation, record) = connections.entry(index)?;
    let config = &core.config.connection;
    let address = record.target.address;
    let connection = record.connection.as_mut()?;
    let before = tap.marks_before(connection);
    let Some(sent) = connection.next_transmit(core.now, config, address, transmit) else {
        queue.ready.remove(connections, index);
        *deferred = Deferred::Release(index);
        return None;
    };
    let has_follow_up = connection.has_follow_up();
    transmit.conn = ConnId { index, generation };
    transmit.rkey = record.target.rkey;
    transmit.buffer = record.send_buffer_id();
    core.statistics.transmit(&transmit.writes, sent);
    queue.ready.remove(connections, index);
    Some(Taken {
        record: sent.record,
        keeps_place: queue.advance_round(index, connection_count),
        before,
        has_follow_up,
    })
}

/// Updates the place of a path on its device's list after a transmit. A path without further work
/// leaves the list; another one moves behind the other paths, unless it `keeps_place`.
#[inline(always)]
pub(super) fn rotate<T: Linked<L>, const L: usize>(
    list: &mut List<T, L>,
    pool: &mut Pool<'_, T>,
    path: Idx<T>,
    has_work: bool,
    keeps_place: bool,
) {
    if has_work && (keeps_place || list.is_only(path)) {
        return;
    }
    list.remove(pool, path);
    if has_work {
        list.push_back(pool, path);
    }
}
