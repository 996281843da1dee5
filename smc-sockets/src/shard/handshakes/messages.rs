//! CLC messages over shared memory: those that the engine sends, and those of peers, which are
//! believed once the kernel has confirmed that the peer holds the other end of the TCP connection.

use std::sync::Arc;

use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::{ClcProgress, TcpEvent};
use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::HANDSHAKES;
use smc_transport_ism::shared::pairing::Peer;

use super::{Handshake, PendingHandshake};
use crate::opening;
use crate::shard::{Shard, State};

impl State {
    /// Sends a CLC message of a connection over shared memory: the first one as an announcement to
    /// all of [`State::announced_to`].
    pub(in crate::shard) fn send_over_memory(
        &mut self,
        conn: ConnId,
        message: &[u8],
        now: Instant,
    ) {
        let sent = match self.handshake(conn) {
            Some(Handshake::NotAnnounced(cookie)) => {
                self.send_announcements(conn, cookie, message);
                // `announce` checks whether any was sent.
                true
            }
            Some(Handshake::Open { id, cookie, .. }) => {
                let device = self.transports.ism.device_mut();
                device.send_clc(id, cookie, message)
            }
            None => false,
        };
        if !sent {
            self.engine.handle_tcp(now, conn, TcpEvent::Failed);
        }
    }

    /// Announces a connection to all of [`State::announced_to`]. The first one that has room is taken
    /// for its peer until one of them answers.
    fn send_announcements(&mut self, conn: ConnId, cookie: u64, message: &[u8]) {
        let device = self.transports.ism.device_mut();
        let announce = |peer: &Peer| Some((*peer, device.announce(peer, cookie, message)?));
        let candidates: Vec<_> = self.announced_to.iter().filter_map(announce).collect();
        let Some((peer, id)) = candidates.first().copied() else {
            return;
        };
        if let Some(entry) = self.entry_mut(conn) {
            entry.peer = Some(peer);
            entry.handshake = Some(Handshake::Open {
                id,
                cookie,
                is_verified: false,
            });
        }
        // The device of a single peer is known to the engine from the paths.
        if self.announced_to.len() > 1
            && let Some(pending) = self.pending_handshake(conn)
        {
            pending.candidates = candidates;
        }
    }

    /// Whether a completion reports that a peer has rung for handshakes.
    #[inline]
    pub(in crate::shard) fn is_handshake(completion: &IsmCompletion) -> bool {
        matches!(
            completion,
            IsmCompletion::Event {
                code: HANDSHAKES,
                ..
            }
        )
    }

    /// Receives the CLC messages of all handshakes, after peers have rung for them. The work grows with
    /// the number of handshakes, so that it is not done for each ring: a peer can ring without end.
    #[cold]
    pub(in crate::shard) fn receive_handshakes(&mut self, now: Instant) {
        self.handshakes_rung = false;
        #[cfg(test)]
        {
            self.receptions += 1;
        }
        if self.transports.ism.device_mut().take_calls_to_accept() {
            self.driver_waker.call_to_accept();
        }
        let of_several = |at: &PendingHandshake| (at.conn, !at.candidates.is_empty());
        let all: Vec<_> = self.handshakes.iter().map(of_several).collect();
        for (conn, of_several) in all {
            match of_several {
                true => {
                    self.receive_answer(conn, now);
                    self.receive_messages(conn, now);
                }
                false => self.receive_messages_of_peer(conn, now),
            }
        }
    }

    /// Receives the CLC messages of a connection's peer. While several peers may answer, their
    /// messages are left to [`Self::receive_answer`], also one that has come since it polled.
    //= SHM-080
    pub(in crate::shard) fn receive_messages(&mut self, conn: ConnId, now: Instant) {
        let of_several = |at: &mut PendingHandshake| !at.candidates.is_empty();
        if !self.pending_handshake(conn).is_some_and(of_several) {
            self.receive_messages_of_peer(conn, now);
        }
    }

    /// Receives the CLC messages of a connection that has one peer.
    fn receive_messages_of_peer(&mut self, conn: ConnId, now: Instant) {
        while let Some(Handshake::Open { id, .. }) = self.handshake(conn) {
            let Some(clc) = self.transports.ism.device_mut().receive_clc(id) else {
                break;
            };
            let entry = self.entry(conn).filter(|at| at.arrival.is_some());
            if let Some(peer) = entry.and_then(|at| at.peer) {
                self.receive_clc_of(peer, now);
            }
            if self.is_verified(conn, clc.cookie) {
                self.pass_clc_to_engine(conn, &clc.bytes, now);
            } else {
                // The peer claims to have accepted the connection, and has not.
                self.decline_unverified(conn, now);
            }
        }
    }

    /// Whether the peer of a connection holds the other end of its TCP connection: the socket with
    /// the cookie that the peer sent. The kernel is asked once for each connection.
    //= SHM-009
    pub(super) fn is_verified(&mut self, conn: ConnId, theirs: u64) -> bool {
        let Some(entry) = self.entry(conn) else {
            return false;
        };
        match (entry.handshake, entry.peer, &self.owners) {
            (Some(Handshake::Open { is_verified, .. }), ..) if is_verified => return true,
            (_, Some(peer), Some(owners)) => {
                let ends = entry.socket.ends();
                let speaks = |(near, far)| owners.speaks_for(near, far, peer.uid, theirs);
                if !ends.is_ok_and(speaks) {
                    return false;
                }
            }
            _ => return false,
        }
        if let Some(entry) = self.entry_mut(conn)
            && let Some(Handshake::Open { is_verified, .. }) = &mut entry.handshake
        {
            *is_verified = true;
            self.answers += 1;
        }
        true
    }

    /// Declines a peer that does not hold the other end, and goes on over TCP.
    pub(super) fn decline_unverified(&mut self, conn: ConnId, now: Instant) {
        let decline = opening::decline(Default::default(), DiagnosisCode::NO_SMCD_DEVICE);
        if let Some(decline) = decline {
            if let Some(Handshake::Open { id, cookie, .. }) = self.handshake(conn) {
                let device = self.transports.ism.device_mut();
                device.send_clc(id, cookie, &decline);
            }
            self.pass_clc_to_engine(conn, &decline, now);
        }
    }

    /// Passes a CLC message on to the engine.
    pub(super) fn pass_clc_to_engine(&mut self, conn: ConnId, bytes: &[u8], now: Instant) {
        // A message comes whole. For other mistakes in it the engine has ended the connection.
        if let Ok(ClcProgress::NeedMore { .. }) = self.engine.handle_clc(now, conn, bytes) {
            self.engine.handle_tcp(now, conn, TcpEvent::PeerReset);
        }
    }

    /// Passes the Proposal of an announcement on to the engine, and sends its answer.
    pub(super) fn handle_proposal(
        &mut self,
        shard: &Arc<Shard>,
        conn: ConnId,
        bytes: &[u8],
        now: Instant,
    ) {
        self.pass_clc_to_engine(conn, bytes, now);
        self.drain_and_park(shard, now);
    }
}
