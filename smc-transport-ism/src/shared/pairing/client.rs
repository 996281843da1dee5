//! The connecting side.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;

use super::kernel::{Kernel, Listening};
use super::own_name::OwnName;
use super::server::ends;
use super::{
    Greeting, Outcome, PairingTimeouts, Peer, Progress, Reach, belongs, mark, normal, spare,
};
use crate::shared::gids::Gids;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

/// Most listeners of one port to which a connection is announced.
pub const MAX_LISTENERS: usize = 64;
/// Least number of times that the kernel is asked within the grace: on a busy machine, on which
/// this process is late as well, the grace is longer.
const QUESTIONS: u32 = 8;
/// Most calls of a connection that wait for their message.
const CALLS: usize = 8;
/// First pause between two questions to the kernel; they double up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(2));

/// A TCP connection that has been announced to the processes that may accept it.
#[derive(Debug)]
pub struct Call {
    kernel: Kernel,
    gids: Gids,
    timeouts: PairingTimeouts,
    state: Calling,
    is_to_one: bool,
    /// One listener alone may accept it, which is marked, and the process that has answered has
    /// called.
    is_to_workers: bool,
    /// Every listener that may accept it is marked, so that the kernel shows how far the process
    /// that has accepted it has come.
    is_shown: bool,
}

#[derive(Debug)]
enum Calling {
    /// The connection is in some listener's queue, or just out of it.
    Announced {
        asked: Vec<Asked>,
        /// Name at which the process calls that has accepted the connection.
        own_name: Option<OwnName>,
        since: Option<Since>,
        pause: Duration,
        next: Option<Instant>,
    },
    Greeting(Greeting),
    Done,
}

/// A process that may claim that it has accepted the connection: one of a listener that was called,
/// or one that called.
#[derive(Debug)]
struct Asked {
    socket: Socket,
    uid: u32,
    has_called: bool,
}

/// When waiting began.
#[derive(Clone, Copy, Debug)]
struct Since {
    began: Instant,
    /// When the connection was first seen to be where no answer can come from later, and how
    /// often it was seen there.
    settled: Option<(Instant, u32)>,
}

/// How long the answer to an announcement over shared memory is waited for.
#[derive(Debug)]
pub struct Grace {
    kernel: Kernel,
    timeouts: PairingTimeouts,
    since: Since,
}

impl Grace {
    /// Waits from now on, for a connection that TCP has.
    ///
    /// # Errors
    /// The operating system's.
    pub fn begin(timeouts: PairingTimeouts, now: Instant) -> io::Result<Self> {
        let since = Since {
            began: now,
            settled: None,
        };
        Ok(Self {
            kernel: Kernel::open()?,
            timeouts,
            since,
        })
    }

    /// Asks the kernel where the connection is; whether no answer will come.
    ///
    /// # Errors
    /// The operating system's.
    //= SHM-011
    pub fn is_over(&mut self, tcp: impl AsFd, now: Instant) -> io::Result<bool> {
        let left = ask(&self.kernel, &self.timeouts, self.since, tcp, false, now)?;
        self.since = left.unwrap_or(self.since);
        Ok(left.is_none())
    }
}

impl Call {
    /// Announces that `tcp`, a TCP socket that is not connected yet, will be connected
    /// to `remote`. `None` if no process listens for that: then it is plain TCP.
    ///
    /// # Errors
    /// The operating system's; plain TCP is then right as well.
    pub fn announce(
        tcp: impl AsFd,
        remote: SocketAddr,
        gids: impl Into<Gids>,
        timeouts: PairingTimeouts,
    ) -> io::Result<Option<Self>> {
        let remote = normal(remote);
        //= SHM-006
        // No server takes a call of a user that it cannot know.
        if super::own_user().is_err() || !is_here(remote) {
            return Ok(None);
        }
        let kernel = Kernel::open()?;
        // The listener that the kernel would choose now, first: most often there is no
        // other, and if it has no name nothing more needs to be asked.
        let Some(likely) = kernel.listener(remote)? else {
            return Ok(None);
        };
        let first = Asked::call(&likely);
        if first.is_none() && !likely.is_marked {
            return Ok(None);
        }
        let listeners = kernel.listeners(remote)?;
        if listeners.is_empty() || listeners.len() > MAX_LISTENERS {
            return Ok(None);
        }
        let cookie = rustix::net::sockopt::socket_cookie(&tcp)?;
        let gids = gids.into();
        let own_name = match listeners.iter().any(|at| at.is_marked) {
            true => OwnName::open(&tcp).ok(),
            false => None,
        };
        let mut first = first;
        let mut asked = Vec::new();
        for listener in &listeners {
            let called = match listener.cookie == likely.cookie {
                true => first.take(),
                false => Asked::call(listener),
            };
            match called {
                Some(one) => {
                    let gid = gids.toward(one.uid);
                    one.socket.send(Message::Announce { cookie, gid }, None)?;
                    asked.push(one);
                }
                None if listener.is_marked && own_name.is_some() => {}
                //= SHM-005
                // One that does not answer to its name, and is not marked, may accept the
                // connection and speak plain TCP.
                None => return Ok(None),
            }
        }
        let is_to_one = listeners.len() == 1 && asked.len() == 1;
        let is_shown = listeners.iter().all(|at| at.is_marked);
        let is_to_workers = listeners.len() == 1 && is_shown;
        let state = Calling::Announced {
            asked,
            own_name,
            since: None,
            pause: PAUSES.0,
            next: None,
        };
        Ok(Some(Self {
            kernel,
            gids,
            timeouts,
            state,
            is_to_one,
            is_to_workers,
            is_shown,
        }))
    }

    /// Lets whichever process has accepted `tcp` call. The connection was announced over shared
    /// memory to processes of one listener, with the mark of [`mark_announced`], and none of them
    /// has answered: another one has accepted it, or will.
    ///
    /// # Errors
    /// The operating system's; plain TCP is then right as well.
    ///
    /// [`mark_announced`]: super::mark_announced
    //= SHM-080
    pub fn listen(
        tcp: impl AsFd,
        gids: impl Into<Gids>,
        timeouts: PairingTimeouts,
    ) -> io::Result<Self> {
        let state = Calling::Announced {
            asked: Vec::new(),
            own_name: Some(OwnName::open(tcp)?),
            since: None,
            pause: PAUSES.0,
            next: None,
        };
        Ok(Self {
            kernel: Kernel::open()?,
            gids: gids.into(),
            timeouts,
            state,
            is_to_one: false,
            is_to_workers: true,
            is_shown: true,
        })
    }

    /// Goes on, without waiting, once `tcp` is connected. `reach` is as for
    /// [`Rendezvous::answer`](super::Rendezvous::answer).
    ///
    /// # Errors
    /// The operating system's; the connection is then plain TCP.
    pub fn poll<R: Into<Reach>>(
        &mut self,
        tcp: impl AsFd,
        reach: impl Fn(&Peer) -> R,
        now: Instant,
    ) -> io::Result<Progress> {
        let progress = self.go_on(&tcp, reach, now);
        if matches!(progress, Ok(Progress::Done(Outcome::Plain)) | Err(_)) {
            // If it fails, a process that would call finds no name.
            let _ = mark::unmark_client(&tcp);
        }
        progress
    }

    fn go_on<R: Into<Reach>>(
        &mut self,
        tcp: impl AsFd,
        reach: impl Fn(&Peer) -> R,
        now: Instant,
    ) -> io::Result<Progress> {
        loop {
            match core::mem::replace(&mut self.state, Calling::Done) {
                Calling::Announced {
                    mut asked,
                    own_name,
                    since,
                    pause,
                    next,
                } => {
                    if let Some(name) = &own_name {
                        self.receive_calls(name, &mut asked, &tcp)?;
                    }
                    if let Some(greeting) = self.accepted(&mut asked, &tcp, &reach, now)? {
                        self.state = Calling::Greeting(greeting);
                        continue;
                    }
                    let since = since.unwrap_or(Since {
                        began: now,
                        settled: None,
                    });
                    let early = next.is_some_and(|next| now < next);
                    let since = if early {
                        Some(since)
                    } else {
                        ask(
                            &self.kernel,
                            &self.timeouts,
                            since,
                            &tcp,
                            self.is_shown,
                            now,
                        )?
                    };
                    let may_come = own_name.is_some() || !asked.is_empty();
                    let Some(since) = since.filter(|_| may_come) else {
                        return Ok(Progress::Done(Outcome::Plain));
                    };
                    let (pause, until) = match next.filter(|_| early) {
                        Some(next) => (pause, next),
                        None => ((pause * 2).min(PAUSES.1), now + pause),
                    };
                    let (since, next) = (Some(since), Some(until));
                    self.state = Calling::Announced {
                        asked,
                        own_name,
                        since,
                        pause,
                        next,
                    };
                    return Ok(Progress::Pending { until });
                }
                Calling::Greeting(greeting) => match greeting.poll(now) {
                    Ok(paired) => return Ok(Progress::Done(Outcome::Paired(paired))),
                    Err(greeting) => {
                        let until = greeting.until();
                        self.state = Calling::Greeting(greeting);
                        return Ok(Progress::Pending { until });
                    }
                },
                Calling::Done => return Ok(Progress::Done(Outcome::Plain)),
            }
        }
    }

    /// Goes on until the end, waiting as long as that takes.
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

    /// Ends the call now. If GO was sent already, both ends speak CLC, over whatever channel
    /// there was before: the device has to know what is in flight over a new one
    /// ([`Device::abandon`](super::super::Device::abandon)).
    pub fn give_up(&mut self) -> Outcome {
        match core::mem::replace(&mut self.state, Calling::Done) {
            Calling::Greeting(greeting) => Outcome::Paired(greeting.give_up()),
            Calling::Announced { .. } | Calling::Done => Outcome::Plain,
        }
    }

    /// The process that got GO, and is about to send its first message: it may assume that the
    /// channel is made.
    #[must_use]
    pub fn greets(&self) -> Option<Peer> {
        match &self.state {
            Calling::Greeting(greeting) => Some(greeting.peer),
            _ => None,
        }
    }

    /// What becomes readable when [`Self::poll`] can go on; it may also go on at the
    /// time it named, or when bytes arrive on the connection.
    #[must_use]
    pub fn sockets(&self) -> Vec<BorrowedFd<'_>> {
        match &self.state {
            Calling::Announced {
                asked, own_name, ..
            } => {
                let name = own_name.iter().map(AsFd::as_fd);
                name.chain(asked.iter().map(|at| at.socket.as_fd()))
                    .collect()
            }
            Calling::Greeting(greeting) => greeting.socket().into_iter().collect(),
            Calling::Done => Vec::new(),
        }
    }

    /// Receives calls of processes that may have accepted the connection, a few at a time.
    //= SHM-078
    fn receive_calls(
        &self,
        name: &OwnName,
        asked: &mut Vec<Asked>,
        tcp: impl AsFd,
    ) -> io::Result<()> {
        for (socket, uid) in name.receive(&self.kernel, ends(tcp)?)? {
            if asked.iter().filter(|at| at.has_called).count() >= CALLS {
                let oldest = asked.iter().position(|at| at.has_called);
                oldest.map(|at| asked.remove(at));
            }
            asked.push(Asked {
                socket,
                uid,
                has_called: true,
            });
        }
        Ok(())
    }

    /// Whether a process claims that it accepted the connection, and the kernel confirms that.
    fn accepted<R: Into<Reach>>(
        &mut self,
        asked: &mut Vec<Asked>,
        tcp: impl AsFd,
        reach: impl Fn(&Peer) -> R,
        now: Instant,
    ) -> io::Result<Option<Greeting>> {
        let mut at = 0;
        while let Some(one) = asked.get(at) {
            match one.socket.receive() {
                Received::Nothing => at += 1,
                Received::Message(
                    Message::Mine {
                        cookie,
                        gid,
                        joined,
                    },
                    None,
                ) => {
                    let Asked {
                        socket,
                        uid,
                        has_called,
                    } = asked.remove(at);
                    let (near, far) = ends(&tcp)?;
                    let end = self.kernel.end(far, near)?;
                    //= SHM-009
                    let Some(end) = end.filter(|end| end.cookie == cookie && end.held) else {
                        continue;
                    };
                    //= SHM-006
                    if has_called && !belongs(uid, end.uid) {
                        continue;
                    }
                    let peer = Peer { gid, uid };
                    //= SHM-013
                    let reach = reach(&peer).into();
                    // Without a channel, CLC declines.
                    //= SHM-042
                    let fresh = !(joined && reach.joined) && reach.may_greet;
                    //= SHM-010
                    let gid_of_own = self.gids.toward(uid);
                    let go = Message::Go {
                        fresh,
                        gid: gid_of_own,
                    };
                    if socket.send(go, None).is_err() {
                        continue;
                    }
                    // Another process may accept the next one.
                    self.is_to_one &= !has_called;
                    self.is_to_workers &= has_called;
                    return Ok(Some(Greeting::begin(peer, fresh, socket, gid_of_own, now)));
                }
                Received::Message(..)
                | Received::Stripped(_)
                | Received::Malformed
                | Received::End => {
                    asked.remove(at);
                }
            }
        }
        Ok(None)
    }

    /// Whether exactly one listener was there, which is marked, and the process that has answered
    /// has called: it is one of those that may accept the next connection.
    #[must_use]
    pub fn is_to_workers(&self) -> bool {
        self.is_to_workers
    }

    /// Whether exactly one listener was there, and the process that was called there has answered
    /// if any has: it accepts the next connection, too.
    #[must_use]
    pub fn is_to_one(&self) -> bool {
        self.is_to_one
    }
}

/// Asks the kernel where a connection is; `None` if no answer will come.
fn ask(
    kernel: &Kernel,
    timeouts: &PairingTimeouts,
    since: Since,
    tcp: impl AsFd,
    is_shown: bool,
    now: Instant,
) -> io::Result<Option<Since>> {
    let (near, far) = ends(&tcp)?;
    //= SHM-011
    let Some(end) = kernel.end(far, near)? else {
        return Ok(None);
    };
    // A server that waits for a Proposal sends nothing before it.
    let mut byte = [0];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    if rustix::net::recv(&tcp, &mut byte[..], flags).is_ok() {
        return Ok(None);
    }
    let waited = now - since.began;
    if !end.held && end.established {
        return Ok((waited < timeouts.accept).then_some(since));
    }
    let (settled, asked) = since.settled.unwrap_or((now, 0));
    let graceful = match end.is_marked {
        //= SHM-077
        true => now - settled < timeouts.accept.max(timeouts.grace),
        false => (!is_shown || !end.held) && (now - settled < timeouts.grace || asked < QUESTIONS),
    };
    Ok(graceful.then_some(Since {
        settled: Some((settled, asked + 1)),
        ..since
    }))
}

impl Asked {
    /// Calls a listener's process by the listener's name.
    fn call(listener: &Listening) -> Option<Self> {
        let (socket, uid) = spare::call(listener.into()).ok()?;
        Some(Self {
            socket: Socket::new(socket),
            uid,
            has_called: false,
        })
    }
}

/// Whether an address is one of this host's, and one that names a single socket.
pub(super) fn is_here(remote: SocketAddr) -> bool {
    let ip = remote.ip();
    let link_local = match remote {
        SocketAddr::V6(v6) => v6.ip().is_unicast_link_local(),
        SocketAddr::V4(_) => false,
    };
    if ip.is_unspecified() || ip.is_multicast() || link_local {
        return false;
    }
    // Only addresses of this host can be bound to. That takes a socket, and no other host has an
    // address of the loopback interface.
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}
