//! The RNIC of a side: queue pairs and what they carry. There is no memory: no data is written.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use smc_proto::command::RdmaCommand;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, LinkId, WrId};
use smc_proto::wire::types::{Qpn, RKey, RToken};

use super::host::Host;
use super::world::World;
use crate::unbacked;

/// A message that was posted.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Posted {
    wr_id: WrId,
    payload: Vec<u8>,
}

/// A queue pair.
#[derive(Clone, Debug)]
struct QueuePair {
    link: LinkId,
    qpn: Qpn,
    peer: Option<Qpn>,
    posted: VecDeque<Posted>,
    /// Nothing passes any more.
    broken: bool,
    /// The queue pair was broken under work, or is used since.
    noticed: bool,
    /// The engine was notified.
    reported: bool,
}

/// An RNIC.
#[derive(Clone, Debug, Default)]
pub(super) struct Rdma {
    queue_pairs: Vec<QueuePair>,
    held: Option<RdmaCommand>,
    /// Queue pairs and keys made so far.
    made: u32,
}

impl Rdma {
    fn queue_pair(&mut self, link: LinkId) -> Option<&mut QueuePair> {
        self.queue_pairs.iter_mut().find(|qp| qp.link == link)
    }

    /// Whether a message is in flight.
    pub(super) fn has_posted(&self) -> bool {
        self.queue_pairs.iter().any(|qp| qp.has_work())
    }

    pub(super) fn holds_command(&self) -> bool {
        self.held.is_some()
    }

    /// Whether a queue pair carries anything.
    pub(super) fn has_way(&self) -> bool {
        self.queue_pairs
            .iter()
            .any(|qp| !qp.broken && qp.peer.is_some())
    }

    /// Whether there is a failure that was not reported to the engine: one that its work met,
    /// or any.
    pub(super) fn has_unreported(&self, met: bool) -> bool {
        self.queue_pairs
            .iter()
            .any(|qp| qp.broken && !qp.reported && qp.noticed == met)
    }

    /// All its queue pairs break.
    pub(super) fn fail(&mut self) {
        for qp in self.queue_pairs.iter_mut().filter(|qp| !qp.broken) {
            qp.fail();
        }
    }

    pub(super) fn hash<H: Hasher>(&self, hasher: &mut H) {
        // A number is only used to find the other end.
        let made = self.made;
        for qp in &self.queue_pairs {
            (qp.link.index(), made - (qp.qpn.value() >> 4)).hash(hasher);
            (qp.peer.is_some(), qp.broken, qp.noticed, qp.reported).hash(hasher);
            qp.posted.len().hash(hasher);
            for posted in &qp.posted {
                posted.payload.hash(hasher);
            }
        }
        self.held.map(|held| format!("{held:?}")).hash(hasher);
    }
}

impl QueuePair {
    fn has_work(&self) -> bool {
        !self.broken && !self.posted.is_empty()
    }

    fn fail(&mut self) {
        self.noticed = !self.posted.is_empty();
        self.broken = true;
        self.posted.clear();
    }
}

/// Whether a command provides something, so that it may be refused or take its time.
const fn provides(command: &RdmaCommand) -> bool {
    matches!(
        command,
        RdmaCommand::CreateQp { .. }
            | RdmaCommand::ConnectQp { .. }
            | RdmaCommand::ActivateQp { .. }
            | RdmaCommand::AllocBuffer { .. }
            | RdmaCommand::RegisterBuffer { .. }
            | RdmaCommand::ClearElement { .. }
    )
}

impl Host {
    /// Carries a command out, or keeps it waiting.
    pub(super) fn execute(&mut self, command: RdmaCommand) {
        match provides(&command) && self.holds_this() {
            true => self.rdma.held = Some(command),
            false => self.carry_out(command),
        }
    }

    /// The command that waits is carried out, or refused.
    pub(super) fn answer(&mut self, done: bool) {
        let Some(command) = self.rdma.held.take() else {
            return;
        };
        if done {
            return self.carry_out(command);
        }
        let refused = match command {
            RdmaCommand::CreateQp { link, .. }
            | RdmaCommand::ConnectQp { link, .. }
            | RdmaCommand::ActivateQp { link, .. } => RdmaCompletion::LinkRefused { link },
            RdmaCommand::AllocBuffer { buffer, .. }
            | RdmaCommand::RegisterBuffer { buffer, .. }
            | RdmaCommand::ClearElement { buffer, .. } => RdmaCompletion::BufferRefused { buffer },
            _ => return,
        };
        self.endpoint.handle_rdma(self.now, refused);
    }

    fn carry_out(&mut self, command: RdmaCommand) {
        let completion = match command {
            RdmaCommand::CreateQp { link, .. } => {
                self.rdma.made += 1;
                let qpn = Qpn::new((self.rdma.made << 4) | link.index());
                self.rdma.queue_pairs.push(QueuePair {
                    link,
                    qpn,
                    peer: None,
                    posted: VecDeque::new(),
                    broken: false,
                    noticed: false,
                    reported: false,
                });
                RdmaCompletion::QpCreated { link, qpn }
            }
            RdmaCommand::ConnectQp { link, peer, .. } => {
                if let Some(qp) = self.rdma.queue_pair(link) {
                    qp.peer = Some(peer.qpn);
                }
                RdmaCompletion::QpConnected { link }
            }
            RdmaCommand::ActivateQp { link, .. } => RdmaCompletion::QpActive { link },
            RdmaCommand::QpToError { link } => {
                if let Some(qp) = self.rdma.queue_pair(link) {
                    qp.fail();
                    qp.reported = true;
                }
                RdmaCompletion::QpDrained { link }
            }
            RdmaCommand::DestroyQp { link } => {
                self.rdma.queue_pairs.retain(|qp| qp.link != link);
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::Write { .. } => return,
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => return self.post(link, wr_id, payload.to_vec()),
            RdmaCommand::SendLarge {
                link,
                wr_id,
                length,
            } => {
                let mut payload = vec![0; length as usize];
                let written = self.endpoint.emit_llc(link, wr_id, &mut payload);
                assert_eq!(written, Ok(payload.len()), "as long as it was announced");
                return self.post(link, wr_id, payload);
            }
            buffers => {
                let key = |buffer: BufferId, link: LinkId| RToken {
                    rkey: RKey(0x1000 + buffer.index() * 0x10 + link.index()),
                    address: 0x7f00_0000_0000,
                };
                unbacked::answer(&buffers, key).expect("a command about a buffer")
            }
        };
        self.endpoint.handle_rdma(self.now, completion);
    }

    fn post(&mut self, link: LinkId, wr_id: WrId, payload: Vec<u8>) {
        if let Some(qp) = self.rdma.queue_pair(link) {
            match qp.broken {
                true => qp.noticed = true,
                false => qp.posted.push_back(Posted { wr_id, payload }),
            }
        }
    }

    /// Reports a failure to the engine: one that its work met, or any.
    pub(super) fn report_failure(&mut self, met: bool) {
        let mut all = self.rdma.queue_pairs.iter_mut();
        let Some(qp) = all.find(|qp| qp.broken && !qp.reported && qp.noticed == met) else {
            return;
        };
        qp.reported = true;
        let completion = RdmaCompletion::LinkFailed {
            link: qp.link,
            cause: match met {
                true => LinkFailure::RetriesExhausted,
                false => LinkFailure::PortDown,
            },
            conn: None,
        };
        self.endpoint.handle_rdma(self.now, completion);
    }
}

impl World {
    /// The oldest message of a side arrives, and completes; or it is not received, and its
    /// queue pair breaks.
    pub(super) fn receive_rdma(&mut self, side: usize) {
        let [a, b] = &mut self.hosts;
        let (host, peer) = if side == 0 { (a, b) } else { (b, a) };
        let mut all = host.rdma.queue_pairs.iter_mut();
        let Some(from) = all.find(|qp| qp.has_work()) else {
            return;
        };
        let is_other_end =
            |to: &&QueuePair| Some(to.qpn) == from.peer && to.peer == Some(from.qpn) && !to.broken;
        let to = peer.rdma.queue_pairs.iter().find(is_other_end);
        let Some(link) = to.map(|to| to.link) else {
            return from.fail();
        };
        let Some(Posted { wr_id, payload }) = from.posted.pop_front() else {
            return;
        };
        let payload = &payload;
        let received = RdmaCompletion::Received { link, payload };
        let sent = RdmaCompletion::Sent {
            link: from.link,
            wr_id,
        };
        peer.endpoint.handle_rdma(peer.now, received);
        host.endpoint.handle_rdma(host.now, sent);
    }
}
