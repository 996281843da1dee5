//! An endpoint with its device, behind one lock.
//!
//! Whoever holds the lock tells the engine what happened and carries out what it
//! wants.

mod attention;
mod clc;
mod data;
mod enlisting;
mod events;
mod state;
mod timer;
mod transports;

pub(crate) use clc::{discard, peek};
pub(crate) use state::State;
pub(crate) use timer::timespec;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::time::{ClockId, TimerfdClockId, TimerfdFlags};
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::id::ConnId;
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::types::{BufferSize, Eid, Mac, PeerId};
use smc_transport_ism::device::MAX_DMB_LEN;
use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::Patience;

use crate::connecting::Greetings;
use crate::driver::Token;
use crate::socket::Socket;
use crate::stack::Settings;
use transports::Transports;

/// By this EID processes of one host know that they belong together: who can name a
/// peer's GID over a channel of shared memory is on that host.
const EID: &str = "SMC-SOCKETS.SHARED-MEMORY";

/// An endpoint that threads share.
pub(crate) struct Shard {
    state: Mutex<State>,
    /// What the driver sleeps at.
    pub(crate) poller: OwnedFd,
    /// The device's descriptor, which the poller has.
    _device: OwnedFd,
    timer: OwnedFd,
    /// Wakes the driver.
    pub(crate) bell: OwnedFd,
    origin: std::time::Instant,
    /// The same by the clock of [`Self::coarse`].
    coarse_origin: i64,
    pub(crate) patience: Patience,
    /// Longest look of a thread that waits.
    pub(crate) spin: Duration,
    /// Connections the endpoint has room for.
    room: AtomicUsize,
    listeners: Mutex<enlisting::Listeners>,
    pub(crate) greetings: Greetings,
}

/// A place for a connection, until it is given back.
pub(crate) struct Place(Arc<Shard>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.room.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shard {
    pub(crate) fn new(settings: &Settings) -> io::Result<Arc<Self>> {
        let mut seed = [0; 10];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let [a, b, rest @ ..] = seed;
        let mut config = Config::new(PeerId::new(u16::from_ne_bytes([a, b]), Mac::default()));
        config.offers = Offers::SMCD_V2;
        config.receive_buffer = BufferSize::at_least(settings.buffer.min(MAX_DMB_LEN));
        let eid = Eid::user(EID).map_err(io::Error::other)?;
        // There is room for four.
        let _ = config.v2.ueids.push(eid);
        let mut limits = Limits::for_connections(settings.connections);
        // Who has a place may begin: the peer was promised CLC already.
        limits.handshakes = limits.connections;
        let engine = Endpoint::new(config, u64::from_ne_bytes(rest), Owned::new(limits));
        let transports = Transports::new(Device::open()?);
        let device = rustix::io::dup(transports.descriptor())?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags)?;
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (fd, token) in [
            (&device, Token::Device),
            (&timer, Token::Timer),
            (&bell, Token::Bell),
        ] {
            epoll::add(&poller, fd, token.data(), EventFlags::IN)?;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = if cores > 1 {
            settings.spin
        } else {
            Duration::ZERO
        };
        Ok(Arc::new(Self {
            state: Mutex::new(State::new(engine, transports)),
            poller,
            _device: device,
            timer,
            bell,
            origin: std::time::Instant::now(),
            coarse_origin: nanoseconds(ClockId::Monotonic),
            patience: settings.patience,
            spin,
            room: AtomicUsize::new(settings.connections),
            listeners: Mutex::default(),
            greetings: Greetings::default(),
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // The engine has no panic, and what follows it here leaves nothing half done
        // that the next call would not take up again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time as the engine counts it.
    pub(crate) fn now(&self) -> Instant {
        self.at(std::time::Instant::now())
    }

    /// The same, cheaper and some milliseconds late: what the engine does with it is no
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
        taken.ok().map(|_| Place(self.clone()))
    }

    /// Wakes the driver.
    pub(crate) fn ring(&self) {
        // If it is full, it wakes as well.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Waits in the driver for what happens on a connection's TCP.
    pub(crate) fn watch(&self, conn: ConnId, socket: &Socket) {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        // Without it, timers still end what TCP could have ended earlier.
        let _ = epoll::add(&self.poller, socket, Token::Conn(conn).data(), flags);
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

/// What the engine has to know of a paired TCP connection.
pub(crate) fn options(address: SocketAddr) -> ConnOptions {
    ConnOptions {
        option_negotiated: true,
        subnets: None,
        ipv4: address.ip().to_canonical().is_ipv4(),
        vlan: None,
        receive_buffer: None,
        send_buffer: None,
        // Announcing octets costs two stores: nothing is gained by waiting.
        nodelay: true,
        urgent_inline: true,
    }
}
