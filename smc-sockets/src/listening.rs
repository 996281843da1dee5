//! What a listener and the driver share: connections on their way to the application.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use smc_transport_ism::shared::Gids;
use smc_transport_ism::shared::pairing::{self, Callers, Rendezvous};
use smc_view::{ConnectionRow, Role};

use crate::carrier::{Carrier, Cause, Limit};
use crate::descriptors;
use crate::discovery::OptionNotSent;
use crate::driver::{self, Stage};
use crate::process::{self, Process};
use crate::shard::Shard;
use crate::socket::Socket;
use crate::undecided::{Admission, Source, Ticket};
use crate::viewing;

/// Connections that are accepted before the application wants them; the kernel keeps
/// further ones.
const AHEAD: usize = 128;

/// Longest that a thread which accepts polls for a client's last message.
const ACCEPT: Duration = Duration::from_micros(50);

/// A connection, and the address of its client.
pub(crate) type Accepted = (Arc<Socket>, SocketAddr);

/// A TCP listener whose connections the program's threads accept. The driver accepts while clients
/// that have called wait, or have asked for it.
pub(crate) struct Listening {
    tcp: TcpListener,
    /// Where clients call; none if this process has only inherited the listener, or if shared
    /// memory is not used.
    rendezvous: Mutex<Option<Rendezvous>>,
    /// Names of this side's device, if shared memory is used.
    gids: Option<Gids>,
    queue: Mutex<Queue>,
    /// Readable while the queue has something.
    ready: OwnedFd,
    /// Readable while that is so, or TCP has a connection.
    watched: OwnedFd,
    key: AtomicU32,
    /// The port it listens at.
    port: u16,
    /// Whether its SYN-ACKs have SMC's TCP option.
    option_sent: Result<(), OptionNotSent>,
    /// Clients may send CLC that did not call: the driver alone accepts.
    is_drivers: bool,
    /// The one that made it.
    process: Process,
    /// Children that there were then.
    forks: u64,
    /// What this process publishes of it.
    pub(crate) view: OnceLock<Option<ConnectionRow>>,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<io::Result<Accepted>>,
    paused: bool,
    /// A connection of it waits until others are decided.
    held: bool,
    /// No thread accepts any more.
    closed: bool,
    /// The program has accepted, or polled, in the process that made the listener.
    wanted: bool,
    /// The driver accepts.
    ahead: bool,
    /// [`Listening::ready`] is readable.
    raised: bool,
    /// Threads that accept, and take what is ready by themselves.
    accepting: usize,
}

impl Listening {
    /// A listener of this process. Whoever inherits it may pair its connections, too.
    pub(crate) fn new(
        tcp: TcpListener,
        gids: Option<Gids>,
        option_sent: (Result<(), OptionNotSent>, bool),
        callers: &Callers,
    ) -> io::Result<Self> {
        let open = |gids: &Gids| Rendezvous::open_in(&tcp, gids.clone(), callers).ok();
        let rendezvous = gids.as_ref().and_then(open);
        if gids.is_some() {
            // Without it, processes that inherit the listener serve TCP.
            //= SHM-076
            let _ = pairing::mark_listener(&tcp);
        }
        Self::over(tcp, gids, option_sent, rendezvous)
    }

    /// The listener of a process from which this one was forked: other processes may accept from
    /// it as well, so clients call none of them.
    //= SHM-015
    pub(crate) fn inherited(
        from: &Self,
        gids: Option<Gids>,
        option_sent: (Result<(), OptionNotSent>, bool),
    ) -> io::Result<Self> {
        Self::over(from.tcp.try_clone()?, gids, option_sent, None)
    }

    /// Publishes it, unless another process has made it.
    pub(crate) fn publish(&self) {
        if let Ok(address) = self.tcp.local_addr() {
            self.view
                .get_or_init(|| viewing::listener(address, &self.tcp));
        }
    }

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
        let is_drivers = option_sent.is_ok() || assumes;
        if !is_drivers {
            epoll::add(&watched, &tcp, data, EventFlags::IN)?;
        }
        let queue = Queue {
            paused: true,
            ..Queue::default()
        };
        Ok(Self {
            view: OnceLock::new(),
            tcp,
            rendezvous: Mutex::new(rendezvous),
            gids,
            queue: Mutex::new(queue),
            ready,
            watched,
            key: AtomicU32::new(0),
            port,
            option_sent,
            is_drivers,
            process: Process::current(),
            forks: process::forks(),
        })
    }

    /// Whether this process has inherited it.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    /// Leaves the rendezvous, of which a child has a copy, to the parent: with the parent's
    /// end, clients find no listener that could pair.
    //= SHM-015
    pub(crate) fn leave_rendezvous(&self) {
        // A thread of the parent may have held the lock at the fork: the copy stays then.
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

    /// Whether a connection to this address arrives at it.
    pub(crate) fn is_at(&self, to: SocketAddr) -> bool {
        if to.port() != self.port {
            return false;
        }
        let address = to.ip().to_canonical();
        match self.tcp.local_addr().map(|at| at.ip().to_canonical()) {
            // Peers on other hosts may listen at the same port.
            Ok(at) if at.is_unspecified() => {
                address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
            }
            at => at.is_ok_and(|at| at == address),
        }
    }

    pub(crate) fn tcp(&self) -> &TcpListener {
        &self.tcp
    }

    /// Readable while there is something to accept.
    pub(crate) fn ready(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }

    /// The driver knows it by this number.
    pub(crate) fn entered(&self, key: u32) {
        self.key.store(key, Ordering::Relaxed);
    }

    pub(crate) fn key(&self) -> u32 {
        self.key.load(Ordering::Relaxed)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a connection to whoever accepts, or an error, after which no more are
    /// accepted until it was seen; whether any thread still accepts.
    pub(crate) fn arrived(&self, what: io::Result<Accepted>) -> bool {
        let mut queue = self.queue();
        if queue.closed {
            return false;
        }
        queue.ready.push_back(what);
        self.raise(&mut queue);
        true
    }

    /// Wakes who polls, if there is something that no thread is about to take.
    fn raise(&self, queue: &mut Queue) {
        let wanted = queue.ready.len() > queue.accepting;
        if wanted && !std::mem::replace(&mut queue.raised, true) {
            descriptors::raise(&self.ready);
        }
    }

    /// Ends accepting, and returns what was not accepted yet.
    pub(crate) fn close(&self) -> impl Iterator<Item = Accepted> {
        let mut queue = self.queue();
        queue.closed = true;
        std::mem::take(&mut queue.ready).into_iter().flatten()
    }

    /// The next connection, if there is one.
    pub(crate) fn next(&self, shard: &Shard) -> Option<io::Result<Accepted>> {
        self.take(shard, false)
    }

    /// Takes the next connection; in a thread that was `accepting`, and is no more.
    fn take(&self, shard: &Shard, accepting: bool) -> Option<io::Result<Accepted>> {
        let mut queue = self.queue();
        queue.accepting = queue.accepting.saturating_sub(accepting.into());
        let next = queue.ready.pop_front();
        if !queue.ready.is_empty() {
            self.raise(&mut queue);
        } else if std::mem::take(&mut queue.raised) {
            let _ = rustix::io::read(&self.ready, &mut [0; 8]);
        }
        self.open_or_pause(&mut queue, shard);
        next
    }

    /// The program accepts, or polls, in the process that made the listener: connections are
    /// accepted ahead, whether it has forked or not.
    pub(crate) fn want(&self, shard: &Shard) {
        let mut queue = self.queue();
        if !queue.wanted {
            queue.wanted = true;
            self.open_or_pause(&mut queue, shard);
            shard.await_calls(self);
        }
    }

    /// Lets the driver accept ahead, or not: whether it does.
    fn open_or_pause(&self, queue: &mut Queue, shard: &Shard) -> bool {
        let failed = queue.ready.back().is_some_and(Result::is_err);
        let pause = !(queue.ahead || self.is_drivers)
            || failed
            || self.is_childrens(queue)
            || queue.held
            || queue.ready.len() >= AHEAD;
        if queue.paused != pause {
            queue.paused = pause;
            shard.pause(self, pause);
        }
        !pause
    }

    /// Whether its connections are accepted by children: of a program that forks before it
    /// accepts.
    fn is_childrens(&self, queue: &Queue) -> bool {
        !queue.wanted && process::forks() != self.forks
    }

    /// Whether clients are to find their calls taken in: where children accept, the calls stay
    /// in the kernel's queue.
    pub(crate) fn takes_calls(&self) -> bool {
        !self.is_childrens(&self.queue())
    }

    /// Whether the driver is to accept one more; if not, it is not asked again until
    /// there is room.
    pub(crate) fn takes_more(&self, shard: &Shard) -> bool {
        self.open_or_pause(&mut self.queue(), shard)
    }

    /// No further connections are accepted while one waits until others are decided.
    fn hold_back(&self, held: bool, shard: &Shard) {
        let mut queue = self.queue();
        queue.held = held;
        let flags = match held {
            true => EventFlags::ET,
            false => EventFlags::IN,
        };
        // It fails only for what was never added.
        let _ = epoll::modify(&self.watched, &self.tcp, EventData::new_u64(0), flags);
        self.open_or_pause(&mut queue, shard);
    }

    /// The driver's poller has it: it accepts, if it is to.
    pub(crate) fn entered_driver(&self, shard: &Shard) {
        self.open_or_pause(&mut self.queue(), shard);
    }

    /// Has the driver accept, or leaves that to the program's threads.
    pub(crate) fn accept_ahead(&self, ahead: bool, shard: &Shard) {
        let mut queue = self.queue();
        if queue.ahead != ahead {
            queue.ahead = ahead;
            self.open_or_pause(&mut queue, shard);
        }
    }

    /// Whether clients have called whose connections were not accepted yet.
    pub(crate) fn has_calls(&self) -> bool {
        let rendezvous = self.rendezvous();
        rendezvous.as_ref().is_some_and(Rendezvous::has_calls)
    }

    /// Accepts the next connection in this thread; `None` if there is none that is decided.
    pub(crate) fn accept(self: &Arc<Self>, shard: &Arc<Shard>) -> Option<io::Result<Accepted>> {
        loop {
            if let Some(next) = self.next(shard) {
                return Some(next);
            }
            if self.is_drivers || self.queue().held || shard.has_many_handed_over() {
                return None;
            }
            let (tcp, address) = match self.accept_tcp() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => return Some(Err(error)),
            };
            self.queue().accepting += 1;
            let Some(tcp) = self.accept_announced(shard, tcp, address) else {
                shard.spin_for_handshake(ACCEPT, |_| !self.queue().ready.is_empty());
                if let Some(next) = self.take(shard, true) {
                    return Some(next);
                }
                continue;
            };
            self.accepts_no_more();
            match self.begin(shard, &tcp, address) {
                Next::Plain(cause) => {
                    let carrier = Some(Carrier::tcp(cause));
                    let socket = Arc::new(Socket::new(tcp, carrier, shard.spin));
                    return Some(Ok((socket, address)));
                }
                Next::Driver => {
                    let from = Arc::downgrade(self);
                    shard.hand_over(HandedOver::New(from, tcp, address));
                }
                Next::Undecided(stage) => {
                    let to: Weak<dyn Destination> = Arc::downgrade(self) as _;
                    shard.hand_over(HandedOver::Undecided(to, tcp, address, stage));
                }
            }
        }
    }

    /// A thread that was about to take what is ready does not.
    fn accepts_no_more(&self) {
        let mut queue = self.queue();
        queue.accepting = queue.accepting.saturating_sub(1);
        self.raise(&mut queue);
    }

    /// Takes the next connection of TCP; `None` if it has gone meanwhile, or can be taken now.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; others of the operating system.
    pub(crate) fn accept_tcp(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        match rustix::net::acceptfrom_with(&self.tcp, SocketFlags::CLOEXEC) {
            Ok((tcp, address)) => {
                let address = address.and_then(|at| SocketAddr::try_from(at).ok());
                Ok(address.map(|address| (tcp.into(), address)))
            }
            Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => Ok(None),
            // The program's connections come before its view.
            Err(Errno::MFILE) if viewing::make_room() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is to be done with a connection.
    fn begin(&self, shard: &Arc<Shard>, tcp: &TcpStream, address: SocketAddr) -> Next {
        let has_calls = match &mut *self.rendezvous() {
            // Calls that cannot be taken in are the driver's matter.
            Some(rendezvous) => !rendezvous
                .take_calls()
                .is_ok_and(|()| !rendezvous.has_calls()),
            None => false,
        };
        if has_calls {
            return Next::Driver;
        }
        let listener = (self.port, self.option_sent);
        match driver::look(shard, tcp, address, listener, self.gids.as_ref()) {
            Ok(stage) => Next::Undecided(stage),
            Err(cause) => Next::Plain(cause),
        }
    }

    /// Answers the announcement of a connection that was accepted; gives the connection back if
    /// there is none.
    //= SHM-067
    pub(crate) fn accept_announced(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        tcp: TcpStream,
        address: SocketAddr,
    ) -> Option<TcpStream> {
        if self.is_inherited() {
            return Some(tcp);
        }
        let mut state = shard.lock();
        let Some(announced) = state.take_announcement(&tcp) else {
            return Some(tcp);
        };
        let socket = Socket::new(tcp, None, shard.spin);
        let policy = &shard.opt_in.policy;
        let source = Source::User(announced.peer.uid);
        let refused = match (
            policy.accepting(self.port, address.ip()),
            shard.memory_limit(),
        ) {
            (Err(rule), _) => Some(Cause::Policy(rule)),
            (Ok(()), limit) => limit.map(Cause::Limit),
        };
        let place = shard.place();
        let admission = || shard.undecided().admit(source, Instant::now());
        let cause = match (refused, place) {
            (None, Some(place)) => match admission() {
                Admission::Admitted(number) => {
                    let arrival = self.coming(address, Some(shard.ticket(number)));
                    state.accept_announced(shard, &Arc::new(socket), announced, (arrival, place));
                    return None;
                }
                Admission::Evict(_) | Admission::Wait(_) => {
                    Cause::Limit(Limit::Undecided(shard.undecided().most()))
                }
            },
            (cause, _) => cause.unwrap_or(Cause::Limit(shard.limit)),
        };
        state.decline_announcement(shard, &announced, &socket.tcp);
        drop(state);
        socket.decided(Carrier::tcp(cause), Role::Server);
        self.arrived(Ok((Arc::new(socket), address)));
        None
    }

    /// Names of this side's device, if shared memory is used.
    pub(crate) fn gids(&self) -> Option<&Gids> {
        self.gids.as_ref()
    }

    /// A connection that was accepted. With a ticket, it is not decided yet what carries it.
    pub(crate) fn coming(self: &Arc<Self>, address: SocketAddr, ticket: Option<Ticket>) -> Arrival {
        let to: Weak<dyn Destination> = Arc::downgrade(self) as _;
        Arrival::new(to, address, ticket)
    }
}

/// What is to be done with a connection that was accepted.
enum Next {
    Plain(Cause),
    /// A client that called may be the one: the driver knows.
    Driver,
    /// The client promises CLC, or is asked to.
    Undecided(Stage),
}

/// An accepted connection for the driver to go on with, and the client's address.
pub(crate) enum HandedOver {
    /// Of a listener; whether its client has called is not known yet.
    New(Weak<Listening>, TcpStream, SocketAddr),
    /// State of the connection so far.
    Undecided(Weak<dyn Destination>, TcpStream, SocketAddr, Stage),
}

/// Where a connection goes once it is decided what carries it.
pub(crate) trait Destination: Send + Sync {
    /// The port at which it was accepted.
    fn port(&self) -> u16;

    /// Whether the listener's SYN-ACKs have SMC's TCP option.
    fn option_sent(&self) -> Result<(), OptionNotSent>;

    /// Hands a connection over; whether it is still wanted.
    fn deliver(&self, accepted: Accepted) -> bool;

    /// The connection has ended before it was decided.
    fn lost(&self) {}

    /// No further connections are accepted while one waits until others are decided.
    fn hold(&self, _held: bool, _shard: &Shard) {}
}

impl Destination for Listening {
    fn port(&self) -> u16 {
        self.port
    }

    fn option_sent(&self) -> Result<(), OptionNotSent> {
        self.option_sent
    }

    fn deliver(&self, accepted: Accepted) -> bool {
        self.arrived(Ok(accepted))
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

/// A connection on its way to a listener, or to whoever has accepted it, which may be gone when it
/// arrives.
pub(crate) struct Arrival {
    /// None once it has arrived.
    to: Option<Weak<dyn Destination>>,
    address: SocketAddr,
    /// Its place among the undecided.
    pub(crate) ticket: Option<Ticket>,
}

impl Arrival {
    pub(crate) fn new(
        to: Weak<dyn Destination>,
        address: SocketAddr,
        ticket: Option<Ticket>,
    ) -> Self {
        let to = Some(to);
        Self {
            to,
            address,
            ticket,
        }
    }

    /// The client's address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands the connection over; whether there still is a listener.
    pub(crate) fn deliver(mut self, socket: Arc<Socket>) -> bool {
        let to = self.to.take().and_then(|to| to.upgrade());
        to.is_some_and(|to| to.deliver((socket, self.address)))
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if let Some(to) = self.to.take().and_then(|to| to.upgrade()) {
            to.lost();
        }
    }
}
