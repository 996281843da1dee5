//! Event loops that poll the device where the driver thread would.
//!
//! ```text
//!   attached, hot      every turn polls the device; peers make no system call
//!      │  ▲
//!      │  │ the device's descriptor is readable, or a task of the loop runs
//!      ▼  │
//!   attached, parked   a peer that rings sends a message, which wakes the loop
//!      │
//!      ▼ dropped: every waiting task is woken, and polls again where it runs
//!   detached           the driver thread polls the device
//! ```
//!
//! While an event loop is attached, the driver polls the device only if something else needs
//! it: a connection that is being made or ends, or a descriptor of a stream.

use std::mem;
#[cfg(feature = "tokio")]
use std::os::fd::OwnedFd;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::task::Waker;
#[cfg(feature = "tokio")]
use std::time::Duration;
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::event::epoll::{self, EventFlags};

use super::timer::polled_now;
use super::{Shard, State};
use crate::driver::Token;
use crate::event_loop::{HotPhase, is_crowded};
use crate::process::Process;
use crate::waiting::MAX_SPIN;
#[cfg(feature = "tokio")]
use crate::waiting::POLLS_PER_CLOCK;

/// What an event loop does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Runs its tasks and takes the next turn without sleeping.
    Hot,
    /// Runs its tasks and polls its other descriptors, without waiting for them, before it
    /// takes the next turn.
    Pause,
    /// Calls [`Attachment::yield_cpu`], then goes on as for [`Self::Pause`].
    Yield,
    /// Sleeps until the device's descriptor is readable: the device is parked.
    Parked,
    /// Ends: the program has dropped the stack.
    Over,
}

/// An event loop at an endpoint. Dropping it gives the device back to the driver.
pub(crate) struct Attachment {
    /// A child that was forked from it has a copy that does nothing.
    process: Process,
    shard: Weak<Shard>,
    hot: HotPhase,
    parked: bool,
    /// Events since the loop last decided how to go on.
    found: u32,
    /// The driver polls if the loop does not for some milliseconds: another thread could run
    /// the loop's other work meanwhile.
    guarded: bool,
    /// Memory for wakers on their way out of the lock.
    wakes: Vec<Waker>,
}

impl Shard {
    /// Attaches an event loop. The driver polls for one that is `guarded` if a task of it takes
    /// long. One that `has_workers` is a runtime of several threads.
    pub(crate) fn attach(self: &Arc<Self>, guarded: bool, has_workers: bool) -> Attachment {
        let mut state = self.lock();
        state.polling.loops += 1;
        state.restore_rings();
        drop(state);
        Attachment {
            process: Process::current(),
            shard: Arc::downgrade(self),
            hot: HotPhase::new(self.spin, has_workers),
            parked: false,
            found: 0,
            guarded,
            wakes: Vec::new(),
        }
    }

    /// The descriptor of the device.
    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// A descriptor of the device for an event loop.
    #[cfg(feature = "tokio")]
    pub(crate) fn device_descriptor(&self) -> std::io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.device, 0)?)
    }

    /// Attempts of tasks to poll in place that have ended; wraps.
    fn attempts_in_place(&self) -> u32 {
        #[cfg(feature = "tokio")]
        return self.runtimes.in_place.attempts();
        #[cfg(not(feature = "tokio"))]
        return 0;
    }

    /// Lets the driver poll the device, or not.
    fn drive_device(&self, drives: bool) {
        let flags = if drives {
            EventFlags::IN
        } else {
            EventFlags::empty()
        };
        // It fails only for what was never added.
        let _ = epoll::modify(&self.poller, &self.device, Token::Device.data(), flags);
    }
}

impl Attachment {
    /// Polls the device and notifies what waits for its connections. `readable` says that the
    /// device's descriptor was, so that the sockets of peers are read.
    pub(crate) fn poll(&mut self, readable: bool) {
        if let Some(shard) = self.shard.upgrade() {
            self.poll_device(&shard, readable);
        }
    }

    fn poll_device(&mut self, shard: &Arc<Shard>, readable: bool) {
        let parked = mem::replace(&mut self.parked, false);
        let mut state = match (parked || readable, shard.try_lock()) {
            (_, Some(state)) => state,
            (true, None) => shard.lock(),
            // Another thread polls the device.
            (false, None) => return,
        };
        if parked {
            self.hot.wakes(Instant::now());
            state.polling.parked_loops -= 1;
        }
        if readable {
            state.transports.ism.device_mut().on_readable();
        }
        // What woke the loop is handled by a turn that other threads may take over.
        let guarded = self.guarded && !parked;
        let progress = state.poll_device(shard, shard.coarse(), guarded);
        #[cfg(feature = "tokio")]
        shard.runtimes.in_place.note_woken(state.wakes.len());
        let tasks = u32::try_from(state.wakes.len()).unwrap_or(u32::MAX);
        self.found = self.found.saturating_add(tasks.max(progress.into()));
        state.release_with(&mut self.wakes);
    }

    /// Polls the device until something happens, for this time at most.
    #[cfg(feature = "tokio")]
    pub(crate) fn spin(&mut self, most: Duration) {
        let Some(shard) = self.shard.upgrade() else {
            return;
        };
        let begin = Instant::now();
        let (mut last, mut attempts) = (begin, shard.attempts_in_place());
        while self.found == 0 && last.saturating_duration_since(begin) < most {
            for _ in 0..POLLS_PER_CLOCK {
                std::hint::spin_loop();
                self.poll_device(&shard, false);
                if self.found > 0 {
                    break;
                }
            }
            let now = Instant::now();
            let before = mem::replace(&mut attempts, shard.attempts_in_place());
            self.without_cpu(last, now, attempts.wrapping_sub(before));
            last = now;
        }
    }

    /// Notes how many streams became ready since the loop last decided how to go on.
    pub(crate) fn found(&mut self, streams: usize) {
        self.found = self.found.max(u32::try_from(streams).unwrap_or(u32::MAX));
    }

    /// Whether there were events since the loop last decided how to go on.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_found(&self) -> bool {
        self.found > 0
    }

    /// Decides how the loop goes on after [`Self::poll`]. `siblings` counts the threads of the
    /// loop's runtime that run besides this one.
    pub(crate) fn next(&mut self, siblings: impl Fn() -> u32) -> Turn {
        let Some(shard) = self.shard.upgrade() else {
            return Turn::Over;
        };
        let found = mem::take(&mut self.found);
        let now = Instant::now();
        let turn = self.hot.next(now, found, || is_crowded(siblings()));
        #[cfg(feature = "tokio")]
        shard
            .runtimes
            .in_place
            .set_contended(self.hot.is_contended(now));
        match turn {
            Turn::Parked if !self.park(&shard) => Turn::Hot,
            next => next,
        }
    }

    /// Parks the device although the loop might poll on; false if there was something to poll.
    pub(crate) fn hand_over(&mut self) -> bool {
        match self.shard.upgrade() {
            Some(shard) => self.parked || self.park(&shard),
            None => true,
        }
    }

    /// Lets other threads of this CPU run, as [`Turn::Yield`] asks for.
    pub(crate) fn yield_cpu(&mut self) {
        let shard = self.shard.upgrade();
        let attempts = || shard.as_ref().map_or(0, |shard| shard.attempts_in_place());
        let before = attempts();
        let begin = Instant::now();
        std::thread::yield_now();
        let end = Instant::now();
        self.without_cpu(begin, end, attempts().wrapping_sub(before));
    }

    /// Notes the time of a yield or a poll, less the time for which threads of this process may have
    /// had the CPU: that of `attempts` to poll in place, which have ended meanwhile.
    fn without_cpu(&mut self, begin: Instant, end: Instant, attempts: u32) {
        let own = MAX_SPIN.saturating_mul(attempts);
        let time = end.saturating_duration_since(begin);
        self.hot.took(end, time.saturating_sub(own));
    }

    /// Whether the loop may poll although it found no event.
    #[cfg(feature = "tokio")]
    pub(crate) fn may_poll(&self) -> bool {
        self.hot.may_poll(Instant::now())
    }

    /// Records whether the loop has found something after a write.
    #[cfg(feature = "tokio")]
    pub(crate) fn record_after_write(&self) {
        if let Some(shard) = self.shard.upgrade() {
            shard.runtimes.in_place.record_after_write(self.found > 0);
        }
    }

    /// Whether the endpoint is no more.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_over(&self) -> bool {
        self.shard.strong_count() == 0
    }

    /// Parks the device for a loop that goes to sleep; false if there was something to poll.
    fn park(&mut self, shard: &Arc<Shard>) -> bool {
        let mut state = shard.lock();
        let now = shard.coarse();
        if !mem::replace(&mut self.parked, false) {
            state.polling.parked_loops += 1;
        }
        state.drain_and_park(shard, now);
        let device = state.transports.ism.device();
        self.parked = device.is_parked() && !device.has_unread_sockets() && state.wakes.is_empty();
        if self.parked {
            self.hot.parks(Instant::now());
        } else {
            state.polling.parked_loops -= 1;
            self.found = 2;
        }
        state.release_with(&mut self.wakes);
        self.parked
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let shard = self.shard.upgrade();
        let Some(shard) = shard.filter(|_| self.process.is_current()) else {
            return;
        };
        let mut state = shard.lock();
        if self.parked {
            state.polling.parked_loops -= 1;
        }
        state.polling.loops -= 1;
        state.polling.update_lanes();
        // Their tasks may run elsewhere, where nothing polls the device for them yet.
        state.notify_all();
        state.drain_and_park(&shard, shard.coarse());
    }
}

impl State {
    /// Polls the device once and notifies what waits; whether anything had happened.
    fn poll_device(
        &mut self,
        shard: &Arc<Shard>,
        now: smc_proto::time::Instant,
        guarded: bool,
    ) -> bool {
        self.execute_commands(shard, now);
        let completion = self.transports.poll();
        // Peers may have rung when the device was last drained.
        let progress = completion.is_some() || self.handshakes_rung;
        if let Some(completion) = completion {
            self.complete(shard, completion, now);
        }
        if progress {
            self.drain_completions(shard, now);
            self.arm(shard, now);
        }
        self.used_by_loop(shard, now, guarded);
        progress
    }

    /// Whether event loops may have left something alone that has rung: none of them sleeps at the
    /// device, or one does that it has woken.
    pub(super) fn is_loop_late(&self, shard: &Shard) -> bool {
        if self.polling.parked_loops == 0 || !self.transports.ism.device().is_parked() {
            return true;
        }
        polled_now(&shard.device, PollFlags::IN) != Ok(PollFlags::empty())
    }

    /// Notifies everything that waits for any connection.
    fn notify_all(&mut self) {
        let Self { sockets, wakes, .. } = self;
        for entry in sockets.iter().flatten() {
            for direction in crate::waiting::Direction::BOTH {
                entry.socket.waiters.notify(direction, wakes);
            }
        }
    }

    /// Has the driver poll the device if nothing else does. Callers have just parked it.
    pub(super) fn assign_device(&mut self, shard: &Shard) {
        if !self.polling.driver_polls && self.needs_driver() {
            self.polling.driver_polls = true;
            shard.drive_device(true);
        }
    }

    /// The driver was woken by the device: whether it is to poll it. If not, it is not woken
    /// again before it is needed.
    pub(crate) fn keeps_driver(&mut self, shard: &Shard) -> bool {
        let needed = self.needs_driver();
        if !needed && self.polling.driver_polls {
            self.polling.driver_polls = false;
            shard.drive_device(false);
        }
        needed
    }

    fn needs_driver(&self) -> bool {
        let device = self.transports.ism.device();
        self.polling.needs_driver() || device.has_ended_channels()
    }
}
