//! A listener that wakes tasks.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll};

use ::tokio::io::Interest;
use ::tokio::net::{ToSocketAddrs, lookup_host};

use super::SmcStream;
use super::registered::Registered;
use crate::stack::Stack;

/// A listener, like tokio's `TcpListener`.
///
/// A child made by `fork` cannot wait for it, as its runtime stays with the parent:
/// [`Self::into_std`] gives a listener that can be registered anew there.
pub struct SmcListener {
    inner: Registered<crate::SmcListener>,
}

impl SmcListener {
    /// Listens at an address, with the [stack of this process](Stack::of_process).
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`](::tokio::net::TcpListener::bind), and [`Stack::open`].
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_on(&Stack::of_process()?, address).await
    }

    /// Binds a listener whose connections use this stack.
    ///
    /// # Errors
    /// Errors of [`Self::bind`].
    pub async fn bind_on(stack: &Stack, address: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = io::ErrorKind::InvalidInput.into();
        for address in lookup_host(address).await? {
            match crate::SmcListener::bind_on(stack, address) {
                Ok(listener) => return Self::from_std(listener),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Lets tasks wait for a listener.
    ///
    /// # Errors
    /// The operating system's.
    ///
    /// # Panics
    /// Outside of a runtime with I/O enabled.
    pub fn from_std(listener: crate::SmcListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let inner = Registered::new(listener, Interest::READABLE)?;
        Ok(Self { inner })
    }

    /// The listener without its runtime; it does not block until set to.
    ///
    /// # Errors
    /// None so far.
    pub fn into_std(self) -> io::Result<crate::SmcListener> {
        Ok(self.inner.into_inner())
    }

    /// The next connection, and the client's address. A caller that drops the future
    /// takes no connection from the next one.
    ///
    /// # Errors
    /// Errors of [`crate::SmcListener::accept`], and those of [`SmcStream::from_std`].
    pub async fn accept(&self) -> io::Result<(SmcStream, SocketAddr)> {
        let interest = Interest::READABLE;
        let accepted = self
            .inner
            .async_io(interest, crate::SmcListener::accept)
            .await;
        let (stream, address) = accepted?;
        Ok((SmcStream::from_std(stream)?, address))
    }

    /// Polls for a connection; the last task that did is woken.
    ///
    /// # Errors
    /// Errors of [`Self::accept`].
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(SmcStream, SocketAddr)>> {
        let accepted = self.inner.poll_read(context, crate::SmcListener::accept);
        accepted.map(|accepted| {
            let (stream, address) = accepted?;
            Ok((SmcStream::from_std(stream)?, address))
        })
    }

    /// The time to live of TCP's packets.
    ///
    /// # Errors
    /// Errors of [`crate::SmcListener::ttl`].
    pub fn ttl(&self) -> io::Result<u32> {
        self.inner.get_ref().ttl()
    }

    /// Sets the time to live of TCP's packets.
    ///
    /// # Errors
    /// Errors of [`crate::SmcListener::set_ttl`].
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.inner.get_ref().set_ttl(ttl)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Errors of [`crate::SmcListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.get_ref().local_addr()
    }
}

impl AsFd for SmcListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.get_ref().as_fd()
    }
}

impl AsRawFd for SmcListener {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.get_ref().as_raw_fd()
    }
}

impl fmt::Debug for SmcListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.get_ref().fmt(f)
    }
}
