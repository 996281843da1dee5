//! Pairing, the accepting side of a connection whose client listens at its own name: this process
//! calls the client and claims the connection.
//!
//! Used where this process has no rendezvous of its own at the listener, for example a worker that
//! has inherited it. What follows is the same as for a client that has called
//! ([`Answer::poll`]).

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

/// Pause before a client is called again whose queue of calls was full, or that had no name yet.
const PAUSE: Duration = Duration::from_millis(1);

/// A call to a client that has not been made yet.
#[derive(Debug)]
pub(super) struct PendingCall {
    client: End,
    /// Both addresses of the connection, this side's first.
    ends: (SocketAddr, SocketAddr),
    /// Cookie of the accepted socket.
    cookie: u64,
    gids: Gids,
    /// When to call next.
    next: Instant,
}

/// Outcome of a call.
pub(super) enum CallOutcome {
    /// The claim was sent to the client, whose process has this user.
    Sent(Socket, u32),
    /// The client's queue of calls is full, or it has no name yet.
    Pending(Box<PendingCall>),
    /// The client takes no calls.
    Refused,
}

/// Whether the client of an accepted connection may take a call. The kernel answers; no other
/// process notices.
#[must_use]
pub fn takes_calls(accepted: impl AsFd) -> bool {
    client(accepted).is_some()
}

/// The client's end of an accepted connection, if it shows that it takes calls.
//= SHM-002
fn client(accepted: impl AsFd) -> Option<End> {
    let (near, far) = ends(accepted).ok()?;
    //= SHM-008
    let client = Kernel::open().ok()?.end(far, near).ok()??;
    client.takes_calls().then_some(client)
}

impl Answer {
    /// Calls the client of an accepted connection at its own name, without waiting. Returns `None`
    /// if the client takes no calls: the connection is plain TCP then.
    ///
    /// Exactly one of the processes that have the connection may call. `reach` is called as
    /// [`Rendezvous::answer`](super::Rendezvous::answer) calls it, but with a GID of zero: the
    /// client's is not known yet.
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
        let call = Box::new(PendingCall {
            client,
            ends: ends(&accepted).ok()?,
            cookie,
            gids: gids.clone(),
            next: now,
        });
        match call.attempt(now) {
            CallOutcome::Sent(socket, uid) => answer.on_claim_sent(socket, uid, gids),
            CallOutcome::Pending(call) => answer.state = Answering::Calling(call),
            CallOutcome::Refused => return None,
        }
        //= SHM-042
        answer.may_greet = reach(&answer.peer).into().may_greet;
        Some(answer)
    }

    /// Waits for GO of a client, of user `uid`, to which the claim was sent.
    pub(super) fn on_claim_sent(&mut self, socket: Socket, uid: u32, gids: &Gids) {
        self.gid = gids.toward(uid);
        self.peer.uid = uid;
        self.state = Answering::AwaitingGo(socket);
    }
}

impl PendingCall {
    /// When to call next.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn gids(&self) -> &Gids {
        &self.gids
    }

    /// Calls the client, if the pause since the last attempt is over, and claims the connection.
    pub(super) fn attempt(mut self: Box<Self>, now: Instant) -> CallOutcome {
        if now < self.next {
            return CallOutcome::Pending(self);
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
                    Ok(()) => CallOutcome::Sent(socket, uid),
                    Err(_) => CallOutcome::Refused,
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.next = now + PAUSE;
                CallOutcome::Pending(self)
            }
            Err(_) => match self.client_with_name() {
                //= SHM-080
                Some(client) => {
                    self.client = client;
                    self.next = now + PAUSE;
                    CallOutcome::Pending(self)
                }
                None => CallOutcome::Refused,
            },
        }
    }

    /// The state of a client that was not at its name, if it may open the name later: it does so
    /// unless it is answered over shared memory.
    fn client_with_name(&self) -> Option<End> {
        if !self.client.will_take_calls {
            return None;
        }
        let (near, far) = self.ends;
        let end = Kernel::open().ok()?.end(far, near).ok()??;
        let is_it = end.cookie == self.client.cookie && end.will_take_calls;
        (is_it && end.takes_calls()).then_some(end)
    }
}
