//! DMBs of this side, and send buffers that are attached to DMBs of the peer.

use core::hash::{Hash, Hasher};

use super::super::buffer::Control;
use super::super::{Buffer, Memory};
use super::IsmPeer;
use crate::command::{BufferKind, IsmCommand};
use crate::connection::{CloseCause, Connection};
use crate::connection_record::ConnectionRecord;
use crate::id::{BufferId, BufferIdx, ConnIdx, Idx};
use crate::link_group::Groups;
use crate::slots::Pool;
use crate::time::Duration;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;
use crate::wire::types::DmbToken;

/// How long a DMB is spare before it is unregistered, at most.
pub(crate) const SPARE_DMB: Duration = Duration::from_secs(1);

/// Most bytes that connections may have received in the spare DMBs of one size of a group, counted
/// in units of [`COUNTED`] bytes of each DMB.
const SPARE_BYTES: u32 = 8 << 20;

/// Most spare DMBs of one size that a group keeps.
const SPARE_DMBS: u32 = 256;

/// Unit in which the received part of a DMB is counted, in bytes: the usual page.
const COUNTED: u32 = 4096;

/// State of a buffer of SMC-D beside its memory's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum IsmBuffer {
    /// A DMB of this side.
    Dmb {
        /// Token by which the peer writes to it.
        token: DmbToken,
        /// The connection that receives in it.
        owner: ConnIdx,
        /// Length of the part, from the start, that connections have received in, in bytes: a
        /// multiple of [`COUNTED`].
        received: u32,
    },
    /// A send buffer.
    Source {
        /// The peer's DMB that it is to be attached to.
        target: Option<PeerDmb>,
        /// Whether it is attached to a DMB.
        attached: bool,
        /// Whether the send buffer is a mapping of the peer's DMB itself.
        mapped: bool,
        /// Whether the peer reads nothing more of the DMB it was attached to last.
        finished: bool,
    },
}

/// A DMB of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PeerDmb {
    pub(crate) token: DmbToken,
    /// Bytes.
    pub(crate) length: u32,
}

impl IsmBuffer {
    pub(crate) const fn new(kind: BufferKind, ism_peer: IsmPeer) -> Self {
        match kind {
            BufferKind::Rmb => Self::Dmb {
                token: DmbToken(0),
                owner: Idx::NONE,
                received: 0,
            },
            BufferKind::Send => Self::Source {
                target: None,
                attached: false,
                mapped: ism_peer.maps,
                finished: false,
            },
        }
    }

    /// Whether nothing of an earlier connection is left.
    pub(crate) const fn is_free(self) -> bool {
        match self {
            Self::Dmb { .. } => true,
            Self::Source {
                target, attached, ..
            } => target.is_none() && !attached,
        }
    }

    pub(crate) fn fingerprint<H: Hasher>(self, hasher: &mut H) {
        match self {
            // A token is a name, whose value decides nothing; what was received decides only how
            // many spare DMBs are kept.
            Self::Dmb { owner, .. } => (0u8, owner).hash(hasher),
            Self::Source {
                target,
                attached,
                mapped,
                // Only the peer's memory depends on it.
                finished: _,
            } => {
                let length = target.map(|target| target.length);
                (1u8, length, attached, mapped).hash(hasher);
            }
        }
    }
}

impl Buffer {
    /// Token of a registered DMB.
    pub(crate) fn dmb_token(&self) -> Option<DmbToken> {
        match self.ism {
            Some(IsmBuffer::Dmb { token, .. }) if self.memory == Memory::Present => Some(token),
            _ => None,
        }
    }

    /// Length of the part of a DMB of this side that connections have received in, if one more has
    /// received `bytes`: the head and what follows, as a multiple of [`COUNTED`]. `None` if the
    /// buffer is no DMB.
    fn received_with(&self, bytes: u64) -> Option<u32> {
        let Some(IsmBuffer::Dmb { received, .. }) = self.ism else {
            return None;
        };
        let length = self.size.octets();
        let end = bytes.saturating_add(CDC_ISM_LENGTH as u64);
        let end = u32::try_from(end).unwrap_or(length).min(length);
        let end = end.checked_next_multiple_of(COUNTED).unwrap_or(length);
        Some(received.max(end))
    }

    /// Whether a send buffer is attached to the DMB that it is to be attached to.
    pub(crate) const fn is_attached(&self) -> bool {
        matches!(
            self.ism,
            Some(IsmBuffer::Source {
                target: Some(_),
                attached: true,
                ..
            })
        )
    }

    /// The next control command of a buffer of SMC-D, whose group `is_open`: it has not ended.
    pub(crate) fn wanted_of_ism(&self, ism: IsmBuffer, is_open: bool) -> Option<Control> {
        if self.is_busy() {
            return None;
        }
        let open = is_open && !self.retired;
        let unused = self.retired && self.users == 0;
        let IsmBuffer::Source {
            target,
            attached,
            mapped,
            ..
        } = ism
        else {
            return match self.memory {
                Memory::Absent => open.then_some(Control::Alloc),
                Memory::Gone => None,
                Memory::Present if self.retired => unused.then_some(Control::Free),
                Memory::Present => self.dirty.first().map(Control::Clear),
            };
        };
        match self.memory {
            _ if attached => (target.is_none() || unused).then_some(Control::Detach),
            Memory::Gone => None,
            Memory::Absent if mapped => (target.is_some() && open).then_some(Control::Attach),
            Memory::Absent => open.then_some(Control::Alloc),
            Memory::Present if self.retired => unused.then_some(Control::Free),
            Memory::Present => (target.is_some() && open).then_some(Control::Attach),
        }
    }
}

impl Groups<'_> {
    /// The next control command of a buffer, for its ISM device.
    pub(super) fn next_dmb_command(&mut self, index: BufferIdx) -> Option<IsmCommand> {
        let buffer = self.buffer_id(index);
        let (wanted, _) = self.buffer_work(index)?;
        let ism_peer = self.ism_peer_of(self.buffers.at(index)?.group);
        let b = self.buffers.at_mut(index)?;
        let length = b.size.octets();
        let command = match (b.ism?, wanted) {
            (IsmBuffer::Dmb { .. }, Control::Alloc) => IsmCommand::RegisterDmb {
                buffer,
                length,
                peer: ism_peer?.peer,
                vlan: ism_peer?.vlan,
            },
            (IsmBuffer::Dmb { .. }, Control::Clear(_)) => IsmCommand::ClearDmb { buffer },
            (IsmBuffer::Dmb { .. }, _) => IsmCommand::UnregisterDmb { buffer },
            (IsmBuffer::Source { .. }, Control::Alloc) => {
                IsmCommand::AllocBuffer { buffer, length }
            }
            (
                IsmBuffer::Source {
                    target: Some(target),
                    mapped,
                    ..
                },
                Control::Attach,
            ) => IsmCommand::AttachDmb {
                buffer,
                peer: ism_peer?.peer,
                token: target.token,
                length: target.length,
                map: mapped,
            },
            (IsmBuffer::Source { finished, .. }, Control::Detach) => {
                //= D-061
                IsmCommand::DetachDmb {
                    buffer,
                    discard: finished,
                }
            }
            (IsmBuffer::Source { .. }, _) => IsmCommand::FreeBuffer { buffer },
        };
        b.note_in_flight(wanted);
        Some(command)
    }

    /// Schedules attaching the send buffer of a connection to the peer's DMB, and wakes the
    /// connection's rendezvous when the device has answered.
    pub(crate) fn attach_send_buffer(&mut self, conn: ConnIdx, dmb: PeerDmb) {
        let index = self
            .conn(conn)
            .map_or(Idx::NONE, |record| record.send_buffer);
        let Some(b) = self.buffers.at_mut(index) else {
            // It went with its device.
            return;
        };
        let Some(IsmBuffer::Source {
            target, finished, ..
        }) = &mut b.ism
        else {
            debug_assert!(false, "a send buffer of SMC-D is attached to DMBs");
            return;
        };
        *target = Some(dmb);
        *finished = false;
        b.waiter = conn;
        self.schedule_buffer(index);
    }

    /// Notes which connection a DMB is given to.
    pub(crate) fn note_owner(&mut self, index: BufferIdx, conn: ConnIdx) {
        if let Some(IsmBuffer::Dmb { owner, .. }) =
            self.buffers.at_mut(index).and_then(|b| b.ism.as_mut())
        {
            *owner = conn;
        }
    }

    /// Takes a buffer of SMC-D back from a connection. A DMB that the peer may still
    /// write to is not used again.
    //= D-057
    pub(crate) fn take_back_ism(&mut self, conn: ConnIdx, index: BufferIdx) {
        let record = self.conn(conn);
        let connection = record.and_then(|record| record.connection.as_ref());
        let graceful = connection.and_then(Connection::cause) == Some(CloseCause::Orderly);
        let is_finished = connection.is_some_and(Connection::is_peer_finished);
        let bytes = connection.map_or(0, |connection| connection.stats().bytes_received);
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        let part = b.received_with(bytes);
        match &mut b.ism {
            None => {}
            Some(IsmBuffer::Dmb {
                owner, received, ..
            }) => {
                *owner = Idx::NONE;
                *received = part.unwrap_or(*received);
                b.retired |= !graceful;
            }
            Some(IsmBuffer::Source {
                target,
                mapped,
                finished,
                ..
            }) => {
                *finished = is_finished;
                *target = None;
                b.retired |= *mapped;
            }
        }
    }

    /// Retires a DMB that was cleared, if it is not to be kept for the next connection.
    //= D-057
    pub(super) fn limit_spare_dmbs(&mut self, index: BufferIdx) {
        let keeps = self.keeps_spare_dmb(index);
        if let Some(b) = self.buffers.at_mut(index) {
            b.retired |= !keeps;
        }
    }

    /// Whether a DMB is kept for the next connection of its group: if the group has not enough spare
    /// DMBs of that size, and further connections do not need its place in the table, two each.
    fn keeps_spare_dmb(&mut self, index: BufferIdx) -> bool {
        let free = |used: u32, capacity: u32| capacity.saturating_sub(used);
        let connections = &self.data.connections;
        let connections = free(connections.used(), connections.capacity());
        let places = free(self.buffers.used(), self.buffers.capacity());
        if places < connections.saturating_mul(2) {
            return false;
        }
        let Some(&Buffer {
            group,
            size,
            ism: Some(IsmBuffer::Dmb { received, .. }),
            ..
        }) = self.buffers.at(index)
        else {
            return false;
        };
        let lists = self.data.groups.at(group);
        let lists = lists.and_then(|g| g.spare.get(BufferKind::Rmb as usize));
        let list = lists.and_then(|lists| lists.get(usize::from(size.code())));
        let Some(list) = list.copied() else {
            return false;
        };
        let (mut bytes, mut count) = (received, 1u32);
        let mut at = list.first();
        while let Some(spare) = at {
            let spare_dmb = self.buffers.at(spare).and_then(|b| b.ism);
            if let Some(IsmBuffer::Dmb { received, .. }) = spare_dmb {
                bytes = bytes.saturating_add(received);
            }
            count = count.saturating_add(1);
            if bytes > SPARE_BYTES || count > SPARE_DMBS {
                return false;
            }
            at = list.next(&mut self.buffers, spare);
        }
        true
    }

    /// The connection that has a DMB.
    pub(super) fn owner_of(&self, buffer: BufferId) -> Option<ConnIdx> {
        owner_of(&self.buffers, &self.data.connections, buffer)
    }
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
