//! Buffers of the engine's host.

use std::collections::BTreeMap;

use smc_proto::command::{EYE_CATCHER, Segment};
use smc_proto::id::BufferId;
use smc_proto::wire::types::RToken;

use crate::scripts::wire::Failed;

/// All buffers, and the keys by which the peer reaches them.
#[derive(Debug, Default)]
pub(super) struct Memory {
    buffers: BTreeMap<BufferId, Vec<u8>>,
    keys: BTreeMap<u64, (BufferId, u64)>,
}

impl Memory {
    pub(super) fn allocate(&mut self, buffer: BufferId, elements: u8, size: u32, marked: bool) {
        let mut bytes = vec![0; usize::from(elements) * size as usize];
        if marked {
            for element in bytes.chunks_mut(size as usize) {
                mark(element);
            }
        }
        self.buffers.insert(buffer, bytes);
    }

    pub(super) fn free(&mut self, buffer: BufferId) {
        self.buffers.remove(&buffer);
        self.keys.retain(|_, (of, _)| *of != buffer);
    }

    pub(super) fn clear(&mut self, buffer: BufferId, offset: u32, length: u32, marked: bool) {
        let range = offset as usize..(offset + length) as usize;
        let bytes = self.buffers.get_mut(&buffer);
        if let Some(element) = bytes.and_then(|bytes| bytes.get_mut(range)) {
            element.fill(0);
            if marked {
                mark(element);
            }
        }
    }

    pub(super) fn register(&mut self, buffer: BufferId, rtoken: RToken) {
        self.keys
            .insert(rtoken.rkey.0.into(), (buffer, rtoken.address));
    }

    /// Memory without keys, such as a send buffer of SMC-D.
    pub(super) fn provide(&mut self, buffer: BufferId, length: u32) {
        self.buffers.insert(buffer, vec![0; length as usize]);
    }

    /// Bytes of pieces of a buffer.
    pub(super) fn read(&self, buffer: BufferId, pieces: &[Segment]) -> Vec<u8> {
        let bytes = self.buffers.get(&buffer).map_or(&[][..], Vec::as_slice);
        let piece = |piece: &Segment| {
            let start = piece.offset as usize;
            bytes.get(start..start + piece.length as usize)
        };
        pieces.iter().filter_map(piece).flatten().copied().collect()
    }

    /// Copies bytes into pieces of a buffer: how many.
    pub(super) fn fill(&mut self, buffer: BufferId, pieces: &[Segment], data: &[u8]) -> u32 {
        let Some(bytes) = self.buffers.get_mut(&buffer) else {
            return 0;
        };
        let mut rest = data;
        for Segment { offset, length } in pieces {
            let (head, tail) = rest.split_at(rest.len().min(*length as usize));
            let start = *offset as usize;
            if let Some(place) = bytes.get_mut(start..start + head.len()) {
                place.copy_from_slice(head);
            }
            rest = tail;
        }
        (data.len() - rest.len()) as u32
    }

    /// The peer's RDMA WRITE.
    pub(super) fn write(&mut self, key: u64, address: u64, data: &[u8]) -> Result<(), Failed> {
        let refused = || format!("the engine's RNIC knows no {key:#x}@{address:#x}");
        let (buffer, base) = self.keys.get(&key).ok_or_else(refused)?;
        let start = address.checked_sub(*base).ok_or_else(refused)? as usize;
        let bytes = self.buffers.get_mut(buffer).ok_or_else(refused)?;
        let place = bytes.get_mut(start..start.saturating_add(data.len()));
        place.ok_or_else(refused)?.copy_from_slice(data);
        Ok(())
    }
}

fn mark(element: &mut [u8]) {
    if let Some(place) = element.first_chunk_mut() {
        *place = EYE_CATCHER;
    }
}
