//! Connections that are being made, in an event loop.

use std::io;

use super::EventLoop;
use crate::accepting::Accepting;
use crate::connecting::Connecting;
use crate::waiters::Watch;

impl EventLoop {
    /// Lists a connection under `token` when [`Connecting::finish`] goes on, from now on; false if
    /// it has to be polled by its descriptor, or is finished. One that was listed and is not
    /// decided yet is to be registered again: it may need a descriptor by then.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child that has inherited it.
    pub fn register_connecting(&self, connecting: &Connecting, token: usize) -> io::Result<bool> {
        self.process.check()?;
        connecting.watch(Watch::new(token, self.ready.clone()))
    }

    /// Lists a connection no more. Dropping it does the same.
    pub fn deregister_connecting(&self, connecting: &Connecting) {
        connecting.unwatch(&self.ready);
    }

    /// Lists an accepted connection under `token` when it is decided what carries it, from now on.
    /// Begins, as [`Accepting::finish`] does.
    ///
    /// # Errors
    /// Errors of [`Accepting::finish`], but never [`io::ErrorKind::WouldBlock`].
    pub fn register_accepting(&self, accepting: &Accepting, token: usize) -> io::Result<()> {
        self.process.check()?;
        accepting.watch(Watch::new(token, self.ready.clone()))
    }

    /// Lists an accepted connection no more. Dropping it does the same.
    pub fn deregister_accepting(&self, accepting: &Accepting) {
        accepting.unwatch(&self.ready);
    }
}
