//! The engine's door: its commands become verbs, completions get its handles back.

use std::collections::BTreeMap;

use smc_proto::command::{RdmaCommand, Segment};
use smc_proto::id::{BufferId, ConnId, DeviceId, LinkId, WrId};

use super::queue_pair::QueuePairId;
use super::{BufferKey, Fabric, HostId, QueuePairKey, WorkOwner};
use crate::completion::{Completion, FabricCompletion, OwnedCompletion};
use crate::invariants::Target;
use crate::memory::MemoryError;

/// Handles the engine of one host used. The newest generation of a slot
/// replaces older ones: a completion for those is dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    links: BTreeMap<u32, LinkId>,
    buffers: BTreeMap<u32, BufferId>,
    conns: BTreeMap<u32, ConnId>,
}

const fn join(index: u32, generation: u32) -> u64 {
    (index as u64) << 32 | generation as u64
}

const fn index_of(key: u64) -> u32 {
    (key >> 32) as u32
}

impl From<LinkId> for QueuePairKey {
    fn from(link: LinkId) -> Self {
        Self(join(link.index(), link.generation()))
    }
}

impl From<BufferId> for BufferKey {
    fn from(buffer: BufferId) -> Self {
        Self(join(buffer.index(), buffer.generation()))
    }
}

impl From<ConnId> for WorkOwner {
    fn from(conn: ConnId) -> Self {
        Self(join(conn.index(), conn.generation()))
    }
}

impl Names {
    fn link(&self, key: QueuePairKey) -> Option<LinkId> {
        let link = *self.links.get(&index_of(key.0))?;
        (QueuePairKey::from(link) == key).then_some(link)
    }
    fn buffer(&self, key: BufferKey) -> Option<BufferId> {
        let buffer = *self.buffers.get(&index_of(key.0))?;
        (BufferKey::from(buffer) == key).then_some(buffer)
    }
    fn conn(&self, key: WorkOwner) -> Option<ConnId> {
        let conn = *self.conns.get(&index_of(key.0))?;
        (WorkOwner::from(conn) == key).then_some(conn)
    }
}

impl Fabric {
    /// Whether an RNIC takes another command. An adapter must not poll the engine
    /// for commands of a device that does not.
    #[must_use]
    pub fn is_ready(&self, host: HostId, device: DeviceId) -> bool {
        let now = self.queue.now();
        let state = self.hosts.get(usize::from(host.0));
        if state.is_none_or(|state| state.busy.is_on(now) || state.down_until > now) {
            return false;
        }
        let mut mine = self.queue_pairs.range(QueuePairId::all_of(host));
        mine.all(|(_, queue_pair)| {
            queue_pair.device != device
                || queue_pair.outstanding.len() < self.config.send_queue_depth
        })
    }

    /// What a WRITE would hit, if its key is good and the peer is there.
    #[must_use]
    pub fn target(&self, host: HostId, command: &RdmaCommand) -> Option<Target> {
        let &RdmaCommand::Write {
            link,
            rkey,
            address,
            ..
        } = command
        else {
            return None;
        };
        let (id, _) = self.queue_pair(host, link.into())?;
        let peer = self.peer_of(id)?;
        let region = self.queue_pairs.get(&peer)?.regions.find(rkey)?;
        Some(Target {
            host: peer.host,
            buffer: region.buffer,
            offset: address.checked_sub(region.address)?,
        })
    }

    /// Executes a command of a host's engine.
    pub fn execute(&mut self, host: HostId, command: RdmaCommand) {
        let now = self.queue.now();
        let state = self.hosts.get_mut(usize::from(host.0));
        if let Some(fault) = state.and_then(|state| state.busy.hit_by_ending(now)) {
            self.note_fault(fault, host);
        }
        match command {
            RdmaCommand::CreateQp {
                link,
                device,
                port,
                gid_index,
                receive_size,
            } => {
                self.name(host, |names| names.links.insert(link.index(), link));
                if gid_index != 0 {
                    self.violation(host, format!("{link} uses GID index {gid_index}"));
                }
                self.create_queue_pair(host, link.into(), device, port, receive_size);
            }
            RdmaCommand::ConnectQp {
                link, peer, mtu, ..
            } => {
                self.connect_queue_pair(host, link.into(), peer, mtu);
            }
            RdmaCommand::ActivateQp { link, psn } => {
                self.activate_queue_pair(host, link.into(), psn);
            }
            RdmaCommand::QpToError { link } => self.queue_pair_to_error(host, link.into()),
            RdmaCommand::DestroyQp { link } => self.destroy_queue_pair(host, link.into()),
            RdmaCommand::AllocBuffer {
                buffer,
                kind,
                elements,
                element_size,
                eye_catcher,
            } => {
                self.name(host, |names| names.buffers.insert(buffer.index(), buffer));
                self.allocate_buffer(host, buffer.into(), kind, elements, element_size);
                if eye_catcher && let Ok(memory) = self.memory_mut(host) {
                    for element in 0..u32::from(elements) {
                        let offset = element.saturating_mul(element_size);
                        // Refused memory has no elements to mark.
                        let _ = memory.clear_element(buffer.into(), offset, element_size, true);
                    }
                }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                self.register_buffer(host, buffer.into(), link.into());
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                self.deregister_buffer(host, buffer.into(), link.into());
            }
            RdmaCommand::FreeBuffer { buffer } => self.free_buffer(host, buffer.into()),
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                eye_catcher,
            } => self.clear_element(host, buffer.into(), offset, length, eye_catcher),
            RdmaCommand::Write {
                link,
                conn,
                buffer,
                source,
                rkey,
                address,
            } => {
                self.name(host, |names| names.conns.insert(conn.index(), conn));
                let (key, owner) = (link.into(), conn.into());
                self.post_write(host, key, owner, buffer.into(), source, rkey, address);
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => self.post_send(host, link.into(), wr_id, &payload),
            RdmaCommand::SendLarge { link, .. } => {
                self.violation(host, format!("{link}: a large SEND comes with its octets"));
            }
        }
    }

    /// Executes a [`RdmaCommand::SendLarge`], whose bytes the engine wrote.
    pub fn send_large(&mut self, host: HostId, link: LinkId, wr_id: WrId, bytes: &[u8]) {
        self.post_send(host, link.into(), wr_id, bytes);
    }

    /// What a host's RNICs report next, under the names of the verbs.
    pub fn next_fabric_completion(&mut self, host: HostId) -> Option<FabricCompletion> {
        let owner = self.hosts.get_mut(usize::from(host.0))?;
        let completion = owner.completions.pop_front()?;
        if let Completion::Received { link, .. } = completion
            && let Some(id) = owner.queue_pairs.get(&link).copied()
        {
            self.post_receive(id);
        }
        Some(completion)
    }

    /// What a host's RNICs report next to its engine. Takes the completion, and
    /// posts the receive again if it was one.
    pub fn next_completion(&mut self, host: HostId) -> Option<OwnedCompletion> {
        loop {
            let completion = self.next_fabric_completion(host)?;
            let names = &self.hosts.get(usize::from(host.0))?.names;
            let named = completion.rename(
                |link| names.link(link),
                |buffer| names.buffer(buffer),
                |conn| names.conn(conn),
            );
            if named.is_some() {
                return named;
            }
        }
    }

    /// Copies bytes of the application into pieces of a send buffer, which may be
    /// memory of the peer.
    ///
    /// # Errors
    /// [`MemoryError`] if the pieces are not there or not of that length.
    pub fn fill_send(
        &mut self,
        host: HostId,
        buffer: BufferId,
        spans: [Segment; 2],
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        match self.is_of_ism(host, buffer) {
            true => self.fill_ism(host, buffer, spans, bytes),
            false => self.fill_buffer(host, buffer.into(), spans, bytes),
        }
    }

    /// Appends what is in pieces of an RMB element to `into`. If an eye
    /// catcher should be at `eye_catcher_at` and is not, reads nothing,
    /// reports that to the engine and returns false; so it does if the DMB went with its
    /// device, whose removal is about to be reported to the engine.
    ///
    /// # Errors
    /// [`MemoryError`] if the pieces are not there.
    pub fn read_rmb(
        &mut self,
        host: HostId,
        conn: ConnId,
        buffer: BufferId,
        spans: [Segment; 2],
        eye_catcher_at: Option<u32>,
        into: &mut Vec<u8>,
    ) -> Result<bool, MemoryError> {
        if self.is_of_ism(host, buffer) {
            return self.take_ism(host, buffer, spans, into);
        }
        let memory = self.memory_mut(host)?;
        if eye_catcher_at.is_some_and(|offset| !memory.has_eye_catcher(buffer.into(), offset)) {
            self.name(host, |names| names.conns.insert(conn.index(), conn));
            let conn = conn.into();
            self.complete_now(host, Completion::EyeCatcherDamaged { conn });
            return Ok(false);
        }
        self.copy_buffer(host, buffer.into(), spans, into)
            .map(|()| true)
    }

    fn name<T>(&mut self, host: HostId, add: impl FnOnce(&mut Names) -> Option<T>) {
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            add(&mut host.names);
        }
    }
}
