//! The listener's side.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketAddrAny;

use super::kernel::Kernel;
use super::{Greeting, Outcome, Paired, Patience, Peer, Progress, Reach, belongs, normal, spare};
use crate::device::Gid128;
use crate::shared::gids::Gids;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

/// Clients that may have announced themselves and not been accepted yet.
pub(super) const MAX_CALLERS: usize = 256;
/// Times a caller is looked at that says nothing: once for each connection that others
/// make meanwhile, and they may be many.
const LOOKS: u8 = u8::MAX;
/// Longer than any wait: a time after which no clock has a number is no deadline.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Clients the kernel keeps beside those.
const BACKLOG: i32 = 128;

/// Where clients of one TCP listener announce themselves.
///
/// The name goes with the last descriptor: nothing is left when the process ends.
#[derive(Debug)]
pub struct Rendezvous {
    socket: OwnedFd,
    kernel: Kernel,
    gids: Gids,
    pub(super) callers: Vec<Caller>,
    pub(super) process: u32,
}

/// A client that has called.
#[derive(Debug)]
pub(super) struct Caller {
    socket: Socket,
    pub(super) uid: u32,
    announced: Option<(u64, Gid128)>,
    looks: u8,
}

impl Rendezvous {
    /// Lets clients announce themselves to `listener`, on behalf of the device `gid`.
    ///
    /// Every connection it accepts from now on must be given to [`Self::answer`]
    /// before an octet is read from it or written to it.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::AddrInUse`] if a process of this user has the
    /// name. The listener then serves plain TCP.
    pub fn open(listener: impl AsFd, gids: impl Into<Gids>) -> io::Result<Self> {
        let socket = Socket::unconnected()?;
        spare::bind(&socket, listener)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let (callers, process) = (Vec::new(), std::process::id());
        Ok(Self {
            socket,
            kernel: Kernel::open()?,
            gids: gids.into(),
            callers,
            process,
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
        patience: &Patience,
    ) -> Option<Answer> {
        //= SHM-015
        // A child that shares the listener must not take what its parent was told.
        if self.process != std::process::id() {
            return None;
        }
        self.take_calls();
        //= SHM-002
        if self.callers.is_empty() {
            return None;
        }
        let (near, far) = ends(&accepted).ok()?;
        //= SHM-008
        let client = self.kernel.end(far, near).ok()??;
        // Cookies are no secret: callers of other users may name this one as well.
        //= SHM-006
        self.callers
            .retain(|caller| !caller.names(client.cookie) || belongs(caller.uid, client.uid));
        //= SHM-004
        let at = self
            .callers
            .iter()
            .position(|caller| caller.names(client.cookie))?;
        let Caller {
            socket,
            uid,
            announced,
            ..
        } = self.callers.remove(at);
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
        let deadline = Instant::now() + patience.go.min(LONGEST);
        Some(Answer {
            state: Answering::Asked(socket),
            gid: self.gids.toward(uid),
            peer,
            may_greet,
            deadline,
        })
    }

    /// Takes in who has called, and what they announce.
    fn take_calls(&mut self) {
        // What comes in all at once is looked through once only.
        let mut swept = false;
        for _ in 0..MAX_CALLERS {
            let Ok(socket) = rustix::net::accept_with(&self.socket, Socket::FLAGS) else {
                break;
            };
            let socket = Socket::new(socket);
            if let Ok(uid) = crate::sys::peer_uid(&socket) {
                if self.callers.len() >= MAX_CALLERS {
                    //= SHM-007
                    self.forget(swept, uid);
                    swept = true;
                }
                self.callers.push(Caller {
                    socket,
                    uid,
                    announced: None,
                    looks: 0,
                });
            }
        }
        self.callers.retain_mut(Caller::listen);
        self.sweep();
    }

    /// Whether somebody has called whose connection was not accepted yet.
    #[must_use]
    pub fn is_called(&self) -> bool {
        !self.callers.is_empty()
    }

    /// Forgets those who have gone since they called: a process that dies before it
    /// connects is not kept. Whether others are left.
    //= SHM-036
    pub fn sweep(&mut self) -> bool {
        let sockets = self.callers.iter().map(|caller| &caller.socket);
        // Without being asked for, the kernel tells of those that have ended.
        let mut polled: Vec<_> = sockets
            .map(|socket| PollFd::new(socket, PollFlags::empty()))
            .collect();
        let now = rustix::time::Timespec::default();
        if !polled.is_empty() && rustix::event::poll(&mut polled, Some(&now)).is_ok() {
            let gone: Vec<_> = polled.iter().map(|at| !at.revents().is_empty()).collect();
            let mut gone = gone.into_iter();
            self.callers.retain(|_| gone.next() != Some(true));
        }
        self.is_called()
    }

    /// Makes room for a caller of user `uid`: those that have given up go first, then the
    /// oldest call of the user with the most calls, so that no user crowds another one out.
    fn forget(&mut self, swept: bool, uid: u32) {
        if !swept {
            self.callers.retain(|caller| {
                caller.announced.is_none() || matches!(caller.socket.receive(), Received::Nothing)
            });
        }
        if self.callers.len() >= MAX_CALLERS {
            let mut calls = BTreeMap::from([(uid, 1_usize)]);
            for caller in &self.callers {
                *calls.entry(caller.uid).or_default() += 1;
            }
            let most = calls.into_iter().max_by_key(|(_, count)| *count);
            let of_most = |caller: &Caller| most.is_some_and(|(uid, _)| caller.uid == uid);
            let oldest = self.callers.iter().position(of_most).unwrap_or_default();
            self.callers.remove(oldest);
        }
    }
}

impl Caller {
    /// Whether it announced the socket with this cookie.
    fn names(&self, cookie: u64) -> bool {
        self.announced.is_some_and(|(of, _)| of == cookie)
    }

    /// Takes the announcement in; whether this may still become, or is, one to pair
    /// with.
    fn listen(&mut self) -> bool {
        if self.announced.is_some() {
            return true;
        }
        match self.socket.receive() {
            Received::Message(Message::Announce { cookie, gid }, None) => {
                self.announced = Some((cookie, gid));
                true
            }
            // A client asks the kernel once more, then announces itself.
            Received::Nothing => {
                self.looks += 1;
                self.looks < LOOKS
            }
            Received::Message(..) | Received::Stripped(_) | Received::Malformed | Received::End => {
                false
            }
        }
    }
}

/// An accepted connection whose client has been asked to go on.
#[derive(Debug)]
pub struct Answer {
    state: Answering,
    gid: Gid128,
    peer: Peer,
    /// Whether a channel may be made.
    may_greet: bool,
    deadline: Instant,
}

#[derive(Debug)]
enum Answering {
    Asked(Socket),
    Greeting(Greeting),
    Done,
}

impl Answer {
    /// Goes on, without waiting.
    pub fn poll(&mut self, now: Instant) -> Progress {
        loop {
            match core::mem::replace(&mut self.state, Answering::Done) {
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
                    let Received::Message(Message::Go { fresh }, None) = received else {
                        return Progress::Done(Outcome::Plain);
                    };
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

    /// The client, as it called.
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
                if !matches!(received, Received::Message(Message::Go { .. }, None)) {
                    return Outcome::Plain;
                }
                None
            }
            Answering::Greeting(greeting) => greeting.begun.map(|begun| begun.socket),
            Answering::Done => return Outcome::Plain,
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
            Answering::Done => Vec::new(),
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
