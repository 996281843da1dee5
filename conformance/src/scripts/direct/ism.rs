//! The ISM device of the engine's host, and the peer's.

use std::collections::BTreeMap;

use smc_proto::command::{IsmCommand, Segment};
use smc_proto::completion::IsmCompletion;
use smc_proto::config::MAX_DEVICES;
use smc_proto::id::{BufferId, DeviceId};
use smc_proto::wire::cdc_ism::CDC_ISM_LENGTH;
use smc_proto::wire::types::{DmbToken, IsmGid};

use super::Direct;
use crate::scripts::wire::{End, Failed, Received};

/// What the devices know of each other.
#[derive(Debug, Default)]
pub(super) struct Device {
    /// DMBs of the engine by token.
    dmbs: BTreeMap<u64, (BufferId, Vec<u8>)>,
    /// Tokens of the peer by the send buffers that are bound to them.
    bound: BTreeMap<BufferId, u64>,
    /// The device and the peer of each DMB.
    peers: Vec<(DeviceId, IsmGid)>,
    next: u64,
    /// The next DMB is refused.
    pub(super) refuses: Option<&'static str>,
}

impl Device {
    pub(super) fn is_empty(&self) -> Result<(), Failed> {
        if self.dmbs.is_empty() && self.bound.is_empty() {
            return Ok(());
        }
        let (dmbs, bound) = (self.dmbs.len(), self.bound.len());
        Err(format!(
            "the ISM device still has {dmbs} DMBs and {bound} bindings"
        ))
    }

    pub(super) fn write(&mut self, token: u64, offset: u64, data: &[u8]) -> Result<(), Failed> {
        let refused = || format!("the engine's device has no {token:#x}+{offset:#x}");
        let (_, bytes) = self.dmbs.get_mut(&token).ok_or_else(refused)?;
        let start = offset as usize;
        let place = bytes.get_mut(start..start.saturating_add(data.len()));
        place.ok_or_else(refused)?.copy_from_slice(data);
        Ok(())
    }

    /// Bytes of pieces of a DMB, if the buffer is one.
    pub(super) fn octets(&self, buffer: BufferId, pieces: &[Segment]) -> Option<Vec<u8>> {
        let mut dmbs = self.dmbs.values();
        let (_, bytes) = dmbs.find(|(of, _)| *of == buffer)?;
        let piece = |piece: &Segment| {
            let start = piece.offset as usize;
            bytes.get(start..start + piece.length as usize)
        };
        Some(pieces.iter().filter_map(piece).flatten().copied().collect())
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
    pub(super) fn next_ism(&mut self) -> Option<(DeviceId, IsmCommand)> {
        (0..MAX_DEVICES as u8).map(DeviceId).find_map(|device| {
            let command = self.endpoint.poll_ism(self.now, device)?;
            Some((device, command))
        })
    }

    pub(super) fn execute_ism(&mut self, device: DeviceId, command: &IsmCommand) {
        self.note(format!("{command:?}"));
        let conn = |token: u64| End::Conn((token & 0xff) as u8);
        let answer = match *command {
            IsmCommand::RegisterDmb { buffer, .. } if self.ism.refuses("RegisterDmb") => {
                IsmCompletion::Refused { buffer }
            }
            IsmCommand::AttachDmb { buffer, .. } if self.ism.refuses("AttachDmb") => {
                IsmCompletion::Refused { buffer }
            }
            IsmCommand::RegisterDmb {
                buffer,
                length,
                peer,
                ..
            } => {
                self.ism.next += 1;
                let token = 0x700 + self.ism.next;
                self.ism
                    .dmbs
                    .insert(token, (buffer, vec![0; length as usize]));
                self.ism.peers.push((device, peer));
                IsmCompletion::DmbRegistered {
                    buffer,
                    token: DmbToken(token),
                }
            }
            IsmCommand::UnregisterDmb { buffer } => {
                self.ism.dmbs.retain(|_, (of, _)| *of != buffer);
                IsmCompletion::DmbUnregistered { buffer }
            }
            IsmCommand::ClearDmb { buffer } => {
                let mut dmbs = self.ism.dmbs.values_mut();
                if let Some((_, bytes)) = dmbs.find(|(of, _)| *of == buffer) {
                    bytes.fill(0);
                }
                IsmCompletion::DmbCleared { buffer }
            }
            IsmCommand::AllocBuffer { buffer, length } => {
                self.memory.provide(buffer, length);
                IsmCompletion::BufferAllocated { buffer }
            }
            IsmCommand::FreeBuffer { buffer } => {
                self.memory.free(buffer);
                IsmCompletion::BufferFreed { buffer }
            }
            IsmCommand::AttachDmb {
                buffer,
                token,
                length,
                map,
                ..
            } => {
                if map {
                    self.memory.provide(buffer, length);
                }
                self.ism.bound.insert(buffer, token.0);
                IsmCompletion::DmbAttached { buffer }
            }
            IsmCommand::DetachDmb { buffer, .. } => {
                self.ism.bound.remove(&buffer);
                IsmCompletion::DmbDetached { buffer }
            }
            IsmCommand::Move {
                buffer,
                source,
                offset,
                ..
            } => {
                let bytes = self.memory.read(buffer, &source);
                if let Some(token) = self.ism.bound.get(&buffer).copied() {
                    self.received.push_back(Received::Wrote {
                        end: conn(token),
                        key: token,
                        address: offset.into(),
                        bytes,
                    });
                } else {
                    self.fail("a Move from a buffer that is bound to nothing");
                }
                return;
            }
            IsmCommand::Signal { buffer, cdc, .. } => {
                let mut bytes = cdc.to_vec();
                turn(&mut bytes);
                if let Some(token) = self.ism.bound.get(&buffer).copied() {
                    let end = conn(token);
                    self.received.push_back(Received::Sent { end, bytes });
                } else {
                    self.fail("a Signal for a buffer that is bound to nothing");
                }
                return;
            }
            IsmCommand::SignalEvent { .. } => return,
        };
        self.endpoint.handle_ism(self.now, answer);
    }

    /// The peer writes the head of a DMB and signals it.
    pub(super) fn signal(&mut self, token: u64, bytes: &[u8]) -> Result<(), Failed> {
        let mut head = bytes.to_vec();
        turn(&mut head);
        self.ism.write(token, 0, &head)?;
        let Some((buffer, bytes)) = self.ism.dmbs.get(&token) else {
            return Err(format!("the engine's device has no {token:#x}"));
        };
        let mut cdc = [0; CDC_ISM_LENGTH];
        cdc.copy_from_slice(&bytes[..CDC_ISM_LENGTH]);
        let buffer = *buffer;
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
