//! CLC messages over TCP, and events of TCP.
//!
//! Bytes are peeked at until the engine says how many are CLC: the next one is the application's if
//! the connection falls back.

use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use smc_proto::endpoint::{ClcProgress, Next, TcpEvent};
use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_proto::wire::clc::{ClcKind, EYE_CATCHER, EYE_CATCHER_SMCD, MAX_LENGTH};
use smc_transport_ism::shared::pairing::Peer;

use super::State;
use super::timer::polled_now;

impl State {
    /// Passes CLC messages that have come over a connection's TCP on to the engine, and the end of TCP.
    pub(crate) fn peek_tcp(&mut self, conn: ConnId, now: Instant) {
        let mut ended = None;
        while let Some(entry) = self.entry(conn) {
            let socket = entry.socket.clone();
            let mut octets = [0; MAX_LENGTH];
            let shown = match peek(&*socket, &mut octets) {
                Ok(0) => {
                    // Behind a FIN, a peek does not distinguish a reset.
                    let end = has_ended(&*socket).unwrap_or(TcpEvent::PeerFin);
                    if end == TcpEvent::PeerReset {
                        self.receive_last(&socket, now);
                    }
                    return self.engine.handle_tcp(now, conn, end);
                }
                Ok(len) => octets.get(..len).unwrap_or_default(),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.receive_last(&socket, now);
                    return self.engine.handle_tcp(now, conn, TcpEvent::PeerReset);
                }
            };
            if is_answer(shown) {
                // Whatever follows, the server speaks CLC.
                socket.note_clc();
            }
            match self.engine.handle_clc(now, conn, shown) {
                Ok(ClcProgress::NeedMore { total }) => {
                    if let Some(end) = ended {
                        return self.engine.handle_tcp(now, conn, end);
                    }
                    // So that not each byte of a slow peer wakes a thread.
                    socket.set_low_water(total);
                    ended = has_ended(&*socket);
                    if ended.is_none() {
                        return;
                    }
                }
                Ok(ClcProgress::Consumed { len, next }) => {
                    socket.set_low_water(1);
                    discard(&*socket, len);
                    if next == Next::Stop {
                        return;
                    }
                }
                Ok(ClcProgress::NotClc) | Err(_) => return,
            }
        }
    }

    /// Removes connections that are decided from the list of those that negotiate over TCP.
    pub(super) fn forget_decided(&mut self) {
        let mut negotiating = std::mem::take(&mut self.negotiating);
        negotiating.retain(|conn| self.entry(*conn).is_some_and(|at| at.arrival.is_some()));
        self.negotiating = negotiating;
    }

    /// Receives the CLC messages that a peer has sent over TCP so far, for connections that are not
    /// decided. So connections that its program has made earlier are decided earlier.
    //= SHM-069
    pub(super) fn receive_clc_of(&mut self, peer: Peer, now: Instant) {
        if self.negotiating.is_empty() {
            return;
        }
        self.forget_decided();
        for conn in self.negotiating.clone() {
            if self.entry(conn).is_some_and(|at| at.peer == Some(peer)) {
                self.peek_tcp(conn, now);
            }
        }
    }
}

/// Whether bytes of a server begin as a CLC message of a server does. A Proposal is none: it is sent
/// by a server that echoes.
fn is_answer(octets: &[u8]) -> bool {
    let Some((eye_catcher, [kind, ..])) = octets.split_first_chunk() else {
        return false;
    };
    matches!(*eye_catcher, EYE_CATCHER | EYE_CATCHER_SMCD) && *kind != ClcKind::Proposal as u8
}

/// Copies bytes that have come over TCP, and leaves them there.
pub(crate) fn peek(socket: impl AsFd, into: &mut [u8]) -> Result<usize, Errno> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    rustix::net::recv(socket, into, flags).map(|(len, _)| len)
}

/// How TCP has ended, after the bytes that have come over it, if it has.
pub(crate) fn has_ended(socket: impl AsFd) -> Option<TcpEvent> {
    polled_now(socket, PollFlags::RDHUP).ok().and_then(end_in)
}

/// The end of TCP in events of its socket. Bytes that came before a reset can still be peeked at: only
/// the events distinguish it from a FIN.
pub(crate) fn end_in(ready: PollFlags) -> Option<TcpEvent> {
    if ready.contains(PollFlags::ERR) {
        return Some(TcpEvent::PeerReset);
    }
    let ends = PollFlags::RDHUP | PollFlags::HUP;
    ready.intersects(ends).then_some(TcpEvent::PeerFin)
}

/// Removes bytes that were peeked at.
pub(crate) fn discard(socket: impl AsFd, mut len: usize) {
    let socket = socket.as_fd();
    let mut octets = [0; MAX_LENGTH];
    while len > 0 {
        let most = octets.len().min(len);
        let into = octets.get_mut(..most).unwrap_or_default();
        match rustix::net::recv(socket, into, RecvFlags::DONTWAIT) {
            Ok((taken @ 1.., _)) => len -= taken,
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}
