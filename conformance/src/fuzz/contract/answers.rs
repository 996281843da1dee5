//! What an adapter answers.

use smc_proto::command::RdmaCommand;
use smc_proto::completion::RdmaCompletion;
use smc_proto::wire::types::{Qpn, RKey, RToken};

use super::{BASE, Contract, Memory, Qp};

impl Contract {
    /// Executes a control command and returns what to answer.
    pub(in super::super) fn done(
        &mut self,
        command: &RdmaCommand,
    ) -> Option<RdmaCompletion<'static>> {
        if !self.trusted {
            return Self::blind(command);
        }
        let moved = |this: &mut Self, link, qp| {
            let l = this.link(link);
            (l.qp, l.busy) = (qp, false);
            l.qpn
        };
        Some(match *command {
            RdmaCommand::CreateQp { link, .. } => RdmaCompletion::QpCreated {
                link,
                qpn: moved(self, link, Qp::Init),
            },
            RdmaCommand::ConnectQp { link, .. } => {
                moved(self, link, Qp::Rtr);
                RdmaCompletion::QpConnected { link }
            }
            RdmaCommand::ActivateQp { link, .. } => {
                moved(self, link, Qp::Rts);
                RdmaCompletion::QpActive { link }
            }
            RdmaCommand::QpToError { link } => {
                moved(self, link, Qp::Error);
                RdmaCompletion::QpDrained { link }
            }
            RdmaCommand::DestroyQp { link } => {
                moved(self, link, Qp::Gone);
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::AllocBuffer { buffer, .. } => {
                let b = self.buffer(buffer);
                (b.present, b.busy) = (true, false);
                RdmaCompletion::BufferAllocated { buffer }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                let b = self.buffer(buffer);
                b.busy = false;
                b.links.push(link);
                RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken: RToken {
                        rkey: self.rkey(buffer),
                        address: BASE,
                    },
                }
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                let b = self.buffer(buffer);
                b.busy = false;
                b.links.retain(|l| *l != link);
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => {
                let b = self.buffer(buffer);
                (b.gone, b.busy) = (true, false);
                b.memory = Memory::default();
                RdmaCompletion::BufferFreed { buffer }
            }
            RdmaCommand::ClearElement { buffer, offset, .. } => {
                self.buffer(buffer).busy = false;
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => return None,
        })
    }

    /// Lets a control command fail and returns what to answer. What ends something
    /// counts as done all the same.
    pub(in super::super) fn refused(
        &mut self,
        command: &RdmaCommand,
    ) -> Option<RdmaCompletion<'static>> {
        if !self.trusted {
            return Self::blind(command);
        }
        match *command {
            RdmaCommand::QpToError { link } | RdmaCommand::DestroyQp { link } => {
                self.done(command);
                Some(RdmaCompletion::LinkRefused { link })
            }
            RdmaCommand::CreateQp { link, .. } => {
                let l = self.link(link);
                (l.qp, l.busy) = (Qp::Gone, false);
                Some(RdmaCompletion::LinkRefused { link })
            }
            RdmaCommand::ConnectQp { link, .. } | RdmaCommand::ActivateQp { link, .. } => {
                self.link(link).busy = false;
                Some(RdmaCompletion::LinkRefused { link })
            }
            RdmaCommand::DeregisterBuffer { buffer, .. } | RdmaCommand::FreeBuffer { buffer } => {
                self.done(command);
                Some(RdmaCompletion::BufferRefused { buffer })
            }
            RdmaCommand::AllocBuffer { buffer, .. } => {
                let b = self.buffer(buffer);
                (b.gone, b.busy) = (true, false);
                Some(RdmaCompletion::BufferRefused { buffer })
            }
            RdmaCommand::RegisterBuffer { buffer, .. }
            | RdmaCommand::ClearElement { buffer, .. } => {
                self.buffer(buffer).busy = false;
                Some(RdmaCompletion::BufferRefused { buffer })
            }
            RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => None,
        }
    }

    /// What a device answers that remembers nothing.
    fn blind(command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        Some(match *command {
            RdmaCommand::CreateQp { link, .. } => RdmaCompletion::QpCreated {
                link,
                qpn: Qpn::new(1),
            },
            RdmaCommand::ConnectQp { link, .. } => RdmaCompletion::QpConnected { link },
            RdmaCommand::ActivateQp { link, .. } => RdmaCompletion::QpActive { link },
            RdmaCommand::QpToError { link } => RdmaCompletion::QpDrained { link },
            RdmaCommand::DestroyQp { link } => RdmaCompletion::QpDestroyed { link },
            RdmaCommand::AllocBuffer { buffer, .. } => RdmaCompletion::BufferAllocated { buffer },
            RdmaCommand::RegisterBuffer { buffer, link } => RdmaCompletion::BufferRegistered {
                buffer,
                link,
                rtoken: RToken {
                    rkey: RKey(buffer.index()),
                    address: BASE,
                },
            },
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => RdmaCompletion::BufferFreed { buffer },
            RdmaCommand::ClearElement { buffer, offset, .. } => {
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => return None,
        })
    }
}
