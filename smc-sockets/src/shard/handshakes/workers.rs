//! Announcements to several peers, of which one accepts the connection: processes that share a
//! listener.

use std::sync::Arc;

use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::HandshakeId;

use super::{Handshake, PendingHandshake, Withdrawal};
use crate::opening;
use crate::shard::{Shard, State};

impl State {
    /// Receives the answers to an announcement to several peers. The one that has accepted the
    /// connection becomes its peer; the announcements to the others are taken back.
    //= SHM-080
    pub(super) fn receive_answer(&mut self, conn: ConnId, now: Instant) {
        let Some(Handshake::Open { cookie, .. }) = self.handshake(conn) else {
            return;
        };
        let of_conn = |at: &&PendingHandshake| at.conn == conn && !at.candidates.is_empty();
        let Some(pending) = self.handshakes.iter().find(of_conn) else {
            return;
        };
        for (peer, id) in pending.candidates.clone() {
            let Some(clc) = self.transports.ism.device_mut().receive_clc(id) else {
                continue;
            };
            let open = Handshake::Open {
                id,
                cookie,
                is_verified: false,
            };
            if let Some(entry) = self.entry_mut(conn) {
                entry.peer = Some(peer);
                entry.handshake = Some(open);
            }
            let names_itself = self.transports.names(peer, &clc.bytes);
            if names_itself && self.is_verified(conn, clc.cookie) {
                let others = self.take_candidates(conn).into_iter();
                let others = others.map(|(_, of)| of).filter(|of| *of != id);
                self.take_announcements_back(others, cookie);
                return self.pass_clc_to_engine(conn, &clc.bytes, now);
            }
            // The peer declines, or claims to have accepted the connection and has not.
            let mut left = self.take_candidates(conn);
            left.retain(|(_, of)| *of != id);
            let Some((next_peer, next)) = left.first().copied() else {
                return self.decline_unverified(conn, now);
            };
            self.decline_answer(id, cookie);
            let open = Handshake::Open {
                id: next,
                cookie,
                is_verified: false,
            };
            if let Some(entry) = self.entry_mut(conn) {
                entry.peer = Some(next_peer);
                entry.handshake = Some(open);
            }
            if let Some(pending) = self.pending_handshake(conn) {
                pending.candidates = left;
            }
        }
    }

    /// Takes announcements back, as another process has accepted the connection.
    fn take_announcements_back(&mut self, of: impl Iterator<Item = HandshakeId>, cookie: u64) {
        let decline = opening::decline(Default::default(), DiagnosisCode::NO_SMCD_DEVICE);
        let decline = decline.unwrap_or_default();
        let device = self.transports.ism.device_mut();
        of.for_each(|id| device.take_back(id, cookie, &decline));
    }

    /// Withdraws a connection that was announced in favour of a process that has accepted it and
    /// called, unless another one has answered; `None` then. The server that calls has taken no
    /// announcement.
    //= SHM-080
    #[must_use]
    pub(crate) fn withdraw_for_call(
        &mut self,
        shard: &Arc<Shard>,
        conn: ConnId,
    ) -> Option<Withdrawal> {
        if self.is_answered(conn) {
            return None;
        }
        if let Some(Handshake::Open { id, cookie, .. }) = self.handshake(conn) {
            let others = self.take_candidates(conn).into_iter();
            let others = others.map(|(_, of)| of).filter(|of| *of != id);
            self.take_announcements_back(std::iter::once(id).chain(others), cookie);
        }
        self.remove_from_engine(shard, conn, shard.now());
        self.drain_and_park(shard, shard.now());
        Some(Withdrawal::Unknown)
    }

    /// Declines the answer that a peer has sent or may still send, as another one accepts.
    pub(super) fn decline_answer(&mut self, id: HandshakeId, cookie: u64) {
        let device = self.transports.ism.device_mut();
        if let Some(decline) = opening::decline(Default::default(), DiagnosisCode::NO_SMCD_DEVICE) {
            device.send_clc(id, cookie, &decline);
        }
        device.end_handshake(id);
    }
}
