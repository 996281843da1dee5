//! Buffers of the engine's host, whichever device they are for.

use smc_proto::command::Segment;
use smc_proto::id::{BufferId, LinkId};
use smc_proto::wire::types::RKey;

use super::Direct;
use crate::rig::memory::{gather, scatter};
use crate::rig::{Ism, Nic};
use crate::scripts::wire::Failed;

/// Memory of a buffer.
fn memory<'a>(
    nic: &'a mut Nic<Vec<u8>>,
    ism: &'a mut Ism<Vec<u8>>,
    buffer: BufferId,
) -> Option<&'a mut Vec<u8>> {
    nic.memory_of(buffer).or_else(|| ism.memory_of(buffer))
}

/// Copies bytes into pieces of a buffer: how many.
pub(super) fn fill(
    nic: &mut Nic<Vec<u8>>,
    ism: &mut Ism<Vec<u8>>,
    buffer: BufferId,
    pieces: &[Segment],
    data: &[u8],
) -> u32 {
    memory(nic, ism, buffer).map_or(0, |memory| {
        scatter(memory, pieces, data).expect("pieces of the buffer") as u32
    })
}

/// Bytes of pieces of a buffer.
pub(super) fn octets(
    nic: &mut Nic<Vec<u8>>,
    ism: &mut Ism<Vec<u8>>,
    buffer: BufferId,
    pieces: &[Segment],
) -> Vec<u8> {
    let memory = memory(nic, ism, buffer);
    memory
        .and_then(|bytes| gather(bytes, pieces))
        .unwrap_or_default()
}

impl Direct {
    /// The peer's RDMA WRITE over a link.
    pub(super) fn written(
        &mut self,
        link: LinkId,
        key: u64,
        address: u64,
        data: &[u8],
    ) -> Result<(), Failed> {
        let refused = || format!("the engine's RNIC knows no {key:#x}@{address:#x}");
        let nic = &mut self.adapter.nic;
        let rkey = RKey(u32::try_from(key).map_err(|_| refused())?);
        let (buffer, base) = nic.registered(link, rkey).ok_or_else(refused)?;
        let (buffer, start) = (buffer.id, address.checked_sub(base).ok_or_else(refused)?);
        let start = start as usize;
        let bytes = nic.memory_of(buffer).ok_or_else(refused)?;
        let place = bytes.get_mut(start..start.saturating_add(data.len()));
        place.ok_or_else(refused)?.copy_from_slice(data);
        Ok(())
    }
}
