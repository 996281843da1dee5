//! Streams over TCP.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::{Carrier, Stack, WhyTcp};

/// A connection to another process, like a [`TcpStream`]: on this system TCP carries it.
pub struct SmcStream(TcpStream);

const CARRIER: Carrier = Carrier::Tcp(WhyTcp);

impl SmcStream {
    /// Connects.
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect`].
    pub fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        TcpStream::connect(to).map(Self)
    }

    /// Connects, with this stack.
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect`].
    pub fn connect_on(_: &Stack, to: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect(to)
    }

    /// Connects to one address, and waits for the connection so long at most.
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect_timeout`].
    pub fn connect_timeout(to: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        TcpStream::connect_timeout(to, timeout).map(Self)
    }

    /// Connects to one address with this stack, and waits for the connection so long at most.
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect_timeout`].
    pub fn connect_timeout_on(_: &Stack, to: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        Self::connect_timeout(to, timeout)
    }

    /// What carries the connection, and why.
    #[must_use]
    pub fn carrier(&self) -> &Carrier {
        &CARRIER
    }

    /// Another handle of the connection.
    ///
    /// # Errors
    /// Errors of [`TcpStream::try_clone`].
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// The TCP connection.
    ///
    /// # Errors
    /// None on this system.
    pub fn try_into_tcp(self) -> Result<TcpStream, Self> {
        Ok(self.0)
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// Errors of [`TcpStream::peer_addr`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    /// Errors of [`TcpStream::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Ends one direction or both.
    ///
    /// # Errors
    /// Errors of [`TcpStream::shutdown`].
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Reads what is next without taking it.
    ///
    /// # Errors
    /// Errors of [`TcpStream::peek`].
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.peek(into)
    }

    /// Sets whether reading and writing return at once.
    ///
    /// # Errors
    /// Errors of [`TcpStream::set_nonblocking`].
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }

    /// Sets how long a read waits, without end if `None`.
    ///
    /// # Errors
    /// Errors of [`TcpStream::set_read_timeout`].
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout)
    }

    /// Sets how long a write waits, without end if `None`.
    ///
    /// # Errors
    /// Errors of [`TcpStream::set_write_timeout`].
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(timeout)
    }

    /// What [`Self::set_read_timeout`] has set.
    ///
    /// # Errors
    /// Errors of [`TcpStream::read_timeout`].
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        self.0.read_timeout()
    }

    /// What [`Self::set_write_timeout`] has set.
    ///
    /// # Errors
    /// Errors of [`TcpStream::write_timeout`].
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        self.0.write_timeout()
    }

    /// Sets whether small writes leave at once.
    ///
    /// # Errors
    /// Errors of [`TcpStream::set_nodelay`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.set_nodelay(nodelay)
    }

    /// What [`Self::set_nodelay`] has set.
    ///
    /// # Errors
    /// Errors of [`TcpStream::nodelay`].
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.nodelay()
    }

    /// Sets the time to live of TCP's packets.
    ///
    /// # Errors
    /// Errors of [`TcpStream::set_ttl`].
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.set_ttl(ttl)
    }

    /// The time to live of TCP's packets.
    ///
    /// # Errors
    /// Errors of [`TcpStream::ttl`].
    pub fn ttl(&self) -> io::Result<u32> {
        self.0.ttl()
    }

    /// The error that the connection has come to.
    ///
    /// # Errors
    /// Errors of [`TcpStream::take_error`].
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }
}

impl From<TcpStream> for SmcStream {
    fn from(tcp: TcpStream) -> Self {
        Self(tcp)
    }
}

impl Read for &SmcStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(into)
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.0).read_vectored(into)
    }
}

impl Write for &SmcStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for SmcStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(into)
    }
}

impl Write for SmcStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for SmcStream {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(unix)]
impl std::os::fd::AsRawFd for SmcStream {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for SmcStream {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.0.as_socket()
    }
}

impl fmt::Debug for SmcStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
