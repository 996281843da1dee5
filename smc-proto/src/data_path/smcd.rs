//! What the data path does for SMC-D alone: the fast path for connections whose bytes lie in the
//! peer's DMB, and the transmit slot of a group.

use super::transmit::{rotate, take_next};
use super::{DataPath, Deferred, SignalOutcome};
use crate::command::{BufferSpans, DataTransmit, IsmCommand, Signal};
use crate::connection::ApiMisuse;
use crate::connection_record::{ConnectionRecord, Phase};
use crate::core::Core;
use crate::id::{ConnId, ConnIdx, DeviceId, GroupIdx};
use crate::link_group::{IsmTransmit, LinkGroup};
use crate::slots::Pool;
use crate::stats::count;
use crate::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, Endianness};

impl DataPath<'_> {
    /// Applies the CDC message at the head of a connection's DMB, if the connection is active and
    /// the message only moves cursors. Otherwise returns `None` and has changed nothing: the
    /// general path is to handle it.
    //= D-043
    #[inline(always)]
    pub(crate) fn on_fast_signal(
        &mut self,
        index: ConnIdx,
        bytes: &[u8; CDC_ISM_LENGTH],
    ) -> Option<SignalOutcome> {
        let (now, config) = (self.core.now, &self.core.config.connection);
        let record = self.connections.at_mut(index)?;
        if record.phase != Phase::Active {
            return None;
        }
        let connection = record.connection.as_mut()?;
        let cdc = CdcIsm::parse(bytes, Endianness::NATIVE).ok()?;
        let readable = connection.on_fast_cdc_ism(now, config, &cdc)?;
        count(&mut self.core.statistics.cdc_received);
        if !connection.has_follow_up() {
            return Some(match readable {
                true => SignalOutcome::Readable,
                false => SignalOutcome::Deferred(Deferred::Nothing),
            });
        }
        if readable {
            connection.note_readable();
        }
        Some(SignalOutcome::Deferred(self.follow_up(index)))
    }

    /// The transmit of the next connection of an ISM device, if it is one CDC message about
    /// bytes that are in the peer's DMB already. `None` if the device has other work first, or
    /// none; [`Groups::next_ism`] then has its next command. Follow-up work is put into
    /// `deferred`.
    ///
    /// [`Groups::next_ism`]: crate::link_group::Groups::next_ism
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
        let device = self.core.devices.ism(device)?;
        let group = device.groups.first()?;
        if !device.buffers.is_empty() {
            return None;
        }
        let g = self.groups.at_mut(group)?;
        let connection_count = g.connection_count;
        let smcd = g.open_smcd().filter(|smcd| smcd.transmit.is_none())?;
        let index = smcd.queue.ready.first()?;
        let (generation, record) = self.connections.entry(index)?;
        if record.phase != Phase::Active {
            return None;
        }
        let connection = record.connection.as_mut()?;
        let mut message = None;
        let (now, config) = (self.core.now, &self.core.config.connection);
        let (sent, pieces) = connection.next_in_place(now, config, |cdc| message = Some(cdc))?;
        let cdc = CdcIsm::from(message?);
        let has_follow_up = connection.has_follow_up();
        let buffer = record.send_buffer_id();
        self.core.statistics.sent(sent, pieces);
        let queue = &mut smcd.queue;
        queue.ready.remove(&mut self.connections, index);
        let keeps_place = queue.advance_round(index, connection_count);
        let has_work = !queue.is_empty();
        self.rotate_group(group, has_work, keeps_place);
        if has_follow_up {
            *deferred = self.follow_up(index);
        }
        let conn = ConnId { index, generation };
        Some(Signal { conn, buffer, cdc }.into())
    }

    /// Writes as [`DataPath::write`] does. If `fill` has put the bytes into the peer's DMB, and no
    /// other connection of the group waits to transmit, passes the CDC message to `signal` at once,
    /// instead of leaving it to [`DataPath::next_signal`]. Both are given `peer`.
    ///
    /// The message goes out before statistics and follow-up work, since the peer waits for it.
    //= D-045
    #[inline(always)]
    pub(crate) fn write_and_signal<T>(
        &mut self,
        index: ConnIdx,
        peer: &mut T,
        fill: impl FnOnce(&mut T, &BufferSpans) -> u32,
        signal: impl FnOnce(&mut T, &Signal),
        deferred: &mut Deferred,
    ) -> Result<u32, ApiMisuse> {
        let (core, connections, _, mut groups, _) = self.parts();
        let Some((generation, record)) = connections.into_entry(index) else {
            return Err(ApiMisuse::SendClosed);
        };
        let link = record.link;
        let idle = record.phase == Phase::Active
            && groups
                .at_mut(record.group)
                .and_then(LinkGroup::open_smcd)
                .is_some_and(|smcd| smcd.is_idle());
        let buffer = record.send_buffer_id();
        let (now, config) = (core.now, &core.config.connection);
        let has_buffers = record.group.is_some();
        let Some(connection) = record.connection.as_mut().filter(|_| has_buffers) else {
            return Err(ApiMisuse::SendClosed);
        };
        let written = connection.write(
            now,
            config,
            #[inline(always)]
            |space| fill(peer, &BufferSpans::of_send_buffer(buffer, space)),
        )?;
        if !idle || !connection.is_attached() {
            let moved = connection.moved_deadline();
            self.after_write(link, index, moved, written);
            return Ok(written);
        }
        if written == 0 {
            return Ok(0);
        }
        let conn = ConnId { index, generation };
        let sent = connection.next_in_place(
            now,
            config,
            #[inline(always)]
            |cdc| {
                let cdc = CdcIsm::from(cdc);
                signal(peer, &Signal { conn, buffer, cdc });
            },
        );
        if let Some((sent, pieces)) = sent {
            core.statistics.sent(sent, pieces);
        }
        if sent.is_none() || connection.has_follow_up() {
            *deferred = self.follow_up(index);
        }
        Ok(written)
    }

    // ---- the transmit slot of a group ----------------------------------------

    /// Opens the transmit of the connection at the front of a group's list, for a device that polls
    /// it command by command. `None` if no connection is ready, or the first one has nothing to
    /// send. Follow-up work is put into `deferred`.
    pub(crate) fn open_smcd_transmit(
        &mut self,
        group: GroupIdx,
        deferred: &mut Deferred,
    ) -> Option<()> {
        let g = self.groups.at_mut(group)?;
        let connection_count = g.connection_count;
        let smcd = g.open_smcd()?;
        let mut transmit = DataTransmit::EMPTY;
        let taken = take_next(
            self.core,
            &mut self.connections,
            &self.tap,
            &mut smcd.queue,
            connection_count,
            &mut transmit,
            deferred,
        )?;
        smcd.transmit = Some(IsmTransmit::new(&transmit, taken.record, taken.keeps_place));
        self.finish_transmit(taken, &transmit, deferred);
        Some(())
    }

    /// Puts a connection of SMC-D on the list of its group, and the group on its device's.
    pub(super) fn queue_in_group(&mut self, index: ConnIdx) {
        let (core, connections, _, groups, _) = self.parts();
        queue_in_group(core, connections, groups, index);
    }

    /// Puts a group of SMC-D on its device's list.
    pub(crate) fn list_group(&mut self, group: GroupIdx) {
        let smcd = self.groups.at(group).and_then(LinkGroup::smcd);
        if let Some(smcd) = smcd
            && let Some(device) = self.core.devices.ism_mut(smcd.peer().device)
        {
            device.groups.push_back(&mut self.groups, group);
        }
    }

    /// Takes a group of SMC-D off its device's list.
    pub(crate) fn unlist_group(&mut self, group: GroupIdx) {
        let smcd = self.groups.at(group).and_then(LinkGroup::smcd);
        if let Some(smcd) = smcd
            && let Some(device) = self.core.devices.ism_mut(smcd.peer().device)
        {
            device.groups.remove(&mut self.groups, group);
        }
    }

    /// Updates a group's place on its device's list after a transmit.
    #[inline(always)]
    pub(crate) fn rotate_group(&mut self, group: GroupIdx, has_work: bool, keeps_place: bool) {
        let smcd = self.groups.at(group).and_then(LinkGroup::smcd);
        if let Some(smcd) = smcd
            && let Some(device) = self.core.devices.ism_mut(smcd.peer().device)
        {
            let list = &mut device.groups;
            rotate(list, &mut self.groups, group, has_work, keeps_place);
        }
    }
}

#[inline(never)]
fn queue_in_group(
    core: &mut Core,
    mut connections: Pool<'_, ConnectionRecord>,
    mut groups: Pool<'_, LinkGroup>,
    index: ConnIdx,
) {
    let Some(group) = connections.at(index).map(|record| record.group) else {
        debug_assert!(false, "the connection has just changed");
        return;
    };
    // Nothing of a connection is sent any more whose group ends.
    let Some(smcd) = groups.at_mut(group).and_then(LinkGroup::open_smcd) else {
        return;
    };
    smcd.queue.ready.push_back(&mut connections, index);
    if let Some(device) = core.devices.ism_mut(smcd.peer().device) {
        device.groups.push_back(&mut groups, group);
    }
}
