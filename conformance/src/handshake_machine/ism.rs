//! The ISM device of a side: DMBs, what is bound to the peer's, and signals.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::wire::cdc_ism::CDC_ISM_LENGTH;
use smc_proto::wire::types::{DmbToken, IsmGid};

use super::scenario::DEVICE;
use super::world::World;
use crate::rig;
use crate::rig::ism::refusal;

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
#[derive(Clone, Debug)]
pub(super) struct Ism {
    device: rig::Ism,
    signals: VecDeque<Signal>,
    held: Option<IsmCommand>,
    /// The devices do not reach each other any more, and that was not reported to the engine.
    unreported: bool,
    apart: bool,
}

impl Ism {
    /// The device of a side, whose tokens are not those of the other one.
    pub(super) fn new(side: u8) -> Self {
        Self {
            device: rig::Ism::new((u64::from(side) + 1) << 32),
            signals: VecDeque::new(),
            held: None,
            unreported: false,
            apart: false,
        }
    }

    pub(super) fn has_posted(&self) -> bool {
        !self.signals.is_empty()
    }

    pub(super) fn holds_command(&self) -> bool {
        self.held.is_some()
    }

    pub(super) fn has_way(&self) -> bool {
        !self.apart && !self.device.dmbs.is_empty()
    }

    pub(super) fn has_unreported(&self) -> bool {
        self.unreported
    }

    /// The devices do not reach each other any more.
    pub(super) fn fail(&mut self) {
        self.signals.clear();
        (self.unreported, self.apart) = (true, true);
    }

    /// Whether the peer may write to the DMB of this token.
    fn offers(&self, token: DmbToken) -> bool {
        !self.apart && self.device.dmbs.iter().any(|dmb| dmb.token == token)
    }

    pub(super) fn hash<H: Hasher>(&self, hasher: &mut H) {
        let dmbs = self.device.dmbs.iter().map(|dmb| (dmb.buffer, dmb.token));
        let attached = self.device.attached.iter().map(|at| (at.buffer, at.token));
        for (buffer, token) in dmbs.chain(attached) {
            (buffer.index(), token).hash(hasher);
        }
        (self.device.attached.len(), &self.signals).hash(hasher);
        (self.unreported, self.apart).hash(hasher);
        self.held.map(|held| format!("{held:?}")).hash(hasher);
    }
}

impl World {
    /// Carries a command out, or keeps it waiting.
    pub(super) fn execute_ism(&mut self, side: usize, command: IsmCommand) {
        if let Err(breach) = self.hosts[side].ism.device.check(&command) {
            return self.find(format!("contract broken, {breach}: {command:?}"));
        }
        match refusal(&command).is_some() && self.hosts[side].holds_this() {
            true => self.hosts[side].ism.held = Some(command),
            false => self.carry_out_ism(side, command),
        }
    }

    /// The command that waits is carried out, or refused.
    pub(super) fn answer_ism(&mut self, side: usize, done: bool) {
        let Some(command) = self.hosts[side].ism.held.take() else {
            return;
        };
        match refusal(&command) {
            Some(refused) if !done => self.complete_ism(side, refused),
            _ => self.carry_out_ism(side, command),
        }
    }

    fn carry_out_ism(&mut self, side: usize, command: IsmCommand) {
        let [a, b] = &mut self.hosts;
        let (host, peer) = if side == 0 { (a, b) } else { (b, a) };
        let ism = &mut host.ism;
        let completion = match command {
            IsmCommand::AttachDmb { token, .. } if !peer.ism.offers(token) => refusal(&command),
            IsmCommand::Signal { conn, buffer, cdc } => {
                let attached = ism.device.attached(buffer).map(|at| at.token);
                match attached.filter(|token| peer.ism.offers(*token)) {
                    Some(token) => {
                        ism.signals.push_back(Signal::Cdc { token, cdc });
                        None
                    }
                    None => Some(IsmCompletion::MoveFailed { conn }),
                }
            }
            IsmCommand::SignalEvent { code, info, .. } => {
                if !ism.apart {
                    ism.signals.push_back(Signal::Event { code, info });
                }
                None
            }
            _ => ism.device.done(&command),
        };
        if let Some(completion) = completion {
            self.complete_ism(side, completion);
        }
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
                let Some(dmb) = self.hosts[1 - side].ism.device.named(token) else {
                    return;
                };
                let buffer = dmb.buffer;
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
