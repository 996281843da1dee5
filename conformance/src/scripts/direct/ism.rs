//! The ISM device of the engine's host, and the peer's.

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::id::DeviceId;
use smc_proto::wire::cdc_ism::CDC_ISM_LENGTH;
use smc_proto::wire::types::{DmbToken, IsmGid};

use super::Direct;
use super::memory::octets;
use crate::rig::Ism;
use crate::rig::ism::refusal;
use crate::scripts::wire::{End, Failed, Received};

/// The engine's device.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) device: Ism<Vec<u8>>,
    /// The device and the peer of each DMB that there was.
    peers: Vec<(DeviceId, IsmGid)>,
    /// The next DMB is refused.
    pub(super) refuses: Option<&'static str>,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            device: Ism::new(0x700),
            peers: Vec::new(),
            refuses: None,
        }
    }
}

impl Device {
    pub(super) fn is_empty(&self) -> Result<(), Failed> {
        let (dmbs, bound) = (self.device.dmbs.len(), self.device.attached.len());
        match self.device.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "the ISM device still has {dmbs} DMBs and {bound} bindings"
            )),
        }
    }

    pub(super) fn write(&mut self, token: u64, offset: u64, data: &[u8]) -> Result<(), Failed> {
        let refused = || format!("the engine's device has no {token:#x}+{offset:#x}");
        let dmb = self.device.named(DmbToken(token)).ok_or_else(refused)?;
        let start = offset as usize;
        let place = dmb.memory.get_mut(start..start.saturating_add(data.len()));
        place.ok_or_else(refused)?.copy_from_slice(data);
        Ok(())
    }

    fn refuses(&mut self, kind: &str) -> bool {
        let refuses = self.refuses == Some(kind);
        if refuses {
            self.refuses = None;
        }
        refuses
    }
}

/// Turns the numbers of a CDC message of SMC-D from the order of this machine into
/// network order, or back.
pub(super) fn turn(cdc: &mut [u8]) {
    if cfg!(target_endian = "little") {
        for range in [8..10, 10..14, 16..18, 18..22] {
            if let Some(number) = cdc.get_mut(range) {
                number.reverse();
            }
        }
    }
}

impl Direct {
    pub(super) fn execute_ism(&mut self, device: DeviceId, command: &IsmCommand) {
        self.note(format!("{command:?}"));
        if let Err(breach) = self.ism.device.check(command) {
            return self.fail(format!("contract broken, {breach}: {command:?}"));
        }
        let refused = match command {
            IsmCommand::RegisterDmb { peer, .. } => {
                let refused = self.ism.refuses("RegisterDmb");
                if !refused {
                    self.ism.peers.push((device, *peer));
                }
                refused
            }
            IsmCommand::AttachDmb { .. } => self.ism.refuses("AttachDmb"),
            _ => false,
        };
        self.arrive_ism(command);
        let answer = match refused {
            true => refusal(command),
            false => self.ism.device.done(command),
        };
        if let Some(answer) = answer {
            self.endpoint.handle_ism(self.now, answer);
        }
    }

    /// A move or a signal arrives at the peer.
    fn arrive_ism(&mut self, command: &IsmCommand) {
        let attached = |ism: &Ism<Vec<u8>>, buffer| {
            let token = ism.attached(buffer).map_or(0, |at| at.token.0);
            (token, End::Conn((token & 0xff) as u8))
        };
        match *command {
            IsmCommand::Move {
                buffer,
                source,
                offset,
                ..
            } => {
                let (key, end) = attached(&self.ism.device, buffer);
                let nic = &mut self.adapter.nic;
                let bytes = octets(nic, &mut self.ism.device, buffer, &source);
                self.received.push_back(Received::Wrote {
                    end,
                    key,
                    address: offset.into(),
                    bytes,
                });
            }
            IsmCommand::Signal { buffer, cdc, .. } => {
                let (_, end) = attached(&self.ism.device, buffer);
                let mut bytes = cdc.to_vec();
                turn(&mut bytes);
                self.received.push_back(Received::Sent { end, bytes });
            }
            _ => {}
        }
    }

    /// The peer writes the head of a DMB and signals it.
    pub(super) fn signal(&mut self, token: u64, bytes: &[u8]) -> Result<(), Failed> {
        let mut head = bytes.to_vec();
        turn(&mut head);
        self.ism.write(token, 0, &head)?;
        let Some(dmb) = self.ism.device.named(DmbToken(token)) else {
            return Err(format!("the engine's device has no {token:#x}"));
        };
        let mut cdc = [0; CDC_ISM_LENGTH];
        cdc.copy_from_slice(&dmb.memory[..CDC_ISM_LENGTH]);
        let buffer = dmb.buffer;
        self.endpoint
            .handle_ism(self.now, IsmCompletion::Signalled { buffer, cdc });
        Ok(())
    }

    /// The peer's device is gone.
    pub(super) fn vanish(&mut self) {
        for (device, peer) in std::mem::take(&mut self.ism.peers) {
            let vanished = IsmCompletion::PeerVanished { device, peer };
            self.endpoint.handle_ism(self.now, vanished);
        }
    }
}
