//! Pairing, the connecting side: announces a connection, waits for the process that has accepted
//! it, and begins a channel with that process.
//!
//! ```text
//!  announce ─► Announced ── a candidate claims the connection, the kernel confirms ─► ChannelHandshake ─► Paired
//!  listen ───►     └─ no answer can come any more ─► Plain
//! ```
//!
//! A [`Call`] belongs to one connection. Its owner polls it when a socket of
//! [`Call::sockets`] is readable, or at the time that [`Call::poll`] returned. It reads nothing from
//! the TCP connection.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;

use super::destination::destination;
use super::kernel::{Kernel, Listening};
use super::own_name::OwnName;
use super::server::ends;
use super::{
    ChannelHandshake, Outcome, PairingTimeouts, Peer, Progress, Reach, belongs, mark, normal, spare,
};
use crate::device::Gid128;
use crate::shared::gids::Gids;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

/// Most listeners of one port to which a connection is announced.
pub const MAX_LISTENERS: usize = 64;
/// Number of times that the kernel is asked at least before the grace period ends. On a busy machine
/// this process is late as well, and the period longer.
const MIN_QUESTIONS: u32 = 8;
/// Most processes that have called and not claimed the connection yet.
const MAX_CALLS: usize = 8;
/// First pause between two questions to the kernel. Each further pause is twice as long.
const MIN_PAUSE: Duration = Duration::from_micros(500);
/// Longest pause between two questions to the kernel.
const MAX_PAUSE: Duration = Duration::from_millis(2);

/// Pairing of a TCP connection, by its client: announced to the processes that may accept it.
#[derive(Debug)]
pub struct Call {
    kernel: Kernel,
    gids: Gids,
    timeouts: PairingTimeouts,
    state: State,
    /// Exactly one listener was there, which was called, and no other process has answered.
    is_to_one: bool,
    /// Exactly one listener was there, which is marked, and the process that has answered, if any,
    /// has called back.
    is_to_workers: bool,
    /// All listeners are marked, so that the kernel shows whether the process that has accepted the
    /// connection may still call.
    is_shown: bool,
}

#[derive(Debug)]
enum State {
    /// No process has claimed the connection yet.
    Announced(Announced),
    /// A process has accepted the connection, and GO was sent to it.
    ChannelHandshake(ChannelHandshake),
    Done,
}

/// A connection that is in the queue of a listener, or was just accepted.
#[derive(Debug)]
struct Announced {
    candidates: Vec<Candidate>,
    /// Name at which the process that has accepted the connection may call.
    own_name: Option<OwnName>,
    /// `None` before the first poll.
    wait: Option<Wait>,
    /// Pause after the next question to the kernel.
    pause: Duration,
    /// When to ask the kernel next.
    next: Option<Instant>,
}

/// A process that may claim to have accepted the connection.
#[derive(Debug)]
struct Candidate {
    socket: Socket,
    uid: u32,
    /// Whether the process has called this side; otherwise it was called, by its listener's name.
    has_called: bool,
}

/// A candidate's message that it has accepted the connection.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// Cookie of the accepted socket.
    cookie: u64,
    gid: Gid128,
    /// Whether the process has a channel to this one.
    joined: bool,
}

/// How long an answer was waited for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    began: Instant,
    grace: Option<GracePeriod>,
}

/// The wait after the connection was accepted, in which the process has to answer.
#[derive(Clone, Copy, Debug)]
struct GracePeriod {
    began: Instant,
    /// Number of times that the kernel was asked in it.
    questions: u32,
}

impl Announced {
    fn new(candidates: Vec<Candidate>, own_name: Option<OwnName>) -> Self {
        Self {
            candidates,
            own_name,
            wait: None,
            pause: MIN_PAUSE,
            next: None,
        }
    }
}

impl Wait {
    fn begin(now: Instant) -> Self {
        Self {
            began: now,
            grace: None,
        }
    }
}

/// The wait for an answer to a connection that was announced over shared memory.
#[derive(Debug)]
pub struct Grace {
    kernel: Kernel,
    timeouts: PairingTimeouts,
    wait: Wait,
}

impl Grace {
    /// Begins to wait for the answer to a connection that TCP has established.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn begin(timeouts: PairingTimeouts, now: Instant) -> io::Result<Self> {
        Ok(Self {
            kernel: Kernel::open()?,
            timeouts,
            wait: Wait::begin(now),
        })
    }

    /// Asks the kernel for the state of the connection, and returns whether no answer will come.
    ///
    /// # Errors
    /// Error of the operating system.
    //= SHM-011
    pub fn is_over(&mut self, tcp: impl AsFd, now: Instant) -> io::Result<bool> {
        let left = continue_wait(&self.kernel, &self.timeouts, self.wait, tcp, false, now)?;
        self.wait = left.unwrap_or(self.wait);
        Ok(left.is_none())
    }
}

impl Call {
    /// Announces that `tcp`, a TCP socket that is not connected yet, will be connected to
    /// `remote`. Returns `None` if a process that does not pair may accept the connection: it is
    /// plain TCP then.
    ///
    /// # Errors
    /// Error of the operating system. The connection may go on as plain TCP.
    pub fn announce(
        tcp: impl AsFd,
        remote: SocketAddr,
        gids: impl Into<Gids>,
        timeouts: PairingTimeouts,
    ) -> io::Result<Option<Self>> {
        let remote = normal(destination(&tcp, remote));
        //= SHM-006
        // No server accepts a call of a user that it cannot identify.
        if super::own_user().is_err() || !is_here(remote) {
            return Ok(None);
        }
        let kernel = Kernel::open()?;
        // The listener that the kernel would choose now is called first. Most often there is no
        // other, and if it does not answer nothing more has to be asked.
        let Some(likely) = kernel.listener(remote)? else {
            return Ok(None);
        };
        let mut called_first = Candidate::call(&likely);
        if called_first.is_none() && !likely.is_marked {
            return Ok(None);
        }
        let listeners = kernel.listeners(remote)?;
        if listeners.is_empty() || listeners.len() > MAX_LISTENERS {
            return Ok(None);
        }
        let cookie = rustix::net::sockopt::socket_cookie(&tcp)?;
        let gids = gids.into();
        let own_name = match listeners.iter().any(|listener| listener.is_marked) {
            true => OwnName::open(&tcp).ok(),
            false => None,
        };
        let mut candidates = Vec::new();
        for listener in &listeners {
            let called = match listener.cookie == likely.cookie {
                true => called_first.take(),
                false => Candidate::call(listener),
            };
            match called {
                Some(candidate) => {
                    let gid = gids.toward(candidate.uid);
                    let announce = Message::Announce { cookie, gid };
                    candidate.socket.send(announce, None)?;
                    candidates.push(candidate);
                }
                None if listener.is_marked && own_name.is_some() => {}
                //= SHM-005
                // A listener that is neither called nor marked may accept the connection and
                // speak plain TCP.
                None => return Ok(None),
            }
        }
        let is_shown = listeners.iter().all(|listener| listener.is_marked);
        Ok(Some(Self {
            kernel,
            gids,
            timeouts,
            is_to_one: listeners.len() == 1 && candidates.len() == 1,
            is_to_workers: listeners.len() == 1 && is_shown,
            is_shown,
            state: State::Announced(Announced::new(candidates, own_name)),
        }))
    }

    /// Lets the process call that has accepted `tcp`, or will. For a connection that was announced
    /// over shared memory to processes of one listener, with the mark of [`mark_announced`], and
    /// that none of them has answered: another process has accepted it.
    ///
    /// # Errors
    /// Error of the operating system. The connection may go on as plain TCP.
    ///
    /// [`mark_announced`]: super::mark_announced
    //= SHM-080
    pub fn listen(
        tcp: impl AsFd,
        gids: impl Into<Gids>,
        timeouts: PairingTimeouts,
    ) -> io::Result<Self> {
        let own_name = Some(OwnName::open(tcp)?);
        Ok(Self {
            kernel: Kernel::open()?,
            gids: gids.into(),
            timeouts,
            state: State::Announced(Announced::new(Vec::new(), own_name)),
            is_to_one: false,
            is_to_workers: true,
            is_shown: true,
        })
    }

    /// Does what is possible without waiting, once `tcp` is connected. `reach` is called as
    /// [`Rendezvous::answer`](super::Rendezvous::answer) calls it.
    ///
    /// # Errors
    /// Error of the operating system. The connection is plain TCP then.
    pub fn poll<R: Into<Reach>>(
        &mut self,
        tcp: impl AsFd,
        reach: impl Fn(&Peer) -> R,
        now: Instant,
    ) -> io::Result<Progress> {
        let progress = self.advance(&tcp, reach, now);
        if matches!(progress, Ok(Progress::Done(Outcome::Plain)) | Err(_)) {
            // If this fails, a process that would call finds no name.
            let _ = mark::unmark_client(&tcp);
        }
        progress
    }

    fn advance<R: Into<Reach>>(
        &mut self,
        tcp: impl AsFd,
        reach: impl Fn(&Peer) -> R,
        now: Instant,
    ) -> io::Result<Progress> {
        loop {
            match core::mem::replace(&mut self.state, State::Done) {
                State::Announced(mut announced) => {
                    self.receive_calls(&mut announced, &tcp)?;
                    let candidates = &mut announced.candidates;
                    if let Some(handshake) = self.receive_claims(candidates, &tcp, &reach, now)? {
                        self.state = State::ChannelHandshake(handshake);
                        continue;
                    }
                    let Some(until) = self.wait_for_claim(&mut announced, &tcp, now)? else {
                        return Ok(Progress::Done(Outcome::Plain));
                    };
                    self.state = State::Announced(announced);
                    return Ok(Progress::Pending { until });
                }
                State::ChannelHandshake(handshake) => match handshake.poll(now) {
                    Ok(paired) => return Ok(Progress::Done(Outcome::Paired(paired))),
                    Err(handshake) => {
                        let until = handshake.until();
                        self.state = State::ChannelHandshake(handshake);
                        return Ok(Progress::Pending { until });
                    }
                },
                State::Done => return Ok(Progress::Done(Outcome::Plain)),
            }
        }
    }

    /// Polls until pairing has ended, and waits as long as that takes.
    ///
    /// # Errors
    /// Errors of [`Self::poll`].
    pub fn finish<R: Into<Reach>>(
        mut self,
        tcp: impl AsFd,
        reach: impl Fn(&Peer) -> R,
    ) -> io::Result<Outcome> {
        loop {
            match self.poll(&tcp, &reach, Instant::now())? {
                Progress::Done(outcome) => return Ok(outcome),
                Progress::Pending { until } => super::wait(self.sockets(), until)?,
            }
        }
    }

    /// Ends pairing now. If GO was sent already, both ends speak CLC, over the channel that they had
    /// before, if any. The device has to know what is in flight over the new one
    /// ([`Device::abandon`](super::super::Device::abandon)).
    pub fn give_up(&mut self) -> Outcome {
        match core::mem::replace(&mut self.state, State::Done) {
            State::ChannelHandshake(handshake) => Outcome::Paired(handshake.give_up()),
            State::Announced(_) | State::Done => Outcome::Plain,
        }
    }

    /// The process that GO was sent to, while the channel is being made. That process may assume
    /// that it is made.
    #[must_use]
    pub fn greets(&self) -> Option<Peer> {
        match &self.state {
            State::ChannelHandshake(handshake) => Some(handshake.peer),
            State::Announced(_) | State::Done => None,
        }
    }

    /// Sockets of which one becomes readable when [`Self::poll`] has something to do. It also has at
    /// the time that it returned, and when bytes arrive on the connection.
    #[must_use]
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        match &self.state {
            State::Announced(announced) => {
                let name = announced.own_name.iter().map(AsFd::as_fd);
                let candidates = announced.candidates.iter();
                name.chain(candidates.map(|candidate| candidate.socket.as_fd()))
                    .collect()
            }
            State::ChannelHandshake(handshake) => handshake.socket().into_iter().collect(),
            State::Done => Vec::new(),
        }
    }

    /// Adds processes that have called at this side's own name. Of too many, the oldest goes.
    //= SHM-078
    fn receive_calls(&self, announced: &mut Announced, tcp: impl AsFd) -> io::Result<()> {
        let Some(name) = &announced.own_name else {
            return Ok(());
        };
        let candidates = &mut announced.candidates;
        for (socket, uid) in name.receive(&self.kernel, ends(tcp)?)? {
            let calls = candidates.iter().filter(|candidate| candidate.has_called);
            if calls.count() >= MAX_CALLS {
                let oldest = candidates.iter().position(|candidate| candidate.has_called);
                oldest.map(|place| candidates.remove(place));
            }
            candidates.push(Candidate {
                socket,
                uid,
                has_called: true,
            });
        }
        Ok(())
    }

    /// Receives messages of the candidates. Returns the beginning of a channel with the one that has
    /// accepted the connection. Candidates that send anything else, or close, are dropped.
    fn receive_claims<R: Into<Reach>>(
        &mut self,
        candidates: &mut Vec<Candidate>,
        tcp: impl AsFd,
        reach: impl Fn(&Peer) -> R,
        now: Instant,
    ) -> io::Result<Option<ChannelHandshake>> {
        let mut place = 0;
        while let Some(candidate) = candidates.get(place) {
            let received = candidate.socket.receive();
            if matches!(received, Received::Nothing) {
                place += 1;
                continue;
            }
            let candidate = candidates.remove(place);
            if let Received::Message(
                Message::Mine {
                    cookie,
                    gid,
                    joined,
                },
                None,
            ) = received
            {
                let claim = Claim {
                    cookie,
                    gid,
                    joined,
                };
                let handshake = self.answer_claim(candidate, claim, &tcp, &reach, now)?;
                if handshake.is_some() {
                    return Ok(handshake);
                }
            }
        }
        Ok(None)
    }

    /// Sends GO to a candidate, and begins a channel with it. Returns `None` if the kernel does not
    /// confirm that it has accepted the connection.
    fn answer_claim<R: Into<Reach>>(
        &mut self,
        candidate: Candidate,
        claim: Claim,
        tcp: impl AsFd,
        reach: impl Fn(&Peer) -> R,
        now: Instant,
    ) -> io::Result<Option<ChannelHandshake>> {
        let Candidate {
            socket,
            uid,
            has_called,
        } = candidate;
        let (near, far) = ends(&tcp)?;
        let end = self.kernel.end(far, near)?;
        //= SHM-009
        let Some(end) = end.filter(|end| end.cookie == claim.cookie && end.held) else {
            return Ok(None);
        };
        //= SHM-006
        if has_called && !belongs(uid, end.uid) {
            return Ok(None);
        }
        let peer = Peer {
            gid: claim.gid,
            uid,
        };
        //= SHM-013
        let reach = reach(&peer).into();
        // Without a channel, CLC declines.
        //= SHM-042
        let fresh = !(claim.joined && reach.joined) && reach.may_greet;
        //= SHM-010
        let gid = self.gids.toward(uid);
        if socket.send(Message::Go { fresh, gid }, None).is_err() {
            return Ok(None);
        }
        // A process that has called back may not be the one that accepts the next connection.
        self.is_to_one &= !has_called;
        self.is_to_workers &= has_called;
        Ok(Some(ChannelHandshake::begin(peer, fresh, socket, gid, now)))
    }

    /// Decides whether to wait further for a claim, and asks the kernel about that, but not at every
    /// call. Returns when to poll again, or `None` if no claim will come.
    fn wait_for_claim(
        &self,
        announced: &mut Announced,
        tcp: impl AsFd,
        now: Instant,
    ) -> io::Result<Option<Instant>> {
        let may_come = announced.own_name.is_some() || !announced.candidates.is_empty();
        let wait = announced.wait.unwrap_or(Wait::begin(now));
        if let Some(next) = announced.next.filter(|next| now < *next) {
            return Ok(may_come.then_some(next));
        }
        let (kernel, timeouts) = (&self.kernel, &self.timeouts);
        let wait = continue_wait(kernel, timeouts, wait, tcp, self.is_shown, now)?;
        if wait.is_none() || !may_come {
            return Ok(None);
        }
        let until = now + announced.pause;
        announced.wait = wait;
        announced.pause = (announced.pause * 2).min(MAX_PAUSE);
        announced.next = Some(until);
        Ok(Some(until))
    }

    /// Whether the next connection to this address is accepted by one of several processes: exactly
    /// one listener was there, which is marked, and the process that has answered has called back.
    #[must_use]
    pub fn is_to_workers(&self) -> bool {
        self.is_to_workers
    }

    /// Whether the next connection to this address is accepted by the same process: exactly one
    /// listener was there, and the process that has answered, if any, was called there.
    #[must_use]
    pub fn is_to_one(&self) -> bool {
        self.is_to_one
    }
}

/// Asks the kernel for the state of a connection. Returns the wait so far, or `None` if no answer
/// will come. `is_shown`: the kernel shows whether a process that has accepted it may still call.
fn continue_wait(
    kernel: &Kernel,
    timeouts: &PairingTimeouts,
    wait: Wait,
    tcp: impl AsFd,
    is_shown: bool,
    now: Instant,
) -> io::Result<Option<Wait>> {
    let (near, far) = ends(&tcp)?;
    //= SHM-011
    let Some(end) = kernel.end(far, near)? else {
        return Ok(None);
    };
    // A process that pairs sends nothing before the client's Proposal.
    let mut byte = [0];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    if rustix::net::recv(&tcp, &mut byte[..], flags).is_ok() {
        return Ok(None);
    }
    let is_in_queue = !end.held && end.established;
    if is_in_queue {
        return Ok((now - wait.began < timeouts.accept).then_some(wait));
    }
    let GracePeriod { began, questions } = wait.grace.unwrap_or(GracePeriod {
        began: now,
        questions: 0,
    });
    let waited = now - began;
    let may_come = match end.is_marked {
        //= SHM-077
        true => waited < timeouts.accept.max(timeouts.grace),
        false => (!is_shown || !end.held) && (waited < timeouts.grace || questions < MIN_QUESTIONS),
    };
    Ok(may_come.then_some(Wait {
        grace: Some(GracePeriod {
            began,
            questions: questions + 1,
        }),
        ..wait
    }))
}

impl Candidate {
    /// Calls the process of a listener, by the listener's name. `None` if none answers to it.
    fn call(listener: &Listening) -> Option<Self> {
        let (socket, uid) = spare::call(listener.into()).ok()?;
        Some(Self {
            socket: Socket::new(socket),
            uid,
            has_called: false,
        })
    }
}

/// Whether connections to an address stay on this host. An address that several interfaces may
/// have, such as a link-local one, does not count.
pub(super) fn is_here(remote: SocketAddr) -> bool {
    let ip = remote.ip();
    let link_local = match remote {
        SocketAddr::V6(v6) => v6.ip().is_unicast_link_local(),
        SocketAddr::V4(_) => false,
    };
    if ip.is_unspecified() || ip.is_multicast() || link_local {
        return false;
    }
    // Only an address of this host can be bound to. Loopback addresses need no socket to find that
    // out.
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}
