//! The name of a rendezvous, and a spare one where another user has taken that in advance.
//!
//! ```text
//!   smc-d.3.<cookie>            free ───────────────────────► the name
//!   smc-d.3.<cookie>.<random>   the first is another user's ─► the spare name
//! ```
//!
//! Likewise the name of a client, `smc-d-client.3.<cookie>`.
//!
//! Cookies can be guessed, 64 random bits cannot. That there is a spare name is shown by an
//! option of the listening socket, which the kernel reports together with its cookie:
//! `IP_MULTICAST_LOOP`, which means nothing to TCP, and which only a process that has the
//! socket can change. So no other user can hide a spare name, and clients of other listeners
//! need not search for one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, sockopt};

use super::kernel::{End, Listening};
use super::names::{Holders, holders};
use super::{belongs, client_name_of, name_of};
use crate::shared::socket::Socket;

/// Most spare names of one listener that are tried: only its own user makes them.
const SPARES: usize = 8;

/// Binds a socket to the name that `naming` makes of the cookie of `tcp`, or to a spare one.
///
/// # Errors
/// The operating system's; [`io::ErrorKind::AddrInUse`] if a process of this user, or root,
/// answers to the name.
//= SHM-054
pub(super) fn bind(socket: &OwnedFd, tcp: impl AsFd, naming: fn(u64) -> Vec<u8>) -> io::Result<()> {
    let mut name = naming(sockopt::socket_cookie(&tcp)?);
    match rustix::net::bind(socket, &SocketAddrUnix::new_abstract_name(&name)?) {
        Err(Errno::ADDRINUSE) => {}
        other => return Ok(other?),
    }
    let own = rustix::process::geteuid().as_raw();
    if connect(&name).is_ok_and(|(_, uid)| belongs(uid, own)) {
        return Err(Errno::ADDRINUSE.into());
    }
    name.extend(format!(".{:016x}", crate::shared::random()?).bytes());
    rustix::net::bind(socket, &SocketAddrUnix::new_abstract_name(&name)?)?;
    Ok(sockopt::set_ip_multicast_loop(&tcp, false)?)
}

/// A TCP socket whose process may have a name made of its cookie.
#[derive(Clone, Debug)]
pub(super) struct Named {
    name: Vec<u8>,
    uid: u32,
    has_spare: bool,
}

impl From<&Listening> for Named {
    fn from(listener: &Listening) -> Self {
        Self {
            name: name_of(listener.cookie),
            uid: listener.uid,
            has_spare: listener.has_spare,
        }
    }
}

impl From<&End> for Named {
    fn from(end: &End) -> Self {
        Self {
            name: client_name_of(end.cookie),
            uid: end.uid,
            has_spare: end.has_spare,
        }
    }
}

/// Calls the process that has a socket: the connection to it, and the user of the process, which
/// may speak for the socket.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if a process there has not received the calls before this one;
/// others if there is none of a user that may speak for the socket.
//= SHM-006
pub(super) fn call(socket: Named) -> io::Result<(OwnedFd, u32)> {
    let owner = socket.uid;
    let judged = |called: io::Result<(OwnedFd, u32)>| match called {
        Ok((_, uid)) if !belongs(uid, owner) => Err(io::ErrorKind::PermissionDenied.into()),
        called => called,
    };
    let first = judged(connect(&socket.name));
    if first.is_ok() || !socket.has_spare {
        return first;
    }
    let holders = holders();
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    for name in spares(socket, &holders) {
        match judged(connect(name)) {
            Ok(called) => return Ok(called),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => outcome = Err(error),
            Err(_) => {}
        }
    }
    outcome
}

/// Spare names of a socket at which processes that may speak for it listen.
//= SHM-054
pub(super) fn spares(socket: Named, holders: &Holders) -> impl Iterator<Item = &[u8]> {
    let (uid, has_spare, mut prefix) = (socket.uid, socket.has_spare, socket.name);
    prefix.push(b'.');
    let all = holders.iter().filter(move |_| has_spare);
    all.filter(move |(name, holder)| {
        // A kernel that does not name the user is not to be guessed for.
        name.starts_with(&prefix) && holder.is_none_or(|holder| belongs(holder, uid))
    })
    .map(|(name, _)| name.as_slice())
    .take(SPARES)
}

/// Connects to a name: the socket, and the user of the process there.
fn connect(name: &[u8]) -> io::Result<(OwnedFd, u32)> {
    let name = SocketAddrUnix::new_abstract_name(name)?;
    let socket = Socket::unconnected()?;
    rustix::net::connect(&socket, &name)?;
    let uid = crate::sys::peer_uid(&socket)?;
    Ok((socket, uid))
}
