//! The client's way to a stream: TCP, pairing, and CLC where that came to it. It takes no
//! thread but the caller's, who may wait for it or do something else meanwhile.

mod announced;
mod known_servers;
mod over_tcp;
mod pending_channels;
mod pollable;
#[cfg(feature = "tokio")]
mod task;

use announced::{Waiting, announce, notification};
pub(crate) use known_servers::{KnownServers, Server};
pub(crate) use pending_channels::PendingChannels;
pub use pollable::Connecting;
#[cfg(feature = "tokio")]
pub(crate) use task::{Begun, TaskConnecting};

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use smc_proto::id::ConnId;
use smc_transport_ism::shared::pairing::{Call, Outcome, Paired, Peer, Progress};
use smc_view::Role;

use crate::asking::Wish;
use crate::carrier::{Carrier, Cause};
use crate::descriptors;
use crate::discovery::Discovery;
use crate::process::Process;
use crate::shard::{Place, Shard, polled_now, timespec};
use crate::socket::Socket;
use crate::viewing;

/// How long to sleep at TCP before looking whether a timer has decided.
const TICK: Duration = Duration::from_millis(50);
/// Time for the first message of a server's process while others pair with it, too.
const PART: Duration = Duration::from_millis(1);

/// Connects to an address, and finds out what carries the connection.
pub(crate) fn connect(
    shard: &Arc<Shard>,
    socket: Option<OwnedFd>,
    to: SocketAddr,
    timeout: Option<Duration>,
) -> io::Result<Arc<Socket>> {
    // A time without end has none.
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

/// A connection that is being made.
struct Attempt {
    /// The one that began.
    process: Process,
    shard: Arc<Shard>,
    to: SocketAddr,
    waits: WaitMode,
    tcp: Arc<TcpStream>,
    stage: Stage,
    /// What was asked before it connected.
    wish: Wish,
    /// How it is known that the server speaks SMC, if it is not paired.
    known: Option<Discovery>,
    /// Announced to processes that share a listener: another one of them may accept.
    to_workers: bool,
    /// Its number while it may take a channel in.
    pending_channel: Option<u64>,
    /// Readable once it is decided what carries a connection that was announced, for who polls.
    notified: Option<Arc<OwnedFd>>,
    /// The socket goes on not to block.
    keeps_mode: bool,
    /// TCP did not connect at once.
    connects_slowly: bool,
}

enum Stage {
    /// TCP connects; whoever may accept it was called, if it can be.
    Tcp(Option<Call>, Option<Place>),
    /// Who accepted it is to say so.
    Calling(Call, Place),
    /// Channels that the server may have are to be taken in, up to this number.
    Paired(Place, Peer, u64),
    /// The engine finds out what carries it.
    Deciding(Arc<Socket>, ConnId),
    /// Announced over shared memory; `Waiting` once TCP has connected.
    Announced(Arc<Socket>, ConnId, Option<Waiting>),
    /// Declined by this side.
    Declined(Arc<Socket>),
    Done,
}

/// How far a step has come.
enum Step {
    Done(Arc<Socket>),
    /// Nothing to do until something is to be read or written, or this time.
    Wait(Option<Instant>),
}

impl Attempt {
    /// Begins to connect, with a socket that does not block, or with one of its own.
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

    /// Announces or calls, as far as that comes before TCP begins to connect.
    fn prepare(
        shard: &Arc<Shard>,
        given: Option<OwnedFd>,
        to: SocketAddr,
        waits: WaitMode,
    ) -> io::Result<Box<Self>> {
        let keeps_mode = waits == WaitMode::EventLoop;
        let place = shard.place();
        let socket = match given {
            Some(socket) => socket,
            None => socket(to)?,
        };
        let room = place.is_some();
        let wish = shard.asking.before_connect(&socket, to, room);
        let pairs = shard.pairs && shard.memory_limit().is_none();
        let may_pair = pairs && room && wish.permitted.is_ok();
        let known = shard.known_servers.at(to).filter(|_| may_pair);
        // Without what it takes to wait for the answer, nothing is announced: the peer may have
        // it before this side sees that.
        let notified = match (waits, &known) {
            (WaitMode::Descriptor, Some(_)) => Some(notification()?),
            _ => None,
        };
        let waiting = (waits, notified.as_ref());
        let (place, socket) = match known {
            Some(server) => match announce(shard, (to, &server), (place, socket), waiting)? {
                Ok((stage, tcp)) => {
                    return Ok(Box::new(Self {
                        process: Process::current(),
                        shard: shard.clone(),
                        to,
                        waits,
                        tcp,
                        stage,
                        wish,
                        known: None,
                        to_workers: matches!(server, Server::Workers(_)),
                        pending_channel: None,
                        notified,
                        keeps_mode,
                        connects_slowly: false,
                    }));
                }
                Err(rest) => rest,
            },
            None => (place, socket),
        };
        let called = if may_pair {
            let gids = shard.lock().transports.ism.device().gids();
            let call = Call::announce(&socket, to, gids, shard.pairing_timeouts);
            call.ok().flatten()
        } else {
            None
        };
        Ok(Box::new(Self {
            process: Process::current(),
            shard: shard.clone(),
            to,
            waits,
            tcp: Arc::new(TcpStream::from(socket)),
            stage: Stage::Tcp(called, place),
            wish,
            known: None,
            to_workers: false,
            pending_channel: None,
            notified: None,
            keeps_mode,
            connects_slowly: false,
        }))
    }

    /// Has TCP begin to connect. An attempt that is dropped because that fails leaves nothing
    /// announced.
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
                    match (called, place) {
                        (Some(call), Some(place)) => self.stage = Stage::Calling(call, place),
                        (_, place) => match self.negotiate_over_tcp(place, false)? {
                            Ok(stage) => self.stage = stage,
                            Err(cause) => return self.plain(cause),
                        },
                    }
                }
                Stage::Calling(mut call, place) => {
                    let pending_channels = &self.shard.pending_channels;
                    let number = *self
                        .pending_channel
                        .get_or_insert_with(|| pending_channels.begin());
                    let reach =
                        |peer: &_| self.shard.lock().transports.ism.device_mut().reach(peer);
                    match call.poll(&self.tcp, reach, Instant::now()) {
                        Ok(Progress::Pending { until }) => {
                            match call.greets() {
                                Some(peer) => pending_channels.is_with(number, peer),
                                None => self.end_pending_channel(),
                            }
                            self.stage = Stage::Calling(call, place);
                            return Ok(Step::Wait(Some(until)));
                        }
                        Ok(Progress::Done(Outcome::Paired(paired))) => {
                            self.stage = self.paired(&call, place, paired);
                        }
                        Ok(Progress::Done(Outcome::Plain)) | Err(_) => {
                            self.end_pending_channel();
                            match self.negotiate_over_tcp(Some(place), true)? {
                                Ok(stage) => self.stage = stage,
                                Err(cause) => return self.plain(cause),
                            }
                        }
                    }
                }
                Stage::Paired(place, peer, last) => {
                    if self.shard.pending_channels.are_over(last, peer) {
                        self.stage = self.propose(place, Some(peer))?;
                        continue;
                    }
                    self.stage = Stage::Paired(place, peer, last);
                    return Ok(Step::Wait(Some(Instant::now() + PART)));
                }
                Stage::Deciding(socket, conn) => {
                    let decided = self.decided(&socket, conn);
                    if decided.is_err() && self.is_misunderstood(&socket) {
                        self.again()?;
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
                Stage::Declined(socket) => {
                    self.restore_mode()?;
                    return Ok(Step::Done(socket));
                }
                Stage::Done => return Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    /// Goes on with a server that has paired, by a call.
    fn paired(&mut self, call: &Call, place: Place, paired: Paired) -> Stage {
        let (peer, met) = (paired.peer, &self.shard.known_servers);
        if call.is_to_one() {
            met.remember(self.to, peer);
        } else if call.is_to_workers() {
            met.remember_worker(self.to, peer);
        }
        // Without a channel to it, the server declines.
        let _ = self.shard.lock().transports.ism.device_mut().admit(paired);
        self.end_pending_channel();
        Stage::Paired(place, peer, self.shard.pending_channels.last())
    }

    /// Whether TCP alone is left: nothing was called, announced or asked for.
    fn is_plain(&self) -> bool {
        match &self.stage {
            Stage::Tcp(None, _) => !self.shard.asking.may_ask(self.to, &self.wish),
            _ => false,
        }
    }

    /// Gives up the channel of a call that has paired, for a connection that is given up.
    //= SHM-042
    fn abandon(&self, of: Option<Outcome>) {
        if let Some(Outcome::Paired(paired)) = of {
            let mut state = self.shard.lock();
            state.transports.ism.device_mut().abandon(paired);
        }
    }

    fn end_pending_channel(&mut self) {
        if let Some(number) = self.pending_channel.take() {
            self.shard.pending_channels.end(number);
        }
    }

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

    /// Whether the kernel connects no more: [`PollFlags::OUT`] alone if it has without an error.
    fn polls_writable(&self) -> Result<PollFlags, Errno> {
        polled_now(&self.tcp, PollFlags::OUT)
    }

    /// The stream's TCP socket waits, unless its mode is left to the program.
    fn restore_mode(&self) -> io::Result<()> {
        match self.keeps_mode {
            true => Ok(()),
            false => self.tcp.set_nonblocking(false),
        }
    }

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

    /// Lets the engine decide what carries a connection whose server will speak CLC.
    fn propose(&self, place: Place, peer: Option<Peer>) -> io::Result<Stage> {
        let shard = &self.shard;
        let socket = Arc::new(Socket::new(self.tcp.clone(), None, shard.spin));
        socket.status().place = Some(place);
        let mut state = shard.lock();
        let local = self.tcp.local_addr()?.ip();
        let offered = state.transports.client(peer, local, self.to);
        if offered.has_rnics() {
            // The last thing that is said is not said over TCP.
            socket.decision_eventfd()?;
        }
        let options = state.options(local, self.to.ip(), &self.tcp);
        // There is a place for each.
        let conn = state
            .engine
            .connect(shard.now(), options, offered.paths())
            .map_err(io::Error::other)?;
        state.enter(conn, socket.clone(), peer, None);
        Ok(Stage::Deciding(socket, conn))
    }

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

    /// The sockets of a call that was made, whichever answers.
    fn called(&self) -> Vec<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Tcp(Some(call), _) | Stage::Calling(call, _) => call.sockets(),
            Stage::Announced(_, _, Some(waiting)) => {
                waiting.call.as_ref().map_or(Vec::new(), Call::sockets)
            }
            _ => Vec::new(),
        }
    }

    /// Descriptor that is readable once it is decided what carries the connection, if that may
    /// not show at TCP.
    fn decision_event(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Deciding(socket, _) => socket.decision_event(),
            Stage::Announced(..) => self.notified.as_deref().map(AsFd::as_fd),
            _ => None,
        }
    }

    fn polled(&self) -> Vec<PollFd<'_>> {
        // Before there is a connection, messages of processes that were called are not read.
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

/// A socket for a connection to an address, which does not wait.
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

/// Begins to connect.
fn connect_to(socket: impl AsFd, to: SocketAddr) -> io::Result<()> {
    match rustix::net::connect(socket, &to) {
        // A signal does not cut it short.
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// One that is given up leaves nothing behind.
impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // The parent goes on.
            return;
        }
        self.end_pending_channel();
        if let Stage::Calling(call, _) = &mut self.stage {
            let given_up = call.give_up();
            self.abandon(Some(given_up));
        }
        if let Stage::Announced(socket, conn, waiting) = &mut self.stage {
            socket.waiters.clear();
            let call = waiting.as_mut().and_then(|waiting| waiting.call.as_mut());
            let given_up = call.map(Call::give_up);
            let conn = *conn;
            self.withdraw(conn);
            self.abandon(given_up);
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
