//! Connections that are being made: until it is decided what carries them.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt;
use smc_sockets::{Accepting, Connecting, EventLoop, SmcStream};

use super::{Conn, Phase, borrowed, is_writable, lock, low_water, poll_one, replace, set_mode};
use crate::library::short_waits::ShortWaits;
use crate::library::{config, defaults, errno, report, signals, stats, table};

/// How long a connection that is being made is polled for at a time.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Time after which a program that waits until it is connected gets that result, if its server has not
/// used the connection yet: TCP has connected.
const LATE: Duration = Duration::from_millis(50);
/// Time after which a set checks whether a connection is late, and checks again: [`LATE`] is over then.
pub(crate) const LATE_AGAIN: Duration = Duration::from_millis(51);
/// Waits of first calls that write for the decision, although they are not to wait: over TCP a
/// connection that was just accepted has room for what a server sends first.
static SHORT_WAITS: ShortWaits = ShortWaits::new(1);

/// How a connection comes about.
pub(super) enum Pending {
    /// A connection that this side began.
    Connect(Arc<Connecting>),
    /// The other side has; this one begins when it is first used.
    Accept(Box<Accepting>),
}

impl Pending {
    pub(super) fn finish(&self) -> io::Result<SmcStream> {
        match self {
            Self::Connect(connecting) => connecting.finish(),
            Self::Accept(accepting) => accepting.finish(),
        }
    }

    /// The descriptor to be polled; none if no descriptor is left for it.
    pub(super) fn pollable(&self) -> Option<i32> {
        match self {
            Self::Connect(connecting) => Some(connecting.as_raw_fd()),
            Self::Accept(accepting) => accepting.can_be_polled().then(|| accepting.as_raw_fd()),
        }
    }
}

impl Conn {
    /// What connect(2) returns for a connection that SMC carries: success once, as the kernel does
    /// for a connection that was made meanwhile.
    pub(crate) fn connected(&self) -> Result<(), Errno> {
        match self.is_known.swap(true, Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Errno::ISCONN),
        }
    }

    /// Before another program takes this process over: one that nothing was begun of goes on as
    /// TCP, also here if there is no such program. For the first message of a client that speaks CLC it
    /// waits so long at most.
    pub(crate) fn give_up(&self, timeout: Duration) {
        let Some(mut pending) = self.lock(&self.pending) else {
            return;
        };
        if Self::is_given_up(&mut pending, timeout) {
            self.pollable.store(-1, Ordering::Relaxed);
            if self.has_own_mode.swap(false, Ordering::Relaxed) {
                self.restore_mode();
            }
            self.set_phase(Phase::Plain);
            drop(pending);
            self.leave_table();
        }
    }

    /// In a child: closes what the library has open of a connection that its parent is making.
    pub(super) fn close_inherited(&self) {
        let Some(pending) = self.lock(&self.pending) else {
            return;
        };
        match &*pending {
            Some(Pending::Connect(connecting)) => connecting.close_inherited(),
            Some(Pending::Accept(accepting)) => accepting.close_inherited(),
            None => {}
        }
    }

    /// The cookie of its TCP socket, if it was accepted and is being made.
    pub(crate) fn accepted_cookie(&self) -> Option<u64> {
        if !self.accepted || self.phase() != Phase::Pending {
            return None;
        }
        match &*self.lock(&self.pending)? {
            Some(Pending::Accept(accepting)) => sockopt::socket_cookie(accepting.tcp()).ok(),
            _ => None,
        }
    }

    /// Whether its client's first message is to be waited for before [`Self::let_go`].
    pub(crate) fn waits_to_let_go(&self) -> bool {
        let pending = self.lock(&self.pending);
        match pending.as_deref() {
            Some(Some(Pending::Accept(accepting))) => accepting.waits_to_let_go(),
            _ => false,
        }
    }

    /// In a child that shares the memory of its parent, before another program gets the connection:
    /// one that nothing was begun of goes on as TCP. Closes nothing, which the parent still has: that
    /// finds out when it next uses the connection.
    ///
    /// Waits for no message: the lock is the parent's as well, for which its other threads wait, and
    /// which stays locked for ever if the child is killed.
    pub(crate) fn let_go(&self) {
        let Some(pending) = self.lock(&self.pending) else {
            return;
        };
        if let Some(Pending::Accept(accepting)) = &*pending
            && accepting.let_go(Duration::ZERO)
            && self.has_own_mode.swap(false, Ordering::Relaxed)
        {
            set_mode(accepting.tcp().as_raw_fd(), self.is_nonblocking());
        }
    }

    /// Whether nothing was begun of an accepted connection, which is given up then.
    fn is_given_up(pending: &mut Option<Pending>, timeout: Duration) -> bool {
        match pending.take() {
            Some(Pending::Accept(accepting)) if accepting.let_go(timeout) => return true,
            other => *pending = other,
        }
        false
    }

    /// The descriptor to be polled while it is pending: readable when [`Self::advance`] goes on.
    /// Without one, [`Self::advance`] is to be called every now and then.
    pub(crate) fn pollable(&self) -> Option<i32> {
        if self.phase() != Phase::Pending {
            return None;
        }
        let fd = self.pollable.load(Ordering::Relaxed);
        if fd >= 0 && !self.is_inherited() {
            return Some(fd);
        }
        let pending = self.lock(&self.pending)?;
        let fd = config::inside(|| pending.as_ref()?.pollable())?;
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

    /// Whether it is reported as writable before it is decided what carries it, since the decision
    /// is late and TCP has connected: once the program has tried to write, it is not.
    pub(crate) fn is_connected_late(&self) -> bool {
        !self.accepted
            && !self.has_tried.load(Ordering::Relaxed)
            && self.began.elapsed() > LATE
            && !self.is_inherited()
            && lock(&self.fds).first().is_some_and(|fd| is_writable(*fd))
    }

    /// When to check whether it is connected, and late; `None` if that is not reported.
    pub(crate) fn late_at(&self) -> Option<Instant> {
        let is_reported = !self.accepted && !self.has_tried.load(Ordering::Relaxed);
        is_reported.then(|| self.began + LATE_AGAIN)
    }

    /// Goes on with a connection for the first call that writes and is not to wait.
    pub(super) fn advance_to_write(self: &Arc<Self>) -> Phase {
        let phase = self.advance();
        if phase != Phase::Pending || self.has_tried.swap(true, Ordering::Relaxed) || !self.accepted
        {
            return phase;
        }
        SHORT_WAITS.wait(|most| {
            if !most.is_zero() {
                let _ = self.wait_decided(Some(Instant::now() + most));
            }
            self.phase() == Phase::Pending
        });
        self.phase()
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
            // This process cannot have SMC, and no process has begun: TCP carries it. A client that
            // speaks CLC has a stream that declines.
            Err(_) if Self::is_given_up(&mut pending, Duration::ZERO) => {
                self.pollable.store(-1, Ordering::Relaxed);
                self.restore_mode();
                self.set_phase(Phase::Plain);
            }
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

    /// Waits until it is decided what carries the connection, for a call that has the time of the
    /// socket for its kind.
    pub(super) fn wait_for_call(
        self: &Arc<Self>,
        time: Option<sockopt::Timeout>,
    ) -> Result<Phase, Errno> {
        let phase = self.advance();
        if phase != Phase::Pending {
            return Ok(phase);
        }
        let fd = lock(&self.fds).first().copied();
        let fd = fd.filter(|_| !defaults::all_have());
        let time = time.and_then(|of| sockopt::socket_timeout(borrowed(fd?), of).ok()?);
        let until = time.and_then(|time| Instant::now().checked_add(time));
        match self.wait_decided(until) {
            Err(Errno::INPROGRESS) => Err(Errno::AGAIN),
            outcome => outcome,
        }
    }

    /// Waits until it is decided what carries the connection, without end if there is no time.
    pub(crate) fn wait_decided(self: &Arc<Self>, until: Option<Instant>) -> Result<Phase, Errno> {
        loop {
            let phase = self.advance();
            if phase != Phase::Pending {
                return Ok(phase);
            }
            if smc_sockets::interrupts::are_due() {
                return Err(Errno::INTR);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Errno::INPROGRESS);
            }
            let time = left.map_or(SLICE, |left| left.min(SLICE));
            match self.wait_slice(time) {
                // As the kernel does it for calls without a time.
                Err(Errno::INTR) if until.is_none() && signals::restart_calls() => {}
                waited => waited?,
            }
        }
    }

    /// Waits until [`Self::advance`] may go on, for this time at most.
    fn wait_slice(&self, time: Duration) -> Result<(), Errno> {
        if self.wait_in_memory(time)? {
            return Ok(());
        }
        let fd = self.pollable();
        if self.phase() != Phase::Pending {
            return Ok(());
        }
        // Another thread may go on with it meanwhile, and close what is polled here.
        poll_one(fd, Some(time))
    }

    /// Waits without a descriptor, if that is possible.
    fn wait_in_memory(&self, time: Duration) -> Result<bool, Errno> {
        let connecting = match self.lock(&self.pending).as_deref() {
            Some(Some(Pending::Connect(connecting))) => connecting.clone(),
            _ => return Ok(false),
        };
        match config::inside(|| connecting.wait(time)) {
            Ok(waited) => Ok(waited),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(Errno::INTR),
            // It is the parent's.
            Err(_) => Ok(false),
        }
    }

    /// The mode of the TCP socket is the engine's while that decides.
    pub(super) fn restore_mode(&self) {
        // A socket that connects does not block.
        if !self.accepted && self.is_nonblocking() {
            return;
        }
        if let Some(fd) = lock(&self.fds).first() {
            set_mode(*fd, self.is_nonblocking());
        }
    }

    /// Sets what carries the connection. Callers notify the sets then, without the lock.
    pub(super) fn decided(&self, stream: SmcStream) {
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
    pub(super) fn take_over(&self, stream: &SmcStream) {
        let tcp = stream.tcp();
        let _ = stream.set_nonblocking(self.is_nonblocking());
        stream.set_interruptible(true);
        if defaults::all_have() {
            return;
        }
        self.note_low_water(low_water(tcp.as_raw_fd()));
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
    pub(super) fn replace_tcp(&self, stream: &SmcStream) {
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
    pub(super) fn leave_table(&self) {
        self.notify_sets();
        for fd in std::mem::take(&mut *lock(&self.fds)) {
            let is_own = |conn: Arc<Self>| std::ptr::eq(&*conn, self);
            if table::conn(fd).is_some_and(is_own) {
                table::take(fd);
            }
        }
    }

    /// Sets in which it is registered go on as its phase says.
    pub(crate) fn notify_sets(&self) {
        let sets = lock(&self.registered).clone();
        for (set, token) in sets {
            if let Some(set) = set.upgrade() {
                set.decided(token, self.id);
            }
        }
    }

    /// A call of the program has brought these events, as it does over TCP: they are edges.
    pub(super) fn mark_sets(&self, events: u32) {
        let sets = lock(&self.registered).clone();
        for (set, token) in sets {
            if let Some(set) = set.upgrade() {
                set.has_changed(token, self.id, events);
            }
        }
    }

    /// Whether the TCP connection has nothing of CLC before the application's bytes any more.
    pub(super) fn after_opening(&self) {
        if self.phase() == Phase::Opening && self.stream.get().is_some_and(SmcStream::is_plain_tcp)
        {
            self.set_phase(Phase::Plain);
            self.leave_table();
        }
    }
}
