//! Sockets that listen at an address, without a call to any of their processes.

use std::io;
use std::net::SocketAddr;

use super::client::is_here;
use super::destination::unbound_destination;
use super::kernel::Kernel;
use super::names::holders;
use super::spare::spares;
use super::{belongs, name_of, normal};

/// Sockets that may accept a connection to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listeners {
    /// Number of all.
    pub all: usize,
    /// Number of those that are marked, or whose names answer: only if all are or do is a client
    /// paired.
    pub named: usize,
    /// User of a process that answers to the name of one, and must not (SHM-006): it is
    /// neither the user of the socket nor root, or stands for users unknown here.
    pub foreign: Option<u32>,
}

/// Sockets that may accept a connection to an address; `None` if it is not one of this
/// host's, or one that names no single socket. For the unspecified address it is that of
/// [`unbound_destination`]. No process is called, and none notices.
///
/// # Errors
/// The operating system's.
pub fn survey(address: SocketAddr) -> io::Result<Option<Listeners>> {
    let address = normal(unbound_destination(address));
    if !is_here(address) {
        return Ok(None);
    }
    let listeners = Kernel::open()?.listeners(address)?;
    let holders = holders();
    let mut found = Listeners {
        all: listeners.len(),
        named: 0,
        foreign: None,
    };
    for listener in &listeners {
        if listener.is_marked && !belongs(listener.uid, listener.uid) {
            // Its processes are of a user that is unknown here, and pair with none.
            found.foreign = Some(listener.uid);
        }
        if listener.is_marked || spares(listener.into(), &holders).next().is_some() {
            found.named += 1;
            continue;
        }
        let Some(holder) = holders.get(&name_of(listener.cookie)) else {
            continue;
        };
        found.named += 1;
        // A kernel that does not name the user is not to be guessed for.
        found.foreign = holder
            .filter(|uid| !belongs(*uid, listener.uid))
            .or(found.foreign);
    }
    Ok(Some(found))
}
