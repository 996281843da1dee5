//! Pairing: before either side sends a byte of CLC, two processes of one host find out that they
//! hold both ends of one TCP connection, and that both want SMC-D for it.
//!
//! The client announces the connection to the processes that may accept it. One of them accepts it
//! and claims it. Each side asks the kernel, by `sock_diag`, whether the other one holds the other
//! end; sockets are named by their cookies.
//!
//! ```text
//!  client                          kernel                        server
//!                                                     listen; Rendezvous::open
//!  Call::announce ── listeners of the port? ──►
//!        └─ Announce: socket C will connect ────────────────────────────►│
//!  TCP connect ────────────────── SYN ──────────────────────────────►   accept
//!                                 ◄── cookie of the other end? ── Rendezvous::answer
//!  Call::poll  ◄──────────────── Mine: accepted as socket S ────────────┤ it is C
//!        ├─ cookie of the other end? ──►
//!        └─ it is S: Go ───────────────────────────────────────────────►  Answer::poll
//!  ═════════ CLC on the TCP connection, DMBs over the channel ═══════════
//! ```
//!
//! A process that has inherited a listener, such as a worker, has no rendezvous. If the listener is
//! marked ([`mark_listener`]), that process calls the client instead:
//!
//! ```text
//!  Call::announce ── listens at a name made of C ──► TCP connect ──────►  accept
//!                                 ◄── cookie of the other end? ── Answer::call_back
//!  Call::poll  ◄──────────────── Mine: accepted as socket S ────────────┤
//!        └─ Go ────────────────────────────────────────────────────────►  Answer::poll
//! ```
//!
//! In all other cases the connection is plain TCP. The statements cited here (`SHM-…`) are those of
//! `docs/shared-memory.md`.

mod call_back;
mod callers;
mod client;
mod destination;
mod kernel;
mod mark;
mod names;
mod own_name;
mod owners;
mod server;
mod spare;
mod survey;

pub use call_back::takes_calls;
pub use callers::{Callers, MAX_CALLERS};
pub use client::{Call, Grace, MAX_LISTENERS};
pub use destination::{destination, unbound_destination};
pub use mark::{let_go, mark_announced, mark_listener, unmark_client, unmark_listener};
pub use owners::Owners;
pub use server::{Answer, Rendezvous};
pub use survey::{Listeners, survey};

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::channel::{Begun, Channel, NotMade};
use super::socket::Socket;
use crate::device::Gid128;

/// Timeouts of pairing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairingTimeouts {
    /// Client: longest wait until the connection is accepted, and then until the process that has
    /// accepted it calls, as long as the kernel shows that it may. As plain TCP, the connection would
    /// wait as long for the server.
    pub accept: Duration,
    /// Client: longest wait for an answer of the process that has accepted the connection, where the
    /// kernel does not show whether it will answer. The wait is longer until the client has asked the
    /// kernel eight times, as on a busy machine.
    pub grace: Duration,
    /// Server: longest wait for GO of a client that has announced its connection.
    pub go: Duration,
}

/// Old name of [`PairingTimeouts`].
#[deprecated(note = "renamed to `PairingTimeouts`")]
pub type Patience = PairingTimeouts;

impl Default for PairingTimeouts {
    fn default() -> Self {
        Self {
            accept: Duration::from_millis(500),
            grace: Duration::from_millis(5),
            go: Duration::from_millis(500),
        }
    }
}

/// Longest wait for the peer's first message on a new channel, after GO.
const GREETING: Duration = Duration::from_secs(1);

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// GID of the peer's device.
    pub gid: Gid128,
    /// User of the peer, as the kernel reports it.
    pub uid: u32,
}

/// Result of polling a pairing.
#[derive(Debug)]
#[must_use]
pub enum Progress {
    /// Poll again when one of the sockets is readable, or at this time.
    Pending {
        /// When to poll again at the latest.
        until: Instant,
    },
    /// Pairing has ended with this outcome.
    Done(Outcome),
}

/// Outcome of pairing.
#[derive(Debug)]
#[must_use]
pub enum Outcome {
    /// The connection is plain TCP: the other side neither sends nor expects CLC.
    Plain,
    /// Both sides want SMC-D: CLC messages follow.
    Paired(Paired),
}

/// A pair of processes that speak CLC on a TCP connection next. For
/// [`Device::admit`](super::Device::admit).
#[derive(Debug)]
pub struct Paired {
    /// The process at the other end.
    pub peer: Peer,
    /// The new channel. `None` if there was one before, or none could be made.
    pub(super) channel: Option<Box<Channel>>,
    /// Socket on which a new channel was begun and did not come about. The peer may take it for one.
    pub(super) left: Option<Socket>,
}

/// What a device knows of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Whether there is a channel to it.
    pub joined: bool,
    /// Whether a new channel to it may be made.
    pub may_greet: bool,
}

impl From<bool> for Reach {
    /// Makes the value of a peer that is `joined` or not, and with which a new channel may be made.
    fn from(joined: bool) -> Self {
        Self {
            joined,
            may_greet: true,
        }
    }
}

/// Both sides have decided for SMC-D, and may be making a new channel.
#[derive(Debug)]
struct ChannelHandshake {
    peer: Peer,
    /// The new channel, until the peer's first message is received.
    begun: Option<Begun>,
    deadline: Instant,
}

impl ChannelHandshake {
    /// Begins a new channel over `socket`, if it is to be `fresh`.
    fn begin(peer: Peer, fresh: bool, socket: Socket, gid: Gid128, now: Instant) -> Self {
        // Failures no longer change the decision. Without a channel the peer cannot be reached,
        // and CLC declines.
        //= SHM-014
        let begun = if fresh {
            Begun::begin(socket, gid).ok()
        } else {
            None
        };
        Self {
            peer,
            begun,
            deadline: now + GREETING,
        }
    }

    /// Receives the peer's first message. Returns itself while there is none and time left.
    fn poll(mut self, now: Instant) -> Result<Paired, Self> {
        let Some(begun) = self.begun.take() else {
            return Ok(Paired {
                peer: self.peer,
                channel: None,
                left: None,
            });
        };
        match begun.poll() {
            // The peer has to name the GID on the channel that it has named before.
            Ok(channel) if channel.peer == self.peer.gid => Ok(Paired {
                peer: self.peer,
                channel: Some(Box::new(channel)),
                left: None,
            }),
            Err(NotMade::Yet(begun)) if now < self.deadline => {
                self.begun = Some(begun);
                Err(self)
            }
            Ok(Channel { socket, .. })
            | Err(NotMade::Yet(Begun { socket, .. }) | NotMade::Never(socket)) => Ok(Paired {
                peer: self.peer,
                channel: None,
                left: Some(socket),
            }),
        }
    }

    /// Ends without a new channel.
    fn give_up(self) -> Paired {
        Paired {
            peer: self.peer,
            channel: None,
            left: self.begun.map(|begun| begun.socket),
        }
    }

    /// When to poll again at the latest.
    fn until(&self) -> Instant {
        self.deadline
    }

    /// Socket of the new channel.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.begun.as_ref().map(AsFd::as_fd)
    }
}

/// Name at which clients call the process of the listening socket with this cookie.
//= SHM-003
fn name_of(cookie: u64) -> Vec<u8> {
    format!("smc-d.3.{cookie:016x}").into_bytes()
}

/// Name at which the process that has accepted a connection calls its client, whose socket has this
/// cookie.
//= SHM-076
fn client_name_of(cookie: u64) -> Vec<u8> {
    format!("smc-d-client.3.{cookie:016x}").into_bytes()
}

/// Whether a process of user `process` may speak for a socket of user `socket`: it is the same
/// user, or root. The ID that stands for all users unknown to this user namespace speaks for none.
pub(super) fn belongs(process: u32, socket: u32) -> bool {
    process != unknown_user() && (process == socket || process == 0)
}

/// User of the calling thread, if a peer can identify it.
///
/// # Errors
/// The user's ID, if it is the one that stands for all users unknown to this user namespace. Such a
/// process pairs with none (SHM-006).
pub fn own_user() -> Result<u32, u32> {
    let uid = super::own_user::own_user();
    if uid == unknown_user() {
        Err(uid)
    } else {
        Ok(uid)
    }
}

/// ID that the kernel reports for all users unknown to this user namespace.
fn unknown_user() -> u32 {
    // Not a lock: a child that was forked while another thread held it could never take it.
    static UNKNOWN: AtomicU64 = AtomicU64::new(u64::MAX);
    if let Ok(known) = u32::try_from(UNKNOWN.load(Ordering::Relaxed)) {
        return known;
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    let unknown = text.trim().parse().unwrap_or(65534);
    UNKNOWN.store(u64::from(unknown), Ordering::Relaxed);
    unknown
}

/// An address in the form in which the kernel compares it: IPv4-mapped IPv6 becomes IPv4.
fn normal(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Waits until a socket is readable, or a time.
fn wait(sockets: Vec<BorrowedFd<'_>>, until: Instant) -> io::Result<()> {
    super::socket::wait_readable(&sockets, until).map(|_| ())
}

#[cfg(test)]
mod tests;
