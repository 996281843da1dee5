//! The engine's buffers: memory, and its registrations at links.

use std::sync::Arc;

use smc_proto::command::{BufferKind, BufferSpans, EYE_CATCHER};
use smc_proto::id::{BufferId, LinkId};

use super::slots::Slots;
use crate::memory::{Memory, OutOfBounds};
use crate::rnic::{Access, Rnic};

pub(super) struct Buffer<R: Rnic> {
    pub(super) memory: Arc<Memory>,
    pub(super) kind: BufferKind,
    /// A group has few links.
    regions: Vec<(LinkId, R::Region)>,
}

impl<R: Rnic> Buffer<R> {
    pub(super) fn new(memory: Memory, kind: BufferKind) -> Self {
        Self {
            memory: Arc::new(memory),
            kind,
            regions: Vec::new(),
        }
    }

    pub(super) fn access(&self) -> Access {
        match self.kind {
            BufferKind::Rmb => Access::RemoteWrite,
            BufferKind::Send => Access::Local,
        }
    }

    #[inline]
    pub(super) fn region(&self, link: LinkId) -> Option<&R::Region> {
        let of = self.regions.iter().find(|(of, _)| *of == link);
        of.map(|(_, region)| region)
    }

    pub(super) fn registered(&mut self, link: LinkId, region: R::Region) {
        self.deregister(link);
        self.regions.push((link, region));
    }

    pub(super) fn deregister(&mut self, link: LinkId) {
        self.regions.retain(|(of, _)| *of != link);
    }
}

/// Buffers by their places.
pub(super) struct Buffers<R: Rnic> {
    slots: Slots<BufferId, Buffer<R>>,
}

impl<R: Rnic> Default for Buffers<R> {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
        }
    }
}

impl<R: Rnic> Buffers<R> {
    pub(super) fn put(&mut self, buffer: BufferId, value: Buffer<R>) {
        self.slots.put(buffer, value);
    }

    #[inline]
    pub(super) fn get(&self, buffer: BufferId) -> Option<&Buffer<R>> {
        self.slots.get(buffer)
    }

    pub(super) fn get_mut(&mut self, buffer: BufferId) -> Option<&mut Buffer<R>> {
        self.slots.get_mut(buffer)
    }

    pub(super) fn remove(&mut self, buffer: BufferId) {
        self.slots.remove(buffer);
    }

    /// A link goes, and its registrations with it.
    pub(super) fn forget(&mut self, link: LinkId) {
        for (_, buffer) in self.slots.iter_mut() {
            buffer.deregister(link);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.slots.iter().count()
    }

    /// Bytes of buffers that were promised memory and have not registered it yet.
    pub(super) fn unregistered(&self) -> u64 {
        let waiting = self.slots.iter().filter(|(_, of)| of.regions.is_empty());
        waiting.map(|(_, of)| of.memory.len() as u64).sum()
    }

    /// Copies bytes into pieces of a buffer: how many fitted.
    #[inline]
    pub(super) fn copy_in(&self, space: &BufferSpans, bytes: &[u8]) -> Result<u32, OutOfBounds> {
        let memory = &self.get(space.buffer).ok_or(OutOfBounds)?.memory;
        let mut left = bytes;
        for segment in space.segments {
            let (now, rest) = left.split_at(left.len().min(segment.length as usize));
            memory.copy_in(segment.offset.into(), now)?;
            left = rest;
        }
        // At most the length of a buffer.
        Ok((bytes.len() - left.len()) as u32)
    }

    /// Copies bytes out of pieces of a buffer: how many fitted.
    #[inline]
    pub(super) fn copy_out(
        &self,
        readable: &BufferSpans,
        into: &mut [u8],
    ) -> Result<u32, OutOfBounds> {
        let memory = &self.get(readable.buffer).ok_or(OutOfBounds)?.memory;
        let mut taken = 0;
        for segment in readable.segments {
            let room = into.get_mut(taken..).unwrap_or_default();
            let len = room.len().min(segment.length as usize);
            memory.copy_out(segment.offset.into(), room.split_at_mut(len).0)?;
            taken += len;
        }
        // At most the length of a buffer.
        Ok(taken as u32)
    }

    /// Whether the eye catcher, if there is one, is whole.
    //= RMB-018
    #[inline]
    pub(super) fn is_whole(&self, readable: &BufferSpans) -> bool {
        let Some(at) = readable.eye_catcher_at else {
            return true;
        };
        let mut found = [0; 4];
        self.get(readable.buffer)
            .and_then(|buffer| buffer.memory.copy_out(at.into(), &mut found).ok())
            .is_some_and(|()| found == EYE_CATCHER)
    }
}
