//! The listener's side.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SocketAddrAny;

use super::call_back::{Called, Calling};
use super::callers::{Caller, Callers, MAX_CALLERS};
use super::kernel::Kernel;
use super::{
    Greeting, Outcome, Paired, PairingTimeouts, Peer, Progress, Reach, belongs, name_of, normal,
    spare,
};
use crate::descriptors;
use crate::device::Gid128;
use crate::process::Process;
use crate::shared::gids::Gids;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

/// Calls taken in at a time, so that a driver's other sockets do not wait long.
const AT_ONCE: usize = 16;
/// Longer than any wait: a time after which no clock has a number is no deadline.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Calls that the kernel keeps until they are taken in.
const BACKLOG: i32 = 128;

/// Where clients of one TCP listener announce themselves.
///
/// The name goes with the last descriptor: nothing is left when the process ends.
#[derive(Debug)]
pub struct Rendezvous {
    socket: OwnedFd,
    gids: Gids,
    /// Shared with other rendezvous, in which this one has a number.
    pub(super) callers: Callers,
    number: u64,
    /// The one that opened it.
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

    /// Whether the client of an accepted connection may be one to pair with. Never
    /// waits; with `None` the connection is plain TCP, at once and for good.
    ///
    /// `reach` is what the device knows of a peer, see
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
        // If it fails, the call of this client may be missing: the connection is plain TCP.
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
        // Cookies are no secret: callers of other users may name this one as well.
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
            state: Answering::Asked(socket),
            gid: self.gids.toward(uid),
            peer,
            may_greet,
            calls_back: false,
            deadline,
        })
    }

    /// Takes in calls that have come, some of them at a time: the descriptor of [`AsFd`] stays
    /// readable while there are more. Calls that are not taken in fill the kernel's queue, in
    /// which one user keeps all others out.
    ///
    /// # Errors
    /// The operating system's: all descriptors are in use, for one. The calls stay where they are.
    pub fn take_calls(&mut self) -> io::Result<()> {
        //= SHM-015
        if !self.process.is_current() {
            return Ok(());
        }
        self.accept_calls(AT_ONCE)
    }

    /// Whether there are calls that were taken in.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.callers.lock().has(self.number)
    }

    fn accept_calls(&mut self, most: usize) -> io::Result<()> {
        // Of what comes in all at once, closed calls are dropped once.
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

/// Readable while there are calls to be taken in.
impl AsFd for Rendezvous {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let callers = match self.process.is_current() {
            true => Some(self.callers.lock()),
            // A thread of the parent may have held the lock at the fork: the copies stay then.
            false => self.callers.try_lock(),
        };
        if let Some(mut callers) = callers {
            let number = self.number;
            callers.all.retain(|caller| caller.rendezvous != number);
        }
    }
}

/// An accepted connection whose client has been asked to go on.
#[derive(Debug)]
pub struct Answer {
    pub(super) state: Answering,
    pub(super) gid: Gid128,
    pub(super) peer: Peer,
    /// Whether a channel may be made.
    pub(super) may_greet: bool,
    /// Whether this side calls, and learns the peer's GID by GO.
    pub(super) calls_back: bool,
    pub(super) deadline: Instant,
}

#[derive(Debug)]
pub(super) enum Answering {
    /// The client is to be called.
    Calling(Box<Calling>),
    Asked(Socket),
    Greeting(Greeting),
    Done,
}

impl Answer {
    /// Goes on, without waiting.
    pub fn poll(&mut self, now: Instant) -> Progress {
        loop {
            match core::mem::replace(&mut self.state, Answering::Done) {
                Answering::Calling(calling) => {
                    let gids = calling.gids().clone();
                    match calling.call(now) {
                        Called::Yes(socket, uid) => self.has_called(socket, uid, &gids),
                        Called::NotYet(calling) if now < self.deadline => {
                            let until = calling.next().min(self.deadline);
                            self.state = Answering::Calling(calling);
                            return Progress::Pending { until };
                        }
                        Called::NotYet(_) | Called::No => return Progress::Done(Outcome::Plain),
                    }
                }
                Answering::Asked(socket) => {
                    let mut received = socket.receive();
                    if matches!(received, Received::Nothing) {
                        if now < self.deadline {
                            self.state = Answering::Asked(socket);
                            return Progress::Pending {
                                until: self.deadline,
                            };
                        }
                        //= SHM-012
                        // What the client sent up to here counts; what it would send
                        // later fails there, so both know the same.
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
                    let greeting = Greeting::begin(self.peer, fresh, socket, self.gid, now);
                    self.state = Answering::Greeting(greeting);
                }
                Answering::Greeting(greeting) => match greeting.poll(now) {
                    Ok(paired) => return Progress::Done(Outcome::Paired(paired)),
                    Err(greeting) => {
                        let until = greeting.until();
                        self.state = Answering::Greeting(greeting);
                        return Progress::Pending { until };
                    }
                },
                Answering::Done => return Progress::Done(Outcome::Plain),
            }
        }
    }

    /// The client has named its device, which this side knew before unless it has called.
    fn learn(&mut self, gid: Gid128) {
        if self.calls_back {
            self.peer.gid = gid;
        }
    }

    /// Goes on until the end, waiting as long as that takes.
    ///
    /// # Errors
    /// The operating system's.
    pub fn finish(mut self) -> io::Result<Outcome> {
        loop {
            match self.poll(Instant::now()) {
                Progress::Done(outcome) => return Ok(outcome),
                Progress::Pending { until } => super::wait(self.sockets(), until)?,
            }
        }
    }

    /// The client, as it called. Until it was called back, its GID is not known, and zero.
    #[must_use]
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Ends it now. If the client has sent GO already, both speak CLC, over whatever channel
    /// there was before.
    pub fn give_up(&mut self) -> Outcome {
        let left = match core::mem::replace(&mut self.state, Answering::Done) {
            //= SHM-012
            Answering::Asked(socket) => {
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
            Answering::Greeting(greeting) => greeting.begun.map(|begun| begun.socket),
            Answering::Calling(_) | Answering::Done => return Outcome::Plain,
        };
        Outcome::Paired(Paired {
            peer: self.peer,
            channel: None,
            left,
        })
    }

    /// What becomes readable when [`Self::poll`] can go on.
    #[must_use]
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        match &self.state {
            Answering::Asked(socket) => vec![socket.as_fd()],
            Answering::Greeting(greeting) => greeting.socket().into_iter().collect(),
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
