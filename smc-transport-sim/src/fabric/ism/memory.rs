//! Bytes that cross from a host to a DMB of another.

use smc_proto::command::{BufferSpans, Segment};
use smc_proto::id::{BufferId, DeviceId};
use smc_proto::wire::types::IsmGid;
use smc_transport_ism::device::{IsmDevice, IsmError};

use super::Fabric;
use crate::fabric::HostId;
use crate::memory::MemoryError;
use crate::observe::{IsmContent, IsmMoved};

const fn spans(buffer: BufferId, segments: [Segment; 2]) -> BufferSpans {
    BufferSpans::new(buffer, segments)
}

fn memory_error(error: IsmError) -> MemoryError {
    match error {
        IsmError::Bounds => MemoryError::OutOfRange,
        _ => MemoryError::NoBuffer,
    }
}

impl Fabric {
    /// Whether an ISM device of a host has this buffer.
    pub(in crate::fabric) fn is_of_ism(&self, host: HostId, buffer: BufferId) -> bool {
        self.ism.holder(host, buffer).is_some()
    }

    /// Copies bytes into pieces of a send buffer, which may be memory of the peer.
    pub(in crate::fabric) fn fill_ism(
        &mut self,
        host: HostId,
        buffer: BufferId,
        segments: [Segment; 2],
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        let watched = !self.observers.is_empty();
        let binding = self.ism.holder_mut(host, buffer);
        let binding = binding.ok_or(MemoryError::NoBuffer)?;
        binding.device_mut().watch(watched);
        match binding.fill(&spans(buffer, segments), bytes) {
            Ok(filled) if filled as usize == bytes.len() => {}
            Ok(_) => return Err(MemoryError::LengthDiffers),
            Err(IsmError::Bounds) => return Err(MemoryError::OutOfRange),
            // A mapping stays when the peer gives the DMB up; it is not read any more then.
            Err(_) => {}
        }
        let device = binding.id();
        self.show_moved(host, device);
        Ok(())
    }

    /// Appends what is in pieces of a DMB to `into`; false if its device is gone.
    pub(in crate::fabric) fn take_ism(
        &self,
        host: HostId,
        buffer: BufferId,
        segments: [Segment; 2],
        into: &mut Vec<u8>,
    ) -> Result<bool, MemoryError> {
        let binding = self.ism.holder(host, buffer);
        let binding = binding.ok_or(MemoryError::NoBuffer)?;
        if !binding.device().is_there() {
            return Ok(false);
        }
        let spans = spans(buffer, segments);
        let from = into.len();
        into.resize(from + spans.len() as usize, 0);
        let room = into.get_mut(from..).unwrap_or_default();
        let taken = binding.take(&spans, room).map_err(memory_error)?;
        if taken != spans.len() {
            return Err(MemoryError::LengthDiffers);
        }
        Ok(true)
    }

    /// Writes to a DMB of another host as a hostile peer would: anything, anywhere
    /// within it; or as a CDC message, and signals it.
    ///
    /// # Errors
    /// If `buffer` is bound to no DMB, the bytes leave it, or no CDC message has so many.
    pub fn ism_write(
        &mut self,
        host: HostId,
        buffer: BufferId,
        offset: u32,
        bytes: &[u8],
        signal: bool,
    ) -> Result<(), MemoryError> {
        let binding = self.ism.holder_mut(host, buffer);
        let binding = binding.ok_or(MemoryError::NoBuffer)?;
        let remote = binding.remote(buffer).ok_or(MemoryError::NoBuffer)?;
        let id = binding.id();
        let device = binding.device_mut();
        let moved = match bytes.try_into() {
            Ok(cdc) if signal => device.move_cdc(remote, 0, offset, cdc, true),
            _ if signal => return Err(MemoryError::LengthDiffers),
            _ => device.move_data(remote, 0, offset, bytes),
        };
        moved.map_err(memory_error)?;
        self.show_moved(host, id);
        self.take_ism_reports();
        Ok(())
    }

    /// Shows what a device wrote to others.
    pub(super) fn show_moved(&mut self, host: HostId, device: DeviceId) {
        let Some(binding) = self.ism.binding_mut(host, device) else {
            return;
        };
        let from = binding.device().config().gid;
        for moved in binding.device_mut().take_moved() {
            let peer = IsmGid {
                gid: moved.peer.gid,
                gid_ext: moved.peer.ext,
                chid: from.chid,
            };
            let Some((to, _)) = self.ism_reach(from, peer) else {
                continue;
            };
            let (offset, bytes) = (moved.offset, moved.bytes.as_slice());
            let what = match bytes.try_into() {
                Ok(cdc) if moved.is_cdc => IsmContent::Cdc(cdc),
                _ => IsmContent::Data { offset, bytes },
            };
            self.observe_ism(host, to, what);
        }
    }

    /// Shows what one device wrote to another.
    pub(super) fn observe_ism(
        &mut self,
        source: HostId,
        destination: HostId,
        what: IsmContent<'_>,
    ) {
        let moved = IsmMoved {
            at: self.queue.now(),
            source,
            destination,
            what,
        };
        self.observers.each(|observer| observer.on_ism(&moved));
    }
}
