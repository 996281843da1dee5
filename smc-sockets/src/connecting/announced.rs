//! Connections that are announced over shared memory, to servers that were met before.
//!
//! ```text
//!   announce, connect ──► answered: CLC over shared memory decides
//!        │ 1 ms           ▲   the server answers others: wait on, for 50 ms at most
//!        ├─ one process: ring once, so that it accepts; then ask the kernel
//!        └─ workers: open the name, at which one that was not met may call
//!   no answer will come ──► decline; TCP
//! ```

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use smc_proto::id::ConnId;
use smc_transport_ism::shared::pairing::{self, Call, Grace, Outcome, PairingTimeouts, Progress};

use super::{Attempt, Server, Stage, Step, WaitMode};
use crate::descriptors;
use crate::shard::{Announcement, Place, Shard};
use crate::socket::Socket;

/// Time after which a server that was announced a connection is asked to accept it, and between
/// two questions to the kernel where the connection is.
const ASK: Duration = Duration::from_millis(1);
/// Least grace of a server that has answered before.
const GRACE: Duration = Duration::from_millis(500);

/// How long a server that answers others is not asked at all.
const BUSY: Duration = Duration::from_millis(50);

/// Longest wait for the answer to an announcement.
const MOST: Duration = Duration::from_secs(4);

/// How long a server is waited for that was announced a connection.
pub(super) struct Waiting {
    /// Whichever process has accepted it may call.
    pub(super) call: Option<Call>,
    grace: Option<Grace>,
    began: Instant,
    next: Instant,
    /// The kernel has said that TCP has connected.
    is_connected: bool,
    has_asked: bool,
    /// Answers to announcements, as last seen.
    answers: u64,
}

impl Attempt {
    /// Goes on with a connection that was announced; `None` if it went to another stage.
    pub(super) fn announced_step(
        &mut self,
        socket: Arc<Socket>,
        conn: ConnId,
        waiting: Option<Waiting>,
    ) -> io::Result<Option<Step>> {
        let now = Instant::now();
        let mut waiting = match waiting {
            Some(waiting) => waiting,
            None if self.has_connected(&socket, conn)? => self.begin_waiting(now, true),
            None => return Ok(Some(Step::Wait(None))),
        };
        let shard = self.shard.clone();
        let mut state = shard.lock();
        match self.waits {
            WaitMode::Thread => state.stay_awake(&shard, shard.now()),
            WaitMode::Descriptor => state.drain_and_park(&shard, shard.now()),
            // The loop polls the device.
            WaitMode::EventLoop => {}
            // The runtime's loop polls the device.
            #[cfg(feature = "tokio")]
            WaitMode::Task => {}
        }
        let (carrier, closed) = {
            let status = socket.status();
            (status.carrier, status.closed)
        };
        if let Some(carrier) = carrier {
            drop(state);
            socket.status().notified = None;
            if !carrier.is_smc() {
                self.unmark();
            }
            self.restore_mode()?;
            return Ok(Some(Step::Done(socket)));
        }
        if let Some(reason) = closed {
            let kind = io::ErrorKind::ConnectionReset;
            return Err(io::Error::new(kind, reason.to_string()));
        }
        // What calls has its own times, and is looked at whenever it has sent something.
        let is_called = waiting.call.is_some();
        if waiting.next > now && !is_called {
            let until = waiting.next;
            drop(state);
            self.stage = Stage::Announced(socket, conn, Some(waiting));
            return Ok(Some(Step::Wait(Some(until))));
        }
        if !waiting.is_connected {
            drop(state);
            if !self.has_connected(&socket, conn)? {
                return Ok(Some(Step::Wait(None)));
            }
            waiting.is_connected = true;
            self.stage = Stage::Announced(socket, conn, Some(waiting));
            return Ok(None);
        }
        let answers = std::mem::replace(&mut waiting.answers, state.answers());
        if answers != waiting.answers && now < waiting.began + BUSY && !is_called {
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
        // The server may answer meanwhile: then CLC decides.
        if waits && self.is_given_up(&mut waiting, now)? && self.withdraw_unanswered(conn) {
            shard.known_servers.forget(self.to);
            let place = socket.status().place.take();
            match self.negotiate_over_tcp(place, true)? {
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

    /// Takes an announcement back, and with it what shows processes that they may call. Of one that
    /// was taken back before nothing is left to do.
    pub(super) fn withdraw(&self, conn: ConnId) {
        self.shard.lock().withdraw(&self.shard, conn);
        self.unmark();
    }

    /// Does as [`Self::withdraw`], unless the server has answered: CLC decides then. Returns whether
    /// the announcement was taken back.
    fn withdraw_unanswered(&self, conn: ConnId) -> bool {
        let is_withdrawn = self.shard.lock().withdraw_unanswered(&self.shard, conn);
        if is_withdrawn {
            self.unmark();
        }
        is_withdrawn
    }

    /// Shows processes that share a listener that the connection takes no calls any more.
    fn unmark(&self) {
        if self.to_workers {
            // If it fails, a process that would call finds no name.
            let _ = pairing::unmark_client(&self.tcp);
        }
    }

    /// Whether TCP has connected. If not, the kernel says when it has, and the stage is that of an
    /// attempt that waits for it; also of one that fails, which takes the announcement back.
    fn has_connected(&mut self, socket: &Arc<Socket>, conn: ConnId) -> io::Result<bool> {
        let has_connected = self.is_connected();
        self.connects_slowly |= matches!(has_connected, Ok(false));
        if !matches!(has_connected, Ok(true)) {
            self.stage = Stage::Announced(socket.clone(), conn, None);
        }
        has_connected
    }

    fn begin_waiting(&self, now: Instant, is_connected: bool) -> Waiting {
        Waiting {
            is_connected,
            call: None,
            grace: None,
            began: now,
            next: now + ASK,
            has_asked: false,
            answers: self.shard.lock().answers(),
        }
    }

    /// Whether nothing is waited for but the answer over shared memory, and a time. Whether TCP
    /// connects is left to [`Self::step`], unless the answer comes first: on this host the kernel
    /// has connected already, but for a listener whose queue is full.
    pub(super) fn awaits_memory(&mut self) -> bool {
        let is_new = matches!(self.stage, Stage::Announced(_, _, None));
        // An error of TCP is left to `step`.
        if is_new && (!self.connects_slowly || self.polls_writable() == Ok(PollFlags::OUT)) {
            let new = self.begin_waiting(Instant::now(), false);
            if let Stage::Announced(_, _, waiting) = &mut self.stage {
                *waiting = Some(new);
            }
        }
        self.announced().is_some()
    }

    /// Whether it was announced, and nothing has become of that yet.
    pub(super) fn is_announced(&self) -> bool {
        matches!(self.stage, Stage::Announced(..))
    }

    /// When [`Self::step`] is to be called while the answer is waited for.
    pub(super) fn next_step_at(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Announced(_, _, Some(waiting)) => Some(waiting.next),
            _ => None,
        }
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
                let pairing_timeouts = PairingTimeouts {
                    accept: shard.pairing_timeouts.accept.min(MOST),
                    grace: shard.pairing_timeouts.grace.min(MOST),
                    ..shard.pairing_timeouts
                };
                let notifies = self.notify(&socket);
                let call = notifies.and_then(|()| Call::listen(&self.tcp, gids, pairing_timeouts));
                call.map(|call| none.insert(call))
            }
        };
        let number = *self
            .pending_channel
            .get_or_insert_with(|| shard.pending_channels.begin());
        let progress = call.and_then(|call| {
            let reach = |peer: &_| shard.lock().transports.ism.device_mut().reach(peer);
            let progress = call.poll(&self.tcp, reach, now)?;
            Ok((progress, call.greets()))
        });
        let outcome = match progress {
            Ok((Progress::Pending { until }, greets)) => {
                match greets {
                    Some(peer) => shard.pending_channels.is_with(number, peer),
                    None => self.end_pending_channel(),
                }
                if begun {
                    // What calls is polled for, and no memory.
                    self.waits = WaitMode::Descriptor;
                    shard.lock().drive_handshake(&shard, conn);
                }
                waiting.next = until;
                self.stage = Stage::Announced(socket, conn, Some(waiting));
                return Ok(Some(Step::Wait(Some(until))));
            }
            Ok((Progress::Done(outcome), _)) => outcome,
            Err(_) => Outcome::Plain,
        };
        let is_over = match outcome {
            Outcome::Paired(_) => shard.lock().withdraw_for_call(&shard, conn),
            Outcome::Plain => self.withdraw_unanswered(conn),
        };
        if !is_over {
            // A worker has answered meanwhile: CLC decides.
            self.end_pending_channel();
            self.abandon(Some(outcome));
            self.stage = Stage::Announced(socket, conn, Some(waiting));
            return Ok(None);
        }
        let place = socket.status().place.take();
        match (outcome, place, &waiting.call) {
            (Outcome::Paired(paired), Some(place), Some(call)) => {
                self.stage = self.paired(call, place, paired);
            }
            (_, place, _) => {
                self.end_pending_channel();
                shard.known_servers.forget(self.to);
                match self.negotiate_over_tcp(place, true)? {
                    Ok(stage) => self.stage = stage,
                    Err(cause) => return self.plain(cause).map(Some),
                }
            }
        }
        Ok(None)
    }

    /// Whether no answer to an announcement is waited for any more, as the kernel shows.
    fn is_given_up(&self, waiting: &mut Waiting, now: Instant) -> io::Result<bool> {
        let shard = &self.shard;
        // The engine resets what is not decided in its time.
        let pairing_timeouts = PairingTimeouts {
            accept: shard.pairing_timeouts.accept.min(MOST),
            grace: shard.pairing_timeouts.grace.max(GRACE).min(MOST),
            ..shard.pairing_timeouts
        };
        let grace = match &mut waiting.grace {
            Some(grace) => grace,
            none => none.insert(Grace::begin(pairing_timeouts, now)?),
        };
        grace.is_over(&self.tcp, now)
    }

    /// Makes the descriptor that is polled for a connection that was announced.
    pub(super) fn poll_announced(&mut self) -> io::Result<()> {
        match &self.stage {
            Stage::Announced(socket, ..) => self.notify(&socket.clone()),
            _ => Ok(()),
        }
    }

    /// No thread polls for the answer any more: the driver does.
    pub(super) fn leave_to_driver(&mut self) {
        if self.waits != WaitMode::Thread {
            return;
        }
        self.waits = WaitMode::Descriptor;
        if let Stage::Announced(_, conn, _) = &self.stage {
            self.shard.lock().drive_handshake(&self.shard, *conn);
        }
    }

    fn notify(&mut self, socket: &Socket) -> io::Result<()> {
        if self.notified.is_none() {
            let notified = notification()?;
            let mut status = socket.status();
            if status.is_decided() {
                descriptors::raise(&notified);
            }
            status.notified = Some(notified.clone());
            drop(status);
            self.notified = Some(notified);
        }
        Ok(())
    }

    /// The connection that was announced, and that TCP has, if the answer comes over shared memory
    /// alone.
    pub(super) fn announced(&self) -> Option<Arc<Socket>> {
        match &self.stage {
            Stage::Announced(socket, _, Some(waiting)) if waiting.call.is_none() => {
                Some(socket.clone())
            }
            _ => None,
        }
    }
}

/// A descriptor that is readable once it is decided what carries a connection.
pub(super) fn notification() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(descriptors::eventfd(0)?))
}

/// The TCP socket of a connection that the endpoint has forgotten; another thread may still hold
/// the connection for a moment.
fn sole(tcp: Arc<TcpStream>, held: Arc<Socket>) -> io::Result<OwnedFd> {
    drop(held);
    let tcp = Arc::try_unwrap(tcp).or_else(|tcp| tcp.try_clone())?;
    Ok(tcp.into())
}

/// What a connection begins with: a place, and a socket.
type Beginning = (Option<Place>, OwnedFd);

/// Announces a connection to a peer that has accepted at its address before; gives back what it
/// begins with if that cannot be.
//= SHM-066
pub(super) fn announce(
    shard: &Arc<Shard>,
    (to, server): (SocketAddr, &Server),
    (place, socket): Beginning,
    (waits, notified): (WaitMode, Option<&Arc<OwnedFd>>),
) -> io::Result<Result<(Stage, Arc<TcpStream>), Beginning>> {
    // A channel that the server has and this side has not taken in yet may be the one that the
    // server offers its memory over.
    //= SHM-013
    let (peers, last) = (server.peers(), shard.pending_channels.last());
    if !peers
        .iter()
        .all(|peer| shard.pending_channels.are_over(last, *peer))
    {
        return Ok(Err((place, socket)));
    }
    let cookie = rustix::net::sockopt::socket_cookie(&socket)?;
    let tcp = Arc::new(TcpStream::from(socket));
    let held = Arc::new(Socket::new(tcp.clone(), None, shard.spin));
    held.status().place = place;
    held.status().notified = notified.cloned();
    let announcement = Announcement {
        to,
        peers,
        socket: &held,
        cookie,
        is_awaited: waits == WaitMode::Thread,
    };
    let conn = shard.lock().announce(shard, &announcement);
    let Some(conn) = conn else {
        let place = held.status().place.take();
        return Ok(Err((place, sole(tcp, held)?)));
    };
    // TCP has not begun to connect: no process sees what is set here later than it is needed.
    if matches!(server, Server::Workers(_)) && pairing::mark_announced(&tcp).is_err() {
        shard.lock().withdraw(shard, conn);
        let place = held.status().place.take();
        return Ok(Err((place, sole(tcp, held)?)));
    }
    Ok(Ok((Stage::Announced(held, conn, None), tcp)))
}
