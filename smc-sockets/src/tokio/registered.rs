//! What a runtime polls for.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use std::io;
use std::os::fd::AsRawFd;

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

/// What has one descriptor from now on, all its life.
pub(super) trait Steady: AsRawFd {
    /// Makes sure of that.
    fn settle(&self) -> io::Result<()> {
        Ok(())
    }
}

/// It has an epoll of its own.
impl Steady for crate::Connecting {}

/// It has an event of its own.
impl Steady for crate::SmcListener {}

/// Its TCP connection, or a socket that is made when it is first asked for and kept with
/// the connection.
impl Steady for crate::SmcStream {
    fn settle(&self) -> io::Result<()> {
        self.try_as_fd().map(drop)
    }
}

pub(super) fn register<T: Steady>(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    inner.settle()?;
    // SAFETY: those that implement `Steady` own their descriptor, which neither closes nor
    // changes while they are there. None of them is changed through a reference here.
    unsafe { AsyncFd::register_with_interest(inner, interest) }.map_err(io::Error::from)
}
