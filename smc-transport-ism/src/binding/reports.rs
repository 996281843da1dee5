//! Reports of the device as completions for the engine.

use smc_proto::completion::IsmCompletion;
use smc_proto::wire::types::DmbToken as WireToken;

use super::Binding;
use crate::device::{DeviceEvent, DmbToken, EventKind, IsmDevice, IsmReport};

impl<D: IsmDevice> Binding<D> {
    #[inline]
    pub(super) fn completion(&mut self, report: IsmReport) -> Option<IsmCompletion> {
        match report {
            IsmReport::Signalled { dmb, cdc, .. } => {
                let buffer = self.buffers.of_dmb(dmb)?;
                Some(IsmCompletion::Signalled { buffer, cdc })
            }
            IsmReport::DmbRegistered { dmb, token } => {
                let buffer = self.buffers.of_dmb(dmb)?;
                self.buffers.registered(buffer, token);
                let token = WireToken(token.0);
                Some(IsmCompletion::DmbRegistered { buffer, token })
            }
            IsmReport::Withdrawn { remote } => {
                let buffer = self.buffers.of_remote(remote)?;
                Some(IsmCompletion::DmbWithdrawn { buffer })
            }
            IsmReport::Failed { dmb, .. } => {
                let buffer = self.buffers.of_dmb(dmb)?;
                Some(match self.buffers.token(buffer) {
                    Some(_) => IsmCompletion::DmbFailed { buffer },
                    None => {
                        self.buffers.remove(buffer);
                        IsmCompletion::Refused { buffer }
                    }
                })
            }
            IsmReport::Event(event) => self.event(event),
        }
    }

    fn event(&self, event: DeviceEvent) -> Option<IsmCompletion> {
        let device = self.id;
        Some(match event.kind {
            EventKind::Gid => IsmCompletion::PeerVanished {
                device,
                peer: self.name_of(event.peer?),
            },
            EventKind::Software => IsmCompletion::Event {
                device,
                peer: self.name_of(event.peer?),
                code: event.code,
                info: event.info,
            },
            EventKind::Dmb => IsmCompletion::DmbFailed {
                buffer: self.buffers.of_token(DmbToken(event.token))?,
            },
        })
    }
}
