//! The engine's buffers as memory of the device.

use smc_proto::command::Segment;
use smc_proto::id::BufferId;

use super::RemoteDmb;
use crate::device::{Dmb, DmbToken, IsmError, check_bounds};

/// A buffer's memory.
#[derive(Clone, Debug, Hash)]
pub(super) enum Memory {
    /// A DMB of this side; its token once it was reported.
    Own { dmb: Dmb, token: Option<DmbToken> },
    /// A peer's DMB in its place.
    Mapped(RemoteDmb),
    /// Memory to move from, and where to.
    Source {
        bytes: Box<[u8]>,
        target: Option<RemoteDmb>,
    },
}

impl Memory {
    pub(super) fn registering(dmb: Dmb) -> Self {
        Self::Own { dmb, token: None }
    }

    pub(super) fn source(length: u32) -> Self {
        Self::Source {
            bytes: vec![0; length as usize].into(),
            target: None,
        }
    }
}

/// Buffers, by their places in the engine's table.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Buffers {
    slots: Vec<Option<(BufferId, Memory)>>,
    /// The buffer that a DMB belongs to, by the DMB's place at the device.
    owners: Vec<Option<(Dmb, BufferId)>>,
    /// What is bound to a peer's DMB, by its place at the device.
    bound: Vec<Option<(RemoteDmb, BufferId)>>,
}

impl Buffers {
    pub(super) fn put(&mut self, buffer: BufferId, memory: Memory) {
        if let Memory::Own { dmb, .. } = memory {
            let at = dmb.index() as usize;
            if self.owners.len() <= at {
                self.owners.resize(at + 1, None);
            }
            if let Some(owner) = self.owners.get_mut(at) {
                *owner = Some((dmb, buffer));
            }
        }
        let at = buffer.index() as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some((buffer, memory));
        }
    }

    pub(super) fn remove(&mut self, buffer: BufferId) {
        if let Some(dmb) = self.dmb(buffer)
            && let Some(owner) = self.owners.get_mut(dmb.index() as usize)
            && *owner == Some((dmb, buffer))
        {
            *owner = None;
        }
        if let Some(slot) = self.slots.get_mut(buffer.index() as usize)
            && slot.as_ref().is_some_and(|(of, _)| *of == buffer)
        {
            *slot = None;
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let places = self.owners.iter().all(Option::is_none);
        self.len() == 0 && places && self.bound.iter().all(Option::is_none)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    pub(super) fn holds(&self, buffer: BufferId) -> bool {
        self.at(buffer).is_some()
    }

    #[inline]
    fn at(&self, buffer: BufferId) -> Option<&Memory> {
        let slot = self.slots.get(buffer.index() as usize)?.as_ref();
        slot.filter(|(of, _)| *of == buffer)
            .map(|(_, memory)| memory)
    }

    fn at_mut(&mut self, buffer: BufferId) -> Option<&mut Memory> {
        let slot = self.slots.get_mut(buffer.index() as usize)?.as_mut();
        slot.filter(|(of, _)| *of == buffer)
            .map(|(_, memory)| memory)
    }

    /// The DMB that a buffer is.
    #[inline]
    pub(super) fn dmb(&self, buffer: BufferId) -> Option<Dmb> {
        match self.at(buffer)? {
            Memory::Own { dmb, .. } => Some(*dmb),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn of_dmb(&self, dmb: Dmb) -> Option<BufferId> {
        let (of, buffer) = (*self.owners.get(dmb.index() as usize)?)?;
        (of == dmb).then_some(buffer)
    }

    /// What is bound to a peer's DMB.
    pub(super) fn of_remote(&self, remote: RemoteDmb) -> Option<BufferId> {
        let (of, buffer) = (*self.bound.get(remote.index() as usize)?)?;
        (of == remote).then_some(buffer)
    }

    pub(super) fn of_token(&self, token: DmbToken) -> Option<BufferId> {
        let named = |(buffer, memory): &(BufferId, Memory)| match memory {
            Memory::Own { token: of, .. } => (*of == Some(token)).then_some(*buffer),
            _ => None,
        };
        self.slots.iter().flatten().find_map(named)
    }

    pub(super) fn token(&self, buffer: BufferId) -> Option<DmbToken> {
        match self.at(buffer)? {
            Memory::Own { token, .. } => *token,
            _ => None,
        }
    }

    pub(super) fn registered(&mut self, buffer: BufferId, named: DmbToken) {
        if let Some(Memory::Own { token, .. }) = self.at_mut(buffer) {
            *token = Some(named);
        }
    }

    pub(super) fn attach(&mut self, buffer: BufferId, remote: RemoteDmb, map: bool) {
        let at = remote.index() as usize;
        if self.bound.len() <= at {
            self.bound.resize(at + 1, None);
        }
        if let Some(bound) = self.bound.get_mut(at) {
            *bound = Some((remote, buffer));
        }
        match self.at_mut(buffer) {
            Some(Memory::Source { target, .. }) if !map => *target = Some(remote),
            _ => self.put(buffer, Memory::Mapped(remote)),
        }
    }

    /// Unbinds a buffer; a mapping is gone with that.
    pub(super) fn detach(&mut self, buffer: BufferId) -> Option<RemoteDmb> {
        let remote = match self.at_mut(buffer)? {
            Memory::Source { target, .. } => target.take(),
            Memory::Mapped(remote) => {
                let remote = *remote;
                self.remove(buffer);
                Some(remote)
            }
            Memory::Own { .. } => None,
        }?;
        if let Some(bound) = self.bound.get_mut(remote.index() as usize) {
            *bound = None;
        }
        Some(remote)
    }

    /// What moves and signals of a send buffer go to.
    #[inline]
    pub(super) fn remote(&self, buffer: BufferId) -> Result<RemoteDmb, IsmError> {
        match self.at(buffer) {
            Some(Memory::Mapped(remote)) => Ok(*remote),
            Some(Memory::Source {
                target: Some(remote),
                ..
            }) => Ok(*remote),
            _ => Err(IsmError::Stale),
        }
    }

    /// Destination of bytes of the application: a peer's DMB, or memory of this side.
    #[inline]
    pub(super) fn target(&self, buffer: BufferId) -> Result<Option<RemoteDmb>, IsmError> {
        match self.at(buffer) {
            Some(Memory::Mapped(remote)) => Ok(Some(*remote)),
            Some(Memory::Source { .. }) => Ok(None),
            _ => Err(IsmError::Stale),
        }
    }

    pub(super) fn copy_in(
        &mut self,
        buffer: BufferId,
        offset: u32,
        from: &[u8],
    ) -> Result<(), IsmError> {
        let Some(Memory::Source { bytes, .. }) = self.at_mut(buffer) else {
            return Err(IsmError::Stale);
        };
        let end = check_bounds(offset, from.len(), bytes.len())?;
        let into = bytes.get_mut(end - from.len()..end);
        into.ok_or(IsmError::Bounds)?.copy_from_slice(from);
        Ok(())
    }

    pub(super) fn source(&self, buffer: BufferId, segment: Segment) -> Result<&[u8], IsmError> {
        let Some(Memory::Source { bytes, .. }) = self.at(buffer) else {
            return Err(IsmError::Stale);
        };
        let end = check_bounds(segment.offset, segment.length as usize, bytes.len())?;
        let from = end - segment.length as usize;
        bytes.get(from..end).ok_or(IsmError::Bounds)
    }
}
