//! Ports at which this process alone listens.
//!
//! A connection to one of them has this process at both ends, and one stack, which does not reach
//! itself: it is TCP. A program that connects before it accepts, in one thread, must not wait for
//! what only that thread could do.
//!
//! Such a client sends no message of CLC, also where the policy takes it to speak SMC. The accepting side
//! recognizes it by its socket and its address.
//!
//! After a fork other processes may accept from the same sockets: no listener so far counts then,
//! in the parent and in the child.

mod clients;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::conn::borrowed;
use super::{config, table};

pub(crate) use clients::{connects, connects_anew, is_client_of};

/// A bit for each port at which this process has begun to listen. It may have closed the listener.
static PORTS: [AtomicU64; 1 << 10] = [const { AtomicU64::new(0) }; 1 << 10];
/// Whether there is such a bit.
static ARE_THERE: AtomicBool = AtomicBool::new(false);

/// The word of a port, and its bit.
fn place(port: u16) -> (&'static AtomicU64, u64) {
    let at = usize::from(port >> 6) % PORTS.len();
    (&PORTS[at], 1 << (port & 63))
}

/// The address of a socket of IP.
fn address(fd: i32) -> Option<SocketAddr> {
    let address = rustix::net::getsockname(borrowed(fd)).ok()?;
    SocketAddr::try_from(address).ok()
}

/// This process has begun to listen.
pub(crate) fn begins(fd: i32) {
    if !config::is_active() || config::is_vforked() {
        return;
    }
    if let Some(address) = address(fd) {
        let (word, bit) = place(address.port());
        word.fetch_or(bit, Ordering::Relaxed);
        ARE_THERE.store(true, Ordering::Release);
    }
}

/// The process is copied: other processes have its listeners, too.
pub(crate) fn are_shared() {
    if ARE_THERE.swap(false, Ordering::AcqRel) {
        PORTS
            .iter()
            .for_each(|word| word.store(0, Ordering::Relaxed));
    }
    clients::forget_unconnected();
}

/// Whether this process, and no other one, accepts connections to an address.
pub(crate) fn are_at(to: SocketAddr) -> bool {
    if !ARE_THERE.load(Ordering::Acquire) {
        return false;
    }
    let (word, bit) = place(to.port());
    let may_be = word.load(Ordering::Relaxed) & bit != 0;
    may_be
        && table::listeners()
            .filter_map(address)
            .any(|at| is_at(at, to))
}

/// Whether a listener at an address accepts connections to another one. Any local address other than
/// those of loopback may be another host's as well, for a listener at all addresses.
fn is_at(listener: SocketAddr, to: SocketAddr) -> bool {
    let to_ip = smc_sockets::unbound_destination(to).ip().to_canonical();
    let at = listener.ip().to_canonical();
    let is_covered = match at {
        IpAddr::V4(at) => at.is_unspecified() && to_ip.is_ipv4(),
        IpAddr::V6(at) => at.is_unspecified(),
    };
    listener.port() == to.port() && (at == to_ip || is_covered && to_ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_at_all_addresses_is_at_those_of_loopback() {
        let of = |address: &str| address.parse::<SocketAddr>().unwrap();
        let is = |listener: &str, to: &str| is_at(of(listener), of(to));
        assert!(is("0.0.0.0:5", "127.0.0.1:5"));
        assert!(is("[::]:5", "127.0.0.1:5"));
        assert!(is("[::]:5", "[::1]:5"));
        assert!(is("192.0.2.1:5", "192.0.2.1:5"));
        assert!(is("192.0.2.1:5", "[::ffff:192.0.2.1]:5"));
        assert!(is("127.0.0.1:5", "0.0.0.0:5"));
        assert!(is("127.0.0.1:5", "[::ffff:0.0.0.0]:5"));
        assert!(is("[::1]:5", "[::]:5"));
        assert!(is("[::]:5", "0.0.0.0:5"));
        assert!(!is("127.0.0.2:5", "0.0.0.0:5"));
        assert!(!is("127.0.0.1:5", "[::]:5"));
        assert!(!is("0.0.0.0:5", "127.0.0.1:6"));
        assert!(!is("0.0.0.0:5", "[::1]:5"));
        assert!(!is("0.0.0.0:5", "192.0.2.1:5"));
        assert!(!is("127.0.0.2:5", "127.0.0.1:5"));
    }
}
