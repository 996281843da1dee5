//! Moves of bytes to a peer's DMB, and reads from a DMB of the device.

use super::state::{Attachment, Port, Queued, State, facts};
use crate::device::{
    CDC_LEN, Cdc, Dmb, Gid128, IsmError, RemoteDmb, check_bounds, check_cdc_bounds, element_bit,
};
use crate::slots::Key;

impl State {
    pub(super) fn move_data(
        &mut self,
        of: Gid128,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        source: &[u8],
    ) -> Result<(), IsmError> {
        element_bit(element, &facts(of))?;
        let (port, dmb, len) = self.target(of, remote)?;
        let bytes = &mut port.dmbs.at_mut(dmb).ok_or(IsmError::Stale)?.bytes;
        let end = check_bounds(offset, source.len(), len)?;
        bytes[end - source.len()..end].copy_from_slice(source);
        Ok(())
    }

    pub(super) fn move_cdc(
        &mut self,
        of: Gid128,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        cdc: &Cdc,
        signal: bool,
    ) -> Result<(), IsmError> {
        let bit = element_bit(element, &facts(of))?;
        let (port, dmb, len) = self.target(of, remote)?;
        let memory = port.dmbs.at_mut(dmb).ok_or(IsmError::Stale)?;
        let end = check_cdc_bounds(offset, len)?;
        memory.bytes[end - CDC_LEN..end].copy_from_slice(cdc);
        if signal {
            if memory.mask == 0 {
                port.reports.push_back(Queued::Signalled(dmb));
            }
            memory.mask |= bit;
        }
        Ok(())
    }

    pub(super) fn read(
        &self,
        of: Gid128,
        dmb: Dmb,
        offset: u32,
        into: &mut [u8],
    ) -> Result<(), IsmError> {
        let bytes = self.bytes(of, dmb)?;
        let end = check_bounds(offset, into.len(), bytes.len())?;
        into.copy_from_slice(&bytes[end - into.len()..end]);
        Ok(())
    }

    pub(super) fn read_cdc(&self, of: Gid128, dmb: Dmb, offset: u32) -> Result<Cdc, IsmError> {
        let bytes = self.bytes(of, dmb)?;
        let end = check_cdc_bounds(offset, bytes.len())?;
        bytes[..end].last_chunk().copied().ok_or(IsmError::Bounds)
    }

    fn bytes(&self, of: Gid128, dmb: Dmb) -> Result<&[u8], IsmError> {
        self.port(of)?
            .dmbs
            .at(dmb.0)
            .map(|memory| &memory.bytes[..])
            .ok_or(IsmError::Stale)
    }

    /// Where a move goes: the owner's port and its DMB, and where that ends.
    fn target(
        &mut self,
        of: Gid128,
        remote: RemoteDmb,
    ) -> Result<(&mut Port, Key, usize), IsmError> {
        let key = remote.0;
        let Attachment { owner, dmb, len } =
            *self.port(of)?.attached.at(key).ok_or(IsmError::Stale)?;
        let dmb = dmb.ok_or(IsmError::Unreachable)?;
        Ok((self.port_mut(owner)?, dmb, len as usize))
    }
}
