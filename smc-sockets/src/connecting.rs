//! How a client connects: TCP, then pairing over shared memory or CLC over TCP, then the stream.
//! No thread but the caller's is needed, which may wait or do something else meanwhile: the driver goes
//! on with CLC over TCP.
//!
//! ```text
//!   known server ──► Announced ── answers ──────────────────────► Done
//!                        ├─ another worker calls ──► Paired
//!                        └─ no answer ─────────────► over_tcp
//!
//!   other server ──► Tcp ──► Calling ──► Paired ──► Deciding ───► Done
//!                     └─────────┴─ does not pair ──► over_tcp ──► Deciding, Decided, or TCP
//! ```

mod announced;
mod known_servers;
mod over_tcp;
mod pending_channels;
mod pollable;
#[cfg(feature = "tokio")]
mod task;
mod unattended;

use announced::{Waiting, announce, notification};
pub(crate) use known_servers::{KnownServers, Server};
pub(crate) use pending_channels::PendingChannels;
pub use pollable::Connecting;
#[cfg(feature = "tokio")]
pub(crate) use task::{Begun, TaskConnecting};
pub(crate) use unattended::Unattended;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use smc_proto::id::ConnId;
use smc_transport_ism::shared::pairing::{self, Call, Outcome, Paired, Peer, Progress};
use smc_view::Role;

use crate::carrier::{Carrier, Cause};
use crate::descriptors;
use crate::discovery::Discovery;
use crate::opt_in::ClientOptIn;
use crate::process::Process;
use crate::shard::{Place, Shard, polled_now, timespec};
use crate::socket::Socket;
use crate::stack::Stack;
use crate::stream::SmcStream;
use crate::system;
use crate::viewing;

/// Time between two checks whether a timer of the engine has decided.
const TICK: Duration = Duration::from_millis(50);
/// Time between two checks whether other attempts have received the server's channels.
const CHANNELS_TICK: Duration = Duration::from_millis(1);

/// Connects to an address with this stack, and waits until SMC or TCP is chosen.
pub(crate) fn connect(
    stack: &Stack,
    socket: Option<OwnedFd>,
    to: SocketAddr,
    timeout: Option<Duration>,
) -> io::Result<SmcStream> {
    let to = destination(socket.as_ref(), to);
    let stack = stack.toward(to)?;
    let socket = wait_for_socket(stack.shard(), socket, to, timeout)?;
    Ok(SmcStream::new(stack, socket))
}

/// The address that a connection to `to` reaches, from a socket that is given or from a new one.
fn destination(socket: Option<&OwnedFd>, to: SocketAddr) -> SocketAddr {
    match socket {
        Some(socket) => pairing::destination(socket, to),
        None => pairing::unbound_destination(to),
    }
}

/// Connects to an address, and waits until SMC or TCP is chosen.
fn wait_for_socket(
    shard: &Arc<Shard>,
    socket: Option<OwnedFd>,
    to: SocketAddr,
    timeout: Option<Duration>,
) -> io::Result<Arc<Socket>> {
    // A timeout beyond the clock's range is none.
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut attempt = Attempt::begin(shard, socket, to, WaitMode::Thread)?;
    loop {
        let until = match attempt.step()? {
            Step::Done(socket) => return Ok(socket),
            Step::Wait(until) => until,
        };
        let begin = Instant::now();
        if end.is_some_and(|end| end <= begin) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let until = until.into_iter().chain(end).min();
        let left = until.map(|until| timespec(until.saturating_duration_since(begin)));
        if let Some(socket) = attempt.announced() {
            let left = until.map(|until| until.saturating_duration_since(begin));
            // A signal does not cut it short.
            let _ = shard.wait_for_handshake(&socket, left);
            continue;
        }
        let mut polled = attempt.polled();
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What waits for the end of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WaitMode {
    /// The thread that began it, which polls the device and does nothing else.
    Thread,
    /// A program that polls a descriptor; the driver polls the device.
    Descriptor,
    /// An event loop of this crate, which polls the device, as long as the answer is expected in
    /// memory.
    EventLoop,
    /// A task of a runtime that polls the device.
    #[cfg(feature = "tokio")]
    Task,
}

/// An attempt to connect.
struct Attempt {
    /// The process that began it.
    process: Process,
    shard: Arc<Shard>,
    /// Where TCP connects to: never the unspecified address, unless its socket is bound to an
    /// interface.
    to: SocketAddr,
    waits: WaitMode,
    tcp: Arc<TcpStream>,
    stage: Stage,
    /// Whether the SYN had the TCP option, by the policy.
    client_opt_in: ClientOptIn,
    /// How the server is known to speak SMC, if CLC goes over TCP.
    discovery: Option<Discovery>,
    /// Whether it was announced to processes that share a listener: another one may accept.
    to_workers: bool,
    /// Number of the attempt among the [`PendingChannels`], while it may receive a channel.
    pending_channel: Option<u64>,
    /// Eventfd that is readable once SMC or TCP is chosen for a connection that was announced, if
    /// a program polls for that.
    notified: Option<Arc<OwnedFd>>,
    /// Whether the socket stays nonblocking.
    keeps_mode: bool,
    /// Whether TCP did not connect at once.
    connects_slowly: bool,
}

enum Stage {
    /// TCP connects. The processes that may accept were called, if that can be.
    Tcp(Option<Call>, Option<Place>),
    /// The process that has accepted is to answer the call.
    Calling(Call, Place),
    /// The server has answered. Pending channels of it are to be received, up to this number.
    Paired(Place, Peer, u64),
    /// The engine exchanges CLC messages.
    Deciding(Arc<Socket>, ConnId),
    /// Announced over shared memory; `Waiting` once TCP has connected.
    Announced(Arc<Socket>, ConnId, Option<Waiting>),
    /// Decided, and the program has not called since.
    Decided(Arc<Socket>),
    /// Failed, and the program has not called since.
    Failed(io::Error),
    /// The stream has the connection, or the attempt has failed.
    Done,
}

/// Outcome of [`Attempt::step`].
enum Step {
    /// SMC or TCP is chosen.
    Done(Arc<Socket>),
    /// Nothing is to be done before a descriptor is ready, or this time.
    Wait(Option<Instant>),
}

impl Attempt {
    /// Begins to connect, with a nonblocking socket that is given, or with a new one.
    fn begin(
        shard: &Arc<Shard>,
        given: Option<OwnedFd>,
        to: SocketAddr,
        waits: WaitMode,
    ) -> io::Result<Box<Self>> {
        let attempt = Self::prepare(shard, given, to, waits)?;
        attempt.connect()?;
        Ok(attempt)
    }

    /// Announces the connection or calls the processes at the address, as either comes before TCP
    /// begins to connect.
    fn prepare(
        shard: &Arc<Shard>,
        given: Option<OwnedFd>,
        to: SocketAddr,
        waits: WaitMode,
    ) -> io::Result<Box<Self>> {
        let place = shard.place();
        let socket = match given {
            Some(socket) => socket,
            None => socket(to)?,
        };
        let room = place.is_some();
        let client_opt_in = shard.opt_in.before_connect(&socket, to, room);
        let pairs = shard.pairs && shard.memory_limit().is_none();
        let may_pair = pairs && room && client_opt_in.permitted.is_ok();
        let known = shard.known_servers.get(to).filter(|_| may_pair);
        // The eventfd comes first: once announced, the connection may be SMC for the peer, although
        // this side could not wait for that.
        let notified = match (waits, &known) {
            (WaitMode::Descriptor, Some(_)) => Some(notification()?),
            _ => None,
        };
        let beginning = (place, socket);
        let announced = match &known {
            Some(server) => announce(shard, (to, server), beginning, (waits, notified.as_ref()))?,
            None => Err(beginning),
        };
        let is_announced = announced.is_ok();
        let (stage, tcp) = match announced {
            Ok(announced) => announced,
            Err((place, socket)) => {
                let call = may_pair.then(|| call(shard, &socket, to)).flatten();
                (Stage::Tcp(call, place), Arc::new(TcpStream::from(socket)))
            }
        };
        Ok(Box::new(Self {
            process: Process::current(),
            shard: shard.clone(),
            to,
            waits,
            tcp,
            stage,
            client_opt_in,
            discovery: None,
            to_workers: is_announced && matches!(known, Some(Server::Workers(_))),
            pending_channel: None,
            notified: notified.filter(|_| is_announced),
            keeps_mode: waits == WaitMode::EventLoop,
            connects_slowly: false,
        }))
    }

    /// Has TCP begin to connect. If that fails, dropping the attempt takes the announcement back.
    fn connect(&self) -> io::Result<()> {
        connect_to(&self.tcp, self.to)
    }

    /// Goes on as far as possible without waiting.
    fn step(&mut self) -> io::Result<Step> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::Tcp(called, place) => {
                    if !self.is_connected()? {
                        self.stage = Stage::Tcp(called, place);
                        return Ok(Step::Wait(None));
                    }
                    self.unlist();
                    match (called, place) {
                        (Some(call), Some(place)) => self.stage = Stage::Calling(call, place),
                        (_, place) => {
                            if let Some(step) = self.negotiate_over_tcp(place, false)? {
                                return Ok(step);
                            }
                        }
                    }
                }
                Stage::Calling(call, place) => {
                    if let Some(step) = self.calling_step(call, place)? {
                        return Ok(step);
                    }
                }
                Stage::Paired(place, peer, last) => {
                    if self.shard.pending_channels.have_ended(last, peer) {
                        self.stage = self.propose(place, Some(peer))?;
                        continue;
                    }
                    self.stage = Stage::Paired(place, peer, last);
                    return Ok(Step::Wait(Some(Instant::now() + CHANNELS_TICK)));
                }
                Stage::Deciding(socket, conn) => {
                    let decided = self.decided(&socket, conn);
                    if decided.is_err() && self.has_misread_proposal(&socket) {
                        self.reconnect_without_option()?;
                        continue;
                    }
                    if let Some(carrier) = decided? {
                        self.restore_mode()?;
                        if carrier.is_smc() {
                            self.shard.watch(conn, &socket);
                        }
                        return Ok(Step::Done(socket));
                    }
                    self.stage = Stage::Deciding(socket, conn);
                    return Ok(Step::Wait(Some(Instant::now() + TICK)));
                }
                Stage::Announced(socket, conn, waiting) => {
                    let step = self.announced_step(socket, conn, waiting);
                    if step.is_err() {
                        self.withdraw(conn);
                    }
                    if let Some(step) = step? {
                        return Ok(step);
                    }
                }
                Stage::Decided(socket) => {
                    self.restore_mode()?;
                    return Ok(Step::Done(socket));
                }
                Stage::Failed(error) => return Err(error),
                Stage::Done => return Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    /// Goes on with a call; `None` if it went to another stage.
    fn calling_step(&mut self, mut call: Call, place: Place) -> io::Result<Option<Step>> {
        match self.poll_call(&mut call, Instant::now()) {
            Ok(Progress::Pending { until }) => {
                self.stage = Stage::Calling(call, place);
                Ok(Some(Step::Wait(Some(until))))
            }
            Ok(Progress::Done(Outcome::Paired(paired))) => {
                self.stage = self.paired(&call, place, paired);
                Ok(None)
            }
            Ok(Progress::Done(Outcome::Plain)) | Err(_) => {
                self.end_pending_channel();
                self.negotiate_over_tcp(Some(place), true)
            }
        }
    }

    /// Polls a call, and keeps the number of its channel while it may receive one.
    fn poll_call(&mut self, call: &mut Call, now: Instant) -> io::Result<Progress> {
        let shard = self.shard.clone();
        let channels = &shard.pending_channels;
        let number = *self.pending_channel.get_or_insert_with(|| channels.begin());
        let reach = |peer: &_| shard.lock().transports.ism.device_mut().reach(peer);
        let progress = call.poll(&self.tcp, reach, now)?;
        if matches!(progress, Progress::Pending { .. }) {
            match call.greets() {
                Some(peer) => channels.set_peer(number, peer),
                None => self.end_pending_channel(),
            }
        }
        Ok(progress)
    }

    /// Goes on with a server that has answered a call: remembers it, and admits its channel.
    fn paired(&mut self, call: &Call, place: Place, paired: Paired) -> Stage {
        let (peer, servers) = (paired.peer, &self.shard.known_servers);
        if call.is_to_one() {
            servers.remember(self.to, peer);
        } else if call.is_to_workers() {
            servers.remember_worker(self.to, peer);
        }
        // Without a channel to it, the server declines.
        let _ = self.shard.lock().transports.ism.device_mut().admit(paired);
        self.end_pending_channel();
        Stage::Paired(place, peer, self.shard.pending_channels.last())
    }

    /// Whether the connection will be TCP: nothing was called or announced, and the SYN had no TCP
    /// option.
    fn is_plain(&self) -> bool {
        match &self.stage {
            Stage::Tcp(None, _) => !self
                .shard
                .opt_in
                .may_negotiate(self.to, &self.client_opt_in),
            _ => false,
        }
    }

    /// Drops the channel of a call that has paired, as its connection is dropped.
    //= SHM-042
    fn abandon_channel(&self, outcome: Option<Outcome>) {
        if let Some(Outcome::Paired(paired)) = outcome {
            let mut state = self.shard.lock();
            state.transports.ism.device_mut().abandon(paired);
        }
    }

    /// Ends its number among the [`PendingChannels`], if it has one.
    fn end_pending_channel(&mut self) {
        if let Some(number) = self.pending_channel.take() {
            self.shard.pending_channels.end(number);
        }
    }

    /// Whether TCP has connected; fails with the error of a connect that has failed.
    fn is_connected(&self) -> io::Result<bool> {
        let events = self.polls_writable()?;
        if events.is_empty() {
            return Ok(false);
        }
        if events != PollFlags::OUT {
            rustix::net::sockopt::socket_error(&self.tcp)??;
        }
        Ok(true)
    }

    /// Events of the TCP socket: none while the kernel connects, [`PollFlags::OUT`] alone once it has,
    /// others as well if it failed.
    fn polls_writable(&self) -> Result<PollFlags, Errno> {
        polled_now(&self.tcp, PollFlags::OUT)
    }

    /// Makes the stream's TCP socket blocking, unless the program sets its mode.
    fn restore_mode(&self) -> io::Result<()> {
        match self.keeps_mode {
            true => Ok(()),
            false => self.tcp.set_nonblocking(false),
        }
    }

    /// Ends with a TCP connection, for this cause.
    fn plain(&self, cause: Cause) -> io::Result<Step> {
        self.restore_mode()?;
        let (tcp, carrier) = (self.tcp.clone(), Some(Carrier::tcp(cause)));
        Ok(Step::Done(Arc::new(Socket::in_role(
            tcp,
            carrier,
            self.shard.spin,
            Role::Client,
        ))))
    }

    /// Has the engine propose SMC to the server: over shared memory to a peer, over TCP to others.
    fn propose(&self, place: Place, peer: Option<Peer>) -> io::Result<Stage> {
        let shard = &self.shard;
        let socket = Arc::new(Socket::new(self.tcp.clone(), None, shard.spin));
        socket.status().place = Some(place);
        let mut state = shard.lock();
        let local = self.tcp.local_addr()?.ip();
        let offered = state.transports.client(peer, local, self.to);
        if offered.has_rnics() {
            // The message that decides, CONFIRM LINK, comes over an RNIC.
            socket.decision_eventfd()?;
        }
        let options = state.options(local, self.to.ip(), &self.tcp);
        // The engine has room for each connection with a place.
        let conn = state
            .engine
            .connect(shard.now(), options, offered.paths())
            .map_err(io::Error::other)?;
        state.enter(conn, socket.clone(), peer, None);
        if peer.is_none() && self.may_be_unattended() {
            shard.watch(conn, &socket);
        }
        Ok(Stage::Deciding(socket, conn))
    }

    /// What carries the connection, if the engine has decided.
    ///
    /// # Errors
    /// The engine has reset the connection.
    fn decided(&self, socket: &Socket, conn: ConnId) -> io::Result<Option<Carrier>> {
        let mut state = self.shard.lock();
        state.drain_and_park(&self.shard, self.shard.now());
        if socket.status().carrier.is_none() {
            state.peek_tcp(conn, self.shard.now());
            state.drain_and_park(&self.shard, self.shard.now());
        }
        let status = socket.status();
        match (status.carrier, status.closed) {
            (None, Some(reason)) => {
                let kind = io::ErrorKind::ConnectionReset;
                Err(io::Error::new(kind, reason.to_string()))
            }
            (carrier, _) => Ok(carrier),
        }
    }

    /// In a child made by `fork`: closes this process's copy of the TCP socket, which the parent's engine
    /// may have as well, unless a stream has it.
    //= SHM-061
    fn close_inherited(&self) {
        if !matches!(self.stage, Stage::Done) {
            system::replace_inherited(&self.tcp, &self.shard.poller);
        }
    }

    /// The sockets of a call, at any of which the answer may come.
    fn called(&self) -> Vec<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Tcp(Some(call), _) | Stage::Calling(call, _) => call.sockets(),
            Stage::Announced(_, _, Some(waiting)) => {
                waiting.call.as_ref().map_or(Vec::new(), Call::sockets)
            }
            _ => Vec::new(),
        }
    }

    /// The eventfd that is readable once SMC or TCP is chosen, if the TCP socket may not show that.
    fn decision_event(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Deciding(socket, _) => socket.decision_event(),
            Stage::Announced(..) => self.notified.as_deref().map(AsFd::as_fd),
            _ => None,
        }
    }

    /// The descriptors of which one becomes ready when [`Self::step`] is to be called.
    fn polled(&self) -> Vec<PollFd<'_>> {
        // Until TCP has connected, answers to calls are not read.
        let (flags, others) = match self.stage {
            Stage::Tcp(..) | Stage::Announced(_, _, None) => (PollFlags::OUT, Vec::new()),
            _ => (PollFlags::IN, self.called()),
        };
        let others = others.into_iter().chain(self.decision_event());
        let mut polled: Vec<_> = others
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        polled.push(PollFd::from_borrowed_fd(self.tcp.as_fd(), flags));
        polled
    }
}

/// A nonblocking TCP socket for a connection to an address.
pub(crate) fn socket(to: SocketAddr) -> io::Result<OwnedFd> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let make = || rustix::net::socket_with(family, SocketType::STREAM, flags, None);
    match descriptors::keep(make) {
        // The program's connections come before its view.
        Err(Errno::MFILE) if viewing::make_room() => Ok(descriptors::keep(make)?),
        made => Ok(made?),
    }
}

/// Calls the processes that listen at an address, if they can be called.
fn call(shard: &Shard, socket: &OwnedFd, to: SocketAddr) -> Option<Call> {
    let gids = shard.lock().transports.ism.device().gids();
    let call = Call::announce(socket, to, gids, shard.pairing_timeouts);
    call.ok().flatten()
}

/// Has a nonblocking socket begin to connect.
fn connect_to(socket: impl AsFd, to: SocketAddr) -> io::Result<()> {
    match rustix::net::connect(socket, &to) {
        // A signal does not cut it short.
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes back what was called, announced or proposed.
impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // The attempt is the parent's.
            return self.close_inherited();
        }
        self.unlist();
        self.end_pending_channel();
        if let Stage::Calling(call, _) = &mut self.stage {
            let given_up = call.give_up();
            self.abandon_channel(Some(given_up));
        }
        if let Stage::Announced(socket, conn, waiting) = &mut self.stage {
            socket.waiters.clear();
            let call = waiting.as_mut().and_then(|waiting| waiting.call.as_mut());
            let given_up = call.map(Call::give_up);
            let conn = *conn;
            self.withdraw(conn);
            self.abandon_channel(given_up);
        }
        if let Stage::Deciding(socket, conn) = &self.stage {
            let mut state = self.shard.lock();
            let now = self.shard.now();
            if let Some(mut conn) = state.engine.conn(*conn) {
                conn.abort(now);
            }
            state.drain_and_park(&self.shard, now);
            drop(state);
            let _ = rustix::net::connect_unspec(&socket.tcp);
        }
    }
}
