//! How two processes find out that they hold the two ends of one TCP connection, and
//! both want to speak SMC-D on it, before either sends a byte of CLC.
//!
//! ```text
//!  client                          kernel                        server
//!                                                     listen; Rendezvous::open
//!  Call::announce ── who listens there? ──►
//!        └─ to each of them, by its cookie: I shall connect socket C ──►│
//!  TCP connect ────────────────── SYN ──────────────────────────────►   accept
//!                                 ◄── whose is the other end? ── Rendezvous::answer
//!  Call::poll  ◄──────────────── mine: accepted as socket S ────────────┤ C called
//!        ├─ is the other end S? ──►
//!        └───────────────────────── go ────────────────────────────────►  Answer::poll
//!  ═════════ CLC on the TCP connection, DMBs over the channel ═══════════
//! ```
//!
//! Or whichever process has accepted the connection calls the client, from a listener that is
//! marked for that:
//!
//! ```text
//!  Call::announce ── listens at a name of socket C's ──► TCP connect ──────►  accept
//!                                 ◄── whose is the other end? ── Answer::call_back
//!  Call::poll  ◄──────────────── mine: accepted as socket S ────────────┤
//!        └───────────────────────── go ────────────────────────────────►  Answer::poll
//! ```
//!
//! Whatever else happens, the connection is plain TCP. The statements cited here
//! (`SHM-…`) are those of `docs/shared-memory.md`.

mod call_back;
mod callers;
mod client;
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
    /// Client: until the connection is accepted, and again until the process that accepted it
    /// calls, as long as the kernel shows that it may. Meanwhile the server would not read from
    /// it either.
    pub accept: Duration,
    /// Client: until the process that accepted the connection answers, where the kernel does not
    /// show whether it will; longer if the client has not asked the kernel eight times by then, as
    /// on a busy machine.
    pub grace: Duration,
    /// Server: until the client, known to be waiting, goes on.
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

/// Longest wait for a channel's first message, once both have decided.
const GREETING: Duration = Duration::from_secs(1);

/// The process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// GID of the peer's device.
    pub gid: Gid128,
    /// User of the peer, as the kernel reports it.
    pub uid: u32,
}

/// How far pairing has got.
#[derive(Debug)]
#[must_use]
pub enum Progress {
    /// Nothing to do before the sockets are readable, or this time.
    Pending {
        /// When to poll at the latest.
        until: Instant,
    },
    /// Pairing has ended with this outcome.
    Done(Outcome),
}

/// Outcome of pairing.
#[derive(Debug)]
#[must_use]
pub enum Outcome {
    /// Plain TCP: the other side will neither send nor take CLC.
    Plain,
    /// Both sides have agreed: CLC messages follow.
    Paired(Paired),
}

/// Two processes that will speak CLC on a TCP connection.
#[derive(Debug)]
pub struct Paired {
    /// The process at the other end.
    pub peer: Peer,
    pub(super) channel: Option<Box<Channel>>,
    /// Where no channel was made, over which this side's first message was sent.
    pub(super) left: Option<Socket>,
}

/// What a device knows of a peer, and may have to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// There is a channel to it.
    pub joined: bool,
    /// A channel may be made.
    pub may_greet: bool,
}

impl From<bool> for Reach {
    /// Joined or not, a channel may be made.
    fn from(joined: bool) -> Self {
        Self {
            joined,
            may_greet: true,
        }
    }
}

/// Both have decided; what is left is the channel's beginning.
#[derive(Debug)]
struct Greeting {
    peer: Peer,
    begun: Option<Begun>,
    deadline: Instant,
}

impl Greeting {
    fn begin(peer: Peer, fresh: bool, socket: Socket, gid: Gid128, now: Instant) -> Self {
        // What fails from here on no longer changes what was decided: without a
        // channel the peer is out of reach, and CLC declines.
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

    fn poll(mut self, now: Instant) -> Result<Paired, Self> {
        let Some(begun) = self.begun.take() else {
            return Ok(Paired {
                peer: self.peer,
                channel: None,
                left: None,
            });
        };
        match begun.poll() {
            // Whatever GID it claims, it is the process that was paired.
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

    /// Ends it without a new channel.
    fn give_up(self) -> Paired {
        Paired {
            peer: self.peer,
            channel: None,
            left: self.begun.map(|begun| begun.socket),
        }
    }

    fn until(&self) -> Instant {
        self.deadline
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.begun.as_ref().map(AsFd::as_fd)
    }
}

/// The name at which the process of a listening socket is called.
//= SHM-003
fn name_of(cookie: u64) -> Vec<u8> {
    format!("smc-d.3.{cookie:016x}").into_bytes()
}

/// The name at which the process of a client is called by whichever process has accepted.
//= SHM-076
fn client_name_of(cookie: u64) -> Vec<u8> {
    format!("smc-d-client.3.{cookie:016x}").into_bytes()
}

/// Whether a process of user `process` may speak for a socket of user `socket`.
///
/// User ID of all users that this user namespace does not know: it belongs to none.
pub(super) fn belongs(process: u32, socket: u32) -> bool {
    process != unknown_user() && (process == socket || process == 0)
}

/// User of this process, if a peer can know it: the one that stands for users unknown to
/// the kernel pairs with no process (SHM-006).
///
/// # Errors
/// That user.
pub fn own_user() -> Result<u32, u32> {
    let uid = super::own_user::own_user();
    if uid == unknown_user() {
        Err(uid)
    } else {
        Ok(uid)
    }
}

/// The user that the kernel names instead of those this user namespace does not know.
fn unknown_user() -> u32 {
    // No lock: a thread that held it at a fork would leave it to the child.
    static UNKNOWN: AtomicU64 = AtomicU64::new(u64::MAX);
    if let Ok(known) = u32::try_from(UNKNOWN.load(Ordering::Relaxed)) {
        return known;
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
    let unknown = text.trim().parse().unwrap_or(65534);
    UNKNOWN.store(u64::from(unknown), Ordering::Relaxed);
    unknown
}

/// An address as the kernel compares it: IPv4 is IPv4, however it is written.
fn normal(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn wait(sockets: Vec<BorrowedFd<'_>>, until: Instant) -> io::Result<()> {
    super::socket::wait_readable(&sockets, until).map(|_| ())
}

#[cfg(test)]
mod tests;
