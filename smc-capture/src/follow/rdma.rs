//! RoCE packets: SENDs with LLC and CDC messages, and RDMA WRITEs.

use std::collections::{HashMap, VecDeque};

use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::{AddLink, ConfirmLink, LlcMessage};
use smc_proto::wire::types::{Gid, Qpn};

use super::item::{Content, Item, Path, Protocol, RocePath};
use super::qp::{QpAddress, QueuePair, Use};
use super::send::{assemble, interpret, looks_like_smc};
use super::write::{Budget, WriteInProgress, is_last};
use super::{Limits, Moment};
use crate::frame::RoceFrame;
use crate::roce::RoceError;

/// Follows queue pairs.
pub(super) struct RdmaFollower {
    limits: Limits,
    queue_pairs: HashMap<QpAddress, QueuePair>,
    /// Their order of appearance, the oldest first.
    order: VecDeque<QpAddress>,
    budget: Budget,
    /// By TCP stream, until its Confirm comes: the server's end of the link,
    /// and whether it is the first contact.
    accepted: HashMap<u64, (QpAddress, bool)>,
}

impl Default for RdmaFollower {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// The item for a packet that cannot be read.
pub(super) fn bad_packet(at: Moment, source: Gid, destination: Gid, error: RoceError) -> Item {
    Item {
        frame: at.frame,
        time: at.time,
        path: Path::Hosts {
            source,
            destination,
        },
        retransmission: false,
        content: Content::Malformed {
            protocol: Protocol::Roce,
            offset: 0,
            reason: error.to_string(),
        },
        bytes: Vec::new(),
    }
}

fn item(at: Moment, path: RocePath, retransmission: bool, content: Content, bytes: &[u8]) -> Item {
    Item {
        frame: at.frame,
        time: at.time,
        path: Path::Roce(path),
        retransmission,
        content,
        bytes: bytes.to_vec(),
    }
}

impl RdmaFollower {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            queue_pairs: HashMap::new(),
            order: VecDeque::new(),
            budget: Budget {
                left: limits.write_bytes,
            },
            accepted: HashMap::new(),
        }
    }

    pub(super) fn push(&mut self, at: Moment, frame: &RoceFrame<'_>, items: &mut Vec<Item>) {
        let bth = frame.packet.bth;
        if !bth.opcode.is_send() && !bth.opcode.is_write() {
            return;
        }
        let address = (frame.destination, bth.destination_qpn);
        let (queue_pair, budget) = self.queue_pair(address);
        let fresh = queue_pair.packets.observe(bth.psn);
        let mut path = RocePath {
            version: frame.version,
            source: frame.source,
            destination: frame.destination,
            source_qpn: queue_pair.peer,
            destination_qpn: bth.destination_qpn,
            psn: bth.psn,
            link: queue_pair.link,
            crc_valid: frame.crc_valid,
        };
        if bth.opcode.is_write() {
            write(at, frame, path, fresh, queue_pair, budget, items);
            return;
        }
        let Some((bytes, missing)) = assemble(frame, fresh, queue_pair) else {
            return;
        };
        let smc = match queue_pair.usage {
            Use::Smc => true,
            Use::Other => false,
            Use::Unknown => looks_like_smc(&bytes, bytes.len() + missing),
        };
        if !smc {
            queue_pair.usage = Use::Other;
            return;
        }
        let content = interpret(&bytes, missing);
        if !content.is_malformed() {
            queue_pair.usage = Use::Smc;
        }
        if fresh {
            self.learn_from_llc(address, &content);
            let (queue_pair, _) = self.queue_pair(address);
            path.source_qpn = queue_pair.peer;
            path.link = queue_pair.link;
        }
        items.push(item(at, path, !fresh, content, &bytes));
    }

    /// Takes the queue pairs that an Accept and a Confirm name.
    pub(super) fn learn_from_clc(&mut self, item: &Item) {
        let (Path::Tcp(path), Content::Clc(message), false) =
            (&item.path, &item.content, item.retransmission)
        else {
            return;
        };
        match message {
            ClcMessage::Accept(accept) => {
                let server = (accept.gid, accept.qpn);
                self.name(server, accept.first_contact);
                if self.accepted.len() >= self.limits.streams {
                    self.accepted.clear();
                }
                self.accepted
                    .insert(path.stream, (server, accept.first_contact));
            }
            ClcMessage::Confirm(confirm) => {
                let client = (confirm.gid, confirm.qpn);
                let accepted = self.accepted.remove(&path.stream);
                let first = accepted.is_some_and(|(_, first)| first);
                self.name(client, first || confirm.first_contact);
                if let Some((server, _)) = accepted {
                    self.pair(client, server);
                }
            }
            _ => {}
        }
    }

    /// Takes the queue pairs that a message sent to `receiver` names.
    fn learn_from_llc(&mut self, receiver: QpAddress, content: &Content) {
        let Content::Llc(message) = content else {
            return;
        };
        match message.message() {
            LlcMessage::AddLink(add) => self.learn_added(&add),
            LlcMessage::ConfirmLink(confirm) => self.learn_confirmed(receiver, &confirm),
            _ => {}
        }
    }

    fn learn_added(&mut self, add: &AddLink<'_>) {
        if add.rejection.is_none() && add.qpn != Qpn::default() {
            self.name((add.gid, add.qpn), true);
        }
    }

    fn learn_confirmed(&mut self, receiver: QpAddress, confirm: &ConfirmLink) {
        let sender = (confirm.gid, confirm.qpn);
        self.name(sender, false);
        self.pair(sender, receiver);
        for end in [sender, receiver] {
            self.queue_pair(end).0.link = Some(confirm.link);
        }
    }

    /// Notes that a queue pair is used for SMC; `new` if it was just set up.
    fn name(&mut self, address: QpAddress, new: bool) {
        let (queue_pair, budget) = self.queue_pair(address);
        if new {
            let former = core::mem::take(queue_pair);
            if let Some(write) = former.write {
                write.discard(budget);
            }
        }
        queue_pair.usage = Use::Smc;
    }

    fn pair(&mut self, one: QpAddress, other: QpAddress) {
        self.queue_pair(one).0.peer = Some(other.1);
        self.queue_pair(other).0.peer = Some(one.1);
    }

    fn queue_pair(&mut self, address: QpAddress) -> (&mut QueuePair, &mut Budget) {
        if !self.queue_pairs.contains_key(&address) {
            if self.queue_pairs.len() >= self.limits.queue_pairs.max(1)
                && let Some(oldest) = self.order.pop_front()
                && let Some(QueuePair {
                    write: Some(write), ..
                }) = self.queue_pairs.remove(&oldest)
            {
                write.discard(&mut self.budget);
            }
            self.order.push_back(address);
        }
        let queue_pair = self.queue_pairs.entry(address).or_default();
        (queue_pair, &mut self.budget)
    }

    /// Reports the RDMA WRITEs whose last packet did not come.
    pub(super) fn finish(&mut self, items: &mut Vec<Item>) {
        let mut open: Vec<_> = self
            .queue_pairs
            .drain()
            .filter_map(|(_, queue_pair)| queue_pair.write)
            .collect();
        self.order.clear();
        open.sort_by_key(|write| write.first_frame());
        for write in open {
            items.push(ended(write, false, &mut self.budget));
        }
    }
}

fn ended(write: WriteInProgress, last_seen: bool, budget: &mut Budget) -> Item {
    let (at, path) = (write.last, write.path.clone());
    item(at, path, false, write.end(last_seen, budget), &[])
}

fn write(
    at: Moment,
    frame: &RoceFrame<'_>,
    path: RocePath,
    fresh: bool,
    queue_pair: &mut QueuePair,
    budget: &mut Budget,
    items: &mut Vec<Item>,
) {
    if queue_pair.usage == Use::Other {
        return;
    }
    let opcode = frame.packet.bth.opcode;
    if !fresh {
        // A packet that repeats the beginning of a write has the length of the whole.
        if let Some(reth) = frame.packet.reth {
            let again = WriteInProgress::begin(at, path.clone(), frame, reth, budget);
            let content = again.end(opcode.ends_message(), budget);
            items.push(item(at, path, true, content, &[]));
        }
        return;
    }
    match (frame.packet.reth, queue_pair.write.as_mut()) {
        (Some(reth), _) => {
            if let Some(unfinished) = queue_pair.write.take() {
                items.push(ended(unfinished, false, budget));
            }
            queue_pair.write = Some(WriteInProgress::begin(at, path, frame, reth, budget));
        }
        (None, Some(write)) if write.includes(frame.packet.bth.psn) => {
            write.add(at, frame, budget);
        }
        // The end of this write and the beginning of another one were lost.
        (None, Some(_)) => {
            let unfinished = queue_pair.write.take();
            items.extend(unfinished.map(|write| ended(write, false, budget)));
            return;
        }
        // The capture began in the middle of this write.
        (None, None) => return,
    }
    if is_last(opcode)
        && let Some(write) = queue_pair.write.take()
    {
        items.push(ended(write, true, budget));
    }
}
