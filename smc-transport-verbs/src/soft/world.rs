//! Queue pairs, and what becomes of requests.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use smc_proto::command::Segment;
use smc_proto::completion::LinkFailure;

use super::signal;
use crate::memory::Memory;
use crate::ports::Port;
use crate::rnic::{Access, DeviceEvent, Status, Work, WorkCompletion};

const UNANSWERED: Status = Status::Failed(LinkFailure::RetriesExhausted);
const REFUSED: Status = Status::Failed(LinkFailure::RemoteAccess);
const INVALID: Status = Status::Failed(LinkFailure::Other);

#[derive(Default)]
pub(super) struct World {
    pub(super) queue_pairs: HashMap<u32, Pair>,
    /// By their keys: the queue pair, the memory, and the access rights to it.
    pub(super) regions: HashMap<u32, (u32, Arc<Memory>, Access)>,
    pub(super) rnics: Vec<Rings>,
    /// The last queue pair or key.
    pub(super) last: u32,
    /// Bytes that may be registered, counted from when the limit was set.
    pub(super) limit: Option<usize>,
    /// Of these, those that are left.
    pub(super) lockable: Option<usize>,
    /// Binding waits for the end of this.
    pub(super) held: bool,
    /// How many wait.
    pub(super) waiting: u32,
    /// What goes waits for the end of this.
    pub(super) kept: bool,
    /// How many wait for that.
    pub(super) going: u32,
    pub(super) doorbells: u32,
}

/// Queues of an RNIC for its host, and their doorbells.
pub(super) struct Rings {
    pub(super) ready: VecDeque<u32>,
    pub(super) events: VecDeque<DeviceEvent>,
    pub(super) completions: OwnedFd,
    pub(super) event: OwnedFd,
    pub(super) ports: Vec<Port>,
}

pub(super) struct Pair {
    pub(super) rnic: usize,
    pub(super) token: u32,
    pub(super) peer: Option<u32>,
    broken: bool,
    receives: VecDeque<(u64, Arc<Memory>, [Segment; 2])>,
    /// SENDs that found no receive.
    waiting: VecDeque<Message>,
    pub(super) completions: VecDeque<WorkCompletion>,
}

struct Message {
    from: u32,
    number: u64,
    bytes: Vec<u8>,
}

impl Pair {
    pub(super) fn new(rnic: usize, token: u32) -> Self {
        Self {
            rnic,
            token,
            peer: None,
            broken: false,
            receives: VecDeque::new(),
            waiting: VecDeque::new(),
            completions: VecDeque::new(),
        }
    }
}

impl World {
    pub(super) fn complete(&mut self, qpn: u32, number: u64, status: Status, length: u32) {
        let Some(pair) = self.queue_pairs.get_mut(&qpn) else {
            return;
        };
        pair.completions.push_back(WorkCompletion {
            number,
            status,
            length,
        });
        if let Some(rings) = self.rnics.get_mut(pair.rnic) {
            rings.ready.push_back(pair.token);
            signal(&rings.completions);
        }
    }

    /// A queue pair takes part in nothing more; all that waits comes back.
    pub(super) fn break_pair(&mut self, qpn: u32) {
        let Some(pair) = self.queue_pairs.get_mut(&qpn) else {
            return;
        };
        if std::mem::replace(&mut pair.broken, true) {
            return;
        }
        let receives = std::mem::take(&mut pair.receives);
        for (number, ..) in receives {
            self.complete(qpn, number, Status::Flushed, 0);
        }
        self.withdraw(qpn, true);
    }

    /// A queue pair is destroyed.
    pub(super) fn remove(&mut self, qpn: u32) {
        self.withdraw(qpn, false);
        self.queue_pairs.remove(&qpn);
    }

    /// What waits at a queue pair was not answered, and what it has waiting elsewhere is
    /// not carried out.
    fn withdraw(&mut self, qpn: u32, report: bool) {
        let Some(pair) = self.queue_pairs.get_mut(&qpn) else {
            return;
        };
        let (unanswered, peer) = (std::mem::take(&mut pair.waiting), pair.peer);
        for message in unanswered {
            self.fail(message.from, message.number, UNANSWERED);
        }
        let there = peer.and_then(|peer| self.queue_pairs.get_mut(&peer));
        let Some(there) = there else {
            return;
        };
        let all = std::mem::take(&mut there.waiting);
        let (mine, others): (VecDeque<_>, _) = all.into_iter().partition(|of| of.from == qpn);
        there.waiting = others;
        if report {
            for message in mine {
                self.complete(qpn, message.number, Status::Flushed, 0);
            }
        }
    }

    /// A request fails, and breaks its queue pair; those behind it are flushed.
    fn fail(&mut self, qpn: u32, number: u64, status: Status) {
        let broken = self.queue_pairs.get(&qpn).is_none_or(|pair| pair.broken);
        let status = if broken { Status::Flushed } else { status };
        self.complete(qpn, number, status, 0);
        self.break_pair(qpn);
    }

    pub(super) fn receive(
        &mut self,
        qpn: u32,
        number: u64,
        memory: Arc<Memory>,
        segments: [Segment; 2],
    ) {
        let Some(pair) = self.queue_pairs.get_mut(&qpn) else {
            return;
        };
        if pair.broken {
            return self.complete(qpn, number, Status::Flushed, 0);
        }
        pair.receives.push_back((number, memory, segments));
        self.deliver(qpn);
    }

    fn deliver(&mut self, to: u32) {
        while let Some(pair) = self.queue_pairs.get_mut(&to) {
            if pair.waiting.is_empty() || pair.broken {
                return;
            }
            let Some((number, memory, pieces)) = pair.receives.pop_front() else {
                return;
            };
            let Some(message) = pair.waiting.pop_front() else {
                return;
            };
            let mut rest = message.bytes.as_slice();
            let mut fits = true;
            for piece in pieces {
                let (now, later) = rest.split_at(rest.len().min(piece.length as usize));
                fits &= memory.copy_in(piece.offset.into(), now).is_ok();
                rest = later;
            }
            if !fits || !rest.is_empty() {
                self.complete(to, number, INVALID, 0);
                self.fail(message.from, message.number, INVALID);
                return self.break_pair(to);
            }
            // No longer than what it was received into.
            self.complete(to, number, Status::Success, message.bytes.len() as u32);
            self.complete(message.from, message.number, Status::Success, 0);
        }
    }

    /// Carries out what a queue pair was asked to.
    pub(super) fn carry(&mut self, from: u32, number: u64, work: Work, bytes: Vec<u8>) {
        let Some(pair) = self.queue_pairs.get(&from) else {
            return;
        };
        if pair.broken {
            return self.complete(from, number, Status::Flushed, 0);
        }
        let peer = pair.peer.unwrap_or(0);
        let Some(to) = self.queue_pairs.get_mut(&peer).filter(|to| !to.broken) else {
            return self.fail(from, number, UNANSWERED);
        };
        let (rkey, address) = match work {
            Work::Send => {
                to.waiting.push_back(Message {
                    from,
                    number,
                    bytes,
                });
                return self.deliver(peer);
            }
            Work::Write { rkey, address } => (rkey, address),
        };
        let region = self
            .regions
            .get(&rkey)
            .filter(|(of, _, access)| *of == peer && *access == Access::RemoteWrite);
        let offset = address.checked_sub(base(rkey));
        // As the peer's RNIC would.
        let written = region
            .zip(offset)
            .map(|((_, memory, _), at)| memory.copy_in(at, &bytes));
        if written != Some(Ok(())) {
            self.fail(from, number, REFUSED);
            self.break_pair(peer);
        }
    }
}

/// Where a peer finds the first byte of a region.
pub(super) fn base(rkey: u32) -> u64 {
    u64::from(rkey) << 32
}
