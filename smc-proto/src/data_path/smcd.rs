//! What the data path does for SMC-D alone: the fast path for connections whose bytes lie in the
//! peer's DMB.

use super::{DataPath, Deferred, SignalOutcome};
use crate::command::{BufferSpans, IsmCommand, Signal};
use crate::connection::ApiMisuse;
use crate::connection_record::Phase;
use crate::id::{ConnId, ConnIdx, DeviceId};
use crate::link_group::ism_slot;
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
        let slot = usize::from(ism_slot(device).0);
        let device = self.core.devices.get(slot)?;
        let link = device.links.first()?;
        if !device.buffers.is_empty() {
            return None;
        }
        let state = self.links.at_mut(link).filter(|link| link.is_for_data())?;
        let index = state.queue.ready.first()?;
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
        state.queue.ready.remove(&mut self.connections, index);
        let (keeps_place, has_work) = (state.advance_round(index), state.wants_transmit());
        self.rotate_link(link, has_work, keeps_place);
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
        let (core, connections, links, _, _) = self.parts();
        let Some((generation, record)) = connections.into_entry(index) else {
            return Err(ApiMisuse::SendClosed);
        };
        let link = record.link;
        let idle = record.phase == Phase::Active
            && links.at(link).is_some_and(|link| link.is_idle_for_data());
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
}
