//! A connection of the program: one that SMC carries, or may come to.
//!
//! ```text
//!   Pending ──► Smc        the hooks serve it from memory
//!      │   └──► Opening    TCP carries it, behind what the peer may still send of CLC
//!      ├──► Plain          TCP carries it: its descriptors lose their entries
//!      └──► Failed         it was not made: the error is still to be returned
//! ```

mod data;
mod descriptor;
mod making;
mod slices;
mod state;

use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use smc_sockets::{Accepting, Connecting, SmcStream};

use super::set::{EVENTS, Set};
use super::table::{self, Object};
use super::{config, errno, report};

pub(crate) use descriptor::{borrowed, low_water, set_mode};
pub(crate) use making::{LATE_AGAIN, SLICE};
pub(crate) use state::{CLOSED, ENDS};

use descriptor::{is_writable, poll_one, replace};
use making::Pending;

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Not decided yet what carries the connection.
    Pending,
    /// SMC carries it.
    Smc,
    /// TCP carries it, behind what the peer may still send of CLC.
    Opening,
    /// TCP carries it; descriptors have no entry any more.
    Plain,
    /// The connection was not made.
    Failed,
}

impl Phase {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::Pending,
            1 => Self::Smc,
            2 => Self::Opening,
            3 => Self::Plain,
            _ => Self::Failed,
        }
    }
}

/// A connection, shared by all descriptors of its open file description.
pub(crate) struct Conn {
    pub(crate) id: u64,
    /// The process that made it.
    pid: AtomicI32,
    phase: AtomicU8,
    stream: OnceLock<SmcStream>,
    pending: Mutex<Option<Pending>>,
    /// What is polled while it is pending.
    pollable: AtomicI32,
    /// The descriptors of the program that refer to it.
    fds: Mutex<Vec<i32>>,
    /// Registrations of the connection in epoll sets.
    registered: Mutex<Vec<(Weak<Set>, usize)>>,
    nonblocking: AtomicBool,
    /// The program has set whether calls return at once, and the TCP socket does not know it yet.
    has_own_mode: AtomicBool,
    /// The error that `SO_ERROR` returns next.
    error: AtomicI32,
    /// Bytes that make it readable (`SO_RCVLOWAT`).
    low_water: AtomicUsize,
    /// The program has ended the direction to the peer.
    is_shut: AtomicBool,
    accepted: bool,
    /// The program knows that it is connected.
    is_known: AtomicBool,
    /// The program has written to a peer that had closed, or whose process was killed.
    wrote_to_gone: AtomicBool,
    /// The program has written to such a peer what waits for more (`MSG_MORE`).
    holds_for_gone: AtomicBool,
    /// When it was begun, or accepted.
    began: Instant,
    /// The program has tried to write before it was decided what carries the connection.
    has_tried: AtomicBool,
}

/// What a call on a connection does.
pub(crate) enum Outcome<T> {
    /// The call was done, or failed.
    Done(Result<T, Errno>),
    /// The kernel does it: TCP carries the connection.
    Kernel,
}

/// Attempts at a lock that a thread of the parent may have held at the fork.
const ATTEMPTS: usize = 10_000;

impl Conn {
    fn new(phase: Phase, accepted: bool, nonblocking: bool) -> Self {
        Self {
            id: table::new_number(),
            pid: AtomicI32::new(config::pid()),
            phase: AtomicU8::new(phase as u8),
            stream: OnceLock::new(),
            pending: Mutex::new(None),
            pollable: AtomicI32::new(-1),
            fds: Mutex::new(Vec::new()),
            registered: Mutex::new(Vec::new()),
            nonblocking: AtomicBool::new(nonblocking),
            has_own_mode: AtomicBool::new(false),
            error: AtomicI32::new(0),
            low_water: AtomicUsize::new(1),
            is_shut: AtomicBool::new(false),
            accepted,
            is_known: AtomicBool::new(accepted),
            wrote_to_gone: AtomicBool::new(false),
            holds_for_gone: AtomicBool::new(false),
            began: Instant::now(),
            has_tried: AtomicBool::new(false),
        }
    }

    /// A connection that is being made.
    pub(crate) fn connecting(pending: Connecting, nonblocking: bool) -> Arc<Self> {
        let new = Self::new(Phase::Pending, false, nonblocking);
        *lock(&new.pending) = Some(Pending::Connect(Arc::new(pending)));
        Arc::new(new)
    }

    /// A connection that was accepted.
    pub(crate) fn accepting(pending: Accepting, nonblocking: bool) -> Arc<Self> {
        let new = Self::new(Phase::Pending, true, nonblocking);
        *lock(&new.pending) = Some(Pending::Accept(Box::new(pending)));
        Arc::new(new)
    }

    /// Whether SMC carries it, or may come to.
    pub(crate) fn may_be_smc(&self) -> bool {
        matches!(self.phase(), Phase::Pending | Phase::Smc)
    }

    /// How far it is.
    pub(crate) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Acquire))
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Whether it is one that a parent made: only its end is left here.
    pub(crate) fn is_inherited(&self) -> bool {
        self.pid.load(Ordering::Relaxed) != config::pid()
    }

    /// A lock of the connection; `None` if a thread of the parent had it at the fork. It stays
    /// locked here: the connection is then the parent's.
    fn lock<'a, T>(&self, of: &'a Mutex<T>) -> Option<MutexGuard<'a, T>> {
        for _ in 0..ATTEMPTS {
            if !self.is_inherited() {
                return Some(lock(of));
            }
            match of.try_lock() {
                Ok(locked) => return Some(locked),
                Err(TryLockError::Poisoned(locked)) => return Some(locked.into_inner()),
                // Another thread of this process goes on with it, or none ever does.
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }

    /// Gives it a further descriptor.
    pub(crate) fn add_fd(self: &Arc<Self>, fd: i32) {
        if let Some(mut fds) = self.lock(&self.fds) {
            fds.push(fd);
        }
        if !table::put(fd, Object::Conn(self.clone())) {
            report::refuse("a descriptor is too large a number for an SMC connection");
        }
    }

    /// One of its descriptors is closed.
    pub(crate) fn remove_fd(&self, fd: i32) {
        // A thread of the parent may have had the lock at the fork.
        if self.is_inherited() && self.phase() != Phase::Pending {
            return;
        }
        let is_last = {
            let Some(mut fds) = self.lock(&self.fds) else {
                return;
            };
            if let Some(at) = fds.iter().position(|of| *of == fd) {
                fds.swap_remove(at);
            }
            fds.is_empty()
        };
        if is_last && self.is_inherited() {
            // What carries it, the parent decides: nothing is to stay open of it here.
            return self.close_inherited();
        }
        if is_last {
            for (set, token) in std::mem::take(&mut *lock(&self.registered)) {
                if let Some(set) = set.upgrade() {
                    set.forget(token, self.id);
                }
            }
        }
    }

    /// Whether it has several descriptors.
    pub(crate) fn has_several(&self) -> bool {
        lock(&self.fds).len() > 1
    }

    /// Notes that the connection is registered in an epoll set.
    pub(crate) fn is_registered(&self, set: &Arc<Set>, token: usize) {
        let mut registered = lock(&self.registered);
        // Of sets that are closed: programs without a loop make one for each wait.
        registered.retain(|(set, _)| set.strong_count() > 0);
        registered.push((Arc::downgrade(set), token));
    }

    /// Whether calls return at once.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Sets whether calls return at once. The TCP socket has the flag already, or gets it when it is
    /// decided what carries the connection.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        if self.phase() == Phase::Pending {
            self.has_own_mode.store(true, Ordering::Relaxed);
        }
        if let Some(stream) = self.stream.get().filter(|_| self.phase() == Phase::Smc) {
            let _ = stream.set_nonblocking(nonblocking);
        }
    }

    /// Wakes threads that sleep until they can read or write.
    pub(crate) fn wake_waits(&self) {
        if let Some(stream) = self.smc().filter(|_| !self.is_inherited()) {
            stream.wake_waits();
        }
    }

    /// The stream, if SMC carries it.
    #[inline]
    pub(crate) fn smc(&self) -> Option<&SmcStream> {
        let stream = self.stream.get();
        stream.filter(|_| self.phase() == Phase::Smc)
    }

    /// The process ends: the peer gets the end of the stream, as the kernel sends it for TCP.
    pub(crate) fn end(&self) {
        let stream = self.smc().filter(|_| !self.is_inherited());
        if let Some(stream) = stream
            && !matches!(stream.linger(), Ok(Some(Duration::ZERO)))
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Ends one direction, or both.
    pub(crate) fn shutdown(self: &Arc<Self>, how: i32) -> Outcome<()> {
        // One that was accepted is a connection, whatever comes to carry it.
        match self.for_call(!self.accepted, None) {
            Outcome::Done(Ok(stream)) if self.phase() == Phase::Smc => {
                let how = match how {
                    libc::SHUT_RD => Shutdown::Read,
                    libc::SHUT_WR => Shutdown::Write,
                    libc::SHUT_RDWR => Shutdown::Both,
                    _ => return Outcome::Done(Err(Errno::INVAL)),
                };
                let done = match stream.shutdown(how).map_err(|error| errno::of(&error)) {
                    Ok(()) if self.is_reset_by_answer() => Err(Errno::NOTCONN),
                    // The kernel ends the connections of a process that was killed in order.
                    Err(Errno::NOTCONN) if !self.has_ended() => Ok(()),
                    done => done,
                };
                if done.is_ok() && how != Shutdown::Read {
                    self.is_shut.store(true, Ordering::Relaxed);
                }
                self.mark_sets(EVENTS);
                Outcome::Done(done)
            }
            Outcome::Done(Err(Errno::AGAIN)) => Outcome::Done(Err(Errno::NOTCONN)),
            Outcome::Done(Err(error)) => Outcome::Done(Err(error)),
            _ => Outcome::Kernel,
        }
    }

    /// The error that the connection has come to, once (`SO_ERROR`).
    pub(crate) fn take_error(&self) -> i32 {
        let error = self.error.swap(0, Ordering::Relaxed);
        if error != 0 {
            return error;
        }
        let Some(stream) = self.smc().filter(|_| !self.is_inherited()) else {
            return 0;
        };
        let error = stream.take_error().ok().flatten();
        let error = error.filter(|_| !stream.has_lost_peer());
        error.map_or(0, |error| errno::of(&error).raw_os_error())
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // Of a stream over SMC that a parent made nothing is left to do but to forget it. One over TCP
        // is closed: the peer reads the end once the parent closes it, too.
        if let Some(stream) = self.stream.take()
            && self.is_inherited()
            && self.phase() == Phase::Smc
        {
            std::mem::forget(stream);
        }
    }
}

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
