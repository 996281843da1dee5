//! Ends of connections that a program decides, and what it asks of them before.

use std::io;
use std::sync::Arc;

use smc_proto::connection::{ApiMisuse, CloseState};
use smc_proto::event::CloseReason;
use smc_proto::time::Instant;

use super::events::has_both_ended;
use super::urgent::copy;
use super::{Shard, State};
use crate::socket::{NextRead, Socket};

#[cfg(test)]
mod tests;

impl State {
    /// Copies what is next to be read, which stays; `None` if that is nothing yet.
    pub(crate) fn peek(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        into: &mut [u8],
        now: Instant,
    ) -> Option<io::Result<usize>> {
        let NextRead { kept, most } = socket.next_read();
        let copied = copy(&kept, into);
        let into = into.get_mut(copied..).unwrap_or_default();
        let most = most.min(into.len());
        let into = into.get_mut(..most).unwrap_or_default();
        let conn = socket.conn();
        let readable = conn.and_then(|conn| Some((conn, self.engine.conn(conn)?.readable()?)));
        if let Some((conn, octets)) = readable.filter(|(_, octets)| !octets.is_empty()) {
            let len = self.transports.take(socket.via(), conn, &octets, into);
            return Some(Ok(copied + len as usize));
        }
        if copied > 0 {
            return Some(Ok(copied));
        }
        if !into.is_empty() && self.keep_urgent_of(socket, now) {
            return self.peek(shard, socket, into, now);
        }
        // Nothing is there: the end, an error, or a reason to wait, as for a read.
        self.is_readable(socket, now)
            .then(|| self.end_of(shard, socket, now))
    }

    /// What reading comes to behind the last octet.
    fn end_of(&mut self, shard: &Arc<Shard>, socket: &Socket, now: Instant) -> io::Result<usize> {
        let conn = socket.conn();
        let ended = conn
            .and_then(|conn| self.engine.conn(conn))
            .map(|mut conn| {
                conn.is_end_of_stream() || conn.write(now, |_| 0) == Err(ApiMisuse::Closed)
            });
        match ended {
            Some(true) => Ok(0),
            _ => self.read_end(shard, socket, now),
        }
    }

    /// Outcome of reading when a connection has ended and everything was read.
    pub(super) fn read_end(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
    ) -> io::Result<usize> {
        // The event of the end may not have been handled yet.
        self.execute_commands(shard, now);
        let status = socket.status();
        if status.ended || status.closed == Some(CloseReason::Normal) || status.error_reported {
            return Ok(0);
        }
        drop(status);
        Err(self.gone(shard, socket, now))
    }

    /// Why a connection that has ended takes and gives no bytes.
    pub(super) fn gone(&mut self, shard: &Arc<Shard>, socket: &Socket, now: Instant) -> io::Error {
        // The error is reported once, as with TCP, also if its event has not been handled yet.
        self.execute_commands(shard, now);
        let mut status = socket.status();
        if status.closed.is_none() && !std::mem::replace(&mut status.error_reported, true) {
            // It comes when the peer has answered, or too late to answer.
            return io::ErrorKind::ConnectionReset.into();
        }
        drop(status);
        let error = socket.take_error();
        error.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Whether the connection is over: it was reset, or both sides have ended.
    pub(crate) fn has_closed(&mut self, socket: &Socket) -> bool {
        let conn = socket.conn().and_then(|conn| self.engine.conn(conn));
        let state = conn.and_then(|conn| conn.state());
        socket.closing().is_reset || state.is_none_or(has_both_ended)
    }

    /// Whether bytes are there to be read.
    pub(crate) fn has_octets(&mut self, socket: &Socket) -> bool {
        let conn = socket.conn();
        conn.is_some_and(|conn| self.engine.is_readable(conn))
    }

    /// Ends a connection at once; what the peer has not got is lost.
    pub(crate) fn abort(&mut self, shard: &Arc<Shard>, socket: &Socket) {
        let now = shard.now();
        let Some(conn) = socket.conn() else {
            return;
        };
        if let Some(mut at) = self.engine.conn(conn) {
            at.abort(now);
            self.set_urgent(conn, true);
            self.drain_and_park(shard, now);
        }
    }

    /// Whether the peer has not got everything that was written, and may yet get it.
    pub(crate) fn has_undelivered(&mut self, shard: &Arc<Shard>, socket: &Socket) -> bool {
        self.drain_and_park(shard, shard.now());
        let conn = socket.conn();
        let state = conn.and_then(|conn| self.engine.conn(conn)?.state());
        // It stays there until all is delivered, then goes on with the close.
        matches!(state, Some(CloseState::Active | CloseState::AppCloseWait1))
    }

    /// A connection that TCP carries has no stream any more: the peer's Decline is not
    /// waited for.
    pub(crate) fn end_watch(&mut self, shard: &Arc<Shard>, socket: &Socket) {
        let now = shard.now();
        let conn = socket.conn();
        if let Some(mut conn) = conn.and_then(|conn| self.engine.conn(conn)) {
            conn.abort(now);
        }
        self.drain_and_park(shard, now);
    }

    /// Holds small writes back, or no longer.
    pub(crate) fn cork(&mut self, shard: &Arc<Shard>, socket: &Socket, cork: bool) {
        let now = shard.now();
        let conn = socket.conn();
        if let Some(mut conn) = conn.and_then(|conn| self.engine.conn(conn)) {
            conn.set_cork(now, cork);
        }
        self.drain_and_park(shard, now);
    }

    /// Sends what is held back.
    pub(crate) fn flush(&mut self, shard: &Arc<Shard>, socket: &Socket) {
        let now = shard.now();
        let conn = socket.conn();
        if let Some(mut conn) = conn.and_then(|conn| self.engine.conn(conn)) {
            conn.flush(now);
        }
        self.drain_and_park(shard, now);
    }
}
