//! Which thread polls for a handshake: the one that waits for it, an event loop, or the driver, which
//! takes over those that the others are late with.

use std::sync::Arc;

use smc_proto::id::ConnId;
use smc_proto::time::{Duration, Instant};

use super::PendingHandshake;
use crate::shard::{Shard, State};
use crate::socket::Socket;
use crate::waiting::Direction;

/// How long the driver leaves a handshake to an event loop, or to the thread that waits for it,
/// before it polls by itself.
pub(super) const DRIVER_DELAY: Duration = Duration::from_millis(2);

/// Most doublings of [`DRIVER_DELAY`] while event loops are in time.
const MAX_DELAY_DOUBLINGS: u32 = 5;

impl State {
    /// Has the driver poll for a connection of this side, for which no other thread polls.
    pub(crate) fn drive_handshake(&mut self, shard: &Arc<Shard>, conn: ConnId) {
        self.set_urgent(conn, true);
        self.drain_and_park(shard, shard.now());
    }

    /// Wakes the task or the event loop that waits for a connection of this side at a time, unless
    /// the connection is decided before.
    pub(crate) fn wake_waiters_at(
        &mut self,
        shard: &Shard,
        socket: &Socket,
        time: std::time::Instant,
    ) {
        let time = shard.at(time);
        let of_socket = |at: &&mut PendingHandshake| Some(at.conn) == socket.conn();
        if let Some(pending) = self.handshakes.iter_mut().find(of_socket) {
            pending.wake_task_at = Some(time);
            self.wake_about(shard, time, shard.now());
        }
    }

    /// Wakes the tasks whose time has come; returns the time of the next one.
    fn wake_tasks(&mut self, now: Instant) -> Option<Instant> {
        let is_due = |pending: &PendingHandshake| pending.wake_task_at.is_some_and(|at| at <= now);
        for index in 0..self.handshakes.len() {
            let due = self.handshakes.get_mut(index).filter(|at| is_due(at));
            let conn = due.map(|pending| {
                pending.wake_task_at = None;
                pending.conn
            });
            if let Some(conn) = conn {
                self.notify_task(conn);
            }
        }
        self.handshakes
            .iter()
            .filter_map(|at| at.wake_task_at)
            .min()
    }

    /// Wakes the task that waits until it is decided what carries a connection.
    pub(in crate::shard) fn notify_task(&mut self, conn: ConnId) {
        let socket = self.entry(conn).map(|entry| entry.socket.clone());
        if let Some(socket) = socket {
            socket.waiters.notify(Direction::Read, &mut self.wakes);
        }
    }

    /// Drains the device, and leaves it awake unless another waiter has to be woken by it.
    pub(crate) fn stay_awake(&mut self, shard: &Arc<Shard>, now: Instant) {
        self.drain_completions(shard, now);
        self.release_device(shard, now);
    }

    /// Has the driver poll for handshakes with which neither an event loop nor a thread has gone on
    /// in time. The others are left to these: if the driver polled as well, each message of each
    /// handshake would wake it.
    pub(crate) fn take_over_late_handshakes(&mut self, shard: &Arc<Shard>, now: Instant) {
        let next_task = self.wake_tasks(now);
        if self.polling.loops > 0 {
            self.extend_time_of_loops(shard, now);
        }
        let is_late = |at: &&PendingHandshake| at.driver_polls_from <= now;
        let in_time = self.handshakes.iter().filter(|at| !is_late(at));
        let next = in_time
            .map(|at| at.driver_polls_from)
            .chain(next_task)
            .min();
        let late = self.handshakes.iter().filter(is_late);
        let late: Vec<_> = late.map(|at| at.conn).collect();
        if let Some(next) = next {
            self.schedule_next_check(shard, next, now);
        }
        if late.is_empty() {
            return;
        }
        for conn in late {
            self.set_urgent(conn, true);
        }
        self.drain_and_park(shard, now);
    }

    /// Leaves each handshake that is due to event loops once more, if one of them has polled the
    /// device since the last check or if none of them is late. Each time the delay doubles.
    fn extend_time_of_loops(&mut self, shard: &Arc<Shard>, now: Instant) {
        let polls = self.polling.polls;
        let mut due = self
            .handshakes
            .iter()
            .filter(|at| at.driver_polls_from <= now);
        let is_late = due.any(|at| at.loops.waits(polls)) && self.is_loop_late(shard);
        let due = self
            .handshakes
            .iter_mut()
            .filter(|at| at.driver_polls_from <= now);
        for pending in due {
            if let Some(times) = pending.loops.again(polls, is_late) {
                let delay = DRIVER_DELAY * (1 << times.min(MAX_DELAY_DOUBLINGS));
                pending.driver_polls_from = now.after(delay);
            }
        }
    }
}
