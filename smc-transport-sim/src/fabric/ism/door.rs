//! The engine's door to its ISM devices.

use smc_proto::command::{BufferKind, IsmCommand};
use smc_proto::completion::IsmCompletion;
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::time::Duration;
use smc_proto::wire::types::{DmbToken, IsmGid};

use super::{Attachment, Dmb, Fabric, IsmConfig, same_gid};
use crate::fabric::{BufferKey, HostId};
use crate::fault::{FaultAction, Operation};
use crate::memory::MemoryError;
use crate::observe::IsmContent;

impl Fabric {
    /// Executes a command of a host's engine for one of its ISM devices.
    pub fn execute_ism(&mut self, host: HostId, device: DeviceId, command: IsmCommand) {
        match command {
            IsmCommand::RegisterDmb {
                buffer,
                length,
                peer,
                vlan: _,
            } => {
                let token = DmbToken(self.draw());
                self.control_ism(host, buffer, Operation::RegisterDmb, |fabric| {
                    fabric.register_dmb(host, device, buffer, length, peer, token)?;
                    Some(IsmCompletion::DmbRegistered { buffer, token })
                });
            }
            // These are done even if the device is gone, with which the DMB went.
            IsmCommand::UnregisterDmb { buffer } => {
                self.control_ism(host, buffer, Operation::UnregisterDmb, |fabric| {
                    let owner = fabric.hosts.get_mut(usize::from(host.0))?;
                    owner.ism.dmbs.remove(&buffer.into());
                    fabric.free_of_ism(host, buffer)?;
                    Some(IsmCompletion::DmbUnregistered { buffer })
                });
            }
            IsmCommand::DetachDmb { buffer } => {
                self.control_ism(host, buffer, Operation::DetachDmb, |fabric| {
                    let owner = fabric.hosts.get_mut(usize::from(host.0))?;
                    owner.ism.attached.remove(&buffer.into());
                    Some(IsmCompletion::DmbDetached { buffer })
                });
            }
            IsmCommand::ClearDmb { buffer } => {
                self.control_ism(host, buffer, Operation::ClearDmb, |fabric| {
                    let memory = fabric.memory_mut(host).ok()?;
                    let (_, length) = memory.describe(buffer.into())?;
                    let length = u32::try_from(length).ok()?;
                    memory.clear_element(buffer.into(), 0, length, false).ok()?;
                    Some(IsmCompletion::DmbCleared { buffer })
                });
            }
            IsmCommand::AllocBuffer { buffer, length } => {
                self.control_ism(host, buffer, Operation::AllocateBuffer, |fabric| {
                    let memory = fabric.memory_mut(host).ok()?;
                    memory.allocate(buffer.into(), BufferKind::Send, 1, length);
                    Some(IsmCompletion::BufferAllocated { buffer })
                });
            }
            IsmCommand::FreeBuffer { buffer } => {
                self.control_ism(host, buffer, Operation::FreeBuffer, |fabric| {
                    fabric.free_of_ism(host, buffer)?;
                    Some(IsmCompletion::BufferFreed { buffer })
                });
            }
            IsmCommand::AttachDmb {
                buffer,
                peer,
                token,
                length,
                map,
            } => self.control_ism(host, buffer, Operation::AttachDmb, |fabric| {
                let at = fabric.attach_dmb(host, device, peer, token, length, map)?;
                let owner = fabric.hosts.get_mut(usize::from(host.0))?;
                owner.ism.attached.insert(buffer.into(), at);
                Some(IsmCompletion::DmbAttached { buffer })
            }),
            IsmCommand::Move {
                conn,
                buffer,
                source,
                offset,
            } => {
                let mut octets = Vec::new();
                if let Err(error) = self.copy_buffer(host, buffer.into(), source, &mut octets) {
                    self.violation(host, format!("move from {buffer}: {error:?}"));
                    return;
                }
                self.move_ism(host, conn, buffer, offset, &octets, false);
            }
            IsmCommand::Signal { conn, buffer, cdc } => {
                self.move_ism(host, conn, buffer, 0, &cdc, true);
            }
            IsmCommand::SignalEvent {
                peer, code, info, ..
            } => {
                let Some(from) = self.ism_port(host, device) else {
                    return;
                };
                if let Some((to, port)) = self.ism_reach(from.gid, peer) {
                    self.observe_ism(host, to, IsmContent::Event { code, info });
                    let report = IsmCompletion::Event {
                        device: port.device,
                        peer: from.gid,
                        code,
                        info,
                    };
                    self.ism_report_at(port.signal_latency, to, report);
                }
            }
        }
    }

    fn ism_port(&self, host: HostId, device: DeviceId) -> Option<IsmConfig> {
        let mut ports = self.ism_devices(host).iter();
        ports.find(|port| port.device == device).copied()
    }

    fn register_dmb(
        &mut self,
        host: HostId,
        device: DeviceId,
        buffer: BufferId,
        length: u32,
        peer: IsmGid,
        token: DmbToken,
    ) -> Option<()> {
        let port = self.ism_port(host, device)?;
        self.ism_reach(port.gid, peer)?;
        let owner = self.hosts.get_mut(usize::from(host.0))?;
        let mine = |dmb: &&Dmb| dmb.device == device;
        if owner.ism.dmbs.values().filter(mine).count() >= port.most_dmbs {
            return None;
        }
        let key = BufferKey::from(buffer);
        if owner.memory.describe(key).is_some() {
            self.violation(host, format!("{buffer} registered twice"));
            return None;
        }
        owner.memory.allocate(key, BufferKind::Rmb, 1, length);
        let dmb = Dmb {
            device,
            buffer,
            peer,
            token,
            length,
            signalled: false,
        };
        owner.ism.dmbs.insert(key, dmb);
        Some(())
    }

    /// Gives memory back, of which there may be none any more.
    fn free_of_ism(&mut self, host: HostId, buffer: BufferId) -> Option<()> {
        if !self.memory_mut(host).ok()?.free(buffer.into()) {
            self.violation(host, format!("no {buffer} to give back"));
        }
        Some(())
    }

    fn attach_dmb(
        &self,
        host: HostId,
        device: DeviceId,
        peer: IsmGid,
        token: DmbToken,
        length: u32,
        map: bool,
    ) -> Option<Attachment> {
        let port = self.ism_port(host, device)?;
        let (owner, _) = self.ism_reach(port.gid, peer)?;
        let dmbs = &self.hosts.get(usize::from(owner.0))?.ism.dmbs;
        let named =
            |(_, dmb): &(&BufferKey, &Dmb)| dmb.token == token && same_gid(dmb.peer, port.gid);
        let (key, dmb) = dmbs.iter().find(named)?;
        (dmb.length >= length && (!map || port.attaches)).then_some(Attachment {
            device,
            owner,
            dmb: *key,
            mapped: map,
        })
    }

    /// Moves octets, as a fault or the peer's device lets it.
    fn move_ism(
        &mut self,
        host: HostId,
        conn: ConnId,
        buffer: BufferId,
        offset: u32,
        octets: &[u8],
        signal: bool,
    ) {
        let struck = self.plan.strike(host, Operation::Move, &mut self.random);
        let mut moved = Err(MemoryError::NoBuffer);
        match struck
            .iter()
            .find(|(_, action)| *action == FaultAction::Refuse)
        {
            Some((fault, _)) => self.note_fault(*fault, host),
            None => moved = self.ism_write(host, buffer, offset, octets, signal),
        }
        if moved.is_err() {
            self.ism_report_at(Duration::ZERO, host, IsmCompletion::MoveFailed { conn });
        }
    }

    /// Executes a control command unless a fault or the device refuses it, and answers
    /// it after the control latency and what faults add.
    fn control_ism(
        &mut self,
        host: HostId,
        buffer: BufferId,
        operation: Operation,
        effect: impl FnOnce(&mut Self) -> Option<IsmCompletion>,
    ) {
        let struck = self.plan.strike(host, operation, &mut self.random);
        let mut latency = self.config.control_latency;
        let mut refused = false;
        for (fault, action) in &struck {
            match *action {
                FaultAction::Refuse => refused = true,
                FaultAction::Delay(time) => latency = latency.saturating_add(time),
                _ => continue,
            }
            self.note_fault(*fault, host);
        }
        let answer = if refused { None } else { effect(self) };
        let answer = answer.unwrap_or(IsmCompletion::Refused { buffer });
        self.ism_report_at(latency, host, answer);
    }
}
