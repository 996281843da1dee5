//! An endpoint with its device, behind one lock.
//!
//! The thread that holds the lock reports to the engine what happened, and executes what it
//! wants.

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
mod state;
mod timer;
mod tracing;
mod transports;
mod urgent;
mod viewing;

pub(crate) use clc::{discard, end_in, has_ended, peek};
pub(crate) use events::{has_peer_ended, has_this_ended};
pub(crate) use handshakes::Announcement;
pub(crate) use lock::Locked;
pub(crate) use loops::{Attachment, Turn};
pub(crate) use state::State;
pub(crate) use timer::{polled_now, timespec};
pub(crate) use transports::{Rnics as BoundRnics, Verbs, Via};

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::net::{SendFlags, sockopt};
use rustix::time::{ClockId, TimerfdClockId, TimerfdFlags};
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::Endpoint;
use smc_proto::event::FallbackReason;
use smc_proto::id::ConnId;
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::trace::Observed;
use smc_proto::wire::types::{BufferSize, Eid, Hostname, Mac, PeerId, PeerOs};
use smc_transport_ism::device::MAX_DMB_LEN;
use smc_transport_ism::shared::pairing::{Callers, PairingTimeouts};
use smc_transport_ism::shared::{Device, SpinBudget, file_size_limit, mapping_limit};

use crate::carrier::{Carrier, Cause, Limit};
use crate::connecting::{KnownServers, PendingChannels};
use crate::descriptors;
use crate::driver::Token;
use crate::listening::HandedOver;
use crate::opening::{self, Opening};
use crate::opt_in::OptIn;
use crate::policy::{Transport, UseOption};
use crate::rnics::Rnics;
use crate::socket::Socket;
use crate::stack::Settings;
use crate::tracing::Tracing;
use crate::undecided::{Undecided, most_callers, most_draining, most_undecided};
pub(crate) use contention::Contention;
use driver_waker::DriverWaker;
use file_limit::FileLimit;
use lanes::Lanes;
use transports::Transports;

/// By this EID processes that use this crate know that they belong together. Who can name
/// a peer's GID over a channel of shared memory is on that host; over RNICs it takes a way
/// to the peer.
const EID: &str = "SMC-SOCKETS.SHARED-MEMORY";

/// Bytes of a connection's memory that the peer writes to, if nothing else is said and
/// all of it is locked or counted.
const BUFFER: u32 = 256 << 10;

/// An endpoint that threads share.
pub(crate) struct Shard {
    state: Mutex<State>,
    /// What the driver sleeps at.
    pub(crate) poller: OwnedFd,
    /// The device's descriptor, which the poller has.
    device: Arc<OwnedFd>,
    timer: OwnedFd,
    pub(crate) driver_waker: Arc<DriverWaker>,
    origin: std::time::Instant,
    /// Start of the shard's time by the clock of [`Self::coarse`].
    coarse_origin: i64,
    pub(crate) pairing_timeouts: PairingTimeouts,
    /// Longest look of a thread that waits.
    pub(crate) spin: Duration,
    /// Connections the endpoint has room for.
    room: AtomicUsize,
    /// What keeps the endpoint from having more room.
    pub(crate) limit: Limit,
    listeners: Mutex<enlisting::Listeners>,
    /// How its engine calls itself.
    peer_id: PeerId,
    /// Accepted connections of which it is not decided yet what carries them.
    pub(crate) undecided: Mutex<Undecided>,
    /// Declined connections for the driver to drain, whose streams were dropped.
    dropped: Mutex<Vec<Arc<Socket>>>,
    /// Most connections that the driver drains at a time.
    pub(crate) most_draining: usize,
    /// Calls of clients whose connections were not accepted yet, at all listeners.
    pub(crate) callers: Callers,
    pub(crate) pending_channels: PendingChannels,
    /// Event loops of tokio that poll the device.
    #[cfg(feature = "tokio")]
    pub(crate) runtimes: crate::tokio::Runtimes,
    /// Why there are no RNICs, if there are none.
    pub(crate) without_rnics: Option<String>,
    pub(crate) opt_in: OptIn,
    /// Bytes that a connection over RNICs locks for each of its links.
    pub(crate) locked_each: u64,
    /// Shared memory is used with processes that use this crate.
    pub(crate) pairs: bool,
    /// Bytes of a connection's DMB, unless its program wishes another.
    dmb: u64,
    /// Most bytes that a file of this process may have.
    file_limit: FileLimit,
    /// Accepted connections for the driver to go on with.
    handed_over: Mutex<Vec<HandedOver>>,
    /// How long polling for the next message of a handshake pays.
    pub(crate) setup_spin: Mutex<SpinBudget>,
    /// Times in which threads hardly poll.
    pub(crate) contention: Contention,
    /// Servers that this process has paired with.
    pub(crate) known_servers: KnownServers,
    /// What threads with lent data paths and this endpoint know of each other.
    lanes: Arc<Lanes>,
}

/// Most accepted connections that wait for the driver.
const HANDED_OVER: usize = 64;

/// A place for a connection, until it is given back.
pub(crate) struct Place {
    shard: Arc<Shard>,
}

/// Connections that the endpoint has more room for than there are places: it may take a moment
/// to forget one whose place was given back.
const SPARE: usize = 64;

impl Drop for Place {
    fn drop(&mut self) {
        self.shard.room.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shard {
    pub(crate) fn new(settings: Settings, rnics: io::Result<Rnics>) -> io::Result<Arc<Self>> {
        let without_rnics = rnics.as_ref().err().map(ToString::to_string);
        let rnics = rnics.ok();
        let assumes_smc = rnics.as_ref().is_some_and(|rnics| rnics.assumes_smc);
        let alone = rnics.as_ref().is_some_and(|rnics| rnics.alone);
        let smcr = match &rnics {
            // Who is asked all the same says that it has no device for it.
            None if settings.policy.tcp_option == UseOption::Always => Offers::SMCR,
            None => Offers::empty(),
            Some(rnics) if rnics.in_version_1 => Offers::SMCR_V1,
            Some(_) => Offers::SMCR,
        };
        let mut verbs = rnics.map(|rnics| rnics.verbs);
        let mut seed = [0; 10];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let [a, b, rest @ ..] = seed;
        let mac = verbs.as_ref().map_or(Mac::default(), |verbs| verbs.mac());
        let peer_id = PeerId::new(u16::from_ne_bytes([a, b]), mac);
        let mut config = Config::new(peer_id);
        config.offers = Offers::SMCD_V2 | smcr;
        let policy = &settings.policy;
        let received = settings.buffer.unwrap_or(BUFFER).min(MAX_DMB_LEN);
        config.receive_buffer = BufferSize::at_least(received);
        // Memory without a limit need not be counted.
        if settings.buffer.is_none() && policy.max_memory.is_none() {
            config.dmb = Some(BufferSize::at_least(MAX_DMB_LEN));
        }
        let dmb = config.dmb.unwrap_or(config.receive_buffer).octets().into();
        // Shared memory has no send buffers.
        let received = u64::from(config.receive_buffer.octets());
        let locked_each = received + u64::from(config.send_buffer.octets());
        let each = match verbs {
            Some(_) => locked_each,
            None => received,
        };
        let (connections, limit) = match (settings.connections, policy.connections(each)) {
            (wanted, fit) if fit < wanted => {
                (fit, Limit::PolicyMemory(policy.max_memory.unwrap_or(0)))
            }
            (wanted, _) => (wanted, Limit::Connections(wanted)),
        };
        for eid in &policy.ueids {
            // There is room for one more than a policy has.
            let _ = config.v2.ueids.push(*eid);
        }
        config.v2.seid = policy.system_eid;
        // As Linux does: people know hosts by their names.
        let host = rustix::system::uname();
        config.v2.hostname = Hostname::new(&host.nodename().to_string_lossy());
        config.v2.os = PeerOs::LINUX;
        let eid = Eid::user(EID).map_err(io::Error::other)?;
        let _ = config.v2.ueids.push(eid);
        let mut limits = Limits::for_connections(connections.saturating_add(SPARE));
        // Who has a place may begin: the peer was promised CLC already.
        limits.handshakes = limits.connections;
        let mut engine = Endpoint::new(
            config,
            u64::from_ne_bytes(rest),
            Observed::new(Owned::new(limits), Tracing::new()),
        );
        // A group may have further links over ports that no connection uses.
        for event in verbs.iter_mut().flat_map(|verbs| verbs.ports()) {
            engine.handle_path(Instant::from_nanos(1), event);
        }
        let transports = Transports::new(Device::open()?, verbs);
        let device = transports.descriptor();
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let make = || rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags);
        let timer = descriptors::keep(make)?;
        let driver_waker = Arc::new(DriverWaker::new()?);
        let poller = descriptors::keep(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
        for (fd, token) in [
            (device.as_fd(), Token::Device),
            (timer.as_fd(), Token::Timer),
            (driver_waker.as_fd(), Token::Doorbell),
        ] {
            epoll::add(&poller, fd, token.data(), EventFlags::IN)?;
        }
        if let Some(verbs) = &transports.verbs {
            let fd = verbs.descriptor();
            epoll::add(&poller, fd, Token::Rnics.data(), EventFlags::IN)?;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = if cores > 1 {
            settings.spin
        } else {
            Duration::ZERO
        };
        let opt_in = OptIn::new(
            settings.policy,
            settings.marks,
            transports.verbs.is_some(),
            assumes_smc,
        );
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let pairs = !alone && opt_in.policy.transport(Transport::Ism).is_ok();
        let pairing_timeouts = PairingTimeouts {
            grace: opt_in
                .policy
                .pairing_grace
                .unwrap_or(settings.pairing_timeouts.grace),
            ..settings.pairing_timeouts
        };
        let mut state = State::new(engine, transports, driver_waker.clone());
        state.publish_stack(connections, dmb, pairs);
        let lanes = state.polling.lanes.clone();
        Ok(Arc::new(Self {
            state: Mutex::new(state),
            poller,
            device,
            timer,
            driver_waker,
            origin: std::time::Instant::now(),
            coarse_origin: nanoseconds(ClockId::Monotonic),
            pairing_timeouts,
            spin,
            room: AtomicUsize::new(connections),
            peer_id,
            undecided: Mutex::new(Undecided::new(most_undecided(descriptors))),
            dropped: Mutex::default(),
            most_draining: most_draining(descriptors),
            callers: Callers::new(most_callers(descriptors)),
            limit,
            listeners: Mutex::default(),
            pending_channels: PendingChannels::default(),
            #[cfg(feature = "tokio")]
            runtimes: crate::tokio::Runtimes::default(),
            without_rnics,
            opt_in,
            locked_each,
            pairs,
            dmb,
            file_limit: FileLimit::default(),
            handed_over: Mutex::default(),
            setup_spin: Mutex::new(SpinBudget::new(spin)),
            contention: Contention::default(),
            known_servers: KnownServers::default(),
            lanes,
        }))
    }

    /// What keeps this process from sharing memory now.
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

    /// Time of the shard, cheaper than [`Self::now`] and some milliseconds late: what the engine does with it is no
    /// more exact.
    #[inline]
    pub(crate) fn coarse(&self) -> Instant {
        let since = nanoseconds(ClockId::MonotonicCoarse) - self.coarse_origin;
        Instant::from_nanos(u64::try_from(since).unwrap_or_default() + 1)
    }

    pub(crate) fn at(&self, time: std::time::Instant) -> Instant {
        let since = time.saturating_duration_since(self.origin);
        Instant::ZERO.after(since.saturating_add(Duration::from_nanos(1)))
    }

    /// A place for one more connection, if there is one.
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

    /// A connection whose peer was promised CLC, and gets a Decline at once: it is TCP, and
    /// takes neither a place nor time of the engine. What the peer may still send of CLC is
    /// dropped when the application reads.
    pub(crate) fn decline(
        &self,
        tcp: impl Into<Arc<TcpStream>>,
        cause: Cause,
        opening: Opening,
    ) -> Arc<Socket> {
        let code = cause.code();
        let why = FallbackReason {
            code,
            peer_diagnosis: None,
        };
        let carrier = Carrier::fallen_back(why, Some(cause));
        let socket = Socket::new(tcp, Some(carrier), self.spin);
        if let Some(message) = opening::decline(self.peer_id, code) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // If it fails, TCP has ended, and the application finds that out.
            let _ = rustix::net::send(&socket.tcp, &message, flags);
        }
        socket.opening.begin(opening);
        // What has come already. Its errors come again.
        let _ = socket.pass_opening(None);
        Arc::new(socket)
    }

    /// Has the driver drain a declined connection whose stream is dropped before the client's
    /// first CLC message has come: TCP would answer that by a reset.
    pub(crate) fn drain(&self, socket: &Arc<Socket>) {
        if socket.opening.state() != Opening::Promised {
            return;
        }
        // To close it then may wait, or is to reset it.
        if !matches!(sockopt::socket_linger(&socket.tcp), Ok(None)) {
            return;
        }
        self.dropped().push(socket.clone());
        self.ring();
    }

    /// Connections to be drained that the driver has not taken over yet.
    pub(crate) fn take_dropped(&self) -> Vec<Arc<Socket>> {
        std::mem::take(&mut *self.dropped())
    }

    fn dropped(&self) -> MutexGuard<'_, Vec<Arc<Socket>>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the driver go on with a connection that was accepted.
    pub(crate) fn hand_over(&self, handed_over: HandedOver) {
        self.handed_over().push(handed_over);
        self.ring();
    }

    /// Whether the driver has as many accepted connections to go on with as it may.
    pub(crate) fn has_many_handed_over(&self) -> bool {
        self.handed_over().len() >= HANDED_OVER
    }

    /// Accepted connections to go on with.
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

    /// Waits in the driver for what happens on a connection's TCP.
    pub(crate) fn watch(&self, conn: ConnId, socket: &Socket) {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        // Without it, timers still end what TCP could have ended earlier.
        let _ = epoll::add(&self.poller, socket, Token::Conn(conn).data(), flags);
    }

    /// Waits in the driver for what the program writes to the descriptor of a connection.
    pub(crate) fn watch_strays(&self, conn: ConnId, own: BorrowedFd<'_>) {
        let flags = EventFlags::IN | EventFlags::ET;
        // Without it, that is noticed when the stream is next full.
        let _ = epoll::add(&self.poller, own, Token::Conn(conn).data(), flags);
    }

    /// Leaves a connection's TCP to its stream.
    pub(crate) fn unwatch(&self, socket: &Socket) {
        let _ = epoll::delete(&self.poller, socket);
    }
}

fn nanoseconds(clock: ClockId) -> i64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    /// Of connections with buffers of 64 KiB each.
    fn limit(connections: usize, memory: &str) -> Limit {
        let settings = Settings {
            connections,
            buffer: Some(1 << 16),
            policy: Policy::parse(&format!("max-memory = {memory:?}")).unwrap(),
            ..Settings::default()
        };
        let none = Err(io::ErrorKind::Unsupported.into());
        Shard::new(settings, none).unwrap().limit
    }

    #[test]
    fn the_lower_of_two_limits_is_the_one_that_is_named() {
        for connections in [1, 3, 4] {
            assert_eq!(
                limit(connections, "256 KiB"),
                Limit::Connections(connections)
            );
        }
        assert_eq!(limit(5, "256 KiB"), Limit::PolicyMemory(256 << 10));
    }
}
