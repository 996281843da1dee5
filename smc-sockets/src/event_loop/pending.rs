//! Registration of connections with an event loop before their handshake is complete.

use std::io;

use super::EventLoop;
use crate::accepting::Accepting;
use crate::connecting::Connecting;
use crate::waiters::Watch;

impl EventLoop {
    /// Registers a connection that is being made. From now on the loop lists `token` when
    /// [`Connecting::finish`] can make progress. Returns `false` if the connection has to be polled
    /// by its descriptor instead, or is finished.
    ///
    /// After the loop has listed a connection that [`Connecting::finish`] does not complete,
    /// register it again: it may need its descriptor polled by then.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child process that has inherited the loop.
    pub fn register_connecting(&self, connecting: &Connecting, token: usize) -> io::Result<bool> {
        self.process.check()?;
        connecting.watch(Watch::new(token, self.ready.clone()))
    }

    /// Stops listing a connection that is being made. Dropping the connection does that, too.
    pub fn deregister_connecting(&self, connecting: &Connecting) {
        connecting.unwatch(&self.ready);
    }

    /// Registers an accepted connection, and begins its handshake as [`Accepting::finish`] does.
    /// The loop lists `token` when it is decided whether SMC or TCP carries the connection.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child process that has inherited the loop, and the errors
    /// of [`Accepting::finish`] except [`io::ErrorKind::WouldBlock`].
    pub fn register_accepting(&self, accepting: &Accepting, token: usize) -> io::Result<()> {
        self.process.check()?;
        accepting.watch(Watch::new(token, self.ready.clone()))
    }

    /// Stops listing an accepted connection. Dropping the connection does that, too.
    pub fn deregister_accepting(&self, accepting: &Accepting) {
        accepting.unwatch(&self.ready);
    }
}
