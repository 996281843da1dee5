//! Who listens at an address, without calling anybody.

use std::io;
use std::net::SocketAddr;

use super::client::is_here;
use super::kernel::Kernel;
use super::{name_of, normal};

/// Those who may accept a connection to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listeners {
    /// How many there are.
    pub all: usize,
    /// How many of them answer to their names: only if all do is a client paired.
    pub named: usize,
}

/// Who may accept a connection to an address; `None` if it is not one of this host's, or
/// one that names no single socket. Nobody is called, and nobody hears of it.
///
/// # Errors
/// The operating system's.
pub fn survey(address: SocketAddr) -> io::Result<Option<Listeners>> {
    let address = normal(address);
    if !is_here(address) {
        return Ok(None);
    }
    let listeners = Kernel::open()?.listeners(address)?;
    let names = std::fs::read("/proc/net/unix").unwrap_or_default();
    let is_named = |cookie: u64| {
        // An abstract name begins with an at sign there, and ends the line.
        let name = [b"@", name_of(cookie).as_slice()].concat();
        names
            .split(|octet| *octet == b'\n')
            .any(|line| line.ends_with(&name))
    };
    let named = listeners.iter().filter(|at| is_named(at.cookie)).count();
    let all = listeners.len();
    Ok(Some(Listeners { all, named }))
}
