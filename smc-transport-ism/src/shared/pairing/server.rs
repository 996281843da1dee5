//! Pairing, the accepting side: collects the announcements of clients at a listener's name, and
//! claims an accepted connection towards the client that has announced it.
//!
//! ```text
//!  Rendezvous ── take_calls: announcements ──► Callers (table of the stack)
//!      └─ answer(accepted) ── claim ──► Answer: AwaitingGo ── GO ──► ChannelHandshake ──► Paired
//!                                               └─ nothing in time ─► Plain
//! ```

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SocketAddrAny;

use super::call_back::{CallOutcome, PendingCall};
use super::callers::{Caller, Callers, MAX_CALLERS};
use super::kernel::Kernel;
use super::{
    ChannelHandshake, Outcome, Paired, PairingTimeouts, Peer, Progress, Reach, belongs, name_of,
    normal, spare,
};
use crate::descriptors;
use crate::device::Gid128;
use crate::process::Process;
use crate::shared::gids::Gids;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

/// Most calls accepted at a time, so that a driver's other sockets do not wait long.
const AT_ONCE: usize = 16;
/// Longest wait. A longer one, added to the present, might be beyond what the clock can represent.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Calls that the kernel queues until they are accepted.
const BACKLOG: i32 = 128;

/// Socket at the name of a TCP listener, where clients announce their connections.
///
/// The kernel frees the name with the last descriptor: nothing is left when the process ends.
#[derive(Debug)]
pub struct Rendezvous {
    socket: OwnedFd,
    gids: Gids,
    /// Calls at all rendezvous of the stack.
    pub(super) callers: Callers,
    /// Number of this rendezvous among them.
    number: u64,
    /// The process that opened it.
    process: Process,
}

impl Rendezvous {
    /// Lets clients announce themselves to `listener`, on behalf of the device `gid`. Calls are
    /// kept in a table of its own, with [`MAX_CALLERS`] at most.
    ///
    /// Every connection it accepts from now on must be given to [`Self::answer`]
    /// before a byte is read from it or written to it.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::AddrInUse`] if a process of this user has the
    /// name. The listener then serves plain TCP.
    pub fn open(listener: impl AsFd, gids: impl Into<Gids>) -> io::Result<Self> {
        Self::open_in(listener, gids, &Callers::default())
    }

    /// Opens a rendezvous as [`Self::open`] does, whose calls are kept in `callers`, together
    /// with those of other rendezvous.
    ///
    /// # Errors
    /// Errors of [`Self::open`].
    pub fn open_in(
        listener: impl AsFd,
        gids: impl Into<Gids>,
        callers: &Callers,
    ) -> io::Result<Self> {
        let socket = Socket::unconnected()?;
        spare::bind(&socket, listener, name_of)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self {
            socket,
            gids: gids.into(),
            number: callers.rendezvous(),
            callers: callers.clone(),
            process: Process::current(),
        })
    }

    /// Claims an accepted connection, if its client has announced it, without waiting. Returns
    /// `None` if not: the connection is plain TCP then.
    ///
    /// `reach` returns what the device knows of a peer, see
    /// [`Device::reach`](super::super::Device::reach).
    pub fn answer<R: Into<Reach>>(
        &mut self,
        accepted: impl AsFd,
        reach: impl FnOnce(&Peer) -> R,
        timeouts: &PairingTimeouts,
    ) -> Option<Answer> {
        //= SHM-015
        // A child that shares the listener must not take the calls of its parent.
        if !self.process.is_current() {
            return None;
        }
        // If this fails, the client's call may be missing: the connection is plain TCP.
        let _ = self.accept_calls(MAX_CALLERS);
        {
            let mut callers = self.callers.lock();
            callers.receive(self.number);
            //= SHM-002
            if !callers.has(self.number) {
                return None;
            }
        }
        let (near, far) = ends(&accepted).ok()?;
        //= SHM-008
        let client = Kernel::open().ok()?.end(far, near).ok()??;
        // Cookies are no secret: processes of other users may have announced this one as well.
        //= SHM-006
        let caller = {
            let mut callers = self.callers.lock();
            callers
                .all
                .retain(|caller| !caller.names(client.cookie) || belongs(caller.uid, client.uid));
            //= SHM-004
            callers.take(self.number, client.cookie)?
        };
        let Caller {
            socket,
            uid,
            announced,
            ..
        } = caller;
        let (_, gid) = announced?;
        let peer = Peer { gid, uid };
        //= SHM-042
        let Reach { joined, may_greet } = reach(&peer).into();
        if !joined && !may_greet {
            return None;
        }
        let cookie = rustix::net::sockopt::socket_cookie(accepted).ok()?;
        socket
            .send(
                Message::Mine {
                    cookie,
                    gid: self.gids.toward(uid),
                    joined,
                },
                None,
            )
            .ok()?;
        let deadline = Instant::now() + timeouts.go.min(LONGEST);
        Some(Answer {
            state: Answering::AwaitingGo(socket),
            gid: self.gids.toward(uid),
            peer,
            may_greet,
            calls_back: false,
            deadline,
        })
    }

    /// Accepts calls, a few at a time. The descriptor of [`AsFd`] stays readable while there are
    /// more. Calls that are not accepted fill the kernel's queue, in which a single user can keep
    /// all others out.
    ///
    /// # Errors
    /// Error of the operating system, for example that no descriptor is free. The calls stay in the
    /// queue.
    pub fn take_calls(&mut self) -> io::Result<()> {
        //= SHM-015
        if !self.process.is_current() {
            return Ok(());
        }
        self.accept_calls(AT_ONCE)
    }

    /// Whether the table has calls at this rendezvous.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.callers.lock().has(self.number)
    }

    fn accept_calls(&mut self, most: usize) -> io::Result<()> {
        // Closed calls are dropped from a full table at most once in this loop.
        let mut swept = false;
        for _ in 0..most {
            let accept = || rustix::net::accept_with(&self.socket, Socket::FLAGS);
            let socket = match descriptors::keep(accept) {
                Ok(socket) => Socket::new(socket),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            if let Ok(uid) = crate::sys::peer_uid(&socket) {
                let caller = Caller::new(socket, uid, self.number);
                self.callers.add(caller, &mut swept);
            }
        }
        Ok(())
    }
}

/// Readable while there are calls to be accepted.
impl AsFd for Rendezvous {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let callers = match self.process.is_current() {
            true => Some(self.callers.lock()),
            // A thread of the parent may have held the lock at the fork: nothing is removed then.
            false => self.callers.try_lock(),
        };
        if let Some(mut callers) = callers {
            let number = self.number;
            callers.all.retain(|caller| caller.rendezvous != number);
        }
    }
}

/// Pairing of an accepted connection, by its server: the connection is claimed towards the client.
#[derive(Debug)]
pub struct Answer {
    pub(super) state: Answering,
    pub(super) gid: Gid128,
    pub(super) peer: Peer,
    /// Whether a channel may be made.
    pub(super) may_greet: bool,
    /// Whether this side calls the client, and learns the client's GID from GO.
    pub(super) calls_back: bool,
    pub(super) deadline: Instant,
}

#[derive(Debug)]
pub(super) enum Answering {
    /// The client is to be called.
    Calling(Box<PendingCall>),
    /// The claim was sent.
    AwaitingGo(Socket),
    /// GO was received.
    ChannelHandshake(ChannelHandshake),
    Done,
}

impl Answer {
    /// Does what is possible without waiting.
    pub fn poll(&mut self, now: Instant) -> Progress {
        loop {
            match core::mem::replace(&mut self.state, Answering::Done) {
                Answering::Calling(call) => {
                    let gids = call.gids().clone();
                    match call.attempt(now) {
                        CallOutcome::Sent(socket, uid) => self.on_claim_sent(socket, uid, &gids),
                        CallOutcome::Pending(call) if now < self.deadline => {
                            let until = call.next().min(self.deadline);
                            self.state = Answering::Calling(call);
                            return Progress::Pending { until };
                        }
                        CallOutcome::Pending(_) | CallOutcome::Refused => {
                            return Progress::Done(Outcome::Plain);
                        }
                    }
                }
                Answering::AwaitingGo(socket) => {
                    let mut received = socket.receive();
                    if matches!(received, Received::Nothing) {
                        if now < self.deadline {
                            self.state = Answering::AwaitingGo(socket);
                            return Progress::Pending {
                                until: self.deadline,
                            };
                        }
                        //= SHM-012
                        // A GO that was sent before this counts. Sending one later fails at the
                        // client, so that both sides know the same.
                        if socket.refuse().is_ok() {
                            received = socket.receive();
                        }
                    }
                    //= SHM-001
                    let Received::Message(Message::Go { fresh, gid }, None) = received else {
                        return Progress::Done(Outcome::Plain);
                    };
                    self.learn(gid);
                    let fresh = fresh && self.may_greet;
                    let handshake =
                        ChannelHandshake::begin(self.peer, fresh, socket, self.gid, now);
                    self.state = Answering::ChannelHandshake(handshake);
                }
                Answering::ChannelHandshake(handshake) => match handshake.poll(now) {
                    Ok(paired) => return Progress::Done(Outcome::Paired(paired)),
                    Err(handshake) => {
                        let until = handshake.until();
                        self.state = Answering::ChannelHandshake(handshake);
                        return Progress::Pending { until };
                    }
                },
                Answering::Done => return Progress::Done(Outcome::Plain),
            }
        }
    }

    /// Notes the GID that GO names. A client that has announced its connection named it before.
    fn learn(&mut self, gid: Gid128) {
        if self.calls_back {
            self.peer.gid = gid;
        }
    }

    /// Polls until pairing has ended, and waits as long as that takes.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn finish(mut self) -> io::Result<Outcome> {
        loop {
            match self.poll(Instant::now()) {
                Progress::Done(outcome) => return Ok(outcome),
                Progress::Pending { until } => super::wait(self.sockets(), until)?,
            }
        }
    }

    /// The client. Its GID is zero while it is not known: until GO, if this side has called it.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Ends pairing now. If the client has sent GO already, both ends speak CLC, over the channel that
    /// they had before, if any.
    pub fn give_up(&mut self) -> Outcome {
        let left = match core::mem::replace(&mut self.state, Answering::Done) {
            //= SHM-012
            Answering::AwaitingGo(socket) => {
                let mut received = socket.receive();
                if matches!(received, Received::Nothing) && socket.refuse().is_ok() {
                    received = socket.receive();
                }
                let Received::Message(Message::Go { gid, .. }, None) = received else {
                    return Outcome::Plain;
                };
                self.learn(gid);
                None
            }
            Answering::ChannelHandshake(handshake) => handshake.begun.map(|begun| begun.socket),
            Answering::Calling(_) | Answering::Done => return Outcome::Plain,
        };
        Outcome::Paired(Paired {
            peer: self.peer,
            channel: None,
            left,
        })
    }

    /// Sockets of which one becomes readable when [`Self::poll`] has something to do.
    #[must_use]
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        match &self.state {
            Answering::AwaitingGo(socket) => vec![socket.as_fd()],
            Answering::ChannelHandshake(handshake) => handshake.socket().into_iter().collect(),
            Answering::Calling(_) | Answering::Done => Vec::new(),
        }
    }
}

/// Both addresses of a connection, this process's first.
pub(super) fn ends(tcp: impl AsFd) -> io::Result<(SocketAddr, SocketAddr)> {
    let address = |any: SocketAddrAny| {
        SocketAddr::try_from(any)
            .map(normal)
            .map_err(|_| io::ErrorKind::Unsupported.into())
    };
    let near: io::Result<_> = address(rustix::net::getsockname(&tcp)?);
    let far: io::Result<_> =
        rustix::net::getpeername(&tcp)?.map_or(Err(io::ErrorKind::NotConnected.into()), address);
    Ok((near?, far?))
}
