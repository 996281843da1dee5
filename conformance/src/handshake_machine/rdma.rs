//! The RNIC of a side: queue pairs and what they carry. There is no memory: no data is written.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use smc_proto::command::RdmaCommand;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{LinkId, WrId};
use smc_proto::wire::types::{RKey, RToken};

use super::host::Host;
use super::world::World;
use crate::rig::{Kind, Nic, Numbers, QpState, large, nic};

/// A message that was posted.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Posted {
    wr_id: WrId,
    payload: Vec<u8>,
}

/// The work of a queue pair.
#[derive(Clone, Default, Debug)]
struct Work {
    posted: VecDeque<Posted>,
    /// Nothing passes any more.
    broken: bool,
    /// The queue pair was broken under work, or is used since.
    noticed: bool,
    /// The engine was notified.
    reported: bool,
}

type QueuePair = nic::QueuePair<Work>;

/// An RNIC.
#[derive(Clone, Debug)]
pub(super) struct Rdma {
    nic: Nic<(), Work>,
    held: Option<RdmaCommand>,
}

/// Numbers of queue pairs are never used again; a key follows from its buffer and its link.
const NUMBERS: Numbers = Numbers {
    first: 0,
    qpn: |_, made, link| (made << 4) | link.index(),
    rtoken: |_, _, buffer, link| RToken {
        rkey: RKey(0x1000 + buffer.index() * 0x10 + link.index()),
        address: Numbers::BASE,
    },
};

impl Default for Rdma {
    fn default() -> Self {
        Self {
            nic: Nic::new(NUMBERS),
            held: None,
        }
    }
}

impl Rdma {
    /// Queue pairs that there are: one that is being created cannot fail yet.
    fn qps(&self) -> impl Iterator<Item = &QueuePair> {
        let made = |qp: &&QueuePair| qp.state != QpState::Requested;
        self.nic.qps().filter(made)
    }

    /// The queue pair made first of which this holds.
    fn oldest(&self, of: impl Fn(&QueuePair) -> bool) -> Option<LinkId> {
        let qps = self.qps().filter(|qp| of(qp));
        qps.min_by_key(|qp| qp.serial).map(|qp| qp.link)
    }

    /// Whether a message is in flight.
    pub(super) fn has_posted(&self) -> bool {
        self.qps().any(|qp| qp.work.is_in_flight())
    }

    pub(super) fn holds_command(&self) -> bool {
        self.held.is_some()
    }

    /// Whether a queue pair carries anything.
    pub(super) fn has_way(&self) -> bool {
        self.qps().any(|qp| !qp.work.broken && qp.bound.is_some())
    }

    /// Whether there is a failure that was not reported to the engine: one that its work met,
    /// or any.
    pub(super) fn has_unreported(&self, met: bool) -> bool {
        self.qps().any(|qp| qp.work.is_unreported(met))
    }

    /// All its queue pairs break.
    pub(super) fn fail(&mut self) {
        for qp in self.nic.qps_mut() {
            if !qp.work.broken && qp.state != QpState::Requested {
                qp.work.fail();
            }
        }
    }

    pub(super) fn hash<H: Hasher>(&self, hasher: &mut H) {
        let mut qps: Vec<_> = self.qps().collect();
        qps.sort_by_key(|qp| qp.serial);
        // A number is only used to find the other end.
        let made = self.nic.queue_pairs_made();
        for qp in qps {
            let work = &qp.work;
            (qp.link.index(), made - qp.serial).hash(hasher);
            (qp.bound.is_some(), work.broken, work.noticed, work.reported).hash(hasher);
            work.posted.len().hash(hasher);
            for posted in &work.posted {
                posted.payload.hash(hasher);
            }
        }
        self.held.map(|held| format!("{held:?}")).hash(hasher);
    }
}

impl Work {
    fn is_in_flight(&self) -> bool {
        !self.broken && !self.posted.is_empty()
    }

    fn is_unreported(&self, met: bool) -> bool {
        self.broken && !self.reported && self.noticed == met
    }

    fn fail(&mut self) {
        self.noticed = !self.posted.is_empty();
        self.broken = true;
        self.posted.clear();
    }
}

impl Host {
    /// Carries a command out, or keeps it waiting: which breach of the contract it is.
    pub(super) fn execute(&mut self, command: RdmaCommand) -> Result<(), String> {
        self.rdma.nic.issue(&command)?;
        match Kind::of(&command).provides() && self.holds_this() {
            true => self.rdma.held = Some(command),
            false => self.carry_out(command),
        }
        Ok(())
    }

    /// The command that waits is carried out, or refused.
    pub(super) fn answer(&mut self, done: bool) {
        let Some(command) = self.rdma.held.take() else {
            return;
        };
        if done {
            return self.carry_out(command);
        }
        if let Some(refused) = self.rdma.nic.refused(&command) {
            self.endpoint.handle_rdma(self.now, refused);
        }
    }

    fn carry_out(&mut self, command: RdmaCommand) {
        match command {
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
                let payload = large(&mut self.endpoint, link, wr_id, length);
                let payload = payload.unwrap_or_else(|breach| panic!("{breach}"));
                return self.post(link, wr_id, payload);
            }
            RdmaCommand::QpToError { link } => {
                if let Some(qp) = self.rdma.nic.qp_mut(link) {
                    qp.work.fail();
                    qp.work.reported = true;
                }
            }
            _ => {}
        }
        if let Some(completion) = self.rdma.nic.done(&command) {
            self.endpoint.handle_rdma(self.now, completion);
        }
    }

    fn post(&mut self, link: LinkId, wr_id: WrId, payload: Vec<u8>) {
        if let Some(qp) = self.rdma.nic.qp_mut(link) {
            match qp.work.broken {
                true => qp.work.noticed = true,
                false => qp.work.posted.push_back(Posted { wr_id, payload }),
            }
        }
    }

    /// Reports a failure to the engine: one that its work met, or any.
    pub(super) fn report_failure(&mut self, met: bool) {
        let failed = self.rdma.oldest(|qp| qp.work.is_unreported(met));
        let Some(qp) = failed.and_then(|link| self.rdma.nic.qp_mut(link)) else {
            return;
        };
        qp.work.reported = true;
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
        let oldest = host.rdma.oldest(|qp| qp.work.is_in_flight());
        let Some(from) = oldest.and_then(|link| host.rdma.nic.qp_mut(link)) else {
            return;
        };
        let bound = |qp: &QueuePair| qp.bound.map(|bound| bound.peer.qpn);
        let other = peer.rdma.oldest(|to| {
            Some(to.qpn) == bound(from) && bound(to) == Some(from.qpn) && !to.work.broken
        });
        let Some(link) = other else {
            return from.work.fail();
        };
        let Some(Posted { wr_id, payload }) = from.work.posted.pop_front() else {
            return;
        };
        let payload = &payload;
        let received = RdmaCompletion::Received { link, payload };
        let from = from.link;
        let sent = RdmaCompletion::Sent { link: from, wr_id };
        host.rdma.nic.sent(from, wr_id);
        peer.endpoint.handle_rdma(peer.now, received);
        host.endpoint.handle_rdma(host.now, sent);
    }
}
