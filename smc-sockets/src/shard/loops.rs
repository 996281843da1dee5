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
use std::time::Instant;

use rustix::event::epoll::{self, EventFlags};

use super::{Shard, State};
use crate::driver::Token;
use crate::event_loop::HotPhase;
use crate::process::Process;

/// What an event loop does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Runs its tasks and takes the next turn without sleeping.
    Hot,
    /// As [`Self::Hot`], but calls [`Attachment::yield_cpu`] first.
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
    /// An event came since the loop last decided how to go on.
    progress: bool,
    /// Memory for wakers on their way out of the lock.
    wakes: Vec<Waker>,
}

impl Shard {
    /// Attaches an event loop.
    pub(crate) fn attach(self: &Arc<Self>) -> Attachment {
        self.lock().attention.loops += 1;
        Attachment {
            process: Process::current(),
            shard: Arc::downgrade(self),
            hot: HotPhase::new(self.spin),
            parked: false,
            progress: false,
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
        let Some(shard) = self.shard.upgrade() else {
            return;
        };
        let parked = mem::replace(&mut self.parked, false);
        let mut state = match (parked || readable, shard.try_lock()) {
            (_, Some(state)) => state,
            (true, None) => shard.lock(),
            // Another thread polls the device.
            (false, None) => return,
        };
        if parked {
            self.hot.wakes(Instant::now());
            state.attention.parked_loops -= 1;
        }
        if readable {
            state.transports.ism.device_mut().on_readable();
        }
        self.progress |= state.poll_device(&shard, shard.coarse());
        state.release_with(&mut self.wakes);
    }

    /// Decides how the loop goes on after [`Self::poll`].
    pub(crate) fn next(&mut self) -> Turn {
        let Some(shard) = self.shard.upgrade() else {
            return Turn::Over;
        };
        let progress = mem::replace(&mut self.progress, false);
        match self.hot.next(Instant::now(), progress) {
            Turn::Parked if !self.park(&shard) => Turn::Hot,
            next => next,
        }
    }

    /// Lets other threads of this CPU run, as [`Turn::Yield`] asks for.
    pub(crate) fn yield_cpu(&mut self) {
        let begin = Instant::now();
        std::thread::yield_now();
        let end = Instant::now();
        self.hot.yielded(end, end.saturating_duration_since(begin));
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
            state.attention.parked_loops += 1;
        }
        state.settle(shard, now);
        let device = state.transports.ism.device();
        self.parked = device.is_parked() && !device.has_unread_sockets() && state.wakes.is_empty();
        if self.parked {
            self.hot.parks(Instant::now());
        } else {
            state.attention.parked_loops -= 1;
            self.progress = true;
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
            state.attention.parked_loops -= 1;
        }
        state.attention.loops -= 1;
        // Their tasks may run elsewhere, where nothing polls the device for them yet.
        state.notify_all();
        state.settle(&shard, shard.coarse());
    }
}

impl State {
    /// Polls the device once and notifies what waits; whether anything had happened.
    fn poll_device(&mut self, shard: &Arc<Shard>, now: smc_proto::time::Instant) -> bool {
        self.carry_out(shard, now);
        let Some(completion) = self.transports.poll() else {
            self.used_by_loop(shard, now);
            return false;
        };
        self.complete(completion, now);
        self.take_in(shard, now);
        self.used_by_loop(shard, now);
        true
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
        if !self.attention.driver_polls && self.needs_driver() {
            self.attention.driver_polls = true;
            shard.drive_device(true);
        }
    }

    /// The driver was woken by the device: whether it is to poll it. If not, it is not woken
    /// again before it is needed.
    pub(crate) fn keeps_driver(&mut self, shard: &Shard) -> bool {
        let needed = self.needs_driver();
        if !needed && self.attention.driver_polls {
            self.attention.driver_polls = false;
            shard.drive_device(false);
        }
        needed
    }

    fn needs_driver(&self) -> bool {
        let device = self.transports.ism.device();
        self.attention.needs_driver() || device.has_ended_channels()
    }
}
