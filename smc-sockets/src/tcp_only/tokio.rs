//! The sockets of tokio, for programs that compile on Linux as well.

#[cfg(feature = "axum-0_8")]
#[path = "../tokio/axum.rs"]
mod axum;
#[cfg(feature = "hyper-util-0_1")]
#[path = "../tokio/hyper_util.rs"]
mod hyper_util;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use ::tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

pub use ::tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
#[cfg(feature = "hyper-util-0_1")]
pub use hyper_util::SmcConnector;

use super::{Carrier, Stack, WhyTcp};

/// A connection to another process, like tokio's [`TcpStream`]: on this system TCP carries it.
#[derive(Debug)]
pub struct SmcStream(TcpStream);

/// A listener, like tokio's [`TcpListener`]: on this system TCP carries its connections.
#[derive(Debug)]
pub struct SmcListener(TcpListener);

const CARRIER: Carrier = Carrier::Tcp(WhyTcp);

impl SmcStream {
    /// Connects.
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect`].
    pub async fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        TcpStream::connect(to).await.map(Self)
    }

    /// Connects, with this stack.
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect`].
    pub async fn connect_on(_: &Stack, to: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect(to).await
    }

    /// Lets tasks wait for a stream.
    ///
    /// # Errors
    /// Errors of [`TcpStream::from_std`].
    pub fn from_std(stream: crate::SmcStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let tcp = stream.try_into_tcp();
        let tcp = tcp.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        TcpStream::from_std(tcp).map(Self)
    }

    /// The stream without its runtime.
    ///
    /// # Errors
    /// Errors of [`TcpStream::into_std`].
    pub fn into_std(self) -> io::Result<crate::SmcStream> {
        self.0.into_std().map(crate::SmcStream::from)
    }

    /// What carries the connection, and why.
    #[must_use]
    pub fn carrier(&self) -> &Carrier {
        &CARRIER
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

    /// Sets whether small writes leave at once.
    ///
    /// # Errors
    /// Errors of [`TcpStream::set_nodelay`].
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.set_nodelay(nodelay)
    }

    /// Waits until reading would not.
    ///
    /// # Errors
    /// Errors of [`TcpStream::readable`].
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Waits until writing would not.
    ///
    /// # Errors
    /// Errors of [`TcpStream::writable`].
    pub async fn writable(&self) -> io::Result<()> {
        self.0.writable().await
    }

    /// Waits until one of these is ready; which of them.
    ///
    /// # Errors
    /// Errors of [`TcpStream::ready`].
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.0.ready(interest).await
    }

    /// Reads what there is.
    ///
    /// # Errors
    /// Errors of [`TcpStream::try_read`].
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// Errors of [`TcpStream::try_write`].
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    /// Reads what is next without taking it.
    ///
    /// # Errors
    /// Errors of [`TcpStream::peek`].
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.peek(into).await
    }

    /// Two halves that borrow the stream.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        self.0.split()
    }

    /// Two halves that own the stream.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        self.0.into_split()
    }
}

impl AsyncRead for SmcStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, into)
    }
}

impl AsyncWrite for SmcStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}

impl SmcListener {
    /// Listens at an address.
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`].
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        TcpListener::bind(address).await.map(Self)
    }

    /// Listens at an address, with this stack.
    ///
    /// # Errors
    /// Errors of [`TcpListener::bind`].
    pub async fn bind_on(_: &Stack, address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind(address).await
    }

    /// Lets tasks wait for a listener.
    ///
    /// # Errors
    /// Errors of [`TcpListener::from_std`].
    pub fn from_std(listener: crate::SmcListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener.into_tcp()).map(Self)
    }

    /// The next connection, and the client's address.
    ///
    /// # Errors
    /// Errors of [`TcpListener::accept`].
    pub async fn accept(&self) -> io::Result<(SmcStream, SocketAddr)> {
        let (stream, address) = self.0.accept().await?;
        Ok((SmcStream(stream), address))
    }

    /// The next connection, for callers that poll.
    ///
    /// # Errors
    /// Errors of [`TcpListener::poll_accept`].
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(SmcStream, SocketAddr)>> {
        let accepted = self.0.poll_accept(context);
        accepted.map_ok(|(stream, address)| (SmcStream(stream), address))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Errors of [`TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
