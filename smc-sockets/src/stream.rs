//! A stream of bytes, whatever carries it.

mod calls;
mod descriptor;
mod ending;
mod options;
mod polling;
#[cfg(feature = "tokio")]
mod tasks;
mod tcp;
mod transfer;
mod urgent;

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::carrier::{Carrier, Cause};
use crate::connecting::{self, Connecting};
use crate::process::{self, PerProcess, Process};
use crate::shard::Shard;
use crate::socket::Socket;
use crate::stack::Stack;
use crate::waiting::Direction;

pub use calls::CallFlags;
pub use polling::PollState;
#[cfg(feature = "tokio")]
pub(crate) use tasks::Wait;
#[cfg(feature = "tokio")]
pub(crate) use transfer::Room;

/// A connection to another process: like a [`TcpStream`](std::net::TcpStream), over
/// shared memory if both processes can, and over TCP if not.
///
/// Reading and writing go on in the caller's thread. Dropping the last handle of it ends
/// the connection in order, or resets it if bytes of the peer were not read, as with TCP.
/// What was written can be read by the peer also after this process has ended.
///
/// SMC carries a stream for the process that made it only. In a child made by `fork`,
/// dropping it does nothing, and whatever else is done with it fails with
/// [`io::ErrorKind::Unsupported`]. A stream that TCP carries goes on in both, as sockets do.
pub struct SmcStream {
    held: Arc<Held>,
}

/// What the handles of a stream share; the connection ends with the last of them.
struct Held {
    /// The one that made it.
    process: Process,
    /// Children that there were then.
    forks: u64,
    /// What a child polls of a stream that it cannot use: always ready.
    unusable: PerProcess<OwnedFd>,
    /// None for a connection that this crate has not made: it is plain TCP.
    stack: Option<Stack>,
    socket: Arc<Socket>,
    carrier: Carrier,
}

impl SmcStream {
    pub(crate) fn new(stack: Stack, socket: Arc<Socket>) -> Self {
        Self::of(Some(stack), socket)
    }

    /// A stream over TCP of a process that has no stack.
    pub(crate) fn without_stack(socket: Arc<Socket>) -> Self {
        Self::of(None, socket)
    }

    fn of(stack: Option<Stack>, socket: Arc<Socket>) -> Self {
        // Streams are made of what is decided.
        let carrier = socket
            .status()
            .carrier
            .unwrap_or(Carrier::tcp(Cause::NotOffered));
        let held = Held {
            process: Process::current(),
            forks: process::forks(),
            unusable: PerProcess::new(),
            stack,
            socket,
            carrier,
        };
        Self {
            held: Arc::new(held),
        }
    }

    fn socket(&self) -> &Arc<Socket> {
        &self.held.socket
    }

    /// Whose engine carries it, if SMC does.
    ///
    /// # Errors
    /// The process that this one was forked from has it.
    #[inline]
    fn smc(&self) -> io::Result<Option<&Arc<Shard>>> {
        self.held.smc()
    }

    /// The connection and its endpoint, if SMC carries it and it is one of this stack.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if not; [`io::ErrorKind::Unsupported`] in a child.
    pub(crate) fn socket_of(&self, stack: &Stack) -> io::Result<(&Arc<Shard>, &Socket)> {
        let shard = self.smc()?.filter(|shard| stack.has(shard));
        let found = shard.map(|shard| (shard, &*self.held.socket));
        found.ok_or_else(|| {
            let reason = "the stream is not carried by SMC of this stack";
            io::Error::new(io::ErrorKind::InvalidInput, reason)
        })
    }

    /// Whether this process has inherited it.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.held.process.is_current()
    }

    /// Connects, with the [stack of this process](Stack::of_process).
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect`](std::net::TcpStream::connect), and [`Stack::open`].
    pub fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_on(&Stack::of_process()?, to)
    }

    /// Connects, with this stack. Whatever may go wrong with SMC leaves a TCP
    /// connection; [`Self::carrier`] says which it is, and why.
    ///
    /// # Errors
    /// Errors of [`Self::connect`].
    pub fn connect_on(stack: &Stack, to: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = io::ErrorKind::InvalidInput.into();
        for address in to.to_socket_addrs()? {
            match connecting::connect(stack, None, address, None) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Connects to one address, with the [stack of this process](Stack::of_process), and
    /// waits for the connection, and for what carries it, so long at most.
    ///
    /// # Errors
    /// Errors of [`TcpStream::connect_timeout`](std::net::TcpStream::connect_timeout), and
    /// [`Stack::open`].
    pub fn connect_timeout(to: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        Self::connect_timeout_on(&Stack::of_process()?, to, timeout)
    }

    /// Connects with this stack.
    ///
    /// # Errors
    /// Errors of [`Self::connect_timeout`].
    pub fn connect_timeout_on(
        stack: &Stack,
        to: &SocketAddr,
        timeout: Duration,
    ) -> io::Result<Self> {
        if timeout.is_zero() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        connecting::connect(stack, None, *to, Some(timeout))
    }

    /// Begins to connect, with this stack, and does not wait.
    ///
    /// # Errors
    /// Errors of [`Self::connect`], as far as it is known at once.
    pub fn begin_connect(stack: &Stack, to: SocketAddr) -> io::Result<Connecting> {
        Connecting::begin(stack, None, to)
    }

    /// Begins to connect a TCP socket that the program has made, which must not block, with
    /// this stack; [`SmcSocket::begin_connect`](crate::SmcSocket::begin_connect) for sockets of
    /// its own.
    ///
    /// # Errors
    /// Errors of [`Self::connect`], as far as it is known at once.
    pub fn begin_connect_with(
        stack: &Stack,
        socket: OwnedFd,
        to: SocketAddr,
    ) -> io::Result<Connecting> {
        Connecting::begin(stack, Some(socket), to)
    }

    /// Begins to connect as [`Self::begin_connect_with`], for event loops that list the connection
    /// ([`EventLoop::register_connecting`](crate::EventLoop::register_connecting)): it has a
    /// descriptor only where it needs one, and the socket goes on not to block.
    ///
    /// # Errors
    /// Errors of [`Self::begin_connect_with`].
    pub fn begin_connect_listed(
        stack: &Stack,
        socket: OwnedFd,
        to: SocketAddr,
    ) -> io::Result<Connecting> {
        Connecting::begin_listed(stack, socket, to)
    }

    /// Begins to connect as [`Self::begin_connect_listed`], for a thread that waits for the
    /// connection by [`Connecting::wait`].
    ///
    /// # Errors
    /// Errors of [`Self::begin_connect_with`].
    pub fn begin_connect_awaited(
        stack: &Stack,
        socket: OwnedFd,
        to: SocketAddr,
    ) -> io::Result<Connecting> {
        Connecting::begin_awaited(stack, socket, to)
    }

    /// What carries the connection, and why; it does not change.
    #[must_use]
    pub fn carrier(&self) -> &Carrier {
        &self.held.carrier
    }

    /// Another handle of the same connection, as
    /// [`TcpStream::try_clone`](std::net::TcpStream::try_clone) gives: what is set or shut
    /// down by one holds for all.
    ///
    /// # Errors
    /// None so far.
    pub fn try_clone(&self) -> io::Result<Self> {
        let held = self.held.clone();
        Ok(Self { held })
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// Errors of [`TcpStream::peer_addr`](std::net::TcpStream::peer_addr).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket().tcp.peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    /// Errors of [`TcpStream::local_addr`](std::net::TcpStream::local_addr).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket().tcp.local_addr()
    }

    /// Ends one direction or both, for threads that wait in it, too. The peer reads what
    /// was written before, then the end; what it wrote before can still be read here. The
    /// connection itself ends when the stream is dropped.
    ///
    /// # Errors
    /// Errors of [`TcpStream::shutdown`](std::net::TcpStream::shutdown).
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let Some(shard) = self.smc()? else {
            return self.socket().tcp.shutdown(how);
        };
        // Both is not the end of the connection: what has arrived can still be read, and
        // is no reason to withhold from the peer what was written.
        let directions: &[_] = match how {
            Shutdown::Read => &[Direction::Read],
            Shutdown::Write => &[Direction::Write],
            Shutdown::Both => &[Direction::Read, Direction::Write],
        };
        let mut state = shard.lock_for(self.socket());
        if state.has_closed(self.socket()) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        for direction in directions {
            state.shut(shard, self.socket(), *direction);
        }
        Ok(())
    }
}

impl Held {
    #[inline]
    fn smc(&self) -> io::Result<Option<&Arc<Shard>>> {
        let Some(stack) = self.stack.as_ref().filter(|_| self.carrier.is_smc()) else {
            return Ok(None);
        };
        self.process.check()?;
        Ok(Some(stack.shard()))
    }
}

impl fmt::Debug for SmcStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmcStream")
            .field("carrier", self.carrier())
            .field("peer", &self.peer_addr().ok())
            .finish_non_exhaustive()
    }
}
