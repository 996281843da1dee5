//! Connecting without waiting.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use super::{Attempt, Step, Waits};
use crate::descriptors;
use crate::process::Process;
use crate::shard::timespec;
use crate::stack::Stack;
use crate::stream::SmcStream;

/// A connection that is being made while its program does something else:
/// [`SmcStream::begin_connect`].
///
/// When its descriptor is readable ([`AsFd`]), [`Self::finish`] goes on. Dropping it gives
/// the connection up.
pub struct Connecting {
    stack: Stack,
    /// The one that began.
    process: Process,
    /// None once it is finished: the stream alone has the connection then.
    attempt: Mutex<Option<Attempt>>,
    poller: OwnedFd,
    timer: OwnedFd,
}

/// Once for each change: bytes that do not suffice are no news.
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
        let stack = stack.toward(to)?;
        // Before the attempt: one that has begun may be SMC for the peer already.
        let descriptors = descriptors()?;
        let attempt = Attempt::begin(stack.shard(), socket, to, Waits::Elsewhere)?;
        Self::with(stack, attempt, descriptors)
    }

    /// Makes the descriptor by which an attempt that has begun is waited for.
    #[cfg(feature = "tokio")]
    pub(super) fn poll(stack: Stack, mut attempt: Attempt) -> io::Result<Self> {
        attempt.poll_announced()?;
        Self::with(stack, attempt, descriptors()?)
    }

    fn with(
        stack: Stack,
        attempt: Attempt,
        (poller, timer): (OwnedFd, OwnedFd),
    ) -> io::Result<Self> {
        epoll::add(&poller, &attempt.tcp, EventData::new_u64(0), CHANGES)?;
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&poller, &timer, EventData::new_u64(0), flags)?;
        for socket in attempt.called().into_iter().chain(attempt.decision_event()) {
            epoll::add(&poller, socket, EventData::new_u64(0), flags)?;
        }
        Ok(Self {
            stack,
            process: Process::current(),
            attempt: Mutex::new(Some(attempt)),
            poller,
            timer,
        })
    }

    /// Whether nothing is decided but by TCP: nothing that might accept the connection speaks
    /// SMC, as far as it can be known before, so that [`Self::finish`] comes to TCP.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let slot = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().is_none_or(Attempt::is_plain)
    }

    /// The stream, when it is known what carries it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: not yet. Others as [`SmcStream::connect`],
    /// [`io::ErrorKind::NotConnected`] for one that has been finished, and
    /// [`io::ErrorKind::Unsupported`] in a child that was forked meanwhile.
    pub fn finish(&self) -> io::Result<SmcStream> {
        self.process.check()?;
        let mut slot = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(attempt) = slot.as_mut() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let mut events = [std::mem::MaybeUninit::<epoll::Event>::uninit(); 16];
        let now = Timespec::default();
        // What is taken here is looked at below.
        match epoll::wait(&self.poller, &mut events, Some(&now)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let before = attempt.tcp.as_raw_fd();
        let step = attempt.step()?;
        if attempt.tcp.as_raw_fd() != before {
            // It connects once more.
            epoll::add(&self.poller, &attempt.tcp, EventData::new_u64(0), CHANGES)?;
        }
        match step {
            Step::Done(socket) => {
                // It fails only for what was never added.
                let _ = epoll::delete(&self.poller, &attempt.tcp);
                *slot = None;
                Ok(SmcStream::new(self.stack.clone(), socket))
            }
            Step::Wait(until) => {
                // A process that has accepted the connection may have called since.
                for socket in attempt.called().into_iter().chain(attempt.decision_event()) {
                    let flags = EventFlags::IN | EventFlags::ET;
                    match epoll::add(&self.poller, socket, EventData::new_u64(0), flags) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                let next = left.map(|left| timespec(left.max(std::time::Duration::from_nanos(1))));
                let new = Itimerspec {
                    it_interval: Timespec::default(),
                    it_value: next.unwrap_or_default(),
                };
                let flags = TimerfdTimerFlags::empty();
                rustix::time::timerfd_settime(&self.timer, flags, &new)?;
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }
}

/// The epoll and the timer of an attempt.
fn descriptors() -> io::Result<(OwnedFd, OwnedFd)> {
    let poller = descriptors::keep(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let make = || rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags);
    Ok((poller, descriptors::keep(make)?))
}

impl AsFd for Connecting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
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
