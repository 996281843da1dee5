//! The accepting side of a connection whose client listens at its own name.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::kernel::{End, Kernel};
use super::server::{Answer, Answering, LONGEST, ends};
use super::{PairingTimeouts, Peer, Reach, own_user, spare};
use crate::device::Gid128;
use crate::shared::gids::Gids;
use crate::shared::message::Message;
use crate::shared::socket::Socket;

/// Pause before a client is called again whose queue of calls was full, or that had no name.
const PAUSE: Duration = Duration::from_millis(1);

/// A client to be called, and as what.
#[derive(Debug)]
pub(super) struct Calling {
    client: End,
    /// Both addresses of the connection, this side's first.
    ends: (SocketAddr, SocketAddr),
    /// Cookie of the accepted socket.
    cookie: u64,
    gids: Gids,
    /// When to call again.
    next: Instant,
}

/// What a call has come to.
pub(super) enum Called {
    /// The client has it, and belongs to this user.
    Yes(Socket, u32),
    /// Its queue of calls is full, or it has no name yet.
    NotYet(Box<Calling>),
    No,
}

/// Whether the client of an accepted connection may take a call: the kernel's answer, which no
/// other process notices.
#[must_use]
pub fn takes_calls(accepted: impl AsFd) -> bool {
    client(accepted).is_some()
}

/// The other end of a connection, if it shows that it takes calls.
//= SHM-002
fn client(accepted: impl AsFd) -> Option<End> {
    let (near, far) = ends(accepted).ok()?;
    //= SHM-008
    let client = Kernel::open().ok()?.end(far, near).ok()??;
    client.takes_calls().then_some(client)
}

impl Answer {
    /// Calls the client of an accepted connection, at its own name. Never waits; with `None` the
    /// connection is plain TCP, at once and for good.
    ///
    /// Any process that has the connection may call, and one of them does. `reach` is as for
    /// [`Rendezvous::answer`](super::Rendezvous::answer); the peer's GID is not known yet, and
    /// zero.
    //= SHM-076
    pub fn call_back<R: Into<Reach>>(
        accepted: impl AsFd,
        gids: &Gids,
        reach: impl FnOnce(&Peer) -> R,
        timeouts: &PairingTimeouts,
    ) -> Option<Self> {
        //= SHM-006
        own_user().ok()?;
        let client = client(&accepted)?;
        let cookie = rustix::net::sockopt::socket_cookie(&accepted).ok()?;
        let now = Instant::now();
        let mut answer = Self {
            state: Answering::Done,
            gid: gids.toward(client.uid),
            peer: Peer {
                gid: Gid128 { gid: 0, ext: 0 },
                uid: client.uid,
            },
            may_greet: false,
            calls_back: true,
            deadline: now + timeouts.go.min(LONGEST),
        };
        let calling = Box::new(Calling {
            client,
            ends: ends(&accepted).ok()?,
            cookie,
            gids: gids.clone(),
            next: now,
        });
        match calling.call(now) {
            Called::Yes(socket, uid) => answer.has_called(socket, uid, gids),
            Called::NotYet(calling) => answer.state = Answering::Calling(calling),
            Called::No => return None,
        }
        //= SHM-042
        answer.may_greet = reach(&answer.peer).into().may_greet;
        Some(answer)
    }

    /// The client has the call.
    pub(super) fn has_called(&mut self, socket: Socket, uid: u32, gids: &Gids) {
        self.gid = gids.toward(uid);
        self.peer.uid = uid;
        self.state = Answering::Asked(socket);
    }
}

impl Calling {
    /// When to go on at the latest.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn gids(&self) -> &Gids {
        &self.gids
    }

    /// Calls the client, if it is time.
    pub(super) fn call(mut self: Box<Self>, now: Instant) -> Called {
        if now < self.next {
            return Called::NotYet(self);
        }
        match spare::call((&self.client).into()) {
            Ok((socket, uid)) => {
                let mine = Message::Mine {
                    cookie: self.cookie,
                    gid: self.gids.toward(uid),
                    joined: true,
                };
                let socket = Socket::new(socket);
                match socket.send(mine, None) {
                    Ok(()) => Called::Yes(socket, uid),
                    Err(_) => Called::No,
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.next = now + PAUSE;
                Called::NotYet(self)
            }
            Err(_) => match self.client_again() {
                //= SHM-080
                Some(client) => {
                    self.client = client;
                    self.next = now + PAUSE;
                    Called::NotYet(self)
                }
                None => Called::No,
            },
        }
    }

    /// The client, if it shows that it opens its name unless it is answered over shared memory.
    fn client_again(&self) -> Option<End> {
        if !self.client.will_take_calls {
            return None;
        }
        let (near, far) = self.ends;
        let end = Kernel::open().ok()?.end(far, near).ok()??;
        let is_it = end.cookie == self.client.cookie && end.will_take_calls;
        (is_it && end.takes_calls()).then_some(end)
    }
}
