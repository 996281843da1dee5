//! The name of a rendezvous, and a spare one where another user has taken that in advance.
//!
//! ```text
//!   smc-d.3.<cookie>            free ───────────────────────► the name
//!   smc-d.3.<cookie>.<random>   the first is another user's ─► the spare name
//! ```
//!
//! Cookies can be guessed, 64 random bits cannot. That there is a spare name is shown by an
//! option of the listening socket, which the kernel reports together with its cookie:
//! `IP_MULTICAST_LOOP`, which means nothing to TCP, and which only a process that has the
//! socket can change. So no other user can hide a spare name, and clients of other listeners
//! need not look for one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, sockopt};

use super::kernel::{End, Listening};
use super::names::{Holders, holders};
use super::{belongs, name_of};
use crate::shared::socket::Socket;

/// Most spare names of one listener that are tried: only its own user makes them.
const SPARES: usize = 8;

fn spare_of(cookie: u64, random: u64) -> Vec<u8> {
    let mut name = name_of(cookie);
    name.extend(format!(".{random:016x}").bytes());
    name
}

/// Binds a socket to the name of a listener, or to a spare one.
///
/// # Errors
/// The operating system's; [`io::ErrorKind::AddrInUse`] if a process of this user, or root,
/// answers to the name.
//= SHM-054
pub(super) fn bind(socket: &OwnedFd, listener: impl AsFd) -> io::Result<()> {
    let cookie = sockopt::socket_cookie(&listener)?;
    let name = name_of(cookie);
    match rustix::net::bind(socket, &SocketAddrUnix::new_abstract_name(&name)?) {
        Err(Errno::ADDRINUSE) => {}
        other => return Ok(other?),
    }
    let own = rustix::process::geteuid().as_raw();
    if connect(&name).is_ok_and(|(_, uid)| belongs(uid, own)) {
        return Err(Errno::ADDRINUSE.into());
    }
    let spare = spare_of(cookie, crate::shared::random()?);
    rustix::net::bind(socket, &SocketAddrUnix::new_abstract_name(&spare)?)?;
    Ok(sockopt::set_ip_multicast_loop(&listener, false)?)
}

/// A TCP socket whose process may have a name made of its cookie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    cookie: u64,
    uid: u32,
    has_spare: bool,
}

impl From<&Listening> for Named {
    fn from(listener: &Listening) -> Self {
        Self {
            cookie: listener.cookie,
            uid: listener.uid,
            has_spare: listener.has_spare,
        }
    }
}

impl From<&End> for Named {
    fn from(end: &End) -> Self {
        Self {
            cookie: end.cookie,
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
    let judged = |called: io::Result<(OwnedFd, u32)>| match called {
        Ok((_, uid)) if !belongs(uid, socket.uid) => Err(io::ErrorKind::PermissionDenied.into()),
        called => called,
    };
    let first = judged(connect(&name_of(socket.cookie)));
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
    let (uid, mut prefix) = (socket.uid, name_of(socket.cookie));
    prefix.push(b'.');
    let all = holders.iter().filter(move |_| socket.has_spare);
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
