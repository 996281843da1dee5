//! The data path: bytes of an application, in its own thread.

use std::io;
use std::sync::Arc;

use smc_proto::completion::IsmCompletion;
use smc_proto::connection::{ApiMisuse, CloseState, Shutdown};
use smc_proto::endpoint::ReadOutcome;
use smc_proto::time::Instant;

use super::{Shard, State};
use crate::socket::Socket;
use crate::waiting::{Direction, POLLS_PER_CLOCK};

impl State {
    /// Reads what there is; `None` if that is nothing yet.
    pub(crate) fn read(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        into: &mut [u8],
        now: Instant,
    ) -> Option<io::Result<usize>> {
        // Before the mark: what is received now may bring one.
        if !socket.backs_off() {
            self.poll_at_once(shard, socket, now);
        }
        let read = if socket.is_marked() {
            self.read_at_mark(shard, socket, into, now)
        } else {
            self.read_on(shard, socket, into, now)
        };
        // An event loop that watches the stream goes on reading by itself.
        if read.is_some() && socket.waiters.has_tasks(Direction::Read) {
            self.notify_readers(socket, now);
        }
        read
    }

    /// Polls for something to read if there is nothing: once, or a few times for a caller that
    /// would wait. An answer comes soon, and to begin to wait takes longer than some polls.
    #[inline(always)]
    pub(crate) fn poll_at_once(&mut self, shard: &Arc<Shard>, socket: &Socket, now: Instant) {
        let is_readable = |id| self.engine.is_readable(id);
        if socket.conn().is_none_or(is_readable) {
            return;
        }
        for poll in 0..POLLS_PER_CLOCK {
            if self.poll_head_of(shard, socket, now) {
                if poll == 0 {
                    socket.count_immediate();
                }
                return;
            }
            if poll == 0 && (socket.is_nonblocking() || !self.may_poll_head(socket)) {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Reads what there is, if no urgent mark is in the way.
    pub(super) fn read_on(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        into: &mut [u8],
        now: Instant,
    ) -> Option<io::Result<usize>> {
        let (id, via) = (socket.conn(), socket.via());
        let transports = &mut self.transports;
        let mut available = 0;
        let read = match id {
            Some(id) => self.engine.read(
                now,
                id,
                #[inline(always)]
                |octets| {
                    available = octets.len();
                    transports.take(via, id, octets, into)
                },
            ),
            None => None,
        };
        match read {
            Some(Ok(ReadOutcome { bytes: 0, .. })) => {
                if !into.is_empty() && self.keep_urgent_of(socket, now) {
                    return self.read_at_mark(shard, socket, into, now);
                }
                self.nothing_to_read(shard, socket, now)
            }
            Some(Ok(ReadOutcome {
                bytes: octets,
                follows,
            })) => {
                socket.view.received(octets as usize, into.len(), available);
                if follows {
                    self.send(shard, now);
                }
                if socket.is_polled() && !self.is_readable(socket, now) {
                    socket.mark(Direction::Read);
                }
                Some(Ok(octets as usize))
            }
            Some(Err(_)) | None => Some(self.read_end(shard, socket, now)),
        }
    }

    /// Notifies what waits to read, if there is something left: it may have arrived when this
    /// thread polled for it, without an event.
    #[inline]
    pub(crate) fn notify_readers(&mut self, socket: &Socket, now: Instant) {
        if socket.waiters.has(Direction::Read) && self.is_readable(socket, now) {
            socket.waiters.notify(Direction::Read, &mut self.wakes);
        }
    }

    /// Whether there is nothing to be read yet, or ever.
    #[inline(never)]
    fn nothing_to_read(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
    ) -> Option<io::Result<usize>> {
        let mut conn = socket.conn().and_then(|id| self.engine.conn(id))?;
        if conn.is_end_of_stream() {
            return Some(Ok(0));
        }
        if conn.state() == Some(CloseState::Active) {
            return None;
        }
        // One that was reset, or closed by this side, reports that to a caller that writes.
        match conn.write(now, |_| 0) {
            Err(ApiMisuse::Closed) => Some(Ok(0)),
            Err(ApiMisuse::Reset) => {
                // What was kept for the application is read: its memory is needed no more.
                conn.abort(now);
                Some(self.read_end(shard, socket, now))
            }
            _ => None,
        }
    }

    /// Writes as much as there is room for; `None` if that is nothing.
    pub(crate) fn write(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        octets: &[u8],
        now: Instant,
    ) -> Option<io::Result<usize>> {
        let Some(id) = socket.conn() else {
            return Some(Err(self.gone(shard, socket, now)));
        };
        let (transports, via) = (&mut self.transports, socket.via());
        let mut failed = false;
        let written = self.engine.write_and_signal(
            now,
            id,
            transports,
            #[inline(always)]
            |transports, space| {
                let fits = transports.fill(via, space, octets);
                failed = fits.is_err();
                fits.unwrap_or(0)
            },
            #[inline(always)]
            |transports, signal| transports.ism.write_signal(signal),
        );
        if failed {
            // The peer took the memory back that it had given this connection.
            self.receive_last(socket, now);
            let completion = IsmCompletion::MoveFailed { conn: id };
            self.engine.handle_ism(now, completion);
            return Some(Err(self.gone(shard, socket, now)));
        }
        match written {
            Some(Ok(0)) => None,
            Some(Ok(len)) => {
                socket.reset_backoff();
                socket.view.sent(len as usize, octets.len());
                self.send(shard, now);
                if socket.is_polled() && !self.is_writable(socket, now) {
                    socket.mark(Direction::Write);
                }
                Some(Ok(len as usize))
            }
            Some(Err(ApiMisuse::SendClosed | ApiMisuse::Closed)) => {
                Some(Err(io::ErrorKind::BrokenPipe.into()))
            }
            Some(Err(_)) | None => Some(Err(self.gone(shard, socket, now))),
        }
    }

    /// Ends a direction of a connection, and whatever threads wait for in it.
    pub(crate) fn shut(&mut self, shard: &Arc<Shard>, socket: &Socket, direction: Direction) {
        let (conn, now) = (socket.conn(), shard.now());
        if let Some(mut conn) = conn.and_then(|conn| self.engine.conn(conn)) {
            conn.shutdown(
                now,
                match direction {
                    Direction::Read => Shutdown::Read,
                    Direction::Write => Shutdown::Write,
                },
            );
            self.drain_and_park(shard, now);
            socket.view.shut(direction == Direction::Read);
            socket.status().shut |= direction == Direction::Write;
            self.publish_progress(socket, now);
            // The engine reports what the peer does.
            socket.is_ready(direction, &mut self.wakes);
            socket.end(direction);
        }
    }

    /// The stream is no more: ends the connection, which may take the peer a while.
    pub(crate) fn close(&mut self, shard: &Arc<Shard>, socket: &Socket) {
        let now = shard.now();
        let Some(conn) = socket.conn() else {
            return;
        };
        // What has arrived and was not reported is unread as well: the peer is notified.
        self.drain_device(shard, socket.via(), now);
        if let Some(mut at) = self.engine.conn(conn) {
            if socket.is_marked() {
                // An urgent byte is unread as well, also one that was received out of its place.
                at.abort(now);
            } else {
                at.shutdown(now, Shutdown::Both);
            }
            self.end_closed(shard, conn, now);
            self.publish_progress(socket, now);
        } else {
            // The device was polled, and may be awake now while others sleep.
            self.release_device(shard, now);
        }
    }

    /// Whether reading would not wait.
    pub(crate) fn is_readable(&mut self, socket: &Socket, now: Instant) -> bool {
        if socket.is_marked() && socket.has_kept_next() {
            return true;
        }
        let conn = socket.conn();
        conn.and_then(|conn| self.engine.conn(conn))
            .is_none_or(|mut conn| {
                let octets = conn.readable().is_some_and(|at| !at.is_empty());
                let over = |outcome| matches!(outcome, Err(ApiMisuse::Closed | ApiMisuse::Reset));
                octets || conn.is_end_of_stream() || over(conn.write(now, |_| 0))
            })
    }

    /// Bytes that can be read without waiting, as far as messages from the peer have been taken in;
    /// `None` if the engine has the connection no more.
    #[cfg(feature = "tokio")]
    pub(crate) fn readable_len(&mut self, socket: &Socket) -> Option<usize> {
        let spans = self.engine.conn(socket.conn()?)?.readable()?;
        Some(spans.segments.iter().map(|at| at.length as usize).sum())
    }

    /// Whether writing would not wait.
    pub(crate) fn is_writable(&mut self, socket: &Socket, now: Instant) -> bool {
        let conn = socket.conn();
        conn.and_then(|conn| self.engine.conn(conn))
            .is_none_or(|mut conn| {
                let space = conn.send_space().is_some_and(|at| !at.is_empty());
                space || conn.write(now, |_| 0).is_err()
            })
    }

    /// Carries out what a read or a write leads to: a message to the peer, if anything.
    #[inline]
    fn send(&mut self, shard: &Arc<Shard>, now: Instant) {
        // Most often what there was to say has been said.
        if self.transports.ism.has_answers() || !self.transports.is_idle(&self.engine) {
            self.send_all(shard, now);
        }
    }

    #[inline(never)]
    fn send_all(&mut self, shard: &Arc<Shard>, now: Instant) {
        self.transports.execute_commands(&mut self.engine, now);
        if self.transports.ism.has_answers() {
            self.drain_completions(shard, now);
        }
    }
}
