//! An endpoint with its device, behind one lock.
//!
//! Whoever holds the lock tells the engine what happened and carries out what it
//! wants. Whoever has polled the device parks it before giving the lock back for good:
//! then the device's descriptor becomes readable for the next thing that happens, and
//! the driver, or the reader that has taken its place, wakes.

mod clc;
mod data;
mod enlisting;
mod events;
mod timer;

pub(crate) use clc::{discard, peek};
pub(crate) use timer::timespec;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, EventFlags};
use rustix::time::{TimerfdClockId, TimerfdFlags};
use smc_proto::completion::IsmCompletion;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::IsmPath;
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::types::{BufferSize, Eid, Mac, PeerId};
use smc_transport_ism::binding::Binding;
use smc_transport_ism::device::{Gid128, IsmDevice, MAX_DMB_LEN};
use smc_transport_ism::shared::{Device, SpinBudget};
use smc_transport_ism::shared::pairing::Patience;

use crate::driver::Token;
use crate::listening::Arrival;
use crate::socket::Socket;
use crate::stack::Settings;

/// By this EID processes of one host know that they belong together: who can name a
/// peer's GID over a channel of shared memory is on that host.
const EID: &str = "SMC-SOCKETS.SHARED-MEMORY";

/// Completions taken in at one go, so that no peer keeps the lock for itself.
const COMPLETIONS: usize = 1024;

/// An endpoint that threads share.
pub(crate) struct Shard {
    state: Mutex<State>,
    /// What the driver sleeps at.
    pub(crate) poller: OwnedFd,
    /// The device's descriptor, for whoever waits without the lock.
    pub(crate) device: OwnedFd,
    timer: OwnedFd,
    /// Wakes the driver.
    pub(crate) bell: OwnedFd,
    origin: std::time::Instant,
    pub(crate) patience: Patience,
    /// What a new connection knows of how long looking pays.
    pub(crate) spin: SpinBudget,
    /// Connections the endpoint has room for.
    room: AtomicUsize,
    listeners: Mutex<enlisting::Listeners>,
}

/// What the lock protects.
pub(crate) struct State {
    pub(crate) engine: Endpoint<Owned>,
    pub(crate) ism: Binding<Device>,
    /// By their places at the endpoint.
    sockets: Vec<Option<Entry>>,
    /// The driver wakes at this time.
    armed: Option<Instant>,
    /// A reader waits for the device in the driver's place.
    led: bool,
    /// No handle is left: the driver ends with the last connection.
    pub(crate) abandoned: bool,
}

/// A connection of the endpoint.
struct Entry {
    conn: ConnId,
    socket: Arc<Socket>,
    /// The device at the other end.
    peer: Gid128,
    /// Where it is handed out once it is known what carries it.
    arrival: Option<Arrival>,
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
        let limits = Limits::for_connections(settings.connections);
        let engine = Endpoint::new(config, u64::from_ne_bytes(rest), Owned::new(limits));
        let ism = Binding::new(Device::open()?, DeviceId(0));
        let device = rustix::io::dup(ism.device())?;
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
        let spin = SpinBudget::new(cores, settings.spin);
        let mut state = State {
            engine,
            ism,
            sockets: Vec::new(),
            armed: None,
            led: false,
            abandoned: false,
        };
        state.ism.device_mut().park();
        Ok(Arc::new(Self {
            state: Mutex::new(state),
            poller,
            device,
            timer,
            bell,
            origin: std::time::Instant::now(),
            patience: settings.patience,
            spin,
            room: AtomicUsize::new(settings.connections),
            listeners: Mutex::default(),
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

    /// Takes the driver's place at the device, unless somebody has; to be given back by
    /// [`Self::resign`].
    pub(crate) fn lead(&self, state: &mut State) -> bool {
        let led = std::mem::replace(&mut state.led, true);
        if !led {
            self.hear(EventFlags::empty());
        }
        !led
    }

    /// Gives the driver its place back.
    pub(crate) fn resign(&self, state: &mut State) {
        state.led = false;
        self.hear(EventFlags::IN);
    }

    fn hear(&self, flags: EventFlags) {
        // It fails only for what was never added.
        let _ = epoll::modify(&self.poller, &self.device, Token::Device.data(), flags);
    }

    /// Does everything there is to do, and parks the device.
    pub(crate) fn settle(self: &Arc<Self>, state: &mut State) {
        if !state.drain(self, COMPLETIONS) {
            // The rest is for the driver.
            self.ring();
        }
        self.arm(state);
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

impl State {
    /// Carries out and takes in what there is, at most so many completions; whether the
    /// device is parked.
    fn drain(&mut self, shard: &Arc<Shard>, most: usize) -> bool {
        for _ in 0..most {
            self.carry_out(shard);
            if let Some(completion) = self.ism.poll() {
                self.complete(shard, completion);
            } else if self.ism.device_mut().park() {
                return true;
            }
        }
        self.carry_out(shard);
        false
    }

    /// Looks at the device a few times, and leaves it awake.
    pub(crate) fn glance(&mut self, shard: &Arc<Shard>, most: usize) {
        for _ in 0..most {
            if let Some(completion) = self.ism.poll() {
                self.complete(shard, completion);
                self.carry_out(shard);
                return;
            }
            std::hint::spin_loop();
        }
    }

    fn complete(&mut self, shard: &Shard, completion: IsmCompletion) {
        if let IsmCompletion::PeerVanished { peer, .. } = completion {
            self.save_octets(shard, peer);
        }
        self.engine.handle_ism(shard.now(), completion);
    }

    /// How this side's device is offered.
    pub(crate) fn path(&self) -> IsmPath {
        IsmPath {
            device: self.ism.id(),
            gid: self.ism.gid(),
            pnet_match: false,
            reaches_v1: false,
            v2: self.ism.device().facts().version_2,
            reaches: None,
            attaches: true,
        }
    }

    /// Enters a connection that the endpoint has just begun.
    pub(crate) fn enter(
        &mut self,
        conn: ConnId,
        socket: Arc<Socket>,
        peer: Gid128,
        arrival: Option<Arrival>,
    ) {
        socket.status().conn = Some(conn);
        let at = conn.index() as usize;
        if self.sockets.len() <= at {
            self.sockets.resize_with(at + 1, || None);
        }
        if let Some(entry) = self.sockets.get_mut(at) {
            *entry = Some(Entry {
                conn,
                socket,
                peer,
                arrival,
            });
        }
    }

    /// The connection with this place and generation.
    pub(crate) fn conn_at(&self, index: u32, generation: u32) -> Option<ConnId> {
        let entry = self.sockets.get(index as usize)?.as_ref()?;
        Some(entry.conn).filter(|conn| conn.generation() == generation)
    }

    /// Whether the endpoint has no connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.iter().all(Option::is_none)
    }

    fn entry(&self, conn: ConnId) -> Option<&Entry> {
        let entry = self.sockets.get(conn.index() as usize)?.as_ref();
        entry.filter(|entry| entry.conn == conn)
    }

    fn remove(&mut self, conn: ConnId) -> Option<Entry> {
        let slot = self.sockets.get_mut(conn.index() as usize)?;
        if slot.as_ref().is_some_and(|entry| entry.conn == conn) {
            slot.take()
        } else {
            None
        }
    }
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
