//! What poll(2) would report of a stream, without a descriptor and without a system call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use smc_proto::event::CloseReason;
use smc_proto::version::Technology;

use super::SmcStream;
use crate::carrier::Carrier;
use crate::shard::{has_both_ended, has_peer_ended, has_this_ended};
use crate::socket::{Closing, Socket};

/// The state of a stream that SMC carries, as poll(2) reports that of a TCP socket.
///
/// # Examples
///
/// ```no_run
/// # fn of(stream: smc_sockets::SmcStream) -> std::io::Result<()> {
/// if let Some(state) = stream.poll_state()? {
///     println!("bytes to read or the end: {}", state.readable);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PollState {
    /// Reading would not wait (`POLLIN`).
    pub readable: bool,
    /// Writing would not wait (`POLLOUT`).
    pub writable: bool,
    /// An urgent byte has come and was not received (`POLLPRI`).
    pub urgent: bool,
    /// The peer sends no more (`POLLRDHUP`).
    pub read_ended: bool,
    /// Both directions have ended (`POLLHUP`).
    pub ended: bool,
    /// The peer has ended its direction in order, and not by a reset.
    pub peer_ended: bool,
    /// Both directions have ended, or the connection was reset: calls that need a connection fail with
    /// `ENOTCONN`.
    pub closed: bool,
    /// The connection has come to an error that no call has returned yet (`POLLERR`). A reset behind
    /// the end of both directions is none.
    pub error: bool,
}

impl SmcStream {
    /// The state of the stream as it is known now: polls no device, as an
    /// [`EventLoop`](crate::EventLoop) does that. `None` if TCP carries the stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child that has inherited the stream.
    pub fn poll_state(&self) -> io::Result<Option<PollState>> {
        let socket = self.socket();
        let Some(shard) = self.smc()? else {
            return Ok(None);
        };
        let mut state = shard.lock_for(socket);
        let known = socket.conn().and_then(|conn| state.engine.readiness(conn));
        if let Some(known) = known {
            let marked = socket.is_marked();
            // Only one that is over in the engine may have been reset.
            let closing = if known.over {
                socket.closing()
            } else {
                Closing::default()
            };
            let reset = closing.is_reset;
            let has_peer_ended = has_peer_ended(known.state);
            let read_ended = has_peer_ended || known.end_of_stream || reset;
            let readable = known.bytes || known.end_of_stream || known.over;
            let ended = read_ended && has_this_ended(known.state) || reset;
            return Ok(Some(PollState {
                readable: readable || marked && socket.has_kept_next(),
                // Without room the engine is to report when there is some.
                writable: reset || known.space || state.is_writable(socket, shard.coarse()),
                urgent: marked && socket.has_urgent(),
                read_ended,
                ended,
                peer_ended: if reset {
                    closing.peer_ended
                } else {
                    has_peer_ended
                },
                closed: reset || has_both_ended(known.state),
                error: closing.has_unread_error,
            }));
        }
        let now = shard.coarse();
        let mut found = PollState {
            readable: state.is_readable(socket, now),
            writable: state.is_writable(socket, now),
            urgent: socket.is_marked() && socket.has_urgent(),
            ..PollState::default()
        };
        let close = socket.conn().and_then(|conn| state.engine.conn(conn));
        match close.and_then(|conn| Some((conn.state()?, conn.is_end_of_stream()))) {
            Some((close, read)) => {
                found.read_ended = has_peer_ended(close) || read;
                found.ended = found.read_ended && has_this_ended(close);
                found.peer_ended = has_peer_ended(close);
                found.closed = has_both_ended(close);
            }
            None => {
                let closing = socket.closing();
                (found.read_ended, found.ended, found.closed) = (true, true, true);
                found.peer_ended = !closing.is_reset || closing.peer_ended;
                found.error = closing.has_unread_error;
            }
        }
        Ok(Some(found))
    }

    /// Polls the device once, as a read in vain does, so that [`Self::poll_state`] is of this
    /// moment.
    ///
    /// # Errors
    /// Errors of [`Self::poll_state`].
    pub fn poll_device(&self) -> io::Result<()> {
        let socket = self.socket();
        if let Some(shard) = self.smc()? {
            let (mut state, now) = (shard.lock_for(socket), shard.coarse());
            state.drain_device(shard, socket.via(), now);
            state.release_device(shard, now);
        }
        Ok(())
    }

    /// Bytes that can be read without waiting (`FIONREAD`), up to an urgent mark unless urgent bytes
    /// are read in their place; `None` if TCP carries the stream.
    ///
    /// # Errors
    /// Errors of [`Self::poll_state`].
    pub fn unread(&self) -> io::Result<Option<usize>> {
        self.count(Socket::count_unread)
    }

    /// Bytes that count for a low-water mark (`SO_RCVLOWAT`), those behind an urgent mark
    /// included; `None` if TCP carries the stream.
    ///
    /// # Errors
    /// Errors of [`Self::poll_state`].
    #[doc(hidden)]
    pub fn available(&self) -> io::Result<Option<usize>> {
        self.count(Socket::count_available)
    }

    /// Counts bytes by a function that gets those of the engine.
    fn count(&self, of: impl FnOnce(&Socket, usize) -> usize) -> io::Result<Option<usize>> {
        let socket = self.socket();
        let Some(shard) = self.smc()? else {
            return Ok(None);
        };
        let (mut state, now) = (shard.lock_for(socket), shard.coarse());
        state.drain_device(shard, socket.via(), now);
        let at = socket.conn().and_then(|conn| state.engine.conn(conn));
        let readable = at.and_then(|conn| conn.readable());
        let unread = of(socket, readable.map_or(0, |at| at.len() as usize));
        state.release_device(shard, now);
        Ok(Some(unread))
    }

    /// Whether the connection over shared memory ended because the process of the peer did, which
    /// had not closed it. The kernel ends a TCP connection in order then.
    #[must_use]
    pub fn has_lost_peer(&self) -> bool {
        let over_memory =
            matches!(self.carrier(), Carrier::Smc(terms) if terms.technology == Technology::SmcD);
        over_memory && self.socket().status().closed == Some(CloseReason::LinksLost)
    }

    /// The TCP connection that the stream began as: for what TCP alone knows, such as addresses.
    /// Nothing is read from it or written to it.
    #[must_use]
    pub fn tcp(&self) -> BorrowedFd<'_> {
        self.socket().tcp.as_fd()
    }

    /// Whether TCP carries the stream and every byte that comes next is the application's, so
    /// that the descriptor of [`Self::tcp`] may be used in its place.
    #[must_use]
    pub fn is_plain_tcp(&self) -> bool {
        let opens = self.socket().is_watching() || !self.socket().opening.is_over();
        !self.carrier().is_smc() && !opens
    }
}
