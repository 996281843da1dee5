//! Announcements to several peers, of which one accepts the connection: processes that share a
//! listener.

use std::sync::Arc;

use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::HandshakeId;

use super::{Handshake, Underway};
use crate::opening;
use crate::shard::{Shard, State};

impl State {
    /// Receives the answer to an announcement to several peers: the one that has accepted the
    /// connection is its peer from then on, and the others will not answer.
    //= SHM-080
    pub(super) fn receive_answer(&mut self, conn: ConnId, now: Instant) {
        let Some(Handshake::Open { cookie, .. }) = self.handshake(conn) else {
            return;
        };
        let of_conn = |at: &&Underway| at.conn == conn && !at.candidates.is_empty();
        let Some(underway) = self.handshakes.iter().find(of_conn) else {
            return;
        };
        for (peer, id) in underway.candidates.clone() {
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
            let names = self.transports.names(peer, &clc.bytes);
            if names && self.is_verified(conn, clc.cookie) {
                let others = self.take_candidates(conn).into_iter();
                let others = others.map(|(_, of)| of).filter(|of| *of != id);
                self.take_announcements_back(others, cookie);
                return self.engine_clc(conn, &clc.bytes, now);
            }
            // It says that it accepted the connection, which it did not, or declines.
            let mut left = self.take_candidates(conn);
            left.retain(|(_, of)| *of != id);
            let Some((next_peer, next)) = left.first().copied() else {
                return self.refuse(conn, now);
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
            if let Some(underway) = self.underway(conn) {
                underway.candidates = left;
            }
        }
    }

    /// Takes announcements back: another process has accepted the connection.
    fn take_announcements_back(&mut self, of: impl Iterator<Item = HandshakeId>, cookie: u64) {
        let decline = opening::decline(Default::default(), DiagnosisCode::NO_SMCD_DEVICE);
        let decline = decline.unwrap_or_default();
        let device = self.transports.ism.device_mut();
        of.for_each(|id| device.take_back(id, cookie, &decline));
    }

    /// Forgets a connection that was announced, unless it was answered: a process has accepted it
    /// that has called. Returns whether it was forgotten.
    //= SHM-080
    #[must_use]
    pub(crate) fn has_called(&mut self, shard: &Arc<Shard>, conn: ConnId) -> bool {
        if self.is_answered(conn) {
            return false;
        }
        if let Some(Handshake::Open { id, cookie, .. }) = self.handshake(conn) {
            let others = self.take_candidates(conn).into_iter();
            let others = others.map(|(_, of)| of).filter(|of| *of != id);
            self.take_announcements_back(std::iter::once(id).chain(others), cookie);
        }
        self.forget(shard, conn, shard.now());
        self.drain_and_park(shard, shard.now());
        true
    }

    /// Declines what a peer has answered, or may yet answer, as another one accepts.
    pub(super) fn decline_answer(&mut self, id: HandshakeId, cookie: u64) {
        let device = self.transports.ism.device_mut();
        if let Some(decline) = opening::decline(Default::default(), DiagnosisCode::NO_SMCD_DEVICE) {
            device.send_clc(id, cookie, &decline);
        }
        device.end_handshake(id);
    }
}
