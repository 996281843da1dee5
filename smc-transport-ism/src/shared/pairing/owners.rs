//! Users of the other ends of connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::belongs;
use super::kernel::Kernel;
use super::normal;
use super::server::ends;

/// Asks the kernel for the users of connections within this host.
#[derive(Debug)]
pub struct Owners(Kernel);

impl Owners {
    /// Opens a socket to ask by.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open() -> io::Result<Self> {
        Kernel::open().map(Self)
    }

    /// The socket at the other end of an accepted connection: its cookie, and its user. `None`
    /// if this network namespace has none.
    #[must_use]
    pub fn client(&self, tcp: impl AsFd) -> Option<(u64, u32)> {
        let (near, far) = ends(tcp).ok()?;
        let end = self.0.end(far, near).ok()??;
        Some((end.cookie, end.uid))
    }

    /// The client as [`Self::client`] names it, if it shows that it takes calls, or that it has
    /// announced the connection and will. The addresses are those of this end and of the client.
    //= SHM-080
    #[must_use]
    pub fn calling_client(&self, near: SocketAddr, far: SocketAddr) -> Option<(u64, u32)> {
        let (near, far) = (normal(near), normal(far));
        let end = self.0.end(far, near).ok()??;
        end.takes_calls().then_some((end.cookie, end.uid))
    }

    /// Whether the other end of a connection is the socket with this cookie, is held by a
    /// process, and is one for which a process of user `uid` may speak. The addresses are those of
    /// this end and of the other.
    //= SHM-009
    #[must_use]
    pub fn speaks_for(&self, near: SocketAddr, far: SocketAddr, uid: u32, cookie: u64) -> bool {
        let end = self.0.end(normal(far), normal(near)).ok().flatten();
        end.is_some_and(|end| end.held && end.cookie == cookie && belongs(uid, end.uid))
    }

    /// The user of the socket at the other end of a connection. `None` if a process of this
    /// network namespace does not hold it: it is of another host, or was closed.
    #[must_use]
    pub fn other_end(&self, tcp: impl AsFd) -> Option<u32> {
        let (near, far) = ends(tcp).ok()?;
        let end = self.0.end(far, near).ok()??;
        // Of a socket that was closed, the kernel does not know the user.
        end.held.then_some(end.uid)
    }
}
