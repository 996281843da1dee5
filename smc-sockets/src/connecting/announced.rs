//! Connections that are announced over shared memory, to servers that this process has paired with
//! before. The client waits here for the answer.
//!
//! ```text
//!   announce, connect ──► answered: CLC over shared memory decides
//!        │ 1 ms           ▲   the server answers others: wait on, for 50 ms at most
//!        ├─ one process: ring once, so that it accepts; then ask the kernel where the
//!        │               connection is
//!        └─ workers: open a socket at which the worker that has accepted may call
//!   no answer will come ──► Decline; TCP
//! ```

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_transport_ism::shared::pairing::{self, Call, Grace, Outcome, PairingTimeouts, Progress};

use super::{Attempt, Server, Stage, Step, WaitMode};
use crate::carrier::{Carrier, Cause};
use crate::descriptors;
use crate::shard::{Announcement, Place, Shard, State, Withdrawal};
use crate::socket::Socket;

/// Time until a server is asked to accept a connection that was announced to it, and between two
/// questions to the kernel where the connection is.
const CHECK_EVERY: Duration = Duration::from_millis(1);

/// How long a server that answers other clients is not checked at all.
const BUSY: Duration = Duration::from_millis(50);

/// Least grace of a server, which has answered before.
const MIN_GRACE: Duration = Duration::from_millis(500);

/// Longest wait for the answer to an announcement: the engine resets a connection that is not
/// decided in its time.
const MAX_WAIT: Duration = Duration::from_secs(4);

/// The wait for the answer to an announcement.
pub(super) struct Waiting {
    /// Where a worker that has accepted the connection may call.
    pub(super) call: Option<Call>,
    /// Begun once the kernel is asked.
    grace: Option<Grace>,
    began: Instant,
    next_check: Instant,
    /// Whether TCP has connected, as the kernel reports.
    is_connected: bool,
    /// Whether the server was asked to accept.
    has_asked: bool,
    /// Announcements of this process that were answered, at the last check.
    answers: u64,
}

/// What is to be done for a connection that was announced.
enum Action {
    /// Finish the attempt: SMC or TCP is chosen.
    Finish(Carrier),
    /// Report that the engine has reset the connection.
    Fail(CloseReason),
    /// Wait until this time, or until something arrives.
    Wait(Instant),
    /// Check whether TCP has connected.
    CheckTcp,
    /// Let a worker call: none has answered.
    AwaitCall,
    /// Ask the kernel whether the server, which has not answered, may still do so.
    CheckServer,
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
        match self.poll_answer(&socket, conn, &mut waiting, now) {
            Action::Finish(carrier) => {
                socket.status().notified = None;
                if !carrier.is_smc() {
                    self.unmark();
                }
                self.restore_mode()?;
                Ok(Some(Step::Done(socket)))
            }
            Action::Fail(reason) => {
                let kind = io::ErrorKind::ConnectionReset;
                Err(io::Error::new(kind, reason.to_string()))
            }
            Action::Wait(until) => Ok(self.wait_until(until, socket, conn, waiting)),
            Action::CheckTcp => {
                if !self.has_connected(&socket, conn)? {
                    return Ok(Some(Step::Wait(None)));
                }
                waiting.is_connected = true;
                self.stage = Stage::Announced(socket, conn, Some(waiting));
                Ok(None)
            }
            Action::AwaitCall => self.await_call(socket, conn, waiting, now),
            Action::CheckServer => {
                // If the server answers meanwhile, CLC decides.
                if self.is_given_up(&mut waiting, now)?
                    && let Some(withdrawal) = self.withdraw_unanswered(conn)
                {
                    let place = socket.status().place.take();
                    return self.go_on_over_tcp(place, withdrawal);
                }
                Ok(self.wait_until(now + CHECK_EVERY, socket, conn, waiting))
            }
        }
    }

    /// Polls for the answer, and finds out what is to be done for the connection then.
    fn poll_answer(
        &self,
        socket: &Socket,
        conn: ConnId,
        waiting: &mut Waiting,
        now: Instant,
    ) -> Action {
        let mut state = self.shard.lock();
        self.poll_device(&mut state);
        let (carrier, closed) = {
            let status = socket.status();
            (status.carrier, status.closed)
        };
        match (carrier, closed) {
            (Some(carrier), _) => return Action::Finish(carrier),
            (None, Some(reason)) => return Action::Fail(reason),
            (None, None) => {}
        }
        // A call has times of its own, and is polled whenever its socket is readable.
        let has_call = waiting.call.is_some();
        if waiting.next_check > now && !has_call {
            return Action::Wait(waiting.next_check);
        }
        if !waiting.is_connected {
            return Action::CheckTcp;
        }
        let answers = std::mem::replace(&mut waiting.answers, state.answers());
        if answers != waiting.answers && now < waiting.began + BUSY && !has_call {
            // The server accepts one connection after the other.
            return Action::Wait(now + CHECK_EVERY);
        }
        let is_answered = state.is_answered(conn);
        if self.to_workers && !is_answered {
            return Action::AwaitCall;
        }
        // The server's program may not accept before it is asked.
        if !std::mem::replace(&mut waiting.has_asked, true) {
            state.ask_to_accept(conn);
        }
        match is_answered {
            // Its CLC messages decide.
            true => Action::Wait(now + CHECK_EVERY),
            false => Action::CheckServer,
        }
    }

    /// Polls the device, unless an event loop does.
    fn poll_device(&self, state: &mut State) {
        let shard = &self.shard;
        match self.waits {
            WaitMode::Thread => state.stay_awake(shard, shard.now()),
            WaitMode::Descriptor => state.drain_and_park(shard, shard.now()),
            WaitMode::EventLoop => {}
            #[cfg(feature = "tokio")]
            WaitMode::Task => {}
        }
    }

    /// Stays in this stage until a time, or until something happens.
    fn wait_until(
        &mut self,
        until: Instant,
        socket: Arc<Socket>,
        conn: ConnId,
        mut waiting: Waiting,
    ) -> Option<Step> {
        waiting.next_check = until;
        self.stage = Stage::Announced(socket, conn, Some(waiting));
        Some(Step::Wait(Some(until)))
    }

    /// Takes an announcement back, and the mark by which workers know that they may call. Does
    /// nothing for one that was taken back before.
    pub(super) fn withdraw(&self, conn: ConnId) {
        self.shard.lock().withdraw(&self.shard, conn);
        self.unmark();
    }

    /// Takes an announcement back, unless the server has answered: CLC decides then, and `None` is
    /// returned.
    fn withdraw_unanswered(&self, conn: ConnId) -> Option<Withdrawal> {
        let withdrawal = self.shard.lock().withdraw_unanswered(&self.shard, conn);
        if withdrawal.is_some() {
            self.unmark();
        }
        withdrawal
    }

    /// Goes on over TCP after an announcement was withdrawn. A server that had taken it expects no
    /// CLC over TCP.
    //= SHM-066
    fn go_on_over_tcp(
        &mut self,
        place: Option<Place>,
        withdrawal: Withdrawal,
    ) -> io::Result<Option<Step>> {
        self.shard.known_servers.forget(self.to);
        match withdrawal {
            Withdrawal::Unknown => self.negotiate_over_tcp(place, true),
            Withdrawal::Taken => {
                let full = place.is_none().then_some(self.shard.limit);
                let cause = self.cause_of_tcp(Cause::NotOffered, full, true)?;
                self.plain(cause).map(Some)
            }
        }
    }

    /// Removes the mark of the TCP socket by which workers know that they may call.
    fn unmark(&self) {
        if self.to_workers {
            // If that fails, a process that calls finds no socket of this name.
            let _ = pairing::unmark_client(&self.tcp);
        }
    }

    /// Whether TCP has connected. If not, the stage becomes that of an attempt that waits for it. So
    /// it does if TCP has failed: the caller then takes the announcement back.
    fn has_connected(&mut self, socket: &Arc<Socket>, conn: ConnId) -> io::Result<bool> {
        let has_connected = self.is_connected();
        self.connects_slowly |= matches!(has_connected, Ok(false));
        if !matches!(has_connected, Ok(true)) {
            self.stage = Stage::Announced(socket.clone(), conn, None);
        }
        has_connected
    }

    /// Begins to wait for the answer.
    fn begin_waiting(&self, now: Instant, is_connected: bool) -> Waiting {
        Waiting {
            is_connected,
            call: None,
            grace: None,
            began: now,
            next_check: now + CHECK_EVERY,
            has_asked: false,
            answers: self.shard.lock().answers(),
        }
    }

    /// Whether no descriptor has to be polled: the answer is expected in shared memory, or a time
    /// passes. Begins to wait for the answer if TCP has connected or is about to: over loopback the
    /// kernel connects at once, unless the listener's queue is full.
    pub(super) fn awaits_memory(&mut self) -> bool {
        let is_new = matches!(self.stage, Stage::Announced(_, _, None));
        // `step` reports an error of TCP.
        if is_new && (!self.connects_slowly || self.polls_writable() == Ok(PollFlags::OUT)) {
            let new = self.begin_waiting(Instant::now(), false);
            if let Stage::Announced(_, _, waiting) = &mut self.stage {
                *waiting = Some(new);
            }
        }
        self.announced().is_some()
    }

    /// Whether it is announced and not decided.
    pub(super) fn is_announced(&self) -> bool {
        matches!(self.stage, Stage::Announced(..))
    }

    /// When [`Self::step`] is to be called at the latest, while the attempt waits for the answer.
    pub(super) fn next_step_at(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Announced(_, _, Some(waiting)) => Some(waiting.next_check),
            _ => None,
        }
    }

    /// Lets the worker that has accepted the connection call: it may be one that the connection was
    /// not announced to.
    //= SHM-080
    fn await_call(
        &mut self,
        socket: Arc<Socket>,
        conn: ConnId,
        mut waiting: Waiting,
        now: Instant,
    ) -> io::Result<Option<Step>> {
        let begins = waiting.call.is_none();
        let outcome = match self.poll_awaited_call(&socket, &mut waiting, now) {
            Ok(Progress::Pending { until }) => {
                if begins {
                    // From now on the socket of the call is polled, and the driver polls the device.
                    self.waits = WaitMode::Descriptor;
                    self.shard.lock().drive_handshake(&self.shard, conn);
                }
                return Ok(self.wait_until(until, socket, conn, waiting));
            }
            Ok(Progress::Done(outcome)) => outcome,
            Err(_) => Outcome::Plain,
        };
        let withdrawal = match outcome {
            Outcome::Paired(_) => self.shard.lock().withdraw_for_call(&self.shard, conn),
            Outcome::Plain => self.withdraw_unanswered(conn),
        };
        let Some(withdrawal) = withdrawal else {
            // A worker has answered the announcement meanwhile: CLC decides.
            self.end_pending_channel();
            self.abandon_channel(Some(outcome));
            self.stage = Stage::Announced(socket, conn, Some(waiting));
            return Ok(None);
        };
        let place = socket.status().place.take();
        match (outcome, place, &waiting.call) {
            (Outcome::Paired(paired), Some(place), Some(call)) => {
                self.stage = self.paired(call, place, paired);
                Ok(None)
            }
            (_, place, _) => {
                self.end_pending_channel();
                self.go_on_over_tcp(place, withdrawal)
            }
        }
    }

    /// Polls the socket at which a worker may call; opens it first.
    fn poll_awaited_call(
        &mut self,
        socket: &Socket,
        waiting: &mut Waiting,
        now: Instant,
    ) -> io::Result<Progress> {
        let call = match &mut waiting.call {
            Some(call) => call,
            none => {
                let gids = self.shard.lock().transports.ism.device().gids();
                self.notify(socket)?;
                none.insert(Call::listen(
                    &self.tcp,
                    gids,
                    self.timeouts(Duration::ZERO),
                )?)
            }
        };
        self.poll_call(call, now)
    }

    /// The pairing timeouts of the stack, within what the engine waits, and with this grace at least.
    fn timeouts(&self, min_grace: Duration) -> PairingTimeouts {
        let timeouts = self.shard.pairing_timeouts;
        PairingTimeouts {
            accept: timeouts.accept.min(MAX_WAIT),
            grace: timeouts.grace.max(min_grace).min(MAX_WAIT),
            ..timeouts
        }
    }

    /// Whether the server cannot answer any more, as the kernel reports of the connection.
    fn is_given_up(&self, waiting: &mut Waiting, now: Instant) -> io::Result<bool> {
        let grace = match &mut waiting.grace {
            Some(grace) => grace,
            none => none.insert(Grace::begin(self.timeouts(MIN_GRACE), now)?),
        };
        grace.is_over(&self.tcp, now)
    }

    /// Makes the eventfd that is polled for a connection that was announced.
    pub(super) fn poll_announced(&mut self) -> io::Result<()> {
        match &self.stage {
            Stage::Announced(socket, ..) => self.notify(&socket.clone()),
            _ => Ok(()),
        }
    }

    /// Has the driver poll for the answer, instead of the thread that began.
    pub(super) fn leave_to_driver(&mut self) {
        if self.waits != WaitMode::Thread {
            return;
        }
        self.waits = WaitMode::Descriptor;
        if let Stage::Announced(_, conn, _) = &self.stage {
            self.shard.lock().drive_handshake(&self.shard, *conn);
        }
    }

    /// Makes the eventfd that is readable once SMC or TCP is chosen, if there is none.
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

    /// The connection that waits for the answer to its announcement, if the answer can come over
    /// shared memory only.
    pub(super) fn announced(&self) -> Option<Arc<Socket>> {
        match &self.stage {
            Stage::Announced(socket, _, Some(waiting)) if waiting.call.is_none() => {
                Some(socket.clone())
            }
            _ => None,
        }
    }
}

/// An eventfd that will be readable once SMC or TCP is chosen for a connection.
pub(super) fn notification() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(descriptors::eventfd(0)?))
}

/// The TCP socket of a connection that the endpoint has removed; another thread may still have the
/// connection for a moment.
fn into_socket(tcp: Arc<TcpStream>, held: Arc<Socket>) -> io::Result<OwnedFd> {
    drop(held);
    let tcp = Arc::try_unwrap(tcp).or_else(|tcp| tcp.try_clone())?;
    Ok(tcp.into())
}

/// The place and the TCP socket of a connection that begins.
type Beginning = (Option<Place>, OwnedFd);

/// Announces a connection to a server that is known at its address. If that fails, returns the place
/// and the socket, as if nothing had been tried.
//= SHM-066
pub(super) fn announce(
    shard: &Arc<Shard>,
    (to, server): (SocketAddr, &Server),
    (place, socket): Beginning,
    (waits, notified): (WaitMode, Option<&Arc<OwnedFd>>),
) -> io::Result<Result<(Stage, Arc<TcpStream>), Beginning>> {
    // The server may offer its memory over a channel that this side has not received yet.
    //= SHM-013
    let (peers, last) = (server.peers(), shard.pending_channels.last());
    if !peers
        .iter()
        .all(|peer| shard.pending_channels.have_ended(last, *peer))
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
        return Ok(Err((place, into_socket(tcp, held)?)));
    };
    // The mark is set before TCP connects, so that no worker accepts without it.
    if matches!(server, Server::Workers(_)) && pairing::mark_announced(&tcp).is_err() {
        shard.lock().withdraw(shard, conn);
        let place = held.status().place.take();
        return Ok(Err((place, into_socket(tcp, held)?)));
    }
    Ok(Ok((Stage::Announced(held, conn, None), tcp)))
}
