//! The end of a stack: its link groups end in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smc_proto::id::GroupId;
use smc_proto::time::{Duration, Instant};

use super::state::Entry;
use super::{Shard, State, Via};

/// How long peers have to let the links go.
const GOODBYE: Duration = Duration::from_secs(4);

impl Shard {
    /// Notes that no handle of the stack is left: the driver ends with the last connection. Takes no
    /// lock of the endpoint.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        self.ring();
    }
}

impl State {
    pub(super) fn group_up(&mut self, group: GroupId) {
        self.groups.push(group);
    }

    /// Whether streams over RNICs have bytes, or the end of a stream, that the peer's RNIC has not
    /// acknowledged. Polls the RNICs.
    pub(crate) fn is_sending(&mut self, shard: &Arc<Shard>) -> bool {
        self.drain_and_park(shard, shard.now());
        let over_rnics = |entry: &&Entry| entry.socket.via() == Via::Verbs;
        let mut entries = self.sockets.iter().flatten().filter(over_rnics);
        let engine = &mut self.engine;
        entries.any(|entry| {
            let conn = engine.conn(entry.conn);
            conn.is_some_and(|conn| !conn.is_all_sent())
        })
    }

    /// Whether the driver may end. Before that, peers are notified that links go: they would
    /// go on testing them.
    pub(crate) fn is_over(&mut self, shard: &Arc<Shard>, now: Instant) -> bool {
        if !shard.abandoned.load(Ordering::Acquire) || !self.is_empty() {
            return false;
        }
        let until = *self.goodbye.get_or_insert_with(|| now.after(GOODBYE));
        if self.groups.is_empty() || until <= now {
            return true;
        }
        for group in self.groups.clone() {
            self.engine.delete_group(now, group);
        }
        self.drain_and_park(shard, now);
        self.wake_at(shard, until, now);
        self.groups.is_empty()
    }
}
