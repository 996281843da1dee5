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

use super::kernel::Listening;
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
    if connect(&name).is_some_and(|(_, uid)| belongs(uid, own)) {
        return Err(Errno::ADDRINUSE.into());
    }
    let spare = spare_of(cookie, crate::shared::random()?);
    rustix::net::bind(socket, &SocketAddrUnix::new_abstract_name(&spare)?)?;
    Ok(sockopt::set_ip_multicast_loop(&listener, false)?)
}

/// Calls the process of a listener: the socket, and the user of the process, which may speak
/// for the listener.
//= SHM-006
pub(super) fn call(listener: &Listening) -> Option<(OwnedFd, u32)> {
    let is_right = |called: &(OwnedFd, u32)| belongs(called.1, listener.uid);
    let first = connect(&name_of(listener.cookie)).filter(is_right);
    if first.is_some() || !listener.has_spare {
        return first;
    }
    let holders = holders();
    let mut called = spares(listener, &holders).filter_map(connect);
    called.find(is_right)
}

/// Spare names of a listener at which processes that may speak for it listen.
//= SHM-054
pub(super) fn spares<'a>(
    listener: &Listening,
    holders: &'a Holders,
) -> impl Iterator<Item = &'a [u8]> {
    let (uid, mut prefix) = (listener.uid, name_of(listener.cookie));
    prefix.push(b'.');
    let all = holders.iter().filter(|_| listener.has_spare);
    all.filter(move |(name, holder)| {
        // A kernel that does not name the user is not to be guessed for.
        name.starts_with(&prefix) && holder.is_none_or(|holder| belongs(holder, uid))
    })
    .map(|(name, _)| name.as_slice())
    .take(SPARES)
}

/// Connects to a name: the socket, and the user of the process there.
fn connect(name: &[u8]) -> Option<(OwnedFd, u32)> {
    let name = SocketAddrUnix::new_abstract_name(name).ok()?;
    let socket = Socket::unconnected().ok()?;
    rustix::net::connect(&socket, &name).ok()?;
    let uid = crate::sys::peer_uid(&socket).ok()?;
    Some((socket, uid))
}
