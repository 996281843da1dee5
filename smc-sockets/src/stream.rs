//! A stream of octets, whatever carries it.

mod tcp;

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::carrier::{Carrier, Cause};
use crate::connecting::{self, Connecting};
use crate::socket::Socket;
use crate::stack::Stack;
use crate::waiting::{Direction, until_done};

/// A connection to another process: like a [`TcpStream`](std::net::TcpStream), over
/// shared memory if both processes can, and over TCP if not.
///
/// Reading and writing go on in the caller's thread. Dropping it ends the connection in
/// order, or resets it if octets of the peer were not read, as with TCP. What was
/// written can be read by the peer also after this process has ended.
pub struct SmcStream {
    stack: Stack,
    socket: Arc<Socket>,
    carrier: Carrier,
}

impl SmcStream {
    pub(crate) fn new(stack: Stack, socket: Arc<Socket>) -> Self {
        // Streams are made of what is decided.
        let carrier = socket
            .status()
            .carrier
            .unwrap_or(Carrier::tcp(Cause::NotOffered));
        Self {
            stack,
            socket,
            carrier,
        }
    }

    /// Connects, with the [stack of this process](Stack::of_process).
    ///
    /// # Errors
    /// As [`TcpStream::connect`](std::net::TcpStream::connect), and [`Stack::open`].
    pub fn connect(to: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_on(&Stack::of_process()?, to)
    }

    /// Connects, with this stack. Whatever may go wrong with SMC leaves a TCP
    /// connection; [`Self::carrier`] says which it is, and why.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_on(stack: &Stack, to: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = io::ErrorKind::InvalidInput.into();
        for address in to.to_socket_addrs()? {
            match connecting::connect(stack.shard(), address) {
                Ok(socket) => return Ok(Self::new(stack.clone(), socket)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Begins to connect, with this stack, and does not wait.
    ///
    /// # Errors
    /// As [`Self::connect`], as far as it is known at once.
    pub fn begin_connect(stack: &Stack, to: SocketAddr) -> io::Result<Connecting> {
        Connecting::begin(stack, to)
    }

    /// What carries the connection, and why; it does not change.
    #[must_use]
    pub fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// As [`TcpStream::peer_addr`](std::net::TcpStream::peer_addr).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.tcp.peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    /// As [`TcpStream::local_addr`](std::net::TcpStream::local_addr).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.tcp.local_addr()
    }

    /// Ends one direction or both, for threads that wait in it, too. The peer reads what
    /// was written before, then the end; what it wrote before can still be read here. The
    /// connection itself ends when the stream is dropped.
    ///
    /// # Errors
    /// The operating system's, on TCP.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if !self.carrier.is_smc() {
            return self.socket.tcp.shutdown(how);
        }
        // Both is not the end of the connection: what has arrived can still be read, and
        // is no reason to withhold from the peer what was written.
        let directions: &[_] = match how {
            Shutdown::Read => &[Direction::Read],
            Shutdown::Write => &[Direction::Write],
            Shutdown::Both => &[Direction::Read, Direction::Write],
        };
        let shard = self.stack.shard();
        let mut state = shard.lock();
        for direction in directions {
            state.shut(shard, &self.socket, *direction);
        }
        Ok(())
    }

    /// Whether reading and writing return at once, with [`io::ErrorKind::WouldBlock`] if
    /// nothing can be done; [`AsFd`] tells when it can.
    ///
    /// # Errors
    /// The operating system's, on TCP.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        if !self.carrier.is_smc() {
            self.socket.tcp.set_nonblocking(nonblocking)?;
        }
        self.socket
            .nonblocking
            .store(nonblocking, Ordering::Relaxed);
        Ok(())
    }

    /// How long a read waits, without end if `None`; then it is
    /// [`io::ErrorKind::WouldBlock`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.tcp.set_read_timeout(timeout)?;
        self.socket.status().read_timeout = timeout;
        Ok(())
    }

    /// The same for a write, counted from its beginning however often the peer makes a
    /// little room.
    ///
    /// # Errors
    /// As [`Self::set_read_timeout`].
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.tcp.set_write_timeout(timeout)?;
        self.socket.status().write_timeout = timeout;
        Ok(())
    }

    fn read_smc(&self, into: &mut [u8]) -> io::Result<usize> {
        let (shard, socket) = (self.stack.shard(), &self.socket);
        if into.is_empty() {
            return Ok(0);
        }
        until_done(shard, socket, Direction::Read, &mut None, |state, now| {
            state.read(shard, socket, into, now)
        })
    }

    /// Writes everything, as a blocking send over TCP does, or what there is room for.
    fn write_smc(&self, octets: &[u8]) -> io::Result<usize> {
        let (shard, socket) = (self.stack.shard(), &self.socket);
        let mut left = octets;
        // However often the peer makes a little room: the time is that of the whole.
        let mut since = None;
        while !left.is_empty() {
            let written = until_done(shard, socket, Direction::Write, &mut since, |state, now| {
                state.write(shard, socket, left, now)
            });
            match written {
                Ok(len) => left = left.get(len..).unwrap_or_default(),
                Err(error) if left.len() == octets.len() => return Err(error),
                // What comes next will tell.
                Err(_) => break,
            }
        }
        Ok(octets.len() - left.len())
    }
}

impl Read for &SmcStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.carrier.is_smc() {
            self.read_smc(into)
        } else {
            self.read_tcp(into)
        }
    }
}

impl Write for &SmcStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.carrier.is_smc() {
            self.write_smc(octets)
        } else {
            (&self.socket.tcp).write(octets)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for SmcStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for SmcStream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        (&*self).write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As ready as the stream, for `poll` and everything built on it: readable when reading
/// would not wait, writable when writing would not. Sometimes it says so without need.
/// Nothing must be read from it or written to it.
///
/// # Panics
/// If no descriptor is left when it is first asked for;
/// [`SmcStream::set_nonblocking`] does not need one.
impl AsFd for SmcStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        if !self.carrier.is_smc() {
            return self.socket.tcp.as_fd();
        }
        let shard = self.stack.shard();
        let (mut state, now) = (shard.lock(), shard.now());
        if let Some(conn) = self.socket.conn() {
            // Whoever polls it does not look at the device.
            state.set_urgent(conn, true);
        }
        state.settle(shard, now);
        // What was heard just now, nobody could be told yet.
        let readable = state.is_readable(&self.socket, now);
        let writable = state.is_writable(&self.socket, now);
        match self.socket.ready_fd(readable, writable) {
            Ok(ready) => ready.as_fd(),
            Err(error) => panic!("no descriptor for a stream's readiness: {error}"),
        }
    }
}

impl Drop for SmcStream {
    fn drop(&mut self) {
        if self.carrier.is_smc() {
            let shard = self.stack.shard();
            shard.lock().close(shard, &self.socket);
        }
    }
}

impl fmt::Debug for SmcStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmcStream")
            .field("carrier", &self.carrier)
            .field("peer", &self.peer_addr().ok())
            .finish_non_exhaustive()
    }
}
