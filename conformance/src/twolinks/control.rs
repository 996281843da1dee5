//! Commands about queue pairs and buffers; all succeed at once.

use std::collections::VecDeque;

use smc_proto::command::RdmaCommand;
use smc_proto::completion::RdmaCompletion;
use smc_proto::wire::types::{Qpn, RToken};

use super::host::{BASE, Host, Qp, Registration};

impl Host {
    /// Carries out a command about an object.
    pub(super) fn control(&mut self, command: RdmaCommand) -> RdmaCompletion<'static> {
        match command {
            RdmaCommand::CreateQp { link, device, .. } => {
                let index = link.index() as usize;
                if self.qps.len() <= index {
                    self.qps.resize(index + 1, None);
                }
                let qpn = self.new_qpn(link);
                assert!(self.qps[index].is_none(), "the queue pair exists");
                self.qps[index] = Some(Qp {
                    link,
                    device,
                    qpn,
                    peer_qpn: None,
                    broken: false,
                    drained: false,
                    posted: VecDeque::new(),
                    arrived: 0,
                });
                RdmaCompletion::QpCreated {
                    link,
                    qpn: Qpn::new(qpn),
                }
            }
            RdmaCommand::ConnectQp { link, peer, .. } => {
                self.qp(link).expect("a queue pair").peer_qpn = Some(peer.qpn.value());
                RdmaCompletion::QpConnected { link }
            }
            RdmaCommand::ActivateQp { link, .. } => RdmaCompletion::QpActive { link },
            RdmaCommand::DestroyQp { link } => {
                let qp = self.qps[link.index() as usize].take();
                assert!(qp.is_some_and(|qp| qp.drained), "destroyed undrained");
                assert!(self.registrations.iter().all(|r| r.link != link));
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::AllocBuffer {
                buffer,
                elements,
                element_size,
                ..
            } => {
                let index = buffer.index() as usize;
                if self.buffers.len() <= index {
                    self.buffers.resize(index + 1, Vec::new());
                }
                self.buffers[index] = vec![0; usize::from(elements) * element_size as usize];
                RdmaCompletion::BufferAllocated { buffer }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                let rkey = Self::key(buffer, link);
                self.registrations.push(Registration { rkey, link, buffer });
                RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken: RToken {
                        rkey,
                        address: BASE,
                    },
                }
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                self.registrations
                    .retain(|r| r.buffer != buffer || r.link != link);
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => {
                assert!(self.registrations.iter().all(|r| r.buffer != buffer));
                self.buffers[buffer.index() as usize] = Vec::new();
                RdmaCompletion::BufferFreed { buffer }
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                ..
            } => {
                let start = offset as usize;
                self.buffers[buffer.index() as usize][start..start + length as usize].fill(0);
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::QpToError { .. }
            | RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => {
                unreachable!("carried out elsewhere")
            }
        }
    }
}
