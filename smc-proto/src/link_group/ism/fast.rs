//! The fast path of SMC-D: sends the message of a connection whose bytes are in the
//! peer's memory already, and receives a signal that only moves cursors. Everything else
//! takes the general path.
//!
//! With what the caller does in between, all of this is meant to be inlined into one
//! function: a call and a return cost as much as what is done here.

use super::{IsmBuffer, ism_slot};
use crate::command::{BufferSpans, IsmCommand, Signal};
use crate::connection::{ApiMisuse, segments};
use crate::connection_record::{ConnectionRecord, Phase};
use crate::data_path::{DataPath, Deferred};
use crate::id::{BufferId, ConnId, ConnIdx, DeviceId};
use crate::link_group::Buffer;
use crate::slots::Pool;
use crate::stats::count;
use crate::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, Endianness};

impl DataPath<'_> {
    /// [`DataPath::write`] and [`DataPath::next_signal`] in one, if no connection of the
    /// group waits to transmit and the bytes are in the peer's memory already; else only
    /// the write.
    ///
    /// The peer is notified first, as it waits; the bookkeeping comes after.
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
        let (core, connections, links, _) = self.parts();
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
            |space| {
                let space = BufferSpans {
                    buffer,
                    segments: segments(space, 0),
                    eye_catcher_at: None,
                };
                fill(peer, &space)
            },
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
        if sent.is_none() || !connection.is_settled() {
            *deferred = self.after_connection(index);
        }
        Ok(written)
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

    /// Receives the message in the DMB of this connection, if the connection is active and
    /// the message moves cursors only; returns what follows. Otherwise nothing is done yet.
    //= D-043
    #[inline(always)]
    pub(crate) fn on_fast_signal(
        &mut self,
        index: ConnIdx,
        bytes: &[u8; CDC_ISM_LENGTH],
    ) -> Option<Follows> {
        let (now, config) = (self.core.now, &self.core.config.connection);
        let record = self.connections.at_mut(index)?;
        if record.phase != Phase::Active {
            return None;
        }
        let connection = record.connection.as_mut()?;
        let cdc = CdcIsm::parse(bytes, Endianness::NATIVE).ok()?;
        let readable = connection.on_fast_cdc_ism(now, config, &cdc)?;
        count(&mut self.core.statistics.cdc_received);
        if connection.is_settled() {
            return Some(match readable {
                true => Follows::Readable,
                false => Follows::Deferred(Deferred::Nothing),
            });
        }
        if readable {
            connection.note_readable();
        }
        Some(Follows::Deferred(self.after_connection(index)))
    }
}

/// What follows from a message that moves cursors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follows {
    /// The application has to be notified of bytes.
    Readable,
    /// Work for the engine.
    Deferred(Deferred),
}

/// The connection that receives in a DMB of this side.
#[inline]
pub(crate) fn owner_of(
    buffers: &Pool<'_, Buffer>,
    connections: &Pool<'_, ConnectionRecord>,
    buffer: BufferId,
) -> Option<ConnIdx> {
    let owned = buffers.live(buffer.index, buffer.generation)?;
    let Some(IsmBuffer::Dmb { owner, .. }) = owned.ism else {
        return None;
    };
    (connections.at(owner)?.rmb.id() == buffer).then_some(owner)
}
