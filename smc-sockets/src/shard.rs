//! A shard: an endpoint of the engine with its devices, behind one lock.
//!
//! The thread that holds the lock ([`Locked`]) reports completions, CLC messages and events of TCP to
//! the engine, and executes its commands. What needs no lock is in [`Shard`] itself.

mod clc;
mod closing;
mod contention;
mod data;
mod driver_waker;
mod ending;
mod enlisting;
mod events;
mod file_limit;
mod handshakes;
mod lanes;
mod leaving;
mod left_to_loops;
mod lock;
mod loops;
mod polling;
mod starting;
mod state;
mod timer;
mod tracing;
mod transports;
mod urgent;
mod viewing;

pub(crate) use clc::{discard, end_in, has_ended, peek};
pub(crate) use events::{has_both_ended, has_peer_ended, has_this_ended};
pub(crate) use handshakes::{Announcement, Withdrawal};
pub(crate) use lock::Locked;
pub(crate) use loops::{Attachment, Turn};
pub(crate) use state::State;
pub(crate) use timer::{polled_now, timespec};
pub(crate) use transports::{Rnics as BoundRnics, Verbs, Via};

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, sockopt};
use rustix::time::ClockId;
use smc_proto::event::FallbackReason;
use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_proto::wire::types::PeerId;
use smc_transport_ism::shared::pairing::{Callers, PairingTimeouts};
use smc_transport_ism::shared::{SpinBudget, file_size_limit, mapping_limit};

use crate::carrier::{Carrier, Cause, Limit};
use crate::connecting::{KnownServers, PendingChannels, Unattended};
use crate::driver::Token;
use crate::listening::HandedOver;
use crate::opening::{self, Opening};
use crate::opt_in::OptIn;
use crate::socket::Socket;
use crate::undecided::Undecided;
pub(crate) use contention::Contention;
use driver_waker::DriverWaker;
use file_limit::FileLimit;
use lanes::Lanes;

/// An endpoint that the threads of a process share.
pub(crate) struct Shard {
    state: Mutex<State>,
    /// The epoll set at which the driver sleeps.
    pub(crate) poller: OwnedFd,
    /// The descriptor of the device of shared memory, in the poller.
    device: Arc<OwnedFd>,
    /// The driver's timerfd, in the poller.
    timer: OwnedFd,
    pub(crate) driver_waker: Arc<DriverWaker>,
    /// No handle is left: the driver ends with the last connection.
    abandoned: AtomicBool,
    /// Start of the shard's time.
    origin: std::time::Instant,
    /// Start of the shard's time by the clock of [`Self::coarse`], in nanoseconds.
    coarse_origin: i64,
    pub(crate) pairing_timeouts: PairingTimeouts,
    /// Longest time that a thread polls before it waits in the kernel.
    pub(crate) spin: Duration,
    /// Further connections that the endpoint has room for.
    room: AtomicUsize,
    /// What bounds the number of connections.
    pub(crate) limit: Limit,
    listeners: Mutex<enlisting::Listeners>,
    /// The peer ID of its engine, for Declines that need no engine.
    peer_id: PeerId,
    /// Accepted connections for which SMC or TCP is not chosen yet.
    pub(crate) undecided: Mutex<Undecided>,
    /// Declined connections whose streams were dropped, for the driver to drain.
    dropped: Mutex<Vec<Arc<Socket>>>,
    /// Most connections that the driver drains at a time.
    pub(crate) most_draining: usize,
    /// Calls of clients whose connections were not accepted yet, at all listeners.
    pub(crate) callers: Callers,
    /// Channels that connecting clients are about to receive.
    pub(crate) pending_channels: PendingChannels,
    /// Attempts to connect that the driver goes on with once TCP has connected.
    pub(crate) unattended: Unattended,
    /// Event loops of tokio that poll the device.
    #[cfg(feature = "tokio")]
    pub(crate) runtimes: crate::tokio::Runtimes,
    /// Why there are no RNICs, if there are none.
    pub(crate) without_rnics: Option<String>,
    /// By what it opts in to SMC with peers that do not pair.
    pub(crate) opt_in: OptIn,
    /// Bytes that a connection over RNICs locks for each of its links.
    pub(crate) locked_each: u64,
    /// Whether shared memory is used with processes that use this crate.
    pub(crate) pairs: bool,
    /// Bytes of a connection's DMB, unless its program has set another size.
    dmb: u64,
    /// Most bytes that a file of this process may have.
    file_limit: FileLimit,
    /// Accepted connections for the driver to go on with.
    handed_over: Mutex<Vec<HandedOver>>,
    /// How long polling for the next message of a handshake pays.
    pub(crate) setup_spin: Mutex<SpinBudget>,
    /// Times in which threads hardly poll.
    pub(crate) contention: Contention,
    /// Servers that it has paired with.
    pub(crate) known_servers: KnownServers,
    /// State that threads with lent data paths share with the endpoint.
    lanes: Arc<Lanes>,
}

/// Most accepted connections that wait for the driver.
const HANDED_OVER: usize = 64;

/// A place for a connection at the endpoint. Dropping it gives the place back.
pub(crate) struct Place {
    shard: Arc<Shard>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shard.room.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shard {
    /// What keeps this process from sharing memory at the moment.
    //= SHM-050
    //= SHM-074
    pub(crate) fn memory_limit(&self) -> Option<Limit> {
        let file = self.file_limit.get(self.coarse(), file_size_limit);
        let file = file.filter(|most| *most < self.dmb).map(Limit::FileSize);
        file.or_else(|| mapping_limit().map(Limit::Mappings))
    }

    /// The time as the engine counts it.
    pub(crate) fn now(&self) -> Instant {
        self.at(std::time::Instant::now())
    }

    /// The time of the shard by a clock that is cheaper than that of [`Self::now`] and some milliseconds
    /// late: the engine needs no better.
    #[inline]
    pub(crate) fn coarse(&self) -> Instant {
        let since = nanoseconds(ClockId::MonotonicCoarse) - self.coarse_origin;
        Instant::from_nanos(u64::try_from(since).unwrap_or_default() + 1)
    }

    /// A time of the operating system as the engine counts it.
    pub(crate) fn at(&self, time: std::time::Instant) -> Instant {
        let since = time.saturating_duration_since(self.origin);
        Instant::ZERO.after(since.saturating_add(Duration::from_nanos(1)))
    }

    /// Takes a place for one more connection, if there is one.
    pub(crate) fn place(self: &Arc<Self>) -> Option<Place> {
        let one_less = |room: usize| room.checked_sub(1);
        let order = Ordering::Relaxed;
        let taken = self.room.fetch_update(order, order, one_less);
        let shard = self.clone();
        taken.ok().map(|_| Place { shard })
    }

    /// Whether there is a place at the moment.
    pub(crate) fn has_place(&self) -> bool {
        self.room.load(Ordering::Relaxed) > 0
    }

    /// The peer ID of its engine.
    pub(crate) fn peer_id(&self) -> PeerId {
        self.peer_id
    }

    /// Declines a connection whose peer expects CLC: it is TCP, and needs neither a place nor the
    /// engine. CLC messages that the peer may still send are dropped when the application reads.
    pub(crate) fn decline(
        &self,
        tcp: impl Into<Arc<TcpStream>>,
        cause: Cause,
        opening: Opening,
    ) -> Arc<Socket> {
        let code = cause.code();
        let why = FallbackReason::new(code);
        let carrier = Carrier::fallen_back(why, Some(cause));
        let socket = Socket::new(tcp, Some(carrier), self.spin);
        if let Some(message) = opening::decline(self.peer_id, code) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // If that fails, TCP has ended, which the application finds out.
            let _ = rustix::net::send(&socket.tcp, &message, flags);
        }
        socket.opening.begin(opening);
        // Drops what has come already. An error is reported again by the next read.
        let _ = socket.pass_opening(None);
        Arc::new(socket)
    }

    /// Has the driver drain a declined connection whose stream is dropped before the client's
    /// first CLC message has come: TCP would answer that by a reset.
    pub(crate) fn drain(&self, socket: &Arc<Socket>) {
        if socket.opening.state() != Opening::Promised {
            return;
        }
        // With SO_LINGER, closing it waits, or resets it.
        if !matches!(sockopt::socket_linger(&socket.tcp), Ok(None)) {
            return;
        }
        self.dropped().push(socket.clone());
        self.ring();
    }

    /// Takes the connections that the driver is to drain.
    pub(crate) fn take_dropped(&self) -> Vec<Arc<Socket>> {
        std::mem::take(&mut *self.dropped())
    }

    fn dropped(&self) -> MutexGuard<'_, Vec<Arc<Socket>>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a connection that was accepted over to the driver.
    pub(crate) fn hand_over(&self, handed_over: HandedOver) {
        self.handed_over().push(handed_over);
        self.ring();
    }

    /// Whether as many accepted connections wait for the driver as may.
    pub(crate) fn has_many_handed_over(&self) -> bool {
        self.handed_over().len() >= HANDED_OVER
    }

    /// Takes the accepted connections that were handed over.
    pub(crate) fn take_handed_over(&self) -> Vec<HandedOver> {
        std::mem::take(&mut *self.handed_over())
    }

    fn handed_over(&self) -> MutexGuard<'_, Vec<HandedOver>> {
        self.handed_over
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the driver.
    pub(crate) fn ring(&self) {
        self.driver_waker.wake();
    }

    /// Has the driver wait for events of a descriptor. What it waited for at that descriptor before is
    /// replaced: the kernel keeps that while the program has another descriptor of the file.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn poll_for(
        &self,
        token: Token,
        descriptor: impl AsFd,
        flags: EventFlags,
    ) -> Result<(), Errno> {
        match epoll::add(&self.poller, &descriptor, token.data(), flags) {
            Err(Errno::EXIST) => epoll::modify(&self.poller, &descriptor, token.data(), flags),
            added => added,
        }
    }

    /// Has the driver wait for events of a connection's TCP socket.
    pub(crate) fn watch(&self, conn: ConnId, socket: &Socket) {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        // If that fails, timers end what events of TCP would have ended earlier.
        let _ = self.poll_for(Token::Conn(conn), socket, flags);
    }

    /// Has the driver wait for bytes that the program writes to the descriptor of a connection instead
    /// of the stream.
    pub(crate) fn watch_strays(&self, conn: ConnId, own: BorrowedFd<'_>) {
        let flags = EventFlags::IN | EventFlags::ET;
        // If that fails, they are noticed when the stream is next full.
        let _ = epoll::add(&self.poller, own, Token::Conn(conn).data(), flags);
    }

    /// Ends [`Self::watch`]: the stream waits for its TCP socket by itself.
    pub(crate) fn unwatch(&self, socket: &Socket) {
        let _ = epoll::delete(&self.poller, socket);
    }
}

/// The time of a clock in nanoseconds.
fn nanoseconds(clock: ClockId) -> i64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
