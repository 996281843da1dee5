//! A stream that wakes tasks.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use ::tokio::net::{ToSocketAddrs, lookup_host};

use super::registered::Registered;
use super::runtimes;
use super::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::transport::Transport;
use crate::carrier::Carrier;
use crate::connecting::{Begun, TaskConnecting};
use crate::stack::Stack;
use crate::stream::Room;
use crate::waiting::Direction;

/// A connection to another process, like tokio's `TcpStream`.
///
/// A child made by `fork` cannot wait for it, as its runtime stays with the parent: all that
/// waits fails with [`io::ErrorKind::Unsupported`], and dropping it there does nothing.
pub struct SmcStream {
    transport: Transport,
}

impl SmcStream {
    /// Connects, with the [stack of this process](Stack::of_process). A task that gives
    /// this up leaves nothing behind.
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect`](::tokio::net::TcpStream::connect), and [`Stack::open`].
    pub async fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_on(&Stack::of_process()?, to).await
    }

    /// Connects with this stack.
    ///
    /// # Errors
    /// Errors of [`Self::connect`].
    pub async fn connect_on(stack: &Stack, to: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = io::ErrorKind::InvalidInput.into();
        for address in lookup_host(to).await? {
            match Self::connect_to(stack, address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(stack: &Stack, to: SocketAddr) -> io::Result<Self> {
        Self::finish(TaskConnecting::begin(stack, None, to, runtimes::ensure)?).await
    }

    /// Waits until a connection is made.
    pub(super) async fn finish(begun: Begun) -> io::Result<Self> {
        let connecting = match begun {
            Begun::Pollable(connecting) => connecting,
            Begun::Answer(mut connecting) => {
                let answer = std::future::poll_fn(|context| connecting.poll(context));
                match answer.await? {
                    Some(stream) => return Self::from_std(stream),
                    None => connecting.into_pollable()?,
                }
            }
        };
        let connecting = Registered::new(connecting, Interest::READABLE)?;
        loop {
            match connecting.get_ref().finish() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Self::from_std(outcome?),
            }
            // What happens from here on is reported again.
            connecting.readable().await?.clear();
        }
    }

    /// Lets tasks wait for a stream, which does not block from then on.
    ///
    /// # Errors
    /// The operating system's: no descriptor is left.
    ///
    /// # Panics
    /// If TCP carries the stream, outside of a runtime with I/O enabled.
    pub fn from_std(stream: crate::SmcStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let transport = Transport::new(stream)?;
        Ok(Self { transport })
    }

    /// The stream without its runtime; it does not block until set to.
    ///
    /// # Errors
    /// None so far.
    pub fn into_std(self) -> io::Result<crate::SmcStream> {
        Ok(self.transport.into_inner())
    }

    /// Two halves for one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf(self), WriteHalf(self))
    }

    /// Two halves that different tasks can have. Dropping the second ends the direction
    /// to the peer.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let stream = Arc::new(self);
        (OwnedReadHalf(stream.clone()), OwnedWriteHalf::new(stream))
    }

    /// Waits until reading would not.
    ///
    /// # Errors
    /// The runtime's: it is shutting down. [`io::ErrorKind::Unsupported`] in a child.
    pub async fn readable(&self) -> io::Result<()> {
        self.transport.ready(Direction::Read).await
    }

    /// Waits until writing would not.
    ///
    /// # Errors
    /// Errors of [`Self::readable`].
    pub async fn writable(&self) -> io::Result<()> {
        self.transport.ready(Direction::Write).await
    }

    /// Waits until reading or writing would not, of those that `interest` has; which of them.
    ///
    /// # Errors
    /// Errors of [`Self::readable`], and [`io::ErrorKind::InvalidInput`] for an interest in neither.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let wanted = |direction: &Direction| match direction {
            Direction::Read => interest.is_readable(),
            Direction::Write => interest.is_writable(),
        };
        let mut wanted = Direction::BOTH.into_iter().filter(wanted);
        let (Some(first), second) = (wanted.next(), wanted.next()) else {
            let reason = "neither reading nor writing is of interest";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        let mut waits = [Some(first), second].map(|of| of.map(|of| self.transport.waiter(of)));
        std::future::poll_fn(|context| {
            let mut ready = Ready::EMPTY;
            for waiter in waits.iter_mut().flatten() {
                if let Poll::Ready(outcome) = waiter.poll(context) {
                    outcome?;
                    ready |= waiter.direction().ready();
                }
            }
            match ready.is_empty() {
                true => Poll::Pending,
                false => Poll::Ready(Ok(ready)),
            }
        })
        .await
    }

    /// Reads or writes by other means, if that may succeed without waiting: the stream is
    /// waited for again after [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// Errors of `attempt`.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        attempt: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let direction = match interest.is_readable() {
            true => Direction::Read,
            false => Direction::Write,
        };
        self.transport.try_io(direction, |_| attempt())
    }

    /// Has the task woken when reading would not wait any more, or is ready at once. Of several
    /// tasks that call this, or read, the last is woken.
    ///
    /// # Errors
    /// Errors of [`Self::readable`].
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_ready(context, Direction::Read)
    }

    /// Has the task woken when writing would not wait any more, or is ready at once. Of several
    /// tasks that call this, or write, the last is woken.
    ///
    /// # Errors
    /// Errors of [`Self::readable`].
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.poll_ready(context, Direction::Write)
    }

    /// Reads what there is.
    ///
    /// # Errors
    /// Errors of reading, and [`io::ErrorKind::WouldBlock`] if that is nothing;
    /// [`Self::readable`] waits until it may be something.
    pub fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.transport
            .try_io(Direction::Read, |mut inner| inner.read(into))
    }

    /// Reads what there is, into several buffers one after another.
    ///
    /// # Errors
    /// Errors of [`Self::try_read`].
    pub fn try_read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.transport
            .try_io(Direction::Read, |mut inner| inner.read_vectored(into))
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// Errors of [`Self::try_read`], with [`Self::writable`].
    pub fn try_write(&self, octets: &[u8]) -> io::Result<usize> {
        self.transport
            .try_io(Direction::Write, |mut inner| inner.write(octets))
    }

    /// Writes what there is room for, of several buffers one after another.
    ///
    /// # Errors
    /// Errors of [`Self::try_write`].
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.transport
            .try_io(Direction::Write, |mut inner| inner.write_vectored(slices))
    }

    /// Waits for bytes and copies what is next without taking it.
    ///
    /// # Errors
    /// Errors of reading.
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.transport
            .async_io(Direction::Read, |inner| inner.peek(into))
            .await
    }

    /// Copies what is next without taking it, or has the task woken when there is something.
    ///
    /// # Errors
    /// Errors of reading.
    pub fn poll_peek(
        &self,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let peeked = self.transport.poll_io(context, Direction::Read, |inner| {
            inner.peek(into.initialize_unfilled())
        });
        peeked.map_ok(|len| {
            into.advance(len);
            len
        })
    }

    pub(super) fn shutdown_std(&self, how: Shutdown) -> io::Result<()> {
        self.transport.get_ref().shutdown(how)
    }

    pub(super) fn poll_to_read(
        &self,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self
            .transport
            .poll_io(context, Direction::Read, |inner| inner.read_available(into));
        read.map_ok(|len| into.advance(len))
    }

    pub(super) fn poll_to_write(
        &self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.transport
            .poll_io(context, Direction::Write, |mut inner| match slices {
                [one] => inner.write(one),
                _ => inner.write_vectored(slices),
            })
    }
}

macro_rules! as_std {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $of:ty),*) -> $result:ty;)*) => {
        /// Errors of the methods of [`smc_sockets::SmcStream`](crate::SmcStream).
        impl SmcStream {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Errors of the method of the same name of
                /// [`smc_sockets::SmcStream`](crate::SmcStream).
                pub fn $name(&self, $($arg: $of),*) -> io::Result<$result> {
                    self.transport.get_ref().$name($($arg),*)
                }
            )*
        }
    };
}

as_std! {
    /// The address of the peer.
    peer_addr() -> SocketAddr;
    /// The address of this end.
    local_addr() -> SocketAddr;
    /// The error that the connection has come to, once.
    take_error() -> Option<io::Error>;
    /// Whether small writes leave at once.
    nodelay() -> bool;
    /// Lets small writes leave at once, or not.
    set_nodelay(nodelay: bool) -> ();
    /// Whether small writes are held back.
    cork() -> bool;
    /// Holds small writes back, or no longer.
    set_cork(cork: bool) -> ();
    /// What dropping the stream does.
    linger() -> Option<Duration>;
    /// Says what dropping the stream does: a time that is not zero has no meaning here,
    /// where no caller may wait.
    set_linger(linger: Option<Duration>) -> ();
    /// The time to live of TCP's packets.
    ttl() -> u32;
    /// Sets the time to live of TCP's packets.
    set_ttl(ttl: u32) -> ();
    /// Writes bytes, of which the last is urgent.
    send_urgent(octets: &[u8]) -> usize;
    /// Takes the urgent octet.
    receive_urgent() -> u8;
    /// Whether the next octet to be read is the one behind the urgent mark.
    at_mark() -> bool;
    /// Whether urgent bytes are read in their place.
    urgent_inline() -> bool;
    /// Lets urgent bytes be read in their place, or not.
    set_urgent_inline(inline: bool) -> ();
}

impl SmcStream {
    /// What carries the connection, and why.
    #[must_use]
    pub fn carrier(&self) -> &Carrier {
        self.transport.get_ref().carrier()
    }
}

impl AsyncRead for SmcStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_to_read(context, into)
    }
}

impl Room for ReadBuf<'_> {
    fn len(&self) -> usize {
        self.remaining()
    }

    fn first(&mut self, len: usize) -> &mut [u8] {
        self.initialize_unfilled_to(len)
    }
}

impl AsyncWrite for SmcStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_to_write(context, &[IoSlice::new(octets)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_to_write(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the direction to the peer. One that has ended already is no error, as with
    /// `tokio::net::TcpStream`.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.shutdown_std(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            done => done,
        })
    }
}

impl AsFd for SmcStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.get_ref().as_fd()
    }
}

impl AsRawFd for SmcStream {
    fn as_raw_fd(&self) -> RawFd {
        self.transport.get_ref().as_raw_fd()
    }
}

impl fmt::Debug for SmcStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transport.get_ref().fmt(f)
    }
}
