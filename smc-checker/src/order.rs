//! Puts what a queue pair got into the order of its packet numbers.
//!
//! A reliable queue pair executes packets in their order only. Captures may show
//! them otherwise: one that is lost behind the tap is seen again later, behind
//! packets that the receiver did not take.

use std::collections::{BTreeMap, HashMap, VecDeque};

use smc_capture::follow::{Content, Item, Path, RocePath};
use smc_proto::wire::types::Psn;

use crate::state::link::QpAddress;

/// Queue pairs that are remembered; the oldest are forgotten first.
const MAX_QUEUE_PAIRS: usize = 4096;
/// Messages of a queue pair that may wait for an earlier one.
const MAX_HELD: usize = 256;
/// How long they may wait, in nanoseconds.
const TIMEOUT: u64 = 10_000_000_000;
/// Packets that can be in flight; a number further off is no late one.
const WINDOW: u32 = 16_384;
const PSN_MASK: u32 = 0x00ff_ffff;

/// A message in its place.
pub(crate) struct Placed {
    pub(crate) item: Item,
    pub(crate) path: RocePath,
    /// The frame of the message before it, if messages between them are missing.
    pub(crate) gap: Option<u64>,
    /// The number its packets should have begun with, if it is the first one and its
    /// number is none that could be.
    pub(crate) astray: Option<Psn>,
}

#[derive(Default)]
struct Queue {
    /// Number of the next packet, once known.
    next: Option<Psn>,
    /// Frame of the last message.
    last: u64,
    /// Whether nothing has come since the queue pair was named.
    fresh: bool,
    /// By the distance of their numbers from the first one that waited.
    held: BTreeMap<u32, (RocePath, Item)>,
}

/// Puts messages in order.
#[derive(Default)]
pub(crate) struct Order {
    queues: HashMap<QpAddress, Queue>,
    ages: VecDeque<QpAddress>,
}

impl Order {
    /// Notes that a queue pair begins with this number, and returns what waited for
    /// its former packets.
    pub(crate) fn begin(&mut self, address: QpAddress, first: Psn) -> Vec<Placed> {
        let mut out = Vec::new();
        self.flush(address, &mut out);
        let queue = self.queue(address);
        *queue = Queue {
            next: Some(first),
            last: 0,
            fresh: true,
            held: BTreeMap::new(),
        };
        out
    }

    /// Takes a message and returns those whose turn it is.
    pub(crate) fn push(&mut self, item: Item) -> Vec<Placed> {
        let mut out = Vec::new();
        let Path::Roce(path) = item.path.clone() else {
            return out;
        };
        if item.retransmission {
            return out;
        }
        let address = (path.destination, path.destination_qpn);
        let now = item.time;
        let queue = self.queue(address);
        let first = core::mem::take(&mut queue.fresh);
        let Some(next) = queue.next else {
            queue.take(path, item, false, None, &mut out);
            return out;
        };
        let ahead = path.psn.value().wrapping_sub(next.value()) & PSN_MASK;
        if ahead == 0 {
            queue.take(path, item, false, None, &mut out);
            queue.release(&mut out);
        } else if ahead < WINDOW {
            queue.fresh = first && queue.held.is_empty();
            queue.held.insert(path.psn.value(), (path, item));
            let oldest = queue.held.values().map(|(_, item)| item.time).min();
            let late = oldest.is_some_and(|oldest| now.saturating_sub(oldest) > TIMEOUT);
            if queue.held.len() > MAX_HELD || late {
                self.flush(address, &mut out);
            }
        } else {
            // Not one of this count: the queue pair was set up anew, or is wrong.
            let astray = first.then_some(next);
            self.flush(address, &mut out);
            self.queue(address)
                .take(path, item, !first, astray, &mut out);
        }
        out
    }

    /// Whether messages to this queue pair wait for an earlier one.
    pub(crate) fn is_waiting(&self, address: QpAddress) -> bool {
        let queue = self.queues.get(&address);
        queue.is_some_and(|queue| !queue.held.is_empty())
    }

    /// Gives up waiting: what is held comes as it is.
    pub(crate) fn flush(&mut self, address: QpAddress, out: &mut Vec<Placed>) {
        let Some(queue) = self.queues.get_mut(&address) else {
            return;
        };
        let mut gap = true;
        while let Some((path, item)) = queue.nearest() {
            queue.take(path, item, gap, None, out);
            gap = false;
            queue.release(out);
            gap |= !queue.held.is_empty();
        }
    }

    /// Gives up waiting everywhere.
    pub(crate) fn finish(&mut self) -> Vec<Placed> {
        let mut out = Vec::new();
        for address in core::mem::take(&mut self.ages) {
            self.flush(address, &mut out);
        }
        out
    }

    fn queue(&mut self, address: QpAddress) -> &mut Queue {
        if !self.queues.contains_key(&address) {
            if self.queues.len() >= MAX_QUEUE_PAIRS
                && let Some(oldest) = self.ages.pop_front()
            {
                self.queues.remove(&oldest);
            }
            self.ages.push_back(address);
        }
        self.queues.entry(address).or_default()
    }
}

impl Queue {
    /// The held message whose number is the nearest one.
    fn nearest(&mut self) -> Option<(RocePath, Item)> {
        let next = self.next?.value();
        let numbers = self.held.keys().copied();
        let nearest = numbers.min_by_key(|psn| psn.wrapping_sub(next) & PSN_MASK)?;
        self.held.remove(&nearest)
    }

    /// Passes on all whose turn it is.
    fn release(&mut self, out: &mut Vec<Placed>) {
        while let Some(next) = self.next
            && let Some((path, item)) = self.held.remove(&next.value())
        {
            self.take(path, item, false, None, out);
        }
    }

    fn take(
        &mut self,
        path: RocePath,
        item: Item,
        gap: bool,
        astray: Option<Psn>,
        out: &mut Vec<Placed>,
    ) {
        let packets = match &item.content {
            Content::Write(write) => write.packets.max(1),
            _ => 1,
        };
        self.next = Some(Psn::new(path.psn.value().wrapping_add(packets)));
        let gap = gap.then_some(self.last);
        self.last = item.frame;
        out.push(Placed {
            item,
            path,
            gap,
            astray,
        });
    }
}
