//! Listeners over TCP.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use super::Stack;
use super::stream::SmcStream;

/// A listener, like a [`TcpListener`]: on this system TCP carries its connections.
#[derive(Debug)]
pub struct SmcListener(TcpListener);

impl SmcListener {
    /// Listens at an address.
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`].
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        TcpListener::bind(address).map(Self)
    }

    /// Listens at an address, with this stack.
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`].
    pub fn bind_on(_: &Stack, address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind(address)
    }

    /// Lets connections of `listener` use `stack`.
    ///
    /// # Errors
    /// None on this system.
    pub fn on(_: &Stack, listener: TcpListener) -> io::Result<Self> {
        Ok(Self(listener))
    }

    /// The next connection, and the client's address.
    ///
    /// # Errors
    /// Errors of [`TcpListener::accept`].
    pub fn accept(&self) -> io::Result<(SmcStream, SocketAddr)> {
        let (stream, address) = self.0.accept()?;
        Ok((stream.into(), address))
    }

    /// The connections, one after another.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<SmcStream>> + '_ {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }

    /// The connections, one after another.
    pub fn into_incoming(self) -> impl Iterator<Item = io::Result<SmcStream>> {
        std::iter::repeat_with(move || self.accept().map(|(stream, _)| stream))
    }

    /// Another handle of the listener.
    ///
    /// # Errors
    /// Errors of [`TcpListener::try_clone`].
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Errors of [`TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Sets whether accepting returns at once.
    ///
    /// # Errors
    /// Errors of [`TcpListener::set_nonblocking`].
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }

    /// The error that the listener has come to.
    ///
    /// # Errors
    /// Errors of [`TcpListener::take_error`].
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Sets the time to live of TCP's packets.
    ///
    /// # Errors
    /// Errors of [`TcpListener::set_ttl`].
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set_ttl(ttl)
    }

    /// The time to live of TCP's packets.
    ///
    /// # Errors
    /// Errors of [`TcpListener::ttl`].
    pub fn ttl(&self) -> io::Result<u32> {
        self.0.ttl()
    }

    #[cfg(all(feature = "tokio", not(target_os = "linux")))]
    pub(super) fn into_tcp(self) -> TcpListener {
        self.0
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for SmcListener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for SmcListener {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.0.as_socket()
    }
}
