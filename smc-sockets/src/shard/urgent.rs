//! Urgent bytes between the engine and the sockets.

use std::io;
use std::sync::Arc;

use smc_proto::completion::IsmCompletion;
use smc_proto::connection::ApiMisuse;
use smc_proto::id::ConnId;
use smc_proto::time::Instant;

use smc_view::Extra;

use super::data::gone;
use super::{Shard, State};
use crate::socket::{NextRead, Socket};

#[cfg(test)]
mod tests;

impl State {
    /// Takes the urgent byte of a connection from the engine, which steps over it, and keeps it with
    /// the socket. Returns whether there was one.
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
        if taken != 1 || at.take_urgent(now).is_err() {
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

    /// Reads as far as the urgent mark, or on from there.
    #[cold]
    pub(super) fn read_at_mark(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        into: &mut [u8],
        now: Instant,
    ) -> Option<io::Result<usize>> {
        let most = match socket.next_read() {
            NextRead::Urgent(octet) => {
                if let Some(first) = into.first_mut() {
                    *first = octet;
                }
                socket.pass(1);
                return Some(Ok(1));
            }
            NextRead::Bytes(most) => most.min(into.len()),
        };
        let into = into.get_mut(..most).unwrap_or_default();
        let outcome = self.read_on(shard, socket, into, now);
        if let Some(Ok(len)) = outcome {
            socket.pass(len);
        }
        outcome
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
            return Some(Err(gone(socket)));
        };
        let space = conn.send_space();
        let fill = |space| self.transports.fill(socket.via(), &space, octets);
        let filled = space.map_or(Ok(0), fill);
        let Ok(len) = filled else {
            self.receive_last(socket, now);
            let completion = IsmCompletion::MoveFailed { conn: id };
            self.engine.handle_ism(now, completion);
            self.execute_commands(shard, now);
            return Some(Err(gone(socket)));
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
            Err(_) => Some(Err(gone(socket))),
        }
    }
}
