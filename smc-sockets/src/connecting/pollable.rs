//! Connecting without waiting.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, MutexGuard, OnceLock, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use smc_transport_ism::shared::pairing;

use super::unattended::{self, Slot};
use super::{Attempt, Step, WaitMode};
use crate::descriptors;
use crate::process::Process;
use crate::shard::timespec;
use crate::stack::Stack;
use crate::stream::SmcStream;
use crate::system;
use crate::waiters::{ReadyList, Watch};
use crate::waiting::Direction;

/// A connection that is being made while its program does something else:
/// [`SmcStream::begin_connect`].
///
/// When its descriptor is readable ([`AsFd`]), [`Self::finish`] goes on. A handshake over TCP and RNICs
/// goes on without a call of the program. Dropping it gives the connection up.
///
/// An event loop lists it as well ([`EventLoop::register_connecting`](crate::EventLoop)).
pub struct Connecting {
    stack: Stack,
    /// The one that began.
    process: Process,
    /// None once it is finished: the stream alone has the connection then.
    pub(super) attempt: Arc<Slot>,
    /// The TCP socket with which it began.
    tcp: Weak<TcpStream>,
    pollable: OnceLock<Pollable>,
}

/// What a program polls for an attempt.
struct Pollable {
    poller: OwnedFd,
    timer: OwnedFd,
}

/// Once for each change: bytes that do not suffice are reported once.
const CHANGES: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

impl Connecting {
    pub(crate) fn begin(
        stack: &Stack,
        socket: Option<OwnedFd>,
        to: SocketAddr,
    ) -> io::Result<Self> {
        let to = super::destination(socket.as_ref(), to);
        let stack = stack.toward(to)?;
        // Before the attempt: one that has begun may be SMC for the peer already.
        let pollable = Pollable::new()?;
        let attempt = Attempt::begin(stack.shard(), socket, to, WaitMode::Descriptor)?;
        pollable.add(&attempt)?;
        Ok(Self::with(stack, attempt, Some(pollable)))
    }

    /// Begins without a descriptor, unless something else than an event loop is needed to wait for
    /// the server; plain TCP needs none.
    pub(crate) fn begin_listed(stack: &Stack, socket: OwnedFd, to: SocketAddr) -> io::Result<Self> {
        Self::begin_in_memory(stack, socket, to, WaitMode::EventLoop)
    }

    /// Begins as [`Self::begin_listed`], for a thread that calls [`Self::wait`].
    pub(crate) fn begin_awaited(
        stack: &Stack,
        socket: OwnedFd,
        to: SocketAddr,
    ) -> io::Result<Self> {
        Self::begin_in_memory(stack, socket, to, WaitMode::Thread)
    }

    fn begin_in_memory(
        stack: &Stack,
        socket: OwnedFd,
        to: SocketAddr,
        waits: WaitMode,
    ) -> io::Result<Self> {
        let to = pairing::destination(&socket, to);
        let stack = stack.idle_toward(to)?;
        let mut attempt = Attempt::prepare(stack.shard(), Some(socket), to, waits)?;
        attempt.keeps_mode = true;
        if !attempt.is_plain() {
            stack.start()?;
        }
        // Before TCP connects: one that has may be SMC for the peer already.
        let pollable = match attempt.is_plain() || attempt.is_announced() {
            true => None,
            false => Some(Pollable::new()?),
        };
        attempt.connect()?;
        attempt.awaits_memory();
        if let Some(pollable) = &pollable {
            pollable.add(&attempt)?;
        }
        Ok(Self::with(stack, attempt, pollable))
    }

    /// Makes the descriptor by which an attempt that has begun is waited for.
    #[cfg(feature = "tokio")]
    pub(super) fn poll(stack: Stack, mut attempt: Box<Attempt>) -> io::Result<Self> {
        attempt.poll_announced()?;
        let pollable = Pollable::new()?;
        pollable.add(&attempt)?;
        Ok(Self::with(stack, attempt, Some(pollable)))
    }

    fn with(stack: Stack, attempt: Box<Attempt>, pollable: Option<Pollable>) -> Self {
        let tcp = Arc::downgrade(&attempt.tcp);
        let attempt = Arc::new(Slot::new(Some(attempt)));
        unattended::list(stack.shard(), &attempt);
        Self {
            stack,
            process: Process::current(),
            attempt,
            tcp,
            pollable: pollable.map_or(OnceLock::new(), OnceLock::from),
        }
    }

    fn attempt(&self) -> MutexGuard<'_, Option<Box<Attempt>>> {
        unattended::lock(&self.attempt)
    }

    /// What is polled for it, if there is a descriptor left.
    fn pollable(&self) -> Option<&Pollable> {
        // In a child, a thread of the parent may have had the lock at the fork.
        if self.pollable.get().is_none() && self.process.is_current() {
            let mut slot = self.attempt();
            let attempt = slot.as_mut()?;
            if self.pollable.get().is_none() {
                attempt.poll_announced().ok()?;
                attempt.leave_to_driver();
                let new = Pollable::new().ok()?;
                new.add(attempt).ok()?;
                // Until it is known when to look.
                new.set_timer(Some(Instant::now())).ok()?;
                let _ = self.pollable.set(new);
            }
        }
        self.pollable.get()
    }

    /// Waits until [`Self::finish`] goes on, or for this time: true, if no descriptor has to be
    /// polled for that. One that an event loop lists is not waited for.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] by a signal, and [`io::ErrorKind::Unsupported`] in a child that
    /// was forked meanwhile.
    pub fn wait(&self, most: Duration) -> io::Result<bool> {
        self.process.check()?;
        let (socket, next) = {
            let mut slot = self.attempt();
            let Some(attempt) = slot.as_mut() else {
                return Ok(true);
            };
            if attempt.waits != WaitMode::Thread || !attempt.awaits_memory() {
                return Ok(false);
            }
            (attempt.announced(), attempt.next_step_at())
        };
        let (Some(socket), Some(next)) = (socket, next) else {
            return Ok(false);
        };
        let left = next.saturating_duration_since(Instant::now()).min(most);
        socket.set_interruptible(true);
        let interrupted = self.stack.shard().wait_for_handshake(&socket, Some(left));
        match interrupted {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(true),
        }
    }

    /// Has an event loop list it when [`Self::finish`] goes on; false if a descriptor is needed for
    /// that.
    pub(crate) fn watch(&self, watch: Arc<Watch>) -> io::Result<bool> {
        self.process.check()?;
        let mut slot = self.attempt();
        let Some(attempt) = slot.as_mut() else {
            return Ok(false);
        };
        if attempt.waits != WaitMode::EventLoop || !attempt.awaits_memory() {
            return Ok(false);
        }
        let (Some(socket), Some(next)) = (attempt.announced(), attempt.next_step_at()) else {
            return Ok(false);
        };
        let before = socket.waiters.watch(watch.clone());
        drop(before);
        let is_decided = socket.status().is_decided();
        match is_decided {
            true => watch.notify(Direction::Read),
            false => {
                let shard = self.stack.shard();
                shard.lock().wake_waiters_at(shard, &socket, next);
            }
        }
        Ok(true)
    }

    /// Has an event loop list it no more.
    pub(crate) fn unwatch(&self, ready: &Arc<ReadyList>) {
        if !self.process.is_current() {
            return;
        }
        let socket = self.attempt().as_deref().and_then(Attempt::announced);
        let before = socket.map(|socket| socket.waiters.unwatch(ready));
        drop(before);
    }

    /// Whether nothing is decided but by TCP: nothing that might accept the connection speaks
    /// SMC, as far as it can be known before, so that [`Self::finish`] comes to TCP. False in a child
    /// that was forked meanwhile.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        // In a child, a thread of the parent may have had the lock at the fork.
        self.process.is_current() && self.attempt().as_deref().is_none_or(Attempt::is_plain)
    }

    /// In a child that was forked meanwhile: closes this process's copy of the TCP socket, whatever
    /// thread of the parent had the connection at the fork, so that the peer reads the end of the
    /// stream when the parent closes it. So does dropping the value; but a thread of the parent that
    /// shared the value never drops it here.
    ///
    /// Does nothing in the process that began, nor once the connection is finished.
    //= SHM-061
    pub fn close_inherited(&self) {
        if self.process.is_current() {
            return;
        }
        let slot = match self.attempt.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(slot)) => slot.into_inner(),
            Err(TryLockError::WouldBlock) => {
                // No stream is made of it here: the thread that had it is the parent's.
                if let Some(tcp) = self.tcp.upgrade() {
                    system::replace_inherited(&tcp, &self.stack.shard().poller);
                }
                return;
            }
        };
        if let Some(attempt) = &*slot {
            attempt.close_inherited();
        }
    }

    /// The stream, when it is known what carries it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: not yet. Others as [`SmcStream::connect`],
    /// [`io::ErrorKind::NotConnected`] for one that has been finished, and
    /// [`io::ErrorKind::Unsupported`] in a child that was forked meanwhile.
    pub fn finish(&self) -> io::Result<SmcStream> {
        self.process.check()?;
        let mut slot = self.attempt();
        let Some(attempt) = slot.as_mut() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let pollable = self.pollable.get();
        if let Some(pollable) = pollable {
            pollable.drain()?;
        }
        let before = (attempt.tcp.as_raw_fd(), attempt.announced());
        let step = attempt.step()?;
        if let Some(pollable) = pollable.filter(|_| attempt.tcp.as_raw_fd() != before.0) {
            // It connects once more.
            epoll::add(
                &pollable.poller,
                &attempt.tcp,
                EventData::new_u64(0),
                CHANGES,
            )?;
        }
        let until = match step {
            Step::Done(socket) => {
                if let Some(pollable) = pollable {
                    // It fails only for what was never added.
                    let _ = epoll::delete(&pollable.poller, &attempt.tcp);
                }
                *slot = None;
                drop(slot);
                if !socket.status().carrier.is_some_and(|at| at.is_smc()) {
                    socket.waiters.clear();
                }
                return Ok(SmcStream::new(self.stack.clone(), socket));
            }
            Step::Wait(until) => until,
        };
        match (before.1, attempt.announced()) {
            (_, Some(socket)) if socket.waiters.has_any() => {
                let shard = self.stack.shard();
                let until = until.unwrap_or_else(Instant::now);
                shard.lock().wake_waiters_at(shard, &socket, until);
            }
            // The loop that lists it has to poll a descriptor from now on.
            (Some(before), None) => before.waiters.notify(Direction::Read, &mut Vec::new()),
            _ => {}
        }
        if let Some(pollable) = pollable {
            pollable.add_called(attempt)?;
            pollable.set_timer(until)?;
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Pollable {
    fn new() -> io::Result<Self> {
        let poller = descriptors::keep(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let make = || rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags);
        let timer = descriptors::keep(make)?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&poller, &timer, EventData::new_u64(0), flags)?;
        Ok(Self { poller, timer })
    }

    /// Adds what an attempt waits for.
    fn add(&self, attempt: &Attempt) -> io::Result<()> {
        epoll::add(&self.poller, &attempt.tcp, EventData::new_u64(0), CHANGES)?;
        self.add_called(attempt)
    }

    /// Adds sockets of processes that have called since, and what is raised by the decision.
    fn add_called(&self, attempt: &Attempt) -> io::Result<()> {
        for socket in attempt.called().into_iter().chain(attempt.decision_event()) {
            let flags = EventFlags::IN | EventFlags::ET;
            match epoll::add(&self.poller, socket, EventData::new_u64(0), flags) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the events that the attempt waits for.
    fn drain(&self) -> io::Result<()> {
        let mut events = [std::mem::MaybeUninit::<epoll::Event>::uninit(); 16];
        match epoll::wait(&self.poller, &mut events, Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn set_timer(&self, until: Option<Instant>) -> io::Result<()> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let next = left.map(|left| timespec(left.max(Duration::from_nanos(1))));
        let new = Itimerspec {
            it_interval: Timespec::default(),
            it_value: next.unwrap_or_default(),
        };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &new)?;
        Ok(())
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.close_inherited();
    }
}

/// Without a descriptor left, that of the device.
impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let pollable = self.pollable();
        pollable.map_or(self.stack.shard().device(), |at| at.poller.as_fd())
    }
}

/// The descriptor of [`AsFd`].
impl AsRawFd for Connecting {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connecting").finish_non_exhaustive()
    }
}
