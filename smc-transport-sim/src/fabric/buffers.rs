//! Buffers of a host: allocating, registering, and the application's access.

use smc_proto::command::{BufferKind, Segment};
use smc_proto::time::Duration;
use smc_proto::wire::types::{RKey, RToken};

use super::control::{Answer, Refusal};
use super::queue_pair::QueuePairId;
use super::{BufferKey, Fabric, HostId, QueuePairKey};
use crate::completion::Completion;
use crate::fault::Operation;
use crate::memory::{Memory, MemoryError, Region};

impl Fabric {
    /// Provides zeroed memory. Answer: `BufferAllocated`.
    pub fn allocate_buffer(
        &mut self,
        host: HostId,
        key: BufferKey,
        kind: BufferKind,
        elements: u8,
        element_size: u32,
    ) {
        self.control_buffer(host, key, None, Operation::AllocateBuffer, |fabric| {
            let memory = fabric.memory_mut(host).map_err(|_| "no such host")?;
            if memory.describe(key).is_some() || elements == 0 {
                return Err(format!("cannot allocate {key:?} of {elements} elements").into());
            }
            memory.allocate(key, kind, elements, element_size);
            Ok(Completion::BufferAllocated { buffer: key })
        });
    }

    /// Registers a buffer with a queue pair. Answer: `BufferRegistered`, with a
    /// key and an address that are different each time.
    pub fn register_buffer(&mut self, host: HostId, buffer: BufferKey, key: QueuePairKey) {
        self.control_buffer(
            host,
            buffer,
            Some(key),
            Operation::RegisterBuffer,
            |fabric| {
                let described = fabric
                    .memory_mut(host)
                    .ok()
                    .and_then(|m| m.describe(buffer));
                let (kind, length) = described.ok_or_else(|| format!("no {buffer:?}"))?;
                let (id, queue_pair) = fabric
                    .queue_pair(host, key)
                    .ok_or_else(|| format!("no {key:?}"))?;
                if fabric.is_gone(queue_pair.port) {
                    return Err(Refusal::Gone);
                }
                let rkey = fabric.fresh_rkey(host);
                let address = 0x1000_0000_0000 + (fabric.random.below(1 << 32) << 12);
                let region = Region {
                    buffer,
                    address,
                    length,
                    remote_write: kind == BufferKind::Rmb,
                };
                let queue_pair = fabric.queue_pairs.get_mut(&id).ok_or("no queue pair")?;
                if queue_pair.regions.holds(buffer) || !queue_pair.regions.add(rkey, region) {
                    return Err(format!("{buffer:?} is registered with {key:?}").into());
                }
                let rtoken = RToken { rkey, address };
                Ok(Completion::BufferRegistered {
                    buffer,
                    link: key,
                    rtoken,
                })
            },
        );
    }

    /// Undoes a registration. Answer: `BufferDeregistered`.
    pub fn deregister_buffer(&mut self, host: HostId, buffer: BufferKey, key: QueuePairKey) {
        let link = Some(key);
        self.control_buffer(host, buffer, link, Operation::DeregisterBuffer, |fabric| {
            let id = fabric.queue_pair(host, key).map(|(id, _)| id);
            let queue_pair = id.and_then(|id| fabric.queue_pairs.get_mut(&id));
            if !queue_pair.is_some_and(|queue_pair| queue_pair.regions.remove(buffer)) {
                return Err(format!("{buffer:?} is not registered with {key:?}").into());
            }
            Ok(Completion::BufferDeregistered { buffer, link: key })
        });
    }

    /// Gives memory back. Answer: `BufferFreed`.
    pub fn free_buffer(&mut self, host: HostId, buffer: BufferKey) {
        self.control_buffer(host, buffer, None, Operation::FreeBuffer, |fabric| {
            let mut mine = fabric.queue_pairs.range(QueuePairId::all_of(host));
            if mine.any(|(_, queue_pair)| queue_pair.regions.holds(buffer)) {
                return Err(format!("{buffer:?} freed while registered").into());
            }
            if !fabric
                .memory_mut(host)
                .is_ok_and(|memory| memory.free(buffer))
            {
                return Err(format!("no {buffer:?}").into());
            }
            Ok(Completion::BufferFreed { buffer })
        });
    }

    /// Zeroes an element of a buffer. Answer: `ElementCleared`.
    pub fn clear_element(
        &mut self,
        host: HostId,
        buffer: BufferKey,
        offset: u32,
        length: u32,
        eye_catcher: bool,
    ) {
        self.control_buffer(host, buffer, None, Operation::ClearElement, |fabric| {
            fabric
                .memory_mut(host)
                .and_then(|memory| memory.clear_element(buffer, offset, length, eye_catcher))
                .map_err(|error| format!("clearing {buffer:?}: {error:?}"))?;
            Ok(Completion::ElementCleared { buffer, offset })
        });
    }

    /// Copies bytes into pieces of a send buffer.
    ///
    /// # Errors
    /// [`MemoryError`] if the pieces are not there or not of that length.
    pub fn fill_buffer(
        &mut self,
        host: HostId,
        buffer: BufferKey,
        spans: [Segment; 2],
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        self.memory_mut(host)?.fill(buffer, spans, bytes)
    }

    /// Appends a copy of pieces of a buffer to `into`.
    ///
    /// # Errors
    /// [`MemoryError`] if the pieces are not there.
    pub fn copy_buffer(
        &self,
        host: HostId,
        buffer: BufferKey,
        spans: [Segment; 2],
        into: &mut Vec<u8>,
    ) -> Result<(), MemoryError> {
        let host = self
            .hosts
            .get(usize::from(host.0))
            .ok_or(MemoryError::NoBuffer)?;
        host.memory.copy_out(buffer, spans, into)
    }

    /// Buffers, queue pairs and registrations of a host: all 0 after it gave
    /// everything back.
    #[must_use]
    pub fn in_use(&self, host: HostId) -> [usize; 3] {
        let queue_pairs = || {
            self.queue_pairs
                .range(QueuePairId::all_of(host))
                .map(|(_, q)| q)
        };
        [
            self.hosts
                .get(usize::from(host.0))
                .map_or(0, |host| host.memory.len())
                + self.ism.buffers_in_use(host),
            queue_pairs().count(),
            queue_pairs()
                .map(|queue_pair| queue_pair.regions.len())
                .sum(),
        ]
    }

    pub(super) fn memory_mut(&mut self, host: HostId) -> Result<&mut Memory, MemoryError> {
        let host = self
            .hosts
            .get_mut(usize::from(host.0))
            .ok_or(MemoryError::NoBuffer)?;
        Ok(&mut host.memory)
    }

    fn control_buffer(
        &mut self,
        host: HostId,
        buffer: BufferKey,
        link: Option<QueuePairKey>,
        operation: Operation,
        effect: impl FnOnce(&mut Self) -> Answer,
    ) {
        let refused = Completion::BufferRefused { buffer };
        let link = link.and_then(|key| self.queue_pair(host, key));
        let link = link.map(|(id, _)| id);
        self.control(host, link, operation, refused, Duration::ZERO, effect);
    }

    fn fresh_rkey(&mut self, host: HostId) -> RKey {
        loop {
            let rkey = RKey(self.random.next_u64() as u32);
            let mut mine = self.queue_pairs.range(QueuePairId::all_of(host));
            if mine.all(|(_, queue_pair)| queue_pair.regions.find(rkey).is_none()) {
                return rkey;
            }
        }
    }
}
