//! The ISM device of a side: DMBs, what is bound to the peer's, and signals.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::id::BufferId;
use smc_proto::wire::cdc_ism::CDC_ISM_LENGTH;
use smc_proto::wire::types::{DmbToken, IsmGid};

use super::scenario::DEVICE;
use super::world::World;

/// Something on its way to the peer's device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Signal {
    Cdc {
        token: DmbToken,
        cdc: [u8; CDC_ISM_LENGTH],
    },
    Event {
        code: u32,
        info: u64,
    },
}

/// An ISM device.
#[derive(Clone, Debug, Default)]
pub(super) struct Ism {
    dmbs: Vec<(BufferId, DmbToken)>,
    bound: Vec<(BufferId, DmbToken)>,
    signals: VecDeque<Signal>,
    held: Option<IsmCommand>,
    made: u64,
    /// The devices do not reach each other any more, and that was not reported to the engine.
    unreported: bool,
    apart: bool,
}

impl Ism {
    pub(super) fn has_posted(&self) -> bool {
        !self.signals.is_empty()
    }

    pub(super) fn holds_command(&self) -> bool {
        self.held.is_some()
    }

    pub(super) fn has_way(&self) -> bool {
        !self.apart && !self.dmbs.is_empty()
    }

    pub(super) fn has_unreported(&self) -> bool {
        self.unreported
    }

    /// The devices do not reach each other any more.
    pub(super) fn fail(&mut self) {
        self.signals.clear();
        (self.unreported, self.apart) = (true, true);
    }

    pub(super) fn hash<H: Hasher>(&self, hasher: &mut H) {
        for (buffer, token) in self.dmbs.iter().chain(&self.bound) {
            (buffer.index(), token).hash(hasher);
        }
        (self.bound.len(), &self.signals).hash(hasher);
        (self.unreported, self.apart).hash(hasher);
        self.held.map(|held| format!("{held:?}")).hash(hasher);
    }
}

/// Whether a command provides something, so that it may be refused or take its time.
const fn provides(command: &IsmCommand) -> bool {
    matches!(
        command,
        IsmCommand::RegisterDmb { .. }
            | IsmCommand::ClearDmb { .. }
            | IsmCommand::AllocBuffer { .. }
            | IsmCommand::AttachDmb { .. }
    )
}

impl World {
    /// Carries a command out, or keeps it waiting.
    pub(super) fn execute_ism(&mut self, side: usize, command: IsmCommand) {
        match provides(&command) && self.hosts[side].holds_this() {
            true => self.hosts[side].ism.held = Some(command),
            false => self.carry_out_ism(side, command),
        }
    }

    /// The command that waits is carried out, or refused.
    pub(super) fn answer_ism(&mut self, side: usize, done: bool) {
        let Some(command) = self.hosts[side].ism.held.take() else {
            return;
        };
        match command {
            IsmCommand::RegisterDmb { buffer, .. }
            | IsmCommand::ClearDmb { buffer }
            | IsmCommand::AllocBuffer { buffer, .. }
            | IsmCommand::AttachDmb { buffer, .. }
                if !done =>
            {
                self.complete_ism(side, IsmCompletion::Refused { buffer });
            }
            _ => self.carry_out_ism(side, command),
        }
    }

    fn carry_out_ism(&mut self, side: usize, command: IsmCommand) {
        let ism = &mut self.hosts[side].ism;
        let completion = match command {
            IsmCommand::RegisterDmb { buffer, .. } => {
                ism.made += 1;
                let token = DmbToken(((side as u64 + 1) << 32) | ism.made);
                ism.dmbs.push((buffer, token));
                IsmCompletion::DmbRegistered { buffer, token }
            }
            IsmCommand::UnregisterDmb { buffer } => {
                ism.dmbs.retain(|(dmb, _)| *dmb != buffer);
                IsmCompletion::DmbUnregistered { buffer }
            }
            IsmCommand::ClearDmb { buffer } => IsmCompletion::DmbCleared { buffer },
            IsmCommand::AllocBuffer { buffer, .. } => IsmCompletion::BufferAllocated { buffer },
            IsmCommand::FreeBuffer { buffer } => IsmCompletion::BufferFreed { buffer },
            IsmCommand::AttachDmb { buffer, token, .. } => {
                let peer = &self.hosts[1 - side].ism;
                match peer.dmbs.iter().any(|(_, dmb)| *dmb == token) && !peer.apart {
                    true => {
                        self.hosts[side].ism.bound.push((buffer, token));
                        IsmCompletion::DmbAttached { buffer }
                    }
                    false => IsmCompletion::Refused { buffer },
                }
            }
            IsmCommand::DetachDmb { buffer, .. } => {
                ism.bound.retain(|(bound, _)| *bound != buffer);
                IsmCompletion::DmbDetached { buffer }
            }
            IsmCommand::Move { .. } => return,
            IsmCommand::Signal { conn, buffer, cdc } => {
                let bound = ism.bound.iter().find(|(bound, _)| *bound == buffer);
                let token = bound.map(|(_, token)| *token);
                let there = |token: DmbToken| {
                    let peer = &self.hosts[1 - side].ism;
                    !peer.apart && peer.dmbs.iter().any(|(_, dmb)| *dmb == token)
                };
                match token.filter(|token| there(*token)) {
                    Some(token) => {
                        let signal = Signal::Cdc { token, cdc };
                        self.hosts[side].ism.signals.push_back(signal);
                        return;
                    }
                    None => IsmCompletion::MoveFailed { conn },
                }
            }
            IsmCommand::SignalEvent { code, info, .. } => {
                if !ism.apart {
                    ism.signals.push_back(Signal::Event { code, info });
                }
                return;
            }
        };
        self.complete_ism(side, completion);
    }

    /// The oldest signal of a side arrives.
    pub(super) fn receive_ism(&mut self, side: usize) {
        let completion = match self.hosts[side].ism.signals.pop_front() {
            None => return,
            Some(Signal::Event { code, info }) => IsmCompletion::Event {
                device: DEVICE,
                peer: self.gid(side),
                code,
                info,
            },
            Some(Signal::Cdc { token, cdc }) => {
                let dmbs = &self.hosts[1 - side].ism.dmbs;
                let Some((buffer, _)) = dmbs.iter().find(|(_, dmb)| *dmb == token) else {
                    return;
                };
                let buffer = *buffer;
                IsmCompletion::Signalled { buffer, cdc }
            }
        };
        self.complete_ism(1 - side, completion);
    }

    /// The device of a side reports that it does not reach the peer's any more.
    pub(super) fn report_apart(&mut self, side: usize) {
        self.hosts[side].ism.unreported = false;
        let peer = self.gid(1 - side);
        let device = DEVICE;
        self.complete_ism(side, IsmCompletion::PeerVanished { device, peer });
    }

    fn gid(&self, side: usize) -> IsmGid {
        self.scenario.gid(side as u8)
    }

    fn complete_ism(&mut self, side: usize, completion: IsmCompletion) {
        let host = &mut self.hosts[side];
        host.endpoint.handle_ism(host.now, completion);
    }
}
