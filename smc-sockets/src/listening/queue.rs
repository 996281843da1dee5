//! The queue of a listener: connections that are accepted and negotiated, and that the program has
//! not taken yet. Decides when the driver accepts ahead of the program.
//!
//! The driver calls [`Listening::push`] and [`Listening::takes_more`], the program's threads
//! [`Listening::pop`]. All state is behind one mutex.

use std::collections::VecDeque;
use std::io;
use std::sync::{MutexGuard, PoisonError};

use rustix::event::epoll::{self, EventData, EventFlags};

use super::{Accepted, Listening};
use crate::descriptors;
use crate::process;
use crate::shard::Shard;

/// Most connections that the driver accepts ahead of the program. Further ones stay in the kernel's
/// backlog.
const MAX_READY: usize = 128;

/// The connections of a listener that are ready for the program, and the conditions that pause the
/// driver.
#[derive(Default)]
pub(super) struct Queue {
    ready: VecDeque<io::Result<Accepted>>,
    /// Whether the driver does not accept at present.
    paused: bool,
    /// Whether an accepted connection waits for others to be negotiated first.
    held: bool,
    /// Whether the listener is closed: no thread accepts any more.
    closed: bool,
    /// Whether the program has accepted, or polled, in the process that made the listener.
    wanted: bool,
    /// Whether the driver accepts ahead of the program, since clients that have called wait.
    ahead: bool,
    /// Whether the eventfd [`Listening::ready`] is readable.
    raised: bool,
    /// Number of threads that are about to call [`Listening::pop`], which need no event.
    accepting: usize,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            paused: true,
            ..Self::default()
        }
    }
}

impl Listening {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a connection into the queue, or an error, after which no more are accepted until the
    /// program has seen it. Returns whether the listener is open.
    pub(crate) fn push(&self, accepted: io::Result<Accepted>) -> bool {
        let mut queue = self.queue();
        if queue.closed {
            return false;
        }
        queue.ready.push_back(accepted);
        self.raise(&mut queue);
        true
    }

    /// Takes the next connection out of the queue, if there is one.
    pub(crate) fn next(&self, shard: &Shard) -> Option<io::Result<Accepted>> {
        self.pop(shard, false)
    }

    /// Takes the next connection out of the queue. `accepting`: the thread was counted by
    /// [`Self::begin_accepting`], and is uncounted now.
    pub(super) fn pop(&self, shard: &Shard, accepting: bool) -> Option<io::Result<Accepted>> {
        let mut queue = self.queue();
        queue.accepting = queue.accepting.saturating_sub(accepting.into());
        let next = queue.ready.pop_front();
        if !queue.ready.is_empty() {
            self.raise(&mut queue);
        } else if std::mem::take(&mut queue.raised) {
            let _ = rustix::io::read(&self.ready, &mut [0; 8]);
        }
        self.update_pause(&mut queue, shard);
        next
    }

    /// Makes the eventfd readable if more connections are ready than threads are about to take.
    fn raise(&self, queue: &mut Queue) {
        let is_left = queue.ready.len() > queue.accepting;
        if is_left && !std::mem::replace(&mut queue.raised, true) {
            descriptors::raise(&self.ready);
        }
    }

    /// Ends accepting, and returns the connections that are left in the queue.
    pub(crate) fn close(&self) -> impl Iterator<Item = Accepted> {
        let mut queue = self.queue();
        queue.closed = true;
        std::mem::take(&mut queue.ready).into_iter().flatten()
    }

    /// Notes that the program accepts, or polls, in the process that made the listener: the driver
    /// may accept ahead, whether the process has forked or not.
    pub(crate) fn want(&self, shard: &Shard) {
        let mut queue = self.queue();
        if !queue.wanted {
            queue.wanted = true;
            self.update_pause(&mut queue, shard);
            shard.await_calls(self);
        }
    }

    /// Pauses or resumes the driver as the conditions in the queue require. Returns whether it
    /// accepts.
    fn update_pause(&self, queue: &mut Queue, shard: &Shard) -> bool {
        let failed = queue.ready.back().is_some_and(Result::is_err);
        let pause = !(queue.ahead || self.only_driver_accepts)
            || failed
            || self.is_left_to_children(queue)
            || queue.held
            || queue.ready.len() >= MAX_READY;
        if queue.paused != pause {
            queue.paused = pause;
            shard.pause(self, pause);
        }
        !pause
    }

    /// Whether child processes accept the listener's connections: the program has forked before it
    /// accepted any.
    fn is_left_to_children(&self, queue: &Queue) -> bool {
        !queue.wanted && process::forks() != self.forks
    }

    /// Whether this process receives the calls of clients (SHM-007). `false` if child processes
    /// accept: calls stay in the kernel's queue.
    pub(crate) fn takes_calls(&self) -> bool {
        !self.is_left_to_children(&self.queue())
    }

    /// Whether the driver may accept one more connection. If not, it is paused until there is room.
    pub(crate) fn takes_more(&self, shard: &Shard) -> bool {
        self.update_pause(&mut self.queue(), shard)
    }

    /// Stops accepting while an accepted connection is `held` until others are negotiated, or resumes.
    pub(super) fn hold_back(&self, held: bool, shard: &Shard) {
        let mut queue = self.queue();
        queue.held = held;
        let flags = match held {
            true => EventFlags::ET,
            false => EventFlags::IN,
        };
        // Fails only for a TCP listener that was not added.
        let _ = epoll::modify(&self.watched, &self.tcp, EventData::new_u64(0), flags);
        self.update_pause(&mut queue, shard);
    }

    /// Applies the pause to the driver, to whose epoll the listener was added just now.
    pub(crate) fn entered_driver(&self, shard: &Shard) {
        self.update_pause(&mut self.queue(), shard);
    }

    /// Sets whether the driver accepts ahead of the program; else the program's threads accept.
    pub(crate) fn accept_ahead(&self, ahead: bool, shard: &Shard) {
        let mut queue = self.queue();
        if queue.ahead != ahead {
            queue.ahead = ahead;
            self.update_pause(&mut queue, shard);
        }
    }

    /// Counts a thread that is about to take a connection that is ready.
    pub(super) fn begin_accepting(&self) {
        self.queue().accepting += 1;
    }

    /// Whether a connection is ready.
    pub(super) fn is_ready(&self) -> bool {
        !self.queue().ready.is_empty()
    }

    /// Whether an accepted connection waits until others are decided.
    pub(super) fn is_held(&self) -> bool {
        self.queue().held
    }

    /// Uncounts a thread that was about to take a connection, and does not.
    pub(super) fn end_accepting(&self) {
        let mut queue = self.queue();
        queue.accepting = queue.accepting.saturating_sub(1);
        self.raise(&mut queue);
    }
}
