//! Connections whose data paths are lent to the threads that use them, see
//! [`lane`](crate::lane).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smc_proto::completion::IsmCompletion;
use smc_proto::id::ConnId;
use smc_proto::time::Instant;

use super::polling::IDLE_TIME;
use super::state::Entry;
use super::{Locked, Shard, State, Via};
use crate::lane::Lent;
use crate::socket::Socket;

/// What threads that use lent data paths, and the one with the endpoint's lock, know of each other.
/// Each word is written seldom, so that all processors have it.
#[derive(Default)]
pub(super) struct Lanes {
    /// Threads poll the heads of their connections alone.
    heads_polled: AtomicBool,
    /// One was used since this was last asked: the device stays awake.
    used: AtomicBool,
}

impl Lanes {
    #[inline(always)]
    fn use_one(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether one was used since this was last asked.
    pub(super) fn take_use(&self) -> bool {
        self.used.load(Ordering::Relaxed) && self.used.swap(false, Ordering::Relaxed)
    }

    /// Sets whether threads poll the heads of their connections alone.
    pub(super) fn set_heads_polled(&self, polled: bool) {
        if self.heads_polled.load(Ordering::Relaxed) != polled {
            self.heads_polled.store(polled, Ordering::Relaxed);
        }
    }
}

impl Shard {
    /// Locks the endpoint for a call that concerns a socket: its data path is taken back.
    ///
    /// The caller must not hold the lane of the socket.
    #[inline]
    pub(crate) fn lock_for(self: &Arc<Self>, socket: &Socket) -> Locked<'_> {
        let state = self.lock();
        if !socket.lane.is_lent() {
            return state;
        }
        drop(state);
        self.lock_and_take_back(socket)
    }

    #[inline(never)]
    fn lock_and_take_back(self: &Arc<Self>, socket: &Socket) -> Locked<'_> {
        let mut slot = socket.lane.lock();
        let mut state = self.lock();
        if let Some(lent) = slot.take() {
            state.take_back(self, socket, lent, None, self.coarse());
        }
        // It is lent again by no one who has not got the endpoint's lock.
        state
    }

    /// A thread uses a data path that is lent.
    #[inline(always)]
    pub(crate) fn use_lane(&self) {
        self.lanes.use_one();
    }

    /// Whether a thread may poll its connection alone: nothing that the device would be polled
    /// for waits.
    #[inline(always)]
    pub(crate) fn polls_lanes(&self) -> bool {
        self.lanes.heads_polled.load(Ordering::Relaxed)
    }
}

impl State {
    /// Whether the data path of a socket can be lent, so that nothing of the program's is to be
    /// touched under the endpoint's lock.
    pub(crate) fn can_lend(&mut self, socket: &Socket) -> bool {
        let lane = &socket.lane;
        let Some(conn) = socket.conn().filter(|_| !lane.is_lent()) else {
            return false;
        };
        // The events of a data path that is lent are not seen.
        let is_used_alone = !self.is_traced()
            && !socket.is_nonblocking()
            && socket.via() == Via::Ism
            && !socket.is_marked()
            && !socket.is_polled()
            && !socket.waiters.has_any();
        is_used_alone && self.engine.can_lend(conn)
    }

    /// Lends the data path of a socket.
    pub(crate) fn lend(&mut self, socket: &Socket, now: Instant) -> Option<Lent> {
        if !self.can_lend(socket) {
            return None;
        }
        let connection = self.engine.lend(now, socket.conn()?)?;
        let (receive, send) = (connection.receive_buffer(), connection.send_buffer());
        let Some(memory) = self.transports.ism.lane(receive, send) else {
            if self.engine.take_back(now, connection) {
                self.engine.end_lost(now, socket.conn()?);
            }
            return None;
        };
        socket.lane.set_lent(true);
        self.lent += 1;
        Some(Lent { connection, memory })
    }

    /// Takes a data path back, and handles the message at the head of its DMB, which is `head` if
    /// it was read already.
    pub(crate) fn take_back(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        lent: Lent,
        head: Option<[u8; 32]>,
        now: Instant,
    ) {
        let Lent {
            connection,
            mut memory,
        } = lent;
        socket.lane.set_lent(false);
        self.lent = self.lent.saturating_sub(1);
        let (conn, buffer) = (connection.conn(), connection.receive_buffer());
        let is_lost = self.engine.take_back(now, connection);
        // A message that rang is still to be reported, unless its report was dropped.
        let was_put_off = self.put_off.contains(&conn);
        self.put_off.retain(|of| *of != conn);
        let is_silent = was_put_off || self.transports.ism.device().suppresses_rings();
        // The report of a further message may have been dropped after `head` was read.
        let mut next = [0; 32];
        let next = (is_silent && memory.poll_head(&mut next)).then_some(next);
        for cdc in [head, next].into_iter().flatten() {
            let completion = IsmCompletion::Signalled { buffer, cdc };
            self.engine.handle_ism(now, completion);
        }
        self.execute_commands(shard, now);
        if is_lost {
            self.receive_last(socket, now);
            self.engine.end_lost(now, conn);
            self.execute_commands(shard, now);
        }
    }

    /// Takes the data path of a connection back unless a thread uses it; whether the endpoint has
    /// it now. If not, that is tried again soon.
    fn recall(&mut self, shard: &Arc<Shard>, conn: ConnId, now: Instant) -> bool {
        let Some(socket) = self.entry(conn).map(|entry| entry.socket.clone()) else {
            return true;
        };
        if !socket.lane.is_lent() {
            return true;
        }
        match socket.lane.take_or_want() {
            Some(lent) => {
                self.take_back(shard, &socket, lent, None, now);
                true
            }
            None => {
                if !self.put_off.contains(&conn) {
                    self.put_off.push(conn);
                }
                self.wake_at(shard, now.after(IDLE_TIME), now);
                false
            }
        }
    }

    /// Takes those data paths back that threads used when the endpoint wanted them.
    pub(super) fn recall_put_off(&mut self, shard: &Arc<Shard>, now: Instant) {
        for conn in self.put_off.clone() {
            if self.recall(shard, conn, now) {
                self.put_off.retain(|of| *of != conn);
            }
        }
    }

    /// Takes the data paths back that a completion concerns, before it is handled. False if it
    /// is to be dropped: a thread uses the data path, and its message stays where it is.
    #[inline]
    pub(super) fn recall_for(
        &mut self,
        shard: &Arc<Shard>,
        completion: &IsmCompletion,
        now: Instant,
    ) -> bool {
        self.lent == 0 || self.recall_concerned(shard, completion, now)
    }

    #[inline(never)]
    fn recall_concerned(
        &mut self,
        shard: &Arc<Shard>,
        completion: &IsmCompletion,
        now: Instant,
    ) -> bool {
        match completion {
            IsmCompletion::Signalled { buffer, .. } => {
                let conn = self.engine.receiver(*buffer);
                conn.is_none_or(|conn| self.recall(shard, conn, now))
            }
            IsmCompletion::PeerVanished { .. }
            | IsmCompletion::Event { .. }
            | IsmCompletion::MoveFailed { .. }
            | IsmCompletion::DmbWithdrawn { .. }
            | IsmCompletion::DmbFailed { .. } => {
                // What a thread uses ends when it is taken back.
                for conn in self.lent_connections() {
                    self.recall(shard, conn, now);
                }
                true
            }
            _ => true,
        }
    }

    /// Takes all data paths back while events are written.
    pub(super) fn recall_traced(&mut self, shard: &Arc<Shard>, now: Instant) {
        if self.lent > 0 && self.is_traced() {
            for conn in self.lent_connections() {
                self.recall(shard, conn, now);
            }
        }
    }

    fn lent_connections(&self) -> Vec<ConnId> {
        let lent = |entry: &&Entry| entry.socket.lane.is_lent();
        let entries = self.sockets.iter().flatten().filter(lent);
        entries.map(|entry| entry.conn).collect()
    }
}
