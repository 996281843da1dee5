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

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use super::conn::borrowed;
use super::{config, table};

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
    forget_unconnected();
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

/// A socket that has connected to a listener of this process, and whose connection it has not accepted
/// yet.
struct Client {
    /// A descriptor of the socket, plus 1; 0 for no client.
    fd: AtomicI32,
    /// The cookie of the socket: its descriptor may name another one meanwhile.
    cookie: AtomicU64,
}

impl Client {
    const fn none() -> Self {
        Self {
            fd: AtomicI32::new(0),
            cookie: AtomicU64::new(0),
        }
    }

    /// The descriptor and the cookie.
    fn get(&self) -> Option<(i32, u64)> {
        let fd = self.fd.load(Ordering::Acquire);
        (fd != 0).then(|| (fd - 1, self.cookie.load(Ordering::Relaxed)))
    }

    fn set(&self, fd: i32, cookie: u64) {
        self.fd.store(0, Ordering::Relaxed);
        self.cookie.store(cookie, Ordering::Release);
        self.fd.store(fd.saturating_add(1), Ordering::Release);
    }

    /// Forgets the client of a descriptor; false if another thread has.
    fn forget(&self, fd: i32) -> bool {
        let (stored, none) = (fd.saturating_add(1), 0);
        let forgotten = self
            .fd
            .compare_exchange(stored, none, Ordering::AcqRel, Ordering::Relaxed);
        forgotten.is_ok()
    }
}

/// The last such clients. The oldest one makes room.
static CLIENTS: [Client; 64] = [const { Client::none() }; 64];
/// Where the next one is put.
static NEXT_CLIENT: AtomicUsize = AtomicUsize::new(0);

/// The clients, with the descriptor and the cookie of each.
fn clients() -> impl Iterator<Item = (&'static Client, i32, u64)> {
    let are_there = NEXT_CLIENT.load(Ordering::Relaxed) > 0;
    let clients = CLIENTS.iter().filter(move |_| are_there);
    clients.filter_map(|client| client.get().map(|(fd, cookie)| (client, fd, cookie)))
}

/// The number by which the kernel knows a socket, which no other one ever has.
fn cookie(fd: i32) -> Option<u64> {
    rustix::net::sockopt::socket_cookie(borrowed(fd)).ok()
}

/// A descriptor is about to connect to a listener of this process.
pub(crate) fn connects(fd: i32) {
    // Otherwise no client is taken to speak SMC.
    if config::policy().is_some_and(|policy| !policy.assume_smc.is_empty()) {
        add_client(fd);
    }
}

fn add_client(fd: i32) {
    if let Some(cookie) = cookie(fd) {
        let at = NEXT_CLIENT.fetch_add(1, Ordering::Relaxed) % CLIENTS.len();
        CLIENTS[at].set(fd, cookie);
    }
}

/// An unconnected socket is about to connect, wherever to: an earlier attempt ([`connects`]) has failed.
pub(crate) fn connects_anew(fd: i32) {
    let mut of_socket = None;
    for (client, of, of_client) in clients() {
        let of_socket = *of_socket.get_or_insert_with(|| cookie(fd));
        if of == fd || Some(of_client) == of_socket {
            client.forget(of);
        }
    }
}

/// Forgets clients that are not connected: another process may connect their sockets anew, and this
/// one does not see that.
fn forget_unconnected() {
    clients()
        .filter(|(_, fd, _)| peer(*fd).is_none())
        .for_each(|(client, fd, _)| {
            client.forget(fd);
        });
}

/// Whether a socket of this process, for which [`connects`] was called, is the other end of a
/// connection that was just accepted. Each one is found once.
pub(crate) fn is_client_of(accepted: i32) -> bool {
    let mut clients = clients().peekable();
    if clients.peek().is_none() {
        return false;
    }
    let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    let ends = |fd| Some((canonical(address(fd)?), canonical(peer(fd)?)));
    let Some((near, far)) = ends(accepted) else {
        return false;
    };
    clients.any(
        |(client, fd, of_client)| match cookie(fd) == Some(of_client) {
            true => ends(fd) == Some((far, near)) && client.forget(fd),
            false => {
                // The descriptor was closed.
                client.forget(fd);
                false
            }
        },
    )
}

/// The address of the other end of a socket of IP.
fn peer(fd: i32) -> Option<SocketAddr> {
    let address = rustix::net::getpeername(borrowed(fd)).ok()??;
    SocketAddr::try_from(address).ok()
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
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use rustix::net::{AddressFamily, SocketType, connect, connect_unspec, socket};

    use super::*;

    /// The clients are those of the whole process.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unconnected() -> OwnedFd {
        socket(AddressFamily::INET, SocketType::STREAM, None).unwrap()
    }

    /// A socket of which an attempt to connect has failed.
    fn refused() -> OwnedFd {
        let (client, listener) = (unconnected(), TcpListener::bind("127.0.0.1:0").unwrap());
        let nowhere = listener.local_addr().unwrap();
        drop(listener);
        add_client(client.as_raw_fd());
        connect(&client, &nowhere).unwrap_err();
        client
    }

    /// Whether a client that connects now is found.
    fn is_found(client: &OwnedFd) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        connect(client, &listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        is_client_of(accepted.as_raw_fd())
    }

    #[test]
    fn a_client_is_found_once() {
        let _alone = alone();
        let client = unconnected();
        add_client(client.as_raw_fd());
        assert!(is_found(&client));
        connect_unspec(&client).unwrap();
        assert!(!is_found(&client));
    }

    #[test]
    fn a_connected_client_is_found_after_a_fork() {
        let _alone = alone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        add_client(client.as_raw_fd());
        are_shared();
        let (accepted, _) = listener.accept().unwrap();
        assert!(is_client_of(accepted.as_raw_fd()));
    }

    #[test]
    fn a_client_whose_attempt_has_failed_is_forgotten() {
        let _alone = alone();
        let client = refused();
        connects_anew(client.as_raw_fd());
        assert!(!is_found(&client), "it connects anew");
        let client = refused();
        let duplicate = client.try_clone().unwrap();
        connects_anew(duplicate.as_raw_fd());
        assert!(!is_found(&client), "it connects anew by a duplicate");
        let client = refused();
        are_shared();
        assert!(!is_found(&client), "another process may connect it");
    }

    #[test]
    fn another_socket_of_the_same_descriptor_is_no_client() {
        let _alone = alone();
        let mut client = refused();
        let number = client.as_raw_fd();
        rustix::io::dup2(unconnected(), &mut client).unwrap();
        assert_eq!(client.as_raw_fd(), number);
        assert!(!is_found(&client));
    }

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
