//! What an ISM device answers and reports.

use super::super::buffer::{Agreement, Control};
use super::super::{Memory, UselessBuffer};
use super::{IsmBuffer, same_device};
use crate::completion::IsmCompletion;
use crate::connection_record::Phase;
use crate::id::{BufferId, BufferIdx, ConnIdx, GroupIdx, HandshakeIdx, Idx};
use crate::link_group::Groups;
use crate::stats::count;
use crate::trace::TraceEvent;
use crate::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, CdcIsmError, Endianness};
use crate::wire::types::DmbToken;

/// What a report of an ISM device leaves to the rendezvous.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum IsmFollowUp {
    /// Everything is done.
    Nothing,
    /// A message for a connection in rendezvous, with this handshake.
    Early(HandshakeIdx, CdcIsm),
    /// A buffer could not be had.
    Useless(UselessBuffer),
}

impl Groups<'_> {
    /// What an ISM device reports: what of it is left to the rendezvous.
    pub(crate) fn on_ism(&mut self, completion: &IsmCompletion) -> IsmFollowUp {
        match *completion {
            IsmCompletion::Signalled { buffer, cdc } => return self.on_signalled(buffer, &cdc),
            IsmCompletion::DmbRegistered { buffer, token } => {
                self.on_memory(buffer, Some(token));
            }
            IsmCompletion::BufferAllocated { buffer } => self.on_memory(buffer, None),
            IsmCompletion::DmbAttached { buffer } => self.on_attached(buffer),
            IsmCompletion::DmbDetached { buffer } => self.on_detached(buffer),
            IsmCompletion::DmbCleared { buffer } => {
                if let Some(index) = self.live_buffer(buffer)
                    && let Some(b) = self.buffers.at_mut(index)
                    && b.ism.is_some()
                    && b.on_cleared(0)
                {
                    self.trace_buffer(index, || TraceEvent::ElementCleared);
                    self.limit_spare_dmbs(index);
                    self.schedule_buffer(index);
                    self.list_spare(index);
                }
            }
            IsmCompletion::DmbUnregistered { buffer } | IsmCompletion::BufferFreed { buffer } => {
                if let Some(index) = self.under_control(buffer, Control::Free) {
                    self.remove_buffer(index);
                }
            }
            IsmCompletion::Refused { buffer } => {
                let useless = self.on_ism_refused(buffer);
                return useless.map_or(IsmFollowUp::Nothing, IsmFollowUp::Useless);
            }
            //= D-053
            IsmCompletion::MoveFailed { conn } => {
                if let Some(index) = self.data.live_conn(conn) {
                    self.lose_if_lent(index);
                    self.with_connection(index, |connection, now, config| {
                        connection.on_move_failed(now, &config.connection);
                    });
                }
            }
            IsmCompletion::DmbWithdrawn { buffer } => self.on_dmb_withdrawn(buffer),
            IsmCompletion::DmbFailed { buffer } => {
                if let Some(index) = self.owner_of(buffer) {
                    self.lose_if_lent(index);
                    self.with_connection(index, |connection, now, config| {
                        connection.on_dmb_failed(now, &config.connection);
                    });
                }
            }
            //= D-052
            IsmCompletion::PeerVanished { device, peer } => {
                self.data
                    .trace(|| (device.into(), TraceEvent::PeerVanished));
                self.end_ism_groups(|ism_peer| {
                    ism_peer.device == device && same_device(ism_peer.peer, peer)
                });
            }
            IsmCompletion::Event {
                device,
                peer,
                code,
                info,
            } => {
                self.data
                    .trace(|| (device.into(), TraceEvent::IsmEvent { code }));
                self.on_ism_event(device, peer, code, info);
            }
        }
        IsmFollowUp::Nothing
    }

    /// Handles that the peer took back the DMB that a connection writes to, or is to write to.
    //= D-059
    fn on_dmb_withdrawn(&mut self, buffer: BufferId) {
        let Some((index, group)) = self.attached(buffer) else {
            return;
        };
        self.trace_buffer(index, || TraceEvent::DmbWithdrawn);
        let Some(conn) = self.sender_in(group, index) else {
            return;
        };
        if self.conn(conn).map(|record| record.phase) == Some(Phase::Active) {
            self.lose_if_lent(conn);
            self.with_connection(conn, |connection, now, config| {
                connection.on_peer_withdrew(now, &config.connection);
            });
        } else if let Some(b) = self.buffers.at_mut(index) {
            // The rendezvous is woken, and ends for want of a buffer to write to.
            b.retired = true;
            self.data.wake(conn);
        }
    }

    /// A live buffer that is attached to a DMB of a peer, or is to be, and its group.
    pub(crate) fn attached(&self, buffer: BufferId) -> Option<(BufferIdx, GroupIdx)> {
        let index = self.live_buffer(buffer)?;
        let b = self.buffers.at(index)?;
        match b.ism {
            Some(IsmBuffer::Source { target, .. }) if target.is_some() => Some((index, b.group)),
            _ => None,
        }
    }

    /// The connection of a group that writes, or is to write, to this buffer.
    pub(crate) fn sender_in(&mut self, group: GroupIdx, buffer: BufferIdx) -> Option<ConnIdx> {
        self.find_member(group, |groups, conn| {
            let record = groups.conn(conn);
            record.is_some_and(|record| record.send_buffer == buffer)
        })
    }

    /// A live buffer of SMC-D with this control command in flight.
    fn under_control(&self, buffer: BufferId, control: Control) -> Option<BufferIdx> {
        let index = self.live_buffer(buffer)?;
        let b = self.buffers.at(index)?;
        (b.ism.is_some() && b.is_pending(control)).then_some(index)
    }

    /// Handles that a buffer got its memory; a DMB has a token, `named`.
    fn on_memory(&mut self, buffer: BufferId, named: Option<DmbToken>) {
        let Some(index) = self.under_control(buffer, Control::Alloc) else {
            return;
        };
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        match (&mut b.ism, named) {
            (Some(IsmBuffer::Dmb { token, .. }), Some(named)) => {
                *token = named;
                // Accept or Confirm announces it to the peer: nothing is left to agree on.
                b.agreement = Agreement::Confirmed;
            }
            (Some(IsmBuffer::Source { .. }), None) => {}
            // The other kind's answer.
            _ => return,
        }
        b.on_allocated();
        let has_target = matches!(
            b.ism,
            Some(IsmBuffer::Source {
                target: Some(_),
                ..
            })
        );
        self.trace_buffer(index, || match named {
            Some(token) => TraceEvent::DmbRegistered { token },
            None => TraceEvent::BufferAllocated,
        });
        if has_target {
            // The memory is there, and is to be attached next.
            self.schedule_buffer(index);
        } else {
            self.serve_waiter(index);
        }
    }

    fn on_attached(&mut self, buffer: BufferId) {
        let Some(index) = self.under_control(buffer, Control::Attach) else {
            return;
        };
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        let _ = b.take_refused();
        b.memory = Memory::Present;
        if let Some(IsmBuffer::Source { attached, .. }) = &mut b.ism {
            *attached = true;
        }
        self.trace_buffer(index, || TraceEvent::DmbAttached);
        self.serve_waiter(index);
    }

    fn on_detached(&mut self, buffer: BufferId) {
        if let Some(index) = self.under_control(buffer, Control::Detach) {
            self.detached(index);
        }
    }

    /// Notes that a send buffer is attached to no DMB. A mapping of the DMB is gone with that.
    fn detached(&mut self, index: BufferIdx) {
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        let _ = b.take_refused();
        if let Some(IsmBuffer::Source {
            attached, mapped, ..
        }) = &mut b.ism
        {
            *attached = false;
            if *mapped {
                b.memory = Memory::Gone;
            }
        }
        self.trace_buffer(index, || TraceEvent::DmbDetached);
        self.list_spare(index);
        self.schedule_buffer(index);
        self.drop_absent_buffer(index);
    }

    /// A buffer is one step further: the rendezvous or RMB exchange that waits is woken.
    fn serve_waiter(&mut self, index: BufferIdx) {
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        let waiter = core::mem::replace(&mut b.waiter, Idx::NONE);
        self.schedule_buffer(index);
        self.list_spare(index);
        self.data.wake(waiter);
    }

    fn on_ism_refused(&mut self, buffer: BufferId) -> Option<UselessBuffer> {
        let index = self.live_buffer(buffer)?;
        let b = self.buffers.at_mut(index).filter(|b| b.ism.is_some())?;
        let refused = b.take_refused()?;
        let group = b.group;
        self.trace_buffer(index, || TraceEvent::BufferRefused {
            step: refused.into(),
        });
        let b = self.buffers.at_mut(index)?;
        match refused {
            // It can have no other use; without users it goes.
            Control::Clear(element) => {
                b.dirty.remove(element);
                b.retired = true;
                self.set_buffer_deadline(index, None);
                self.list_spare(index);
                self.schedule_buffer(index);
            }
            // What cannot be undone counts as undone.
            Control::Free => self.remove_buffer(index),
            Control::Detach => self.detached(index),
            // Never asked of an ISM device.
            Control::Register(_) | Control::Deregister(_) => {}
            Control::Alloc | Control::Attach => {
                if b.memory == Memory::Absent {
                    b.memory = Memory::Gone;
                }
                b.retired = true;
                let waiter = core::mem::replace(&mut b.waiter, Idx::NONE);
                self.list_spare(index);
                self.data.wake(waiter);
                return Some(UselessBuffer {
                    group,
                    buffer: index,
                });
            }
        }
        None
    }

    /// A DMB of this side was signalled.
    //= D-043
    fn on_signalled(&mut self, buffer: BufferId, bytes: &[u8; CDC_ISM_LENGTH]) -> IsmFollowUp {
        let Some(index) = self.owner_of(buffer) else {
            count(&mut self.data.core.statistics.cdc_unknown);
            self.trace_buffer(buffer.index, || TraceEvent::CdcUnknown { token: None });
            return IsmFollowUp::Nothing;
        };
        let Some(record) = self.data.connections.at(index) else {
            return IsmFollowUp::Nothing;
        };
        let head = CdcIsm::parse(bytes, Endianness::NATIVE);
        let handshake = match record.phase {
            Phase::Active => None,
            Phase::Rendezvous(handshake) => Some(handshake),
            _ => {
                count(&mut self.data.core.statistics.cdc_unknown);
                self.trace_buffer(buffer.index, || TraceEvent::CdcUnknown { token: None });
                return IsmFollowUp::Nothing;
            }
        };
        // The message overtook the Confirm. A head that is no message is judged at the next
        // signal.
        if let Some(handshake) = handshake {
            return match head {
                Ok(cdc) => IsmFollowUp::Early(handshake, cdc),
                Err(_) => IsmFollowUp::Nothing,
            };
        }
        if head == Err(CdcIsmError::NotWritten) {
            return IsmFollowUp::Nothing;
        }
        let deferred = self
            .data
            .apply_message(index, |connection, now, config| match head {
                Ok(cdc) => {
                    let outcome = connection.on_cdc_ism(now, config, &cdc);
                    (outcome, Some(cdc.numbered(0)))
                }
                Err(_) => (connection.on_foreign_head(now, config), None),
            });
        self.execute(deferred);
        IsmFollowUp::Nothing
    }
}
