//! A stream as a descriptor, and as a TCP connection.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use super::SmcStream;
use smc_view::Role;

use crate::carrier::{Carrier, Cause};
use crate::descriptors;
use crate::readiness::Readiness;
use crate::socket::Socket;

impl SmcStream {
    /// The descriptor of [`AsFd`], if there is one that reports no less and no more than it
    /// should.
    ///
    /// # Errors
    /// No descriptors are left for one, or no memory: it can be asked for again. And
    /// [`io::ErrorKind::Unsupported`] in a child that has inherited the stream.
    pub fn try_as_fd(&self) -> io::Result<BorrowedFd<'_>> {
        let socket = self.socket();
        let Some(shard) = self.smc()? else {
            return Ok(socket.tcp.as_fd());
        };
        let (mut state, now) = (shard.lock_for(socket), shard.now());
        if let Some(conn) = socket.conn() {
            // A program that polls the descriptor does not poll the device.
            state.set_urgent(conn, true);
        }
        state.drain_and_park(shard, now);
        // What was received just now has not been reported yet.
        let readable = state.is_readable(socket, now);
        let writable = state.is_writable(socket, now);
        let ready = state.ready_fd(shard, socket, (readable, writable))?;
        Ok(ready.as_fd())
    }

    /// Messages that the program wrote to the descriptor of [`AsFd`] itself, past this stream:
    /// they are lost.
    #[must_use]
    pub fn stray_writes(&self) -> u64 {
        let readiness = self.socket().readiness();
        readiness.map_or(0, Readiness::strays)
    }

    /// The TCP connection, if that carries it and no other handle of it is left.
    ///
    /// # Errors
    /// The stream itself: SMC carries it, or another process has it, too, or the peer's
    /// word that it declines may still be before its bytes.
    pub fn try_into_tcp(self) -> Result<TcpStream, Self> {
        let opens = self.socket().is_watching() || !self.socket().opening.is_over();
        if self.carrier().is_smc() || opens {
            return Err(self);
        }
        let tcp = self.socket().tcp.try_clone();
        match (tcp, Arc::strong_count(&self.held)) {
            (Ok(tcp), 1) => Ok(tcp),
            _ => Err(self),
        }
    }
}

/// Descriptor as ready as the stream, for `poll` and everything built on it: readable when reading
/// would not wait, or an urgent byte has come; writable when writing would not. `EPOLLRDHUP`,
/// `EPOLLHUP` and `EPOLLERR` are reported as of TCP, and edge-triggered pollers are notified of
/// each arrival. Sometimes it is ready without need. A program neither reads from it nor writes
/// to it: what it writes is lost, and counted ([`SmcStream::stray_writes`]).
///
/// A program takes it out of its `epoll` before it drops the stream, whose TCP connection may
/// stay open in the background for some seconds.
///
/// Without descriptors left to make one, it is another one of the stream that is always
/// ready, so that no caller waits in vain; [`SmcStream::try_as_fd`] fails then. So it is in a
/// child that has inherited the stream.
impl AsFd for SmcStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.try_as_fd().unwrap_or_else(|_| {
            let tcp = &self.socket().tcp;
            if self.is_inherited() {
                // The TCP connection is the parent's as well, and stays as it is.
                let ready = self.held.unusable.get_or_make(always_ready);
                return ready.map_or(tcp.as_fd(), AsFd::as_fd);
            }
            // TCP carries nothing any more: it is writable, and from now on readable. If
            // it has ended already, it is both, too.
            let _ = tcp.shutdown(Shutdown::Read);
            tcp.as_fd()
        })
    }
}

/// The descriptor of the TCP connection; see [`SmcStream::try_into_tcp`].
impl TryFrom<SmcStream> for OwnedFd {
    type Error = SmcStream;

    fn try_from(stream: SmcStream) -> Result<Self, SmcStream> {
        stream.try_into_tcp().map(Self::from)
    }
}

/// A TCP connection that was made without this crate, and stays TCP.
impl From<OwnedFd> for SmcStream {
    fn from(tcp: OwnedFd) -> Self {
        TcpStream::from(tcp).into()
    }
}

fn always_ready() -> io::Result<OwnedFd> {
    Ok(descriptors::eventfd(1)?)
}

/// The descriptor of [`AsFd`].
impl AsRawFd for SmcStream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// A TCP connection that was made without this crate, and stays TCP.
impl From<TcpStream> for SmcStream {
    fn from(tcp: TcpStream) -> Self {
        Self::plain(tcp, Cause::NotOffered)
    }
}

impl SmcStream {
    /// A TCP connection that stays TCP.
    pub(crate) fn plain(tcp: TcpStream, cause: Cause) -> Self {
        let carrier = Some(Carrier::tcp(cause));
        Self::of(
            None,
            Arc::new(Socket::in_role(tcp, carrier, Duration::ZERO, Role::Unknown)),
        )
    }
}
