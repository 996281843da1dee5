//! Commands that make, give up and bind memory.

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;

use super::buffers::Memory;
use super::{Binding, gid_of};
use crate::device::{DmbToken, IsmDevice, IsmError, VlanId};

impl<D: IsmDevice> Binding<D> {
    /// Executes a control command; `None` if its answer comes later, or never.
    pub(super) fn control(
        &mut self,
        command: IsmCommand,
    ) -> Result<Option<IsmCompletion>, IsmError> {
        Ok(match command {
            IsmCommand::RegisterDmb {
                buffer,
                length,
                peer,
                vlan,
            } => {
                let dmb = self
                    .device
                    .register_dmb(length, gid_of(peer), vlan_of(vlan)?)?;
                self.buffers.put(buffer, Memory::registering(dmb));
                None
            }
            IsmCommand::UnregisterDmb { buffer } => {
                if let Some(dmb) = self.buffers.dmb(buffer) {
                    self.device.unregister_dmb(dmb)?;
                }
                self.buffers.remove(buffer);
                Some(IsmCompletion::DmbUnregistered { buffer })
            }
            IsmCommand::AllocBuffer { buffer, length } => {
                self.buffers.put(buffer, Memory::source(length));
                Some(IsmCompletion::BufferAllocated { buffer })
            }
            IsmCommand::FreeBuffer { buffer } => {
                self.buffers.remove(buffer);
                Some(IsmCompletion::BufferFreed { buffer })
            }
            IsmCommand::AttachDmb {
                buffer,
                peer,
                token,
                length,
                map,
            } => {
                let token = DmbToken(token.0);
                let remote = self.device.attach_dmb(gid_of(peer), token, length)?;
                self.buffers.attach(buffer, remote, map);
                Some(IsmCompletion::DmbAttached { buffer })
            }
            IsmCommand::DetachDmb { buffer, discard } => {
                match self.buffers.detach(buffer) {
                    Some(remote) if discard => self.device.discard_dmb(remote)?,
                    Some(remote) => self.device.detach_dmb(remote)?,
                    None => {}
                }
                Some(IsmCompletion::DmbDetached { buffer })
            }
            IsmCommand::SignalEvent {
                peer,
                vlan,
                code,
                info,
            } => {
                // An event may be lost.
                let vlan = vlan_of(vlan).unwrap_or(None);
                let _ = self.device.signal_event(gid_of(peer), vlan, code, info);
                None
            }
            IsmCommand::ClearDmb { buffer } => {
                let dmb = self.buffers.dmb(buffer).ok_or(IsmError::Stale)?;
                self.device.clear_dmb(dmb)?;
                Some(IsmCompletion::DmbCleared { buffer })
            }
            // These two are no control commands.
            IsmCommand::Move { .. } | IsmCommand::Signal { .. } => None,
        })
    }
}

/// What a command that cannot be executed is answered.
pub(super) fn refusal(command: IsmCommand) -> Option<IsmCompletion> {
    match command {
        IsmCommand::RegisterDmb { buffer, .. }
        | IsmCommand::UnregisterDmb { buffer }
        | IsmCommand::ClearDmb { buffer }
        | IsmCommand::AllocBuffer { buffer, .. }
        | IsmCommand::FreeBuffer { buffer }
        | IsmCommand::AttachDmb { buffer, .. }
        | IsmCommand::DetachDmb { buffer, .. } => Some(IsmCompletion::Refused { buffer }),
        IsmCommand::Move { conn, .. } | IsmCommand::Signal { conn, .. } => {
            Some(IsmCompletion::MoveFailed { conn })
        }
        IsmCommand::SignalEvent { .. } => None,
    }
}

fn vlan_of(vlan: Option<u16>) -> Result<Option<VlanId>, IsmError> {
    match vlan {
        None => Ok(None),
        Some(id) => VlanId::new(id).map(Some).ok_or(IsmError::Vlan),
    }
}
