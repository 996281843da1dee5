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
use crate::wire::types::DmbToken;

/// How long a DMB is spare before it is unregistered, at most.
pub(crate) const SPARE_DMB: Duration = Duration::from_secs(1);

/// Most bytes of the spare DMBs of one size that a group keeps, and most such DMBs.
const SPARE_DMBS: (u32, u32) = (8 << 20, 64);

/// State of a buffer of SMC-D beside its memory's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum IsmBuffer {
    /// A DMB of this side.
    Dmb {
        /// Token by which the peer writes to it.
        token: DmbToken,
        /// The connection that receives in it.
        owner: ConnIdx,
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
            // A token is a name, whose value decides nothing.
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

    /// The next control command of a buffer of SMC-D. `is_open` says whether its group has not
    /// ended, and is asked only if the command depends on it.
    pub(crate) fn wanted_of_ism(
        &self,
        ism: IsmBuffer,
        is_open: impl FnOnce() -> bool,
    ) -> Option<Control> {
        if self.is_busy() {
            return None;
        }
        let open = || !self.retired && is_open();
        let unused = self.retired && self.users == 0;
        let IsmBuffer::Source {
            target,
            attached,
            mapped,
            ..
        } = ism
        else {
            return match self.memory {
                Memory::Absent => open().then_some(Control::Alloc),
                Memory::Gone => None,
                Memory::Present if self.retired => unused.then_some(Control::Free),
                Memory::Present => self.dirty.first().map(Control::Clear),
            };
        };
        match self.memory {
            _ if attached => (target.is_none() || unused).then_some(Control::Detach),
            Memory::Gone => None,
            Memory::Absent if mapped => (target.is_some() && open()).then_some(Control::Attach),
            Memory::Absent => open().then_some(Control::Alloc),
            Memory::Present if self.retired => unused.then_some(Control::Free),
            Memory::Present => (target.is_some() && open()).then_some(Control::Attach),
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
        let is_enough = graceful && self.has_spare_dmbs(index);
        let Some(b) = self.buffers.at_mut(index) else {
            return;
        };
        match &mut b.ism {
            None => {}
            Some(IsmBuffer::Dmb { owner, .. }) => {
                *owner = Idx::NONE;
                b.retired |= !graceful || is_enough;
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

    /// Whether the group of a DMB has as many spare DMBs of its size as it keeps.
    fn has_spare_dmbs(&mut self, index: BufferIdx) -> bool {
        let Some(b) = self.buffers.at(index).filter(|b| b.ism.is_some()) else {
            return false;
        };
        let (group, size) = (b.group, b.size);
        let Some(g) = self.data.groups.at(group) else {
            return false;
        };
        let Some(list) = g
            .spare
            .get(BufferKind::Rmb as usize)
            .and_then(|lists| lists.get(usize::from(size.code())))
            .copied()
        else {
            return false;
        };
        let (mut bytes, mut left) = SPARE_DMBS;
        let mut at = list.first();
        while let Some(spare) = at {
            bytes = bytes.saturating_sub(size.octets());
            left = left.saturating_sub(1);
            if bytes < size.octets() || left == 0 {
                return true;
            }
            at = list.next(&mut self.buffers, spare);
        }
        false
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
