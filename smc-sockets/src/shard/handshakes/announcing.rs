//! The client of a handshake over shared memory: announces a connection, and withdraws it.

use std::net::SocketAddr;
use std::sync::Arc;

use smc_proto::id::ConnId;
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::pairing::Peer;

use super::Handshake;
use crate::opening;
use crate::shard::{Shard, State};
use crate::socket::Socket;

/// A connection to be announced.
pub(crate) struct Announcement<'a> {
    /// Where it connects to.
    pub(crate) to: SocketAddr,
    /// The peers of which one accepts there.
    pub(crate) peers: &'a [Peer],
    pub(crate) socket: &'a Arc<Socket>,
    /// Cookie of its TCP socket.
    pub(crate) cookie: u64,
    /// Whether a thread polls for the answer as soon as TCP has begun to connect.
    pub(crate) is_awaited: bool,
}

/// What the server knows of a connection whose announcement was withdrawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Withdrawal {
    /// The server has taken the announcement, and goes on over TCP without CLC.
    Taken,
    /// The server takes the connection for one that was not announced.
    Unknown,
}

impl State {
    /// Puts the Proposal of a connection in the memory of its peers, before TCP connects. `None` if
    /// none of them can be reached: the connection is then as if it had not begun.
    //= SHM-066
    pub(crate) fn announce(
        &mut self,
        shard: &Arc<Shard>,
        announcement: &Announcement<'_>,
    ) -> Option<ConnId> {
        let Announcement {
            to, peers, socket, ..
        } = *announcement;
        let device = self.transports.ism.device();
        let is_reachable = |peer: &&Peer| device.can_announce(peer);
        let peers: Vec<_> = peers.iter().filter(is_reachable).copied().collect();
        let offered = self.transports.announced(&peers)?;
        let mut options = self.options(to.ip(), to.ip(), &socket.tcp);
        (options.subnets, options.vlan) = (None, None);
        let now = shard.now();
        let conn = self.engine.connect(now, options, offered.paths()).ok()?;
        self.enter(conn, socket.clone(), peers.first().copied(), None);
        let handshake = Handshake::NotAnnounced(announcement.cookie);
        self.begin_handshake(shard, conn, handshake, announcement.is_awaited, now);
        // The engine's first CLC message, which goes to all of them.
        self.announced_to = peers;
        self.execute_commands(shard, now);
        self.announced_to.clear();
        if matches!(self.handshake(conn), Some(Handshake::Open { .. })) {
            if announcement.is_awaited {
                // The answer comes while TCP connects: the device is awake then, and no thread
                // has to be woken for it.
                self.stay_awake(shard, now);
            }
            return Some(conn);
        }
        self.remove_from_engine(shard, conn, now);
        None
    }

    /// Declines a connection that was announced: it goes on over TCP.
    pub(crate) fn withdraw(&mut self, shard: &Arc<Shard>, conn: ConnId) -> Withdrawal {
        let candidates = self.take_candidates(conn);
        let mut was_taken = false;
        if let Some(Handshake::Open { id, cookie, .. }) = self.handshake(conn) {
            let device = self.transports.ism.device_mut();
            let others = candidates.iter().map(|(_, of)| *of).filter(|of| *of != id);
            for of in std::iter::once(id).chain(others.clone()) {
                was_taken |= device.give_up_announcement(of);
            }
            if let Some(decline) = opening::decline(shard.peer_id, DiagnosisCode::NO_SMCD_DEVICE) {
                device.send_clc(id, cookie, &decline);
            }
            others.for_each(|of| self.decline_answer(of, cookie));
        }
        self.remove_from_engine(shard, conn, shard.now());
        self.drain_and_park(shard, shard.now());
        match was_taken {
            true => Withdrawal::Taken,
            false => Withdrawal::Unknown,
        }
    }

    /// Declines a connection that was announced, unless its server has answered: this side may have
    /// confirmed it by then, and the server takes it for SMC. `None` if the server has answered.
    //= SHM-066
    #[must_use]
    pub(crate) fn withdraw_unanswered(
        &mut self,
        shard: &Arc<Shard>,
        conn: ConnId,
    ) -> Option<Withdrawal> {
        (!self.is_answered(conn)).then(|| self.withdraw(shard, conn))
    }

    /// Whether the server of a connection that was announced has answered.
    pub(crate) fn is_answered(&self, conn: ConnId) -> bool {
        let is_open = |of| matches!(of, Handshake::Open { is_verified, .. } if is_verified);
        self.handshake(conn).is_none_or(is_open)
    }

    /// Asks the server's process to accept a connection that was announced.
    pub(crate) fn ask_to_accept(&mut self, conn: ConnId) {
        if let Some(Handshake::Open { id, .. }) = self.handshake(conn) {
            self.transports.ism.device_mut().ask_to_accept(id);
        }
    }
}
