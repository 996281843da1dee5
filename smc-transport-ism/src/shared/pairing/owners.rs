//! Users of the other ends of connections.

use std::io;
use std::os::fd::AsFd;

use super::kernel::Kernel;
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
