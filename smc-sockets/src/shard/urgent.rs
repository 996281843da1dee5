//! Urgent bytes between the engine and the sockets.

use std::io;
use std::sync::Arc;

use smc_proto::completion::IsmCompletion;
use smc_proto::connection::ApiMisuse;
use smc_proto::id::ConnId;
use smc_proto::time::Instant;

use smc_view::Extra;

use super::{Shard, State};
use crate::socket::{NextRead, Socket};

#[cfg(test)]
mod tests;

impl State {
    /// Notes the urgent byte of a connection. Unless it is read in its place, takes it from the
    /// engine, which steps over it, and keeps it with the socket. Returns whether there was one.
    pub(super) fn keep_urgent(&mut self, conn: ConnId, now: Instant) -> bool {
        let Some(mut at) = self.engine.conn(conn) else {
            return false;
        };
        let Some((ahead, place)) = at.urgent() else {
            return false;
        };
        let entry = self.sockets.get(conn.index() as usize);
        let Some(entry) = entry.and_then(Option::as_ref) else {
            return false;
        };
        let (socket, mut octet) = (&entry.socket, [0]);
        let taken = self.transports.take(socket.via(), conn, &place, &mut octet);
        if taken != 1 {
            return false;
        }
        if !socket.is_urgent_inline() && at.take_urgent(now).is_err() {
            return false;
        }
        let [octet] = octet;
        socket.mark_urgent(ahead, octet);
        true
    }

    /// Keeps the urgent byte at which reading has stopped, whose event was not handled yet. Returns
    /// whether there was one.
    #[inline(never)]
    pub(super) fn keep_urgent_of(&mut self, socket: &Socket, now: Instant) -> bool {
        socket.conn().is_some_and(|id| self.keep_urgent(id, now))
    }

    /// Sets whether urgent bytes are read in their place. One that has come stays where it is.
    pub(crate) fn set_urgent_inline(&mut self, shard: &Arc<Shard>, socket: &Socket, inline: bool) {
        let now = shard.now();
        self.drain_completions(shard, now);
        let is_to_be_kept = socket.set_urgent_inline(inline);
        if let Some(mut at) = socket.conn().and_then(|conn| self.engine.conn(conn)) {
            at.set_urgent_inline(inline);
            if is_to_be_kept {
                // It fails if the stream has no such byte any more.
                let _ = at.take_urgent(now);
            }
        }
        self.execute_commands(shard, now);
        self.release_device(shard, now);
    }

    /// Reads as far as the urgent mark, or on from there.
    #[cold]
    pub(super) fn read_at_mark(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        into: &mut [u8],
        now: Instant,
    ) -> Option<io::Result<usize>> {
        if into.is_empty() || socket.pass_mark() {
            return self.read_on(shard, socket, into, now);
        }
        let NextRead { kept, most } = socket.next_read();
        let copied = copy(&kept, into);
        socket.pass(copied);
        let rest = into.get_mut(copied..).unwrap_or_default();
        let room = most.min(rest.len());
        let rest = rest.get_mut(..room).unwrap_or_default();
        if rest.is_empty() || !self.has_octets(socket) {
            return match copied {
                0 => self.read_on(shard, socket, rest, now),
                copied => Some(Ok(copied)),
            };
        }
        match self.read_on(shard, socket, rest, now) {
            Some(Ok(len)) => {
                socket.pass(len);
                Some(Ok(copied + len))
            }
            outcome if copied == 0 => outcome,
            _ => Some(Ok(copied)),
        }
    }

    /// Writes as much as there is room for; the last octet is urgent if all of it fits.
    pub(crate) fn write_urgent(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        octets: &[u8],
        now: Instant,
    ) -> Option<io::Result<usize>> {
        let id = socket.conn();
        let Some((id, mut conn)) = id.and_then(|id| Some((id, self.engine.conn(id)?))) else {
            return Some(Err(self.gone(shard, socket, now)));
        };
        let space = conn.send_space();
        let fill = |space| self.transports.fill(socket.via(), &space, octets);
        let filled = space.map_or(Ok(0), fill);
        let Ok(len) = filled else {
            self.receive_last(socket, now);
            let completion = IsmCompletion::MoveFailed { conn: id };
            self.engine.handle_ism(now, completion);
            return Some(Err(self.gone(shard, socket, now)));
        };
        let written = if len as usize == octets.len() {
            conn.commit_urgent(now, len)
        } else {
            conn.commit(now, len)
        };
        match written {
            Ok(()) if len == 0 => None,
            Ok(()) => {
                socket.view.sent(len as usize, octets.len());
                if len as usize == octets.len() {
                    socket.view.extra(Extra::Urgent);
                }
                self.execute_commands(shard, now);
                Some(Ok(len as usize))
            }
            Err(ApiMisuse::SendClosed | ApiMisuse::Closed) => {
                Some(Err(io::ErrorKind::BrokenPipe.into()))
            }
            Err(_) => Some(Err(self.gone(shard, socket, now))),
        }
    }
}

/// Copies the first bytes for which there is room: how many.
pub(super) fn copy(bytes: &[u8], into: &mut [u8]) -> usize {
    into.iter_mut()
        .zip(bytes)
        .for_each(|(to, byte)| *to = *byte);
    bytes.len().min(into.len())
}
