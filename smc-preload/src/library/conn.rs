//! A connection of the program: one that SMC carries, or may come to.
//!
//! ```text
//!   Pending ──► Smc        the hooks serve it from memory
//!      │   └──► Opening    TCP carries it, behind what the peer may still send of CLC
//!      ├──► Plain          TCP carries it: its descriptors lose their entries
//!      └──► Failed         it was not made: the error is still to be returned
//! ```

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use libc::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use smc_sockets::{Accepting, CallFlags, Connecting, EventLoop, SmcStream};

use super::set::Set;
use super::table::{self, Object};
use super::{config, defaults, errno, report, stats};

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
    /// Its registrations in epoll sets.
    registered: Mutex<Vec<(Weak<Set>, usize)>>,
    nonblocking: AtomicBool,
    /// The error that `SO_ERROR` returns next.
    error: AtomicI32,
    /// Bytes that make it readable (`SO_RCVLOWAT`).
    low_water: AtomicUsize,
    /// The program has ended the direction to the peer.
    is_shut: AtomicBool,
    accepted: bool,
    /// The program knows that it is connected.
    is_known: AtomicBool,
}

/// How a connection comes about.
enum Pending {
    /// A connection that this side began.
    Connect(Box<Connecting>),
    /// The other side has; this one begins when it is first used.
    Accept(Box<Accepting>),
}

impl Pending {
    fn finish(&self) -> io::Result<SmcStream> {
        match self {
            Self::Connect(connecting) => connecting.finish(),
            Self::Accept(accepting) => accepting.finish(),
        }
    }

    fn pollable(&self) -> i32 {
        match self {
            Self::Connect(connecting) => connecting.as_raw_fd(),
            Self::Accept(accepting) => accepting.as_raw_fd(),
        }
    }
}

/// What a call on a connection does.
pub(crate) enum Outcome<T> {
    /// The call was done, or failed.
    Done(Result<T, Errno>),
    /// The kernel does it: TCP carries the connection.
    Kernel,
}

/// How long a connection that is being made is polled for at a time.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Attempts at a lock that a thread of the parent may have held at the fork.
const ATTEMPTS: usize = 10_000;

/// All events of a connection that nothing comes of.
const OVER: i32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP;

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
            error: AtomicI32::new(0),
            low_water: AtomicUsize::new(1),
            is_shut: AtomicBool::new(false),
            accepted,
            is_known: AtomicBool::new(accepted),
        }
    }

    /// A connection that is being made.
    pub(crate) fn connecting(pending: Connecting, nonblocking: bool) -> Arc<Self> {
        let new = Self::new(Phase::Pending, false, nonblocking);
        *lock(&new.pending) = Some(Pending::Connect(Box::new(pending)));
        Arc::new(new)
    }

    /// A connection that was accepted.
    pub(crate) fn accepting(pending: Accepting, nonblocking: bool) -> Arc<Self> {
        let new = Self::new(Phase::Pending, true, nonblocking);
        *lock(&new.pending) = Some(Pending::Accept(Box::new(pending)));
        Arc::new(new)
    }

    /// What connect(2) returns for a connection that SMC carries: success once, as the kernel does
    /// for a connection that was made meanwhile.
    pub(crate) fn connected(&self) -> Result<(), Errno> {
        match self.is_known.swap(true, Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Errno::ISCONN),
        }
    }

    /// Before another program takes this process over: one that nothing was begun of goes on as
    /// TCP, also here if there is no such program.
    pub(crate) fn give_up(&self) {
        let Some(mut pending) = self.lock(&self.pending) else {
            return;
        };
        match pending.take() {
            Some(Pending::Accept(accepting)) => match accepting.give_up() {
                Ok(_) => {
                    self.pollable.store(-1, Ordering::Relaxed);
                    self.set_phase(Phase::Plain);
                    drop(pending);
                    self.leave_table();
                }
                Err(begun) => *pending = Some(Pending::Accept(Box::new(begun))),
            },
            other => *pending = other,
        }
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
        if is_last && !self.is_inherited() {
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
        lock(&self.registered).push((Arc::downgrade(set), token));
    }

    /// Whether calls return at once.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// Sets whether calls return at once. The TCP socket has the flag already.
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
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

    /// The descriptor to be polled while it is pending: readable when [`Self::advance`] goes on.
    pub(crate) fn pollable(&self) -> Option<i32> {
        if self.phase() != Phase::Pending {
            return None;
        }
        let fd = self.pollable.load(Ordering::Relaxed);
        if fd >= 0 && !self.is_inherited() {
            return Some(fd);
        }
        let pending = self.lock(&self.pending)?;
        let fd = config::inside(|| pending.as_ref().map(Pending::pollable))?;
        self.pollable.store(fd, Ordering::Relaxed);
        Some(fd)
    }

    /// Has a loop list it under a token when [`Self::advance`] goes on; false if it has to be polled
    /// for that.
    pub(crate) fn watch(&self, events: &EventLoop, token: usize) -> bool {
        let Some(pending) = self.lock(&self.pending) else {
            return false;
        };
        let watched = config::inside(|| match pending.as_ref()? {
            Pending::Connect(connecting) => events.register_connecting(connecting, token).ok(),
            Pending::Accept(accepting) => {
                events.register_accepting(accepting, token).ok()?;
                Some(true)
            }
        });
        watched.unwrap_or(false)
    }

    /// Has a loop list it no more.
    pub(crate) fn unwatch(&self, events: &EventLoop) {
        let Some(pending) = self.lock(&self.pending) else {
            return;
        };
        config::inside(|| match pending.as_ref() {
            Some(Pending::Connect(connecting)) => events.deregister_connecting(connecting),
            Some(Pending::Accept(accepting)) => events.deregister_accepting(accepting),
            None => {}
        });
    }

    /// Goes on with a connection that is being made.
    pub(crate) fn advance(self: &Arc<Self>) -> Phase {
        let phase = self.phase();
        if phase != Phase::Pending {
            return phase;
        }
        let Some(mut pending) = self.lock(&self.pending) else {
            // The parent decides; what SMC may carry there does not go on here.
            self.set_phase(Phase::Smc);
            return Phase::Smc;
        };
        let Some(begun) = pending.as_ref() else {
            return self.phase();
        };
        // A child goes on with one that its parent has accepted and not begun. Other threads of
        // it wait from now on.
        self.pid.store(config::pid(), Ordering::Relaxed);
        let finished = config::inside(|| begun.finish());
        match finished {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Phase::Pending,
            Err(error) => {
                self.error
                    .store(errno::of(&error).raw_os_error(), Ordering::Relaxed);
                // The program may try again: the mode is its own.
                self.restore_mode();
                self.pollable.store(-1, Ordering::Relaxed);
                self.set_phase(Phase::Failed);
            }
            Ok(stream) => {
                self.pollable.store(-1, Ordering::Relaxed);
                self.decided(stream);
            }
        }
        *pending = None;
        drop(pending);
        match self.phase() {
            Phase::Plain => self.leave_table(),
            _ => self.notify_sets(),
        }
        self.phase()
    }

    /// Waits until it is decided what carries the connection.
    pub(crate) fn wait_decided(self: &Arc<Self>, until: Option<Instant>) -> Result<Phase, Errno> {
        loop {
            let phase = self.advance();
            let Some(fd) = self.pollable().filter(|_| phase == Phase::Pending) else {
                return Ok(self.phase());
            };
            if smc_sockets::interrupts::are_due() {
                return Err(Errno::INTR);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Errno::INPROGRESS);
            }
            // Another thread may go on with it meanwhile, and close what is polled here.
            poll_one(fd, Some(left.map_or(SLICE, |left| left.min(SLICE))))?;
        }
    }

    /// The mode of the TCP socket is the engine's while that decides.
    fn restore_mode(&self) {
        // A socket that connects does not block.
        if !self.accepted && self.is_nonblocking() {
            return;
        }
        if let Some(fd) = lock(&self.fds).first() {
            set_mode(*fd, self.is_nonblocking());
        }
    }

    /// Sets what carries the connection. Callers notify the sets then, without the lock.
    fn decided(&self, stream: SmcStream) {
        stats::decided(stream.carrier());
        report::decided(stream.carrier(), self.accepted);
        let phase = if stream.carrier().is_smc() {
            self.restore_mode();
            self.take_over(&stream);
            Phase::Smc
        } else {
            self.replace_tcp(&stream);
            self.restore_mode();
            match stream.is_plain_tcp() {
                true => return self.set_phase(Phase::Plain),
                false => Phase::Opening,
            }
        };
        let _ = self.stream.set(stream);
        self.set_phase(phase);
    }

    /// What the program has set holds for the stream.
    fn take_over(&self, stream: &SmcStream) {
        let tcp = stream.tcp();
        let _ = stream.set_nonblocking(self.is_nonblocking());
        stream.set_interruptible(true);
        if defaults::all_have() {
            return;
        }
        self.set_low_water(low_water(tcp.as_raw_fd()));
        for timeout in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
            if let Ok(Some(time)) = sockopt::socket_timeout(tcp, timeout) {
                let _ = match timeout {
                    sockopt::Timeout::Recv => stream.set_read_timeout(Some(time)),
                    sockopt::Timeout::Send => stream.set_write_timeout(Some(time)),
                };
            }
        }
        if let Ok(Some(time)) = sockopt::socket_linger(tcp) {
            let _ = sockopt::set_socket_linger(tcp, None);
            let _ = stream.set_linger(Some(time));
        }
        if sockopt::socket_oobinline(tcp) == Ok(true) {
            let _ = stream.set_urgent_inline(true);
        }
    }

    /// A server that did not understand was connected to once more, by another socket.
    fn replace_tcp(&self, stream: &SmcStream) {
        for fd in lock(&self.fds).iter() {
            let own = borrowed(*fd);
            let is_same = match (
                sockopt::socket_cookie(own),
                sockopt::socket_cookie(stream.tcp()),
            ) {
                (Ok(own), Ok(other)) => own == other,
                _ => true,
            };
            if !is_same {
                replace(*fd, stream.tcp().as_raw_fd());
            }
        }
    }

    /// The kernel serves all its descriptors from now on.
    fn leave_table(&self) {
        self.notify_sets();
        for fd in std::mem::take(&mut *lock(&self.fds)) {
            let is_own = |conn: Arc<Self>| std::ptr::eq(&*conn, self);
            if table::conn(fd).is_some_and(is_own) {
                table::take(fd);
            }
        }
    }

    /// Sets in which it is registered go on as its phase says.
    fn notify_sets(&self) {
        let sets = lock(&self.registered).clone();
        for (set, token) in sets {
            if let Some(set) = set.upgrade() {
                set.decided(token, self.id);
            }
        }
    }

    /// Whether the TCP connection has nothing of CLC before the application's bytes any more.
    fn after_opening(&self) {
        if self.phase() == Phase::Opening && self.stream.get().is_some_and(SmcStream::is_plain_tcp)
        {
            self.set_phase(Phase::Plain);
            self.leave_table();
        }
    }

    /// The events of the connection, as epoll_wait(2) returns them; `None` if the kernel knows
    /// them.
    pub(crate) fn events(&self) -> Option<u32> {
        let bits = match self.phase() {
            Phase::Pending => 0,
            Phase::Failed => OVER | EPOLLERR,
            Phase::Plain | Phase::Opening => return None,
            Phase::Smc if self.is_inherited() => OVER | EPOLLERR,
            Phase::Smc => {
                let stream = self.stream.get()?;
                let state = stream.poll_state().ok().flatten()?;
                let is_shut = self.is_shut.load(Ordering::Relaxed);
                let any = self.low_water.load(Ordering::Relaxed) <= 1 || state.read_ended;
                let readable = state.readable && (any || self.has_low_water());
                let bit = |is_set: bool, bit: i32| bit * i32::from(is_set);
                bit(readable || state.read_ended, EPOLLIN)
                    | bit(state.writable, EPOLLOUT)
                    | bit(state.urgent, EPOLLPRI)
                    | bit(state.read_ended, EPOLLRDHUP)
                    | bit(state.ended || state.read_ended && is_shut, EPOLLHUP)
                    | bit(state.error && !stream.has_lost_peer(), EPOLLERR)
            }
        };
        Some(bits.cast_unsigned())
    }

    fn has_low_water(&self) -> bool {
        let unread = self
            .stream
            .get()
            .and_then(|stream| stream.unread().ok().flatten());
        unread.is_some_and(|unread| unread >= self.low_water.load(Ordering::Relaxed))
    }

    /// Sets how many bytes make it readable.
    pub(crate) fn set_low_water(&self, bytes: usize) {
        self.low_water.store(bytes.max(1), Ordering::Relaxed);
    }

    /// The stream for a call that reads or writes, once it is decided what carries it.
    fn for_call(self: &Arc<Self>, nonblocking: bool) -> Outcome<&SmcStream> {
        if self.phase() == Phase::Smc {
            if self.is_inherited() {
                report::refuse(
                    "an SMC connection stays with the process that made it: a child that was \
                     forked from it cannot use it",
                );
                return Outcome::Done(Err(Errno::CONNRESET));
            }
            if let Some(stream) = self.stream.get() {
                return Outcome::Done(Ok(stream));
            }
        }
        let phase = match nonblocking {
            true => Ok(self.advance()),
            false => self.wait_decided(None),
        };
        match phase {
            Err(error) => Outcome::Done(Err(error)),
            Ok(Phase::Pending) => Outcome::Done(Err(Errno::AGAIN)),
            Ok(Phase::Plain) => Outcome::Kernel,
            Ok(Phase::Failed) => match self.take_error() {
                0 => Outcome::Kernel,
                error => Outcome::Done(Err(Errno::from_raw_os_error(error))),
            },
            Ok(Phase::Smc | Phase::Opening) => match self.stream.get() {
                Some(stream) => Outcome::Done(Ok(stream)),
                None => Outcome::Kernel,
            },
        }
    }

    /// Reads with the flags of recv(2).
    pub(crate) fn read(
        self: &Arc<Self>,
        into: &mut [IoSliceMut<'_>],
        flags: i32,
    ) -> Outcome<usize> {
        let nonblocking = self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0;
        let stream = match self.for_call(nonblocking) {
            Outcome::Done(Ok(stream)) => stream,
            Outcome::Done(Err(error)) => return Outcome::Done(Err(error)),
            Outcome::Kernel => return Outcome::Kernel,
        };
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Outcome::Done(Err(Errno::AGAIN));
        }
        if flags & libc::MSG_OOB != 0 {
            return Outcome::Done(read_urgent(stream, into));
        }
        let mut call = CallFlags::new();
        if nonblocking {
            call = call.nonblocking();
        }
        let peeks = flags & libc::MSG_PEEK != 0;
        if peeks {
            call = call.peek();
        }
        let least = match flags & libc::MSG_WAITALL {
            _ if peeks => 1,
            0 => self.low_water.load(Ordering::Relaxed),
            _ => usize::MAX,
        };
        let read = match read_slices(stream, into, call, least) {
            // Of a process that was killed TCP reports the end.
            Err(_) if stream.has_lost_peer() => Ok(0),
            read => read,
        };
        self.after_opening();
        if let Ok(bytes) = &read
            && !peeks
        {
            stats::received(*bytes);
        }
        Outcome::Done(read.map_err(|error| errno::of(&error)))
    }

    /// Writes with the flags of send(2).
    pub(crate) fn write(self: &Arc<Self>, bytes: &[IoSlice<'_>], flags: i32) -> Outcome<usize> {
        let nonblocking = self.is_nonblocking() || flags & libc::MSG_DONTWAIT != 0;
        let stream = match self.for_call(nonblocking) {
            Outcome::Done(Ok(stream)) if self.phase() == Phase::Smc => stream,
            Outcome::Done(Err(error)) => return Outcome::Done(Err(error)),
            // What TCP carries goes out as it is.
            Outcome::Done(Ok(_)) | Outcome::Kernel => return Outcome::Kernel,
        };
        let written = if flags & libc::MSG_OOB != 0 {
            let bytes: Vec<u8> = bytes
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            stream.send_urgent(&bytes)
        } else if nonblocking {
            write_slices(stream, bytes)
        } else {
            match bytes {
                [one] => (&mut &*stream).write(one),
                all => (&mut &*stream).write_vectored(all),
            }
        };
        let written = written.map_err(|error| errno::of(&error));
        if let Ok(bytes) = written {
            stats::sent(bytes);
        }
        if written == Err(Errno::PIPE) && flags & libc::MSG_NOSIGNAL == 0 {
            raise_pipe();
        }
        Outcome::Done(written)
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
        match self.for_call(!self.accepted) {
            Outcome::Done(Ok(stream)) if self.phase() == Phase::Smc => {
                let how = match how {
                    libc::SHUT_RD => Shutdown::Read,
                    libc::SHUT_WR => Shutdown::Write,
                    libc::SHUT_RDWR => Shutdown::Both,
                    _ => return Outcome::Done(Err(Errno::INVAL)),
                };
                let done = stream.shutdown(how).map_err(|error| errno::of(&error));
                if done.is_ok() && how != Shutdown::Read {
                    self.is_shut.store(true, Ordering::Relaxed);
                }
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
        error.map_or(0, |error| errno::of(&error).raw_os_error())
    }

    /// Bytes that can be read (`FIONREAD`).
    pub(crate) fn unread(&self) -> Option<usize> {
        self.smc()?.unread().ok().flatten()
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        // Of a stream that a parent made nothing is left to do but to forget it.
        if let Some(stream) = self.stream.take()
            && self.is_inherited()
        {
            std::mem::forget(stream);
        }
    }
}

fn read_urgent(stream: &SmcStream, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    let byte = stream.receive_urgent().map_err(|error| errno::of(&error))?;
    let first = into.iter_mut().find_map(|slice| slice.first_mut());
    Ok(first.map_or(0, |first| {
        *first = byte;
        1
    }))
}

/// Reads into the slices in turn, and waits until there are so many bytes.
fn read_slices(
    stream: &SmcStream,
    into: &mut [IoSliceMut<'_>],
    call: CallFlags,
    least: usize,
) -> io::Result<usize> {
    let mut total = 0;
    for slice in into.iter_mut().filter(|slice| !slice.is_empty()) {
        let mut filled = 0;
        while let Some(rest) = slice.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let call = match total >= least {
                true => call.nonblocking(),
                false => call,
            };
            match stream.read_with(rest, call) {
                Ok(0) => return Ok(total),
                Ok(len) => {
                    filled += len;
                    total += len;
                }
                Err(error) if total == 0 => return Err(error),
                // The next call returns it.
                Err(_) => return Ok(total),
            }
            if total >= least {
                break;
            }
        }
        if filled < slice.len() {
            break;
        }
    }
    Ok(total)
}

/// Writes as much as there is room for.
fn write_slices(stream: &SmcStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut total = 0;
    for slice in slices {
        let mut left: &[u8] = slice;
        while !left.is_empty() {
            match stream.write_with(left, CallFlags::new().nonblocking()) {
                Ok(0) => return Ok(total),
                Ok(len) => {
                    total += len;
                    left = left.get(len..).unwrap_or_default();
                }
                Err(error) if total == 0 => return Err(error),
                Err(_) => return Ok(total),
            }
        }
    }
    Ok(total)
}

pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A descriptor of the program for one call.
#[allow(unsafe_code)]
pub(crate) fn borrowed<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: only the kernel looks at the number, which the program may close at any time: a
    // call on a closed one fails. -1 is no descriptor, which the type asks for.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// Waits until a descriptor is readable.
pub(crate) fn poll_one(fd: i32, time: Option<Duration>) -> Result<(), Errno> {
    let fd = borrowed(fd);
    let time = time.and_then(|time| rustix::time::Timespec::try_from(time).ok());
    config::outside(|| {
        let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        rustix::event::poll(&mut polled, time.as_ref())
    })?;
    Ok(())
}

/// Sets `O_NONBLOCK` of a descriptor.
pub(crate) fn set_mode(fd: i32, nonblocking: bool) {
    let fd = borrowed(fd);
    if let Ok(flags) = rustix::fs::fcntl_getfl(fd) {
        let mut new = flags;
        new.set(rustix::fs::OFlags::NONBLOCK, nonblocking);
        if new != flags {
            let _ = rustix::fs::fcntl_setfl(fd, new);
        }
    }
}

/// Has a number name another open file.
#[allow(unsafe_code)]
pub(crate) fn replace(fd: i32, by: i32) {
    let flags = rustix::io::fcntl_getfd(borrowed(fd)).unwrap_or(rustix::io::FdFlags::empty());
    let close_on_exec = flags.contains(rustix::io::FdFlags::CLOEXEC);
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: dup3 has no precondition; the number is the program's, which has it for the
    // connection that `by` is.
    unsafe { super::real::dup3(by, fd, flags) };
}

/// What writing to a connection without a reader brings.
#[allow(unsafe_code)]
fn raise_pipe() {
    // SAFETY: raise has no precondition.
    unsafe { libc::raise(libc::SIGPIPE) };
}

/// Bytes that make a socket readable (`SO_RCVLOWAT`), as the kernel has it.
#[allow(unsafe_code)]
pub(crate) fn low_water(fd: i32) -> usize {
    let (mut value, mut len) = (1_i32, 4_u32);
    // SAFETY: the value and its length are this function's.
    unsafe {
        super::real::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    usize::try_from(value).unwrap_or(1)
}
