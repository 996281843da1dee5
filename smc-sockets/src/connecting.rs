//! The client's way to a stream: TCP, pairing, and CLC where that came to it. It takes no
//! thread but the caller's, who may wait for it or do something else meanwhile.

mod greetings;
mod met;
mod pollable;
#[cfg(feature = "tokio")]
mod task;
mod unpaired;

pub(crate) use greetings::Greetings;
pub(crate) use met::{Met, Server};
pub use pollable::Connecting;
#[cfg(feature = "tokio")]
pub(crate) use task::{Begun, TaskConnecting};

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use smc_proto::id::ConnId;
use smc_transport_ism::shared::pairing::{
    self, Call, Grace, Outcome, Paired, Patience, Peer, Progress,
};

use crate::asking::Wish;
use crate::carrier::{Carrier, Cause};
use crate::descriptors;
use crate::discovery::Discovery;
use crate::process::Process;
use crate::shard::{Announcement, Place, Shard, timespec};
use crate::socket::Socket;

/// How long to sleep at TCP before looking whether a timer has decided.
const TICK: Duration = Duration::from_millis(50);
/// The same while others greet the server, too.
const PART: Duration = Duration::from_millis(1);
/// Time after which a server that was announced a connection is asked to accept it, and between
/// two questions to the kernel where the connection is.
const ASK: Duration = Duration::from_millis(1);
/// Least grace of a server that has answered before.
const GRACE: Duration = Duration::from_millis(500);

/// How long a server that answers others is not asked at all.
const BUSY: Duration = Duration::from_millis(50);

/// Longest wait for the answer to an announcement.
const MOST: Duration = Duration::from_secs(4);

/// Connects to an address, and finds out what carries the connection.
pub(crate) fn connect(
    shard: &Arc<Shard>,
    socket: Option<OwnedFd>,
    to: SocketAddr,
    timeout: Option<Duration>,
) -> io::Result<Arc<Socket>> {
    // A time without end has none.
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut attempt = Attempt::begin(shard, socket, to, Waits::Here)?;
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
            shard.wait_for_handshake(&socket, left);
            continue;
        }
        let mut polled = attempt.polled();
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How the end of an attempt is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waits {
    /// The thread that began it does nothing else.
    Here,
    /// The program polls a descriptor for it.
    Elsewhere,
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
    waits: Waits,
    tcp: TcpStream,
    stage: Stage,
    /// What was asked before it connected.
    wish: Wish,
    /// How it is known that the server speaks SMC, if it is not paired.
    known: Option<Discovery>,
    /// It was announced to processes that share a listener: another one of them may accept.
    to_workers: bool,
    /// Its number while it may take a channel in.
    greeting: Option<u64>,
    /// Readable once it is decided what carries a connection that was announced, for who polls.
    notified: Option<Arc<OwnedFd>>,
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

/// How long a server is waited for that was announced a connection.
struct Waiting {
    /// Whichever process has accepted it may call.
    call: Option<Call>,
    grace: Option<Grace>,
    began: Instant,
    next: Instant,
    has_asked: bool,
    /// Answers to announcements, as last seen.
    answers: u64,
}

/// How far a step has come.
enum Step {
    Done(Arc<Socket>),
    /// Nothing to do until something is to be read or written, or this time.
    Wait(Option<Instant>),
}

impl Attempt {
    /// With a socket that does not block, or with one of its own.
    fn begin(
        shard: &Arc<Shard>,
        given: Option<OwnedFd>,
        to: SocketAddr,
        waits: Waits,
    ) -> io::Result<Self> {
        let place = shard.place();
        let socket = match given {
            Some(socket) => socket,
            None => socket(to)?,
        };
        let room = place.is_some();
        let wish = shard.asking.before_connect(&socket, to, room);
        let gids = shard.lock().transports.ism.device().gids();
        let pairs = shard.pairs && shard.memory_limit().is_none();
        let may_pair = pairs && room && wish.permitted.is_ok();
        let known = shard.met.at(to).filter(|_| may_pair);
        let (place, socket) = match known {
            Some(server) => match announce(shard, (to, &server), (place, socket), waits)? {
                Ok((stage, tcp)) => {
                    connect_to(&tcp, to)?;
                    return Ok(Self {
                        process: Process::current(),
                        shard: shard.clone(),
                        to,
                        waits,
                        tcp,
                        stage,
                        wish,
                        known: None,
                        to_workers: matches!(server, Server::Workers(_)),
                        greeting: None,
                        notified: None,
                    });
                }
                Err(rest) => rest,
            },
            None => (place, socket),
        };
        let called = if may_pair {
            let call = Call::announce(&socket, to, gids, shard.patience);
            call.ok().flatten()
        } else {
            None
        };
        connect_to(&socket, to)?;
        Ok(Self {
            process: Process::current(),
            shard: shard.clone(),
            to,
            waits,
            tcp: TcpStream::from(socket),
            stage: Stage::Tcp(called, place),
            wish,
            known: None,
            to_workers: false,
            greeting: None,
            notified: None,
        })
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
                        (_, place) => match self.unpaired(place, false)? {
                            Ok(stage) => self.stage = stage,
                            Err(cause) => return self.plain(cause),
                        },
                    }
                }
                Stage::Calling(mut call, place) => {
                    let greetings = &self.shard.greetings;
                    let number = *self.greeting.get_or_insert_with(|| greetings.begin());
                    let reach =
                        |peer: &_| self.shard.lock().transports.ism.device_mut().reach(peer);
                    match call.poll(&self.tcp, reach, Instant::now()) {
                        Ok(Progress::Pending { until }) => {
                            match call.greets() {
                                Some(peer) => greetings.is_with(number, peer),
                                None => self.end_greeting(),
                            }
                            self.stage = Stage::Calling(call, place);
                            return Ok(Step::Wait(Some(until)));
                        }
                        Ok(Progress::Done(Outcome::Paired(paired))) => {
                            self.stage = self.paired(&call, place, paired);
                        }
                        Ok(Progress::Done(Outcome::Plain)) | Err(_) => {
                            self.end_greeting();
                            match self.unpaired(Some(place), true)? {
                                Ok(stage) => self.stage = stage,
                                Err(cause) => return self.plain(cause),
                            }
                        }
                    }
                }
                Stage::Paired(place, peer, last) => {
                    if self.shard.greetings.are_over(last, peer) {
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
                        self.tcp.set_nonblocking(false)?;
                        if carrier.is_smc() {
                            self.shard.watch(conn, &socket);
                        }
                        return Ok(Step::Done(socket));
                    }
                    self.stage = Stage::Deciding(socket, conn);
                    return Ok(Step::Wait(Some(Instant::now() + TICK)));
                }
                Stage::Announced(socket, conn, waiting) => {
                    if let Some(step) = self.announced_step(socket, conn, waiting)? {
                        return Ok(step);
                    }
                }
                Stage::Declined(socket) => {
                    self.tcp.set_nonblocking(false)?;
                    return Ok(Step::Done(socket));
                }
                Stage::Done => return Err(io::ErrorKind::NotConnected.into()),
            }
        }
    }

    /// Goes on with a connection that was announced; `None` if it went to another stage.
    fn announced_step(
        &mut self,
        socket: Arc<Socket>,
        conn: ConnId,
        waiting: Option<Waiting>,
    ) -> io::Result<Option<Step>> {
        let now = Instant::now();
        let mut waiting = match waiting {
            Some(waiting) => waiting,
            None if self.is_connected()? => Waiting {
                call: None,
                grace: None,
                began: now,
                next: now + ASK,
                has_asked: false,
                answers: self.shard.lock().answers(),
            },
            None => {
                self.stage = Stage::Announced(socket, conn, None);
                return Ok(Some(Step::Wait(None)));
            }
        };
        let shard = self.shard.clone();
        let mut state = shard.lock();
        match self.waits {
            Waits::Here => state.stay_awake(&shard, shard.now()),
            Waits::Elsewhere => state.settle(&shard, shard.now()),
            // What happens is the runtime's matter, whose loop polls the device.
            #[cfg(feature = "tokio")]
            Waits::Task => {}
        }
        let (carrier, closed) = {
            let status = socket.status();
            (status.carrier, status.closed)
        };
        if carrier.is_some() {
            drop(state);
            socket.status().notified = None;
            self.tcp.set_nonblocking(false)?;
            return Ok(Some(Step::Done(socket)));
        }
        if let Some(reason) = closed {
            let kind = io::ErrorKind::ConnectionReset;
            return Err(io::Error::new(kind, reason.to_string()));
        }
        if waiting.next > now {
            let until = waiting.next;
            drop(state);
            self.stage = Stage::Announced(socket, conn, Some(waiting));
            return Ok(Some(Step::Wait(Some(until))));
        }
        let answers = std::mem::replace(&mut waiting.answers, state.answers());
        if answers != waiting.answers && now < waiting.began + BUSY {
            // The server accepts one after the other.
            drop(state);
            let until = now + ASK;
            waiting.next = until;
            self.stage = Stage::Announced(socket, conn, Some(waiting));
            return Ok(Some(Step::Wait(Some(until))));
        }
        // A server that has answered decides by CLC.
        let waits = !state.is_answered(conn);
        if self.to_workers && waits {
            drop(state);
            return self.await_call(socket, conn, waiting, now);
        }
        // Its program may do something else.
        if !std::mem::replace(&mut waiting.has_asked, true) {
            state.ask_to_accept(conn);
        }
        drop(state);
        if waits && self.is_given_up(&mut waiting, now)? {
            shard.met.forget(self.to);
            shard.lock().withdraw(&shard, conn);
            // The server may have answered meanwhile: it is bound to the Decline.
            let place = socket.status().place.take();
            match self.unpaired(place, true)? {
                Ok(stage) => self.stage = stage,
                Err(cause) => return self.plain(cause).map(Some),
            }
            return Ok(None);
        }
        let until = now + ASK;
        waiting.next = until;
        self.stage = Stage::Announced(socket, conn, Some(waiting));
        Ok(Some(Step::Wait(Some(until))))
    }

    /// Lets whichever process has accepted a connection call, of those that share a listener: it
    /// may be one that the connection was not announced to.
    //= SHM-080
    fn await_call(
        &mut self,
        socket: Arc<Socket>,
        conn: ConnId,
        mut waiting: Waiting,
        now: Instant,
    ) -> io::Result<Option<Step>> {
        let shard = self.shard.clone();
        let begun = waiting.call.is_none();
        let call = match &mut waiting.call {
            Some(call) => Ok(call),
            none => {
                let gids = shard.lock().transports.ism.device().gids();
                // The engine resets what is not decided in its time.
                let patience = Patience {
                    accept: shard.patience.accept.min(MOST),
                    grace: shard.patience.grace.min(MOST),
                    ..shard.patience
                };
                let call = Call::listen(&self.tcp, gids, patience);
                call.map(|call| none.insert(call))
            }
        };
        let number = *self.greeting.get_or_insert_with(|| shard.greetings.begin());
        let progress = call.and_then(|call| {
            let reach = |peer: &_| shard.lock().transports.ism.device_mut().reach(peer);
            let progress = call.poll(&self.tcp, reach, now)?;
            Ok((progress, call.greets()))
        });
        let outcome = match progress {
            Ok((Progress::Pending { until }, greets)) => {
                match greets {
                    Some(peer) => shard.greetings.is_with(number, peer),
                    None => self.end_greeting(),
                }
                if begun {
                    // What calls is polled for, and no memory.
                    self.waits = Waits::Elsewhere;
                    shard.lock().drive_handshake(&shard, conn);
                }
                waiting.next = until;
                self.stage = Stage::Announced(socket, conn, Some(waiting));
                if begun {
                    self.poll_announced()?;
                }
                return Ok(Some(Step::Wait(Some(until))));
            }
            Ok((Progress::Done(outcome), _)) => outcome,
            Err(_) => Outcome::Plain,
        };
        match outcome {
            Outcome::Paired(_) => shard.lock().has_called(&shard, conn),
            Outcome::Plain => shard.lock().withdraw(&shard, conn),
        }
        let place = socket.status().place.take();
        match (outcome, place, &waiting.call) {
            (Outcome::Paired(paired), Some(place), Some(call)) => {
                self.stage = self.paired(call, place, paired);
            }
            (_, place, _) => {
                self.end_greeting();
                shard.met.forget(self.to);
                match self.unpaired(place, true)? {
                    Ok(stage) => self.stage = stage,
                    Err(cause) => return self.plain(cause).map(Some),
                }
            }
        }
        Ok(None)
    }

    /// Goes on with a server that has paired, by a call.
    fn paired(&mut self, call: &Call, place: Place, paired: Paired) -> Stage {
        let (peer, met) = (paired.peer, &self.shard.met);
        if call.is_to_one() {
            met.remember(self.to, peer);
        } else if call.is_to_workers() {
            met.remember_worker(self.to, peer);
        }
        // Without a channel to it, the server declines.
        let _ = self.shard.lock().transports.ism.device_mut().admit(paired);
        self.end_greeting();
        Stage::Paired(place, peer, self.shard.greetings.last())
    }

    /// Whether no answer to an announcement is waited for any more, as the kernel shows.
    fn is_given_up(&self, waiting: &mut Waiting, now: Instant) -> io::Result<bool> {
        let shard = &self.shard;
        // The engine resets what is not decided in its time.
        let patience = Patience {
            accept: shard.patience.accept.min(MOST),
            grace: shard.patience.grace.max(GRACE).min(MOST),
            ..shard.patience
        };
        let grace = match &mut waiting.grace {
            Some(grace) => grace,
            none => none.insert(Grace::begin(patience, now)?),
        };
        grace.is_over(&self.tcp, now)
    }

    /// Makes the descriptor that is polled for a connection that was announced.
    fn poll_announced(&mut self) -> io::Result<()> {
        if let Stage::Announced(socket, ..) = &self.stage {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let notified = Arc::new(descriptors::keep(|| rustix::event::eventfd(0, flags))?);
            socket.status().notified = Some(notified.clone());
            self.notified = Some(notified);
        }
        Ok(())
    }

    /// The connection that was announced, and that TCP has, if the answer comes over shared memory
    /// alone.
    fn announced(&self) -> Option<Arc<Socket>> {
        match &self.stage {
            Stage::Announced(socket, _, Some(waiting)) if waiting.call.is_none() => {
                Some(socket.clone())
            }
            _ => None,
        }
    }

    /// Whether TCP alone is left: nothing was called, announced or asked for.
    fn is_plain(&self) -> bool {
        match &self.stage {
            Stage::Tcp(None, _) => !self.shard.asking.may_ask(self.to, &self.wish),
            _ => false,
        }
    }

    fn end_greeting(&mut self) {
        if let Some(number) = self.greeting.take() {
            self.shard.greetings.end(number);
        }
    }

    fn is_connected(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.tcp, PollFlags::OUT)];
        let now = timespec(Duration::ZERO);
        if rustix::event::poll(&mut polled, Some(&now))? == 0 {
            return Ok(false);
        }
        rustix::net::sockopt::socket_error(&self.tcp)??;
        Ok(true)
    }

    fn plain(&self, cause: Cause) -> io::Result<Step> {
        self.tcp.set_nonblocking(false)?;
        let (tcp, carrier) = (self.tcp.try_clone()?, Some(Carrier::tcp(cause)));
        Ok(Step::Done(Arc::new(Socket::new(
            tcp,
            carrier,
            self.shard.spin,
        ))))
    }

    /// Lets the engine decide what carries a connection whose server will speak CLC.
    fn propose(&self, place: Place, peer: Option<Peer>) -> io::Result<Stage> {
        let shard = &self.shard;
        let socket = Arc::new(Socket::new(self.tcp.try_clone()?, None, shard.spin));
        socket.status().place = Some(place);
        let mut state = shard.lock();
        let local = self.tcp.local_addr()?.ip();
        let offered = state.transports.client(peer, local, self.to);
        if offered.has_rnics() {
            // The last thing that is said is not said over TCP.
            socket.teller()?;
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
        state.settle(&self.shard, self.shard.now());
        if socket.status().carrier.is_none() {
            state.look_at_tcp(conn, self.shard.now());
            state.settle(&self.shard, self.shard.now());
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

    /// What tells that it is decided, if TCP need not.
    fn told(&self) -> Option<BorrowedFd<'_>> {
        match &self.stage {
            Stage::Deciding(socket, _) => socket.told(),
            Stage::Announced(..) => self.notified.as_deref().map(AsFd::as_fd),
            _ => None,
        }
    }

    fn polled(&self) -> Vec<PollFd<'_>> {
        // Before there is a connection, what those say who were called is not looked at.
        let (flags, others) = match self.stage {
            Stage::Tcp(..) | Stage::Announced(_, _, None) => (PollFlags::OUT, Vec::new()),
            _ => (PollFlags::IN, self.called()),
        };
        let others = others.into_iter().chain(self.told());
        let mut polled: Vec<_> = others
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        polled.push(PollFd::from_borrowed_fd(self.tcp.as_fd(), flags));
        polled
    }
}

/// What a connection begins with: a place, and a socket.
type Beginning = (Option<Place>, OwnedFd);

/// Announces a connection to a peer that has accepted at its address before; gives back what it
/// begins with if that cannot be.
//= SHM-066
fn announce(
    shard: &Arc<Shard>,
    (to, server): (SocketAddr, &Server),
    (place, socket): Beginning,
    waits: Waits,
) -> io::Result<Result<(Stage, TcpStream), Beginning>> {
    // A channel that the server has and this side has not taken in yet may be the one that the
    // server offers its memory over.
    //= SHM-013
    let (peers, last) = (server.peers(), shard.greetings.last());
    if !peers
        .iter()
        .all(|peer| shard.greetings.are_over(last, *peer))
    {
        return Ok(Err((place, socket)));
    }
    let cookie = rustix::net::sockopt::socket_cookie(&socket)?;
    let tcp = TcpStream::from(socket);
    let held = Arc::new(Socket::new(tcp.try_clone()?, None, shard.spin));
    held.status().place = place;
    let announcement = Announcement {
        to,
        peers,
        socket: &held,
        cookie,
        is_awaited: waits == Waits::Here,
    };
    let conn = shard.lock().announce(shard, &announcement);
    let Some(conn) = conn else {
        let place = held.status().place.take();
        return Ok(Err((place, tcp.into())));
    };
    // TCP has not begun to connect: no process sees what is set here later than it is needed.
    if matches!(server, Server::Workers(_)) && pairing::mark_announced(&tcp).is_err() {
        shard.lock().withdraw(shard, conn);
        let place = held.status().place.take();
        return Ok(Err((place, tcp.into())));
    }
    Ok(Ok((Stage::Announced(held, conn, None), tcp)))
}

/// A socket for a connection to an address, which does not wait.
fn socket(to: SocketAddr) -> io::Result<OwnedFd> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let make = || rustix::net::socket_with(family, SocketType::STREAM, flags, None);
    Ok(descriptors::keep(make)?)
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
        self.end_greeting();
        if let Stage::Calling(call, _) = &mut self.stage
            && let Outcome::Paired(paired) = call.give_up()
        {
            //= SHM-042
            self.shard
                .lock()
                .transports
                .ism
                .device_mut()
                .abandon(paired);
        }
        if let Stage::Announced(_, conn, waiting) = &mut self.stage {
            let call = waiting.as_mut().and_then(|waiting| waiting.call.as_mut());
            let mut state = self.shard.lock();
            state.withdraw(&self.shard, *conn);
            if let Some(Outcome::Paired(paired)) = call.map(Call::give_up) {
                //= SHM-042
                state.transports.ism.device_mut().abandon(paired);
            }
        }
        if let Stage::Deciding(socket, conn) = &self.stage {
            let mut state = self.shard.lock();
            let now = self.shard.now();
            if let Some(mut conn) = state.engine.conn(*conn) {
                conn.abort(now);
            }
            state.settle(&self.shard, now);
            drop(state);
            let _ = rustix::net::connect_unspec(&socket.tcp);
        }
    }
}
