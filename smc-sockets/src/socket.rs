//! A connection as its stream, the driver and the endpoint share it.

mod opening;
mod urgent;

pub(crate) use urgent::NextRead;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::version::Technology;
use smc_transport_ism::shared::{SpinBudget, WakeHandle};
use smc_view::Role;

use crate::carrier::Carrier;
use crate::descriptors;
use crate::lane::Lane;
use crate::opening::SharedOpening;
use crate::readiness::Readiness;
use crate::shard::{Place, Via};
use crate::system;
use crate::viewing;
use crate::waiters::Waiters;
use crate::waiting::Direction;

/// A connection: its TCP connection, and what has become of it.
pub(crate) struct Socket {
    /// Shared with the attempt that makes it: a second descriptor may be one too many.
    pub(crate) tcp: Arc<TcpStream>,
    /// Addresses of this end and of the peer's, once they are known.
    ends: OnceLock<(SocketAddr, SocketAddr)>,
    pub(crate) nonblocking: AtomicBool,
    /// A signal ends the sleep of a thread.
    interruptible: AtomicBool,
    /// On TCP, a Decline of the peer may still be before the application's bytes.
    watching: AtomicBool,
    /// What the client has still to send before the application's bytes.
    pub(crate) opening: SharedOpening,
    /// An urgent mark is before bytes that were not read.
    marked: AtomicBool,
    /// Bytes that must have come over TCP before a thread is woken by them.
    low_water: AtomicUsize,
    /// Whether the peer has sent a CLC message.
    received_clc: AtomicBool,
    /// Handle of the connection at the endpoint, which may have forgotten it.
    conn: OnceLock<ConnId>,
    /// RNICs carry it.
    rdma: AtomicBool,
    eventfd_of_decision: OnceLock<OwnedFd>,
    readiness: OnceLock<Readiness>,
    /// Tasks and event loops that wait for it.
    pub(crate) waiters: Waiters,
    /// Threads that sleep until something becomes of it.
    sleepers: AtomicUsize,
    /// Wakes them.
    pub(crate) wake_handle: WakeHandle,
    pub(crate) spin: Mutex<SpinBudget>,
    /// Data path of the connection, while the endpoint has lent it.
    pub(crate) lane: Lane,
    /// How long to leave the peer alone before the next poll.
    backoff: AtomicU32,
    status: Mutex<Status>,
    /// What this process publishes of it.
    pub(crate) view: viewing::Row,
}

/// What has become of a connection.
pub(crate) struct Status {
    /// Place of the connection, until the endpoint has forgotten the connection.
    pub(crate) place: Option<Place>,
    /// What carries it, once that is decided.
    pub(crate) carrier: Option<Carrier>,
    /// How the SMC connection ended, once it has. The endpoint may still have bytes of the peer.
    pub(crate) closed: Option<CloseReason>,
    /// The peer had ended its stream in order before.
    pub(crate) ended: bool,
    /// The program has ended the direction to the peer.
    pub(crate) shut: bool,
    /// The program knows how it ended.
    pub(crate) error_reported: bool,
    /// Readable once it is decided what carries it, as long as something polls for that.
    pub(crate) notified: Option<Arc<OwnedFd>>,
    /// What dropping its last handle does.
    pub(crate) linger: Option<Duration>,
    pub(crate) urgent: urgent::Urgent,
    pub(crate) read_timeout: Option<Duration>,
    pub(crate) write_timeout: Option<Duration>,
}

/// How a connection has ended, if it has.
#[derive(Clone, Copy, Default)]
pub(crate) struct Closing {
    /// Otherwise than in order.
    pub(crate) is_reset: bool,
    /// The peer had ended its stream in order before a reset.
    pub(crate) peer_ended: bool,
    /// It has come to an error that no call has returned yet.
    pub(crate) has_unread_error: bool,
}

impl Status {
    /// The error that the connection has come to, reported or not. A reset by the peer behind the end
    /// of its stream is one for those that write only, as with TCP. Once both have ended there is none.
    pub(crate) fn error(&self) -> Option<(CloseReason, io::ErrorKind)> {
        match self.closed? {
            CloseReason::Normal => None,
            _ if self.ended && self.shut => None,
            reason @ CloseReason::PeerAbort if self.ended => {
                Some((reason, io::ErrorKind::BrokenPipe))
            }
            reason => Some((reason, io::ErrorKind::ConnectionReset)),
        }
    }

    /// Whether it is decided what carries the connection, or the connection has ended.
    pub(crate) fn is_decided(&self) -> bool {
        self.carrier.is_some() || self.closed.is_some()
    }
}

/// Most pauses before a poll of a peer that writes all the time.
const MAX_BACKOFF: u32 = 32;

impl Socket {
    /// A socket whose connection this side accepted, or of which nothing is decided yet.
    pub(crate) fn new(
        tcp: impl Into<Arc<TcpStream>>,
        carrier: Option<Carrier>,
        spin: Duration,
    ) -> Self {
        Self::in_role(tcp, carrier, spin, Role::Server)
    }

    pub(crate) fn in_role(
        tcp: impl Into<Arc<TcpStream>>,
        carrier: Option<Carrier>,
        spin: Duration,
        role: Role,
    ) -> Self {
        let new = Self {
            view: viewing::Row::default(),
            tcp: tcp.into(),
            ends: OnceLock::new(),
            nonblocking: AtomicBool::new(false),
            interruptible: AtomicBool::new(false),
            watching: AtomicBool::new(false),
            opening: SharedOpening::new(),
            marked: AtomicBool::new(false),
            low_water: AtomicUsize::new(1),
            received_clc: AtomicBool::new(false),
            conn: OnceLock::new(),
            rdma: AtomicBool::new(false),
            eventfd_of_decision: OnceLock::new(),
            readiness: OnceLock::new(),
            waiters: Waiters::default(),
            sleepers: AtomicUsize::new(0),
            wake_handle: WakeHandle::new(),
            spin: Mutex::new(SpinBudget::new(spin)),
            lane: Lane::default(),
            backoff: AtomicU32::new(0),
            status: Mutex::new(Status {
                place: None,
                carrier,
                closed: None,
                ended: false,
                shut: false,
                error_reported: false,
                notified: None,
                linger: None,
                urgent: urgent::Urgent::default(),
                read_timeout: None,
                write_timeout: None,
            }),
        };
        if let Some(carrier) = &carrier {
            new.view.decided(&new.tcp, new.ends().ok(), carrier, role);
        }
        new
    }

    /// Addresses of this end and of the peer's. The kernel is asked once.
    ///
    /// # Errors
    /// The operating system's, before the connection is made and after its end.
    pub(crate) fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        if let Some(ends) = self.ends.get() {
            return Ok(*ends);
        }
        let ends = (self.tcp.local_addr()?, self.tcp.peer_addr()?);
        Ok(*self.ends.get_or_init(|| ends))
    }

    /// The kernel has said these addresses for [`Self::ends`].
    pub(crate) fn has_ends(&self, near: SocketAddr, far: SocketAddr) {
        let _ = self.ends.set((near, far));
    }

    /// Status of the connection; a thread that holds the endpoint's lock, too, has taken that lock
    /// first.
    pub(crate) fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error it has come to, the first time.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        let mut status = self.status();
        let (reason, kind) = status.error()?;
        if std::mem::replace(&mut status.error_reported, true) {
            return None;
        }
        self.clear_error();
        Some(io::Error::new(kind, reason.to_string()))
    }

    /// How it has ended, by one look.
    pub(crate) fn closing(&self) -> Closing {
        let status = self.status();
        let is_abnormal = |reason| reason != CloseReason::Normal;
        Closing {
            is_reset: status.closed.is_some_and(is_abnormal),
            peer_ended: status.ended,
            has_unread_error: status.error().is_some() && !status.error_reported,
        }
    }

    /// On TCP, whether a Decline of the peer may still be before the application's
    /// bytes.
    pub(crate) fn is_watching(&self) -> bool {
        self.watching.load(Ordering::Acquire)
    }

    pub(crate) fn set_watching(&self, watching: bool) {
        self.watching.store(watching, Ordering::Release);
    }

    /// Whether there are fewer bytes than these on TCP matters to no caller.
    pub(crate) fn set_low_water(&self, octets: usize) {
        if self.low_water.swap(octets, Ordering::Relaxed) != octets {
            // If it fails, a thread is woken in vain.
            let _ = system::set_low_water(&self.tcp, octets);
        }
    }

    /// How long to wait at most.
    pub(crate) fn timeout(&self, direction: Direction) -> Option<Duration> {
        let status = self.status();
        match direction {
            Direction::Read => status.read_timeout,
            Direction::Write => status.write_timeout,
        }
    }

    /// The peer says something of CLC.
    pub(crate) fn note_clc(&self) {
        self.received_clc.store(true, Ordering::Relaxed);
    }

    /// Whether it ever has.
    pub(crate) fn has_received_clc(&self) -> bool {
        self.received_clc.load(Ordering::Relaxed)
    }

    /// Whether to wait a while before the peer's memory is polled again.
    #[inline]
    pub(crate) fn backs_off(&self) -> bool {
        self.backoff.load(Ordering::Relaxed) > 0
    }

    /// Waits a while before the next poll. Polling each time would slow a peer that writes faster
    /// than this side reads: the cache line that it writes is the one that is read.
    pub(crate) fn back_off(&self) {
        for _ in 0..self.backoff.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    /// Counts data that was there at the first poll, and at the one before, without a message of
    /// this side in between. Callers hold the endpoint's lock.
    #[inline]
    pub(crate) fn count_immediate(&self) {
        let backoff = self.backoff.load(Ordering::Relaxed);
        self.backoff
            .store((backoff * 2 + 1).min(MAX_BACKOFF), Ordering::Relaxed);
    }

    /// Ends the backoff: the peer is waited for, or waits.
    #[inline]
    pub(crate) fn reset_backoff(&self) {
        if self.backs_off() {
            self.backoff.store(0, Ordering::Relaxed);
        }
    }

    /// The endpoint has taken it in.
    pub(crate) fn entered(&self, conn: ConnId) {
        // It is only once.
        let _ = self.conn.set(conn);
    }

    /// Handle of the connection at the endpoint, which may have forgotten it.
    #[inline]
    pub(crate) fn conn(&self) -> Option<ConnId> {
        self.conn.get().copied()
    }

    /// Sets whether a signal ends the sleep of a thread.
    pub(crate) fn set_interruptible(&self, interruptible: bool) {
        self.interruptible.store(interruptible, Ordering::Relaxed);
    }

    /// What [`Self::set_interruptible`] has set.
    pub(crate) fn is_interruptible(&self) -> bool {
        self.interruptible.load(Ordering::Relaxed)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Ordering::Relaxed)
    }

    /// What carries it, if that is SMC.
    #[inline]
    pub(crate) fn via(&self) -> Via {
        match self.rdma.load(Ordering::Relaxed) {
            false => Via::Ism,
            true => Via::Verbs,
        }
    }

    /// Notes what carries the connection, and wakes those that wait for that.
    pub(crate) fn decided(&self, carrier: Carrier, role: Role) {
        let mut status = self.status();
        if let Carrier::Smc(terms) = carrier {
            let rdma = terms.technology == Technology::SmcR;
            // Streams are made of it after this, under this lock.
            self.rdma.store(rdma, Ordering::Relaxed);
        }
        status.carrier = Some(carrier);
        drop(status);
        self.view
            .decided(&self.tcp, self.ends().ok(), &carrier, role);
        self.signal_decision();
        self.wake();
    }

    /// Descriptor that is readable once it is decided what carries the connection, or it has
    /// ended, for pollers that do not poll TCP.
    pub(crate) fn decision_eventfd(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(eventfd_of_decision) = self.eventfd_of_decision.get() {
            return Ok(eventfd_of_decision.as_fd());
        }
        let new = descriptors::eventfd(0)?;
        Ok(self.eventfd_of_decision.get_or_init(|| new).as_fd())
    }

    /// The descriptor of [`Self::decision_eventfd`], if it was asked for before.
    pub(crate) fn decision_event(&self) -> Option<BorrowedFd<'_>> {
        self.eventfd_of_decision.get().map(AsFd::as_fd)
    }

    fn signal_decision(&self) {
        if let Some(eventfd_of_decision) = self.eventfd_of_decision.get() {
            descriptors::raise(eventfd_of_decision);
        }
        if let Some(notified) = &self.status().notified {
            descriptors::raise(notified);
        }
    }

    /// Whether a thread may poll it.
    #[inline]
    pub(crate) fn is_polled(&self) -> bool {
        self.readiness.get().is_some()
    }

    /// Notes that there is nothing to do in this direction. Callers hold the
    /// endpoint's lock since.
    pub(crate) fn mark(&self, direction: Direction) {
        if let Some(ready) = self.readiness.get() {
            match direction {
                Direction::Read => ready.set_readable(false),
                Direction::Write => ready.set_writable(false),
            }
        }
    }

    /// Notifies everything that waits in this direction: reading, or writing, would not wait.
    /// Callers hold the endpoint's lock, and wake the tasks without it.
    pub(crate) fn is_ready(&self, direction: Direction, wakes: &mut Vec<Waker>) {
        self.waiters.notify(direction, wakes);
        if let Some(ready) = self.readiness.get() {
            match direction {
                Direction::Read => ready.set_readable(true),
                Direction::Write => ready.set_writable(true),
            }
        }
        self.wake();
    }

    /// Notifies everything that waits: the connection has ended. Callers hold the endpoint's
    /// lock, and wake the tasks without it.
    pub(crate) fn has_ended(&self, wakes: &mut Vec<Waker>) {
        for direction in [Direction::Read, Direction::Write] {
            self.waiters.notify(direction, wakes);
        }
        if let Some(ready) = self.readiness.get() {
            ready.hang_up(self.closing().has_unread_error);
        }
        self.signal_decision();
        self.wake();
    }

    /// Nothing comes, or goes, any more, for those that poll it. Callers hold the endpoint's
    /// lock.
    pub(crate) fn end(&self, direction: Direction) {
        if let Some(ready) = self.readiness.get() {
            ready.end(direction);
        }
    }

    /// The program knows the error of the connection: it is polled no more.
    pub(crate) fn clear_error(&self) {
        if let Some(ready) = self.readiness.get() {
            ready.clear_error();
        }
    }

    /// What is polled for the stream, if that was asked for.
    pub(crate) fn readiness(&self) -> Option<&Readiness> {
        self.readiness.get()
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.wake_handle.wake();
        }
    }

    /// A thread begins to sleep at the call, or ends. Callers hold the endpoint's lock.
    pub(crate) fn count_waiting_thread(&self, begins: bool) {
        if begins {
            self.sleepers.fetch_add(1, Ordering::Relaxed);
        } else {
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// What is polled for the stream, made when it is first wanted. Callers hold the
    /// endpoint's lock; this is how it is at this moment.
    pub(crate) fn ready_fd(&self, readable: bool, writable: bool) -> io::Result<&Readiness> {
        if let Some(readiness) = self.readiness.get() {
            return Ok(readiness);
        }
        let new = Readiness::new()?;
        new.set_readable(readable);
        new.set_writable(writable);
        if self.status().closed.is_some() {
            new.hang_up(self.closing().has_unread_error);
        }
        Ok(self.readiness.get_or_init(|| new))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}
