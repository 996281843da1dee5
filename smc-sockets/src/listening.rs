//! Listeners, and connections on their way from the kernel to the program.
//!
//! ```text
//!   kernel ──► a thread of the program: `accept` ──┬─ announced, or TCP ──► the queue, the thread
//!          └─► the driver, while it accepts ahead  └─ others: HandedOver ─► the driver
//!                     │
//!                     ▼  once SMC or TCP is chosen
//!                  Arrival ──► Destination: `queue`, or the program that has accepted
//! ```

mod accept;
mod arrival;
mod queue;

pub(crate) use arrival::{Arrival, Delivery, Destination, HandedOver};

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rustix::event::epoll::{self, EventData, EventFlags};
use smc_transport_ism::shared::Gids;
use smc_transport_ism::shared::pairing::{self, Callers, Rendezvous};
use smc_view::ConnectionRow;

use crate::descriptors;
use crate::discovery::OptionNotSent;
use crate::process::{self, Process};
use crate::shard::Shard;
use crate::socket::Socket;
use crate::undecided::Ticket;
use crate::viewing;
use queue::Queue;

/// A connection, and the address of its client.
pub(crate) type Accepted = (Arc<Socket>, SocketAddr);

/// A TCP listener. The program's threads accept its connections; the driver does while clients that
/// have called wait, or ask for it, and for clients that may send CLC over TCP.
pub(crate) struct Listening {
    tcp: TcpListener,
    /// Where clients call. `None` in a process that has inherited the listener, and without shared
    /// memory.
    rendezvous: Mutex<Option<Rendezvous>>,
    /// GIDs of this side's device, if shared memory is used.
    gids: Option<Gids>,
    queue: Mutex<Queue>,
    /// Eventfd that is readable while the queue has connections that no thread is about to take.
    ready: OwnedFd,
    /// Epoll set of [`Self::ready`] and, unless the driver alone accepts, of the TCP listener.
    watched: OwnedFd,
    /// The number by which the driver knows it.
    key: AtomicU32,
    /// The TCP port.
    port: u16,
    /// Whether its SYN-ACKs have SMC's TCP option; otherwise why not.
    option_sent: Result<(), OptionNotSent>,
    /// Whether only the driver accepts: clients that have not called may send CLC.
    only_driver_accepts: bool,
    /// The process that made it.
    process: Process,
    /// Forks of that process until then.
    forks: u64,
    /// The row that this process publishes for it.
    pub(crate) view: OnceLock<Option<ConnectionRow>>,
}

impl Listening {
    /// A listener of this process. Processes that inherit it may pair its connections, too.
    pub(crate) fn new(
        tcp: TcpListener,
        gids: Option<Gids>,
        discovery: (Result<(), OptionNotSent>, bool),
        callers: &Callers,
    ) -> io::Result<Self> {
        let open = |gids: &Gids| Rendezvous::open_in(&tcp, gids.clone(), callers).ok();
        let rendezvous = gids.as_ref().and_then(open);
        if gids.is_some() {
            // Without it, processes that inherit the listener serve TCP.
            //= SHM-076
            let _ = pairing::mark_listener(&tcp);
        }
        Self::over(tcp, gids, discovery, rendezvous)
    }

    /// The listener of a process from which this one was forked: other processes may accept from
    /// it as well, so clients call none of them.
    //= SHM-015
    pub(crate) fn inherited(
        from: &Self,
        gids: Option<Gids>,
        discovery: (Result<(), OptionNotSent>, bool),
    ) -> io::Result<Self> {
        Self::over(from.tcp.try_clone()?, gids, discovery, None)
    }

    /// A listener; `discovery` is whether its SYN-ACKs have SMC's TCP option, and whether any client is
    /// taken to speak SMC without it.
    fn over(
        tcp: TcpListener,
        gids: Option<Gids>,
        (option_sent, assumes): (Result<(), OptionNotSent>, bool),
        rendezvous: Option<Rendezvous>,
    ) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        let port = tcp.local_addr()?.port();
        let ready = descriptors::eventfd(0)?;
        let watched = descriptors::keep(|| epoll::create(epoll::CreateFlags::CLOEXEC))?;
        let data = EventData::new_u64(0);
        epoll::add(&watched, &ready, data, EventFlags::IN)?;
        let only_driver_accepts = option_sent.is_ok() || assumes;
        if !only_driver_accepts {
            epoll::add(&watched, &tcp, data, EventFlags::IN)?;
        }
        Ok(Self {
            view: OnceLock::new(),
            tcp,
            rendezvous: Mutex::new(rendezvous),
            gids,
            queue: Mutex::new(Queue::new()),
            ready,
            watched,
            key: AtomicU32::new(0),
            port,
            option_sent,
            only_driver_accepts,
            process: Process::current(),
            forks: process::forks(),
        })
    }

    /// Publishes the listener, once.
    pub(crate) fn publish(&self) {
        if let Ok(address) = self.tcp.local_addr() {
            self.view
                .get_or_init(|| viewing::listener(address, &self.tcp));
        }
    }

    /// Whether this process has inherited the listener.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    /// Drops a child's copy of the rendezvous: when the parent ends, clients find no listener that
    /// could pair.
    //= SHM-015
    pub(crate) fn leave_rendezvous(&self) {
        // If a thread of the parent held the lock at the fork, the copy stays.
        if let Ok(mut rendezvous) = self.rendezvous.try_lock() {
            *rendezvous = None;
        }
    }

    /// Where clients call, in the process that made the listener.
    pub(crate) fn rendezvous(&self) -> MutexGuard<'_, Option<Rendezvous>> {
        self.rendezvous
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a connection to this address arrives at the listener.
    pub(crate) fn is_at(&self, to: SocketAddr) -> bool {
        if to.port() != self.port {
            return false;
        }
        let address = to.ip().to_canonical();
        match self.tcp.local_addr().map(|at| at.ip().to_canonical()) {
            // Another host may have a listener at the same port.
            Ok(at) if at.is_unspecified() => {
                address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
            }
            at => at.is_ok_and(|at| at == address),
        }
    }

    pub(crate) fn tcp(&self) -> &TcpListener {
        &self.tcp
    }

    /// The descriptor that is readable while there is something to accept.
    pub(crate) fn ready(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }

    /// Sets the number by which the driver knows the listener.
    pub(crate) fn entered(&self, key: u32) {
        self.key.store(key, Ordering::Relaxed);
    }

    pub(crate) fn key(&self) -> u32 {
        self.key.load(Ordering::Relaxed)
    }

    /// Names of this side's device, if shared memory is used.
    pub(crate) fn gids(&self) -> Option<&Gids> {
        self.gids.as_ref()
    }

    /// Whether clients have called whose connections were not accepted yet.
    pub(crate) fn has_calls(&self) -> bool {
        let rendezvous = self.rendezvous();
        rendezvous.as_ref().is_some_and(Rendezvous::has_calls)
    }

    /// A connection on its way to this listener. It has a ticket as long as it is not decided.
    pub(crate) fn arrival(
        self: &Arc<Self>,
        address: SocketAddr,
        ticket: Option<Ticket>,
    ) -> Arrival {
        let to: Weak<dyn Destination> = Arc::downgrade(self) as _;
        Arrival::new(to, address, ticket)
    }
}

impl Destination for Listening {
    fn port(&self) -> u16 {
        self.port
    }

    fn option_sent(&self) -> Result<(), OptionNotSent> {
        self.option_sent
    }

    fn deliver(&self, accepted: Accepted) -> Delivery {
        match self.push(Ok(accepted)) {
            true => Delivery::Taken,
            false => Delivery::Refused,
        }
    }

    fn hold(&self, held: bool, shard: &Shard) {
        self.hold_back(held, shard);
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}
