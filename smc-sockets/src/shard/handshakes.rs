//! Handshakes over shared memory, with processes that this one has met before.
//!
//! ```text
//!   client                                    server
//!   announce: the Proposal, in memory
//!   connect ─────────── SYN ────────────────► accept_announced: the Accept, with a ring
//!   verifies the other end with the kernel,
//!   then the Confirm, with a ring ──────────► established: the listener's queue
//!   not accepted for a while: asks for it ──► the driver accepts
//!   no answer: a Decline ───────────────────► plain TCP
//! ```
//!
//! The client alone decides between SMC and TCP, by its second message; a server that has
//! answered waits for that, as long as the engine waits for any CLC message. No byte of CLC goes
//! over TCP, so that a process that accepts the connection without answering sees none.

use std::net::SocketAddr;
use std::sync::Arc;

use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::{ClcProgress, TcpEvent};
use smc_proto::id::ConnId;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::pairing::Peer;
use smc_transport_ism::shared::{Announced, HANDSHAKES, HandshakeId};

use super::{Place, Shard, State};
use crate::carrier::{Carrier, Cause};
use crate::listening::Arrival;
use crate::opening;
use crate::socket::Socket;

/// How long a handshake is left to event loops, or to the thread that waits for it, before the
/// driver polls for it.
const UNDRIVEN: Duration = Duration::from_millis(2);

/// A connection to be announced.
pub(crate) struct Announcement<'a> {
    /// Where it connects to.
    pub(crate) to: SocketAddr,
    /// The peer that accepts there.
    pub(crate) peer: Peer,
    pub(crate) socket: &'a Arc<Socket>,
    /// Cookie of its TCP socket.
    pub(crate) cookie: u64,
    /// A thread polls for the answer, as soon as TCP has begun to connect.
    pub(crate) is_awaited: bool,
}

/// How the CLC messages of a connection go over shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handshake {
    /// The first message announces this TCP socket, by its cookie.
    Begins(u64),
    /// Of the TCP socket with this cookie of this side.
    Open {
        id: HandshakeId,
        cookie: u64,
        /// The peer holds the other end of the TCP connection.
        is_verified: bool,
    },
}

impl State {
    /// Announces a connection to a peer, before TCP connects; `None` if that cannot be.
    //= SHM-066
    pub(crate) fn announce(
        &mut self,
        shard: &Arc<Shard>,
        announcement: &Announcement<'_>,
    ) -> Option<ConnId> {
        let Announcement {
            to, peer, socket, ..
        } = *announcement;
        let offered = self.transports.announced(peer)?;
        let mut options = self.options(to.ip(), to.ip(), &socket.tcp);
        (options.subnets, options.vlan) = (None, None);
        let now = shard.now();
        let conn = self.engine.connect(now, options, offered.paths()).ok()?;
        self.enter(conn, socket.clone(), Some(peer), None);
        let handshake = Handshake::Begins(announcement.cookie);
        self.begin_handshake(shard, conn, handshake, announcement.is_awaited, now);
        self.carry_out(shard, now);
        if matches!(self.handshake(conn), Some(Handshake::Open { .. })) {
            if announcement.is_awaited {
                // The answer comes while TCP connects: the device is awake then, and no thread
                // has to be woken for it.
                self.stay_awake(shard, now);
            }
            return Some(conn);
        }
        self.forget(shard, conn, now);
        None
    }

    /// Gives up a connection that was announced, for TCP.
    pub(crate) fn withdraw(&mut self, shard: &Arc<Shard>, conn: ConnId) {
        if let Some(Handshake::Open { id, cookie, .. }) = self.handshake(conn)
            && let Some(decline) = opening::decline(shard.peer_id, DiagnosisCode::NO_SMCD_DEVICE)
        {
            let device = self.transports.ism.device_mut();
            device.send_clc(id, cookie, &decline);
        }
        self.forget(shard, conn, shard.now());
        self.settle(shard, shard.now());
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

    /// The announcement of an accepted connection, if there is one.
    //= SHM-067
    pub(crate) fn take_announcement(&mut self, socket: &Socket) -> Option<Announced> {
        let device = self.transports.ism.device_mut();
        //= SHM-002
        if !device.has_announcements() {
            return None;
        }
        let (cookie, uid) = self.owners.as_ref()?.client(&socket.tcp)?;
        device.take_announcement(cookie, uid)
    }

    /// The user of the other end of a connection, if it is of this host.
    pub(crate) fn other_end(&self, tcp: &std::net::TcpStream) -> Option<u32> {
        self.owners.as_ref()?.other_end(tcp)
    }

    /// Declines an announcement.
    pub(crate) fn decline_announcement(&mut self, shard: &Shard, of: &Announced) {
        let device = self.transports.ism.device_mut();
        if let Some(decline) = opening::decline(shard.peer_id, DiagnosisCode::MEMORY) {
            device.send_clc(of.id, 0, &decline);
        }
        device.end_handshake(of.id);
    }

    /// Answers an announcement.
    pub(crate) fn accept_announced(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Arc<Socket>,
        announced: Announced,
        (arrival, place): (Arrival, Place),
    ) {
        let now = shard.now();
        let from = arrival.address().ip();
        let local = socket.tcp.local_addr().map_or(from, |at| at.ip());
        let options = self.options(local, from, &socket.tcp);
        let cookie = rustix::net::sockopt::socket_cookie(&socket.tcp).ok();
        let begun = cookie.and_then(|at| Some((at, self.engine.listen(now, options).ok()?)));
        let Some((cookie, conn)) = begun else {
            // There is a place for each: the engine has no other reason to refuse one.
            self.decline_announcement(shard, &announced);
            socket.decided(Carrier::tcp(Cause::Limit(shard.limit)));
            arrival.deliver(socket.clone());
            return;
        };
        socket.status().place = Some(place);
        let Announced { id, peer, proposal } = announced;
        if let Some(ticket) = &arrival.ticket {
            ticket.negotiates(conn);
        }
        self.enter(conn, socket.clone(), Some(peer), Some(arrival));
        let is_verified = true;
        let handshake = Handshake::Open {
            id,
            cookie,
            is_verified,
        };
        self.begin_handshake(shard, conn, handshake, false, now);
        self.handle_clc_of(shard, conn, &proposal, now);
    }

    fn begin_handshake(
        &mut self,
        shard: &Shard,
        conn: ConnId,
        handshake: Handshake,
        is_awaited: bool,
        now: Instant,
    ) {
        let mut driven = now;
        // An event loop is woken by what rings, if it runs.
        if self.attention.loops > 0 || is_awaited {
            self.set_urgent(conn, false);
            driven = now.after(UNDRIVEN);
            self.wake_at(shard, driven, now);
        }
        if let Some(entry) = self.entry_mut(conn) {
            entry.handshake = Some(handshake);
        }
        self.handshakes.push((conn, driven));
    }

    /// Takes in what has happened, and lets the device stay awake unless something else must be
    /// woken by it.
    pub(crate) fn stay_awake(&mut self, shard: &Arc<Shard>, now: Instant) {
        self.take_in(shard, now);
        self.leave(shard, now);
    }

    /// Has the driver poll for handshakes with which no event loop and no thread has gone on in
    /// time. The others are left to these: polled by the driver as well, each of their messages
    /// would wake it.
    pub(crate) fn urge_handshakes(&mut self, shard: &Arc<Shard>, now: Instant) {
        let (due, later): (Vec<_>, Vec<_>) = self
            .handshakes
            .iter()
            .partition(|(_, driven)| *driven <= now);
        if let Some(next) = later.iter().map(|(_, driven)| *driven).min() {
            self.wake_at(shard, next, now);
        }
        if due.is_empty() {
            return;
        }
        for (conn, _) in due {
            self.set_urgent(conn, true);
        }
        self.settle(shard, now);
    }

    fn handshake(&self, conn: ConnId) -> Option<Handshake> {
        self.entry(conn)?.handshake
    }

    /// Whether the CLC messages of a connection go over shared memory.
    pub(super) fn has_handshake(&self, conn: ConnId) -> bool {
        self.handshake(conn).is_some()
    }

    /// Nothing more of CLC is said on a connection.
    pub(super) fn end_handshake(&mut self, conn: ConnId) {
        let handshake = self.entry_mut(conn).and_then(|at| at.handshake.take());
        let Some(handshake) = handshake else {
            return;
        };
        self.handshakes.retain(|(of, _)| *of != conn);
        if let Handshake::Open { id, .. } = handshake {
            self.transports.ism.device_mut().end_handshake(id);
        }
    }

    /// Takes a connection out of the engine, of which TCP goes on.
    fn forget(&mut self, shard: &Arc<Shard>, conn: ConnId, now: Instant) {
        self.remove(conn);
        // What the engine wants of its TCP reaches no socket.
        if let Some(mut conn) = self.engine.conn(conn) {
            conn.abort(now);
        }
        self.carry_out(shard, now);
    }

    /// Sends a CLC message of a connection over shared memory.
    pub(super) fn send_over_memory(&mut self, conn: ConnId, message: &[u8], now: Instant) {
        let Some(peer) = self.entry(conn).and_then(|entry| entry.peer) else {
            return;
        };
        let device = self.transports.ism.device_mut();
        let sent = match self.sockets.get(conn.index() as usize) {
            Some(Some(entry)) => match entry.handshake {
                Some(Handshake::Begins(cookie)) => {
                    let id = device.announce(&peer, cookie, message);
                    let is_verified = false;
                    let open = id.map(|id| Handshake::Open {
                        id,
                        cookie,
                        is_verified,
                    });
                    if let Some(entry) = self.entry_mut(conn).filter(|_| open.is_some()) {
                        entry.handshake = open;
                    }
                    // Who has announced it sees whether that was so.
                    true
                }
                Some(Handshake::Open { id, cookie, .. }) => device.send_clc(id, cookie, message),
                None => false,
            },
            _ => false,
        };
        if !sent {
            self.engine.handle_tcp(now, conn, TcpEvent::Failed);
        }
    }

    /// Whether a completion says that a peer has rung for handshakes.
    #[inline]
    pub(super) fn is_handshake(completion: &IsmCompletion) -> bool {
        matches!(
            completion,
            IsmCompletion::Event {
                code: HANDSHAKES,
                ..
            }
        )
    }

    /// A peer has rung for handshakes.
    #[cold]
    pub(super) fn receive_handshakes(&mut self, now: Instant) {
        if self.transports.ism.device_mut().take_calls_to_accept() {
            self.driver_waker.call_to_accept();
        }
        for (conn, _) in self.handshakes.clone() {
            while let Some(Handshake::Open { id, .. }) = self.handshake(conn) {
                let Some(clc) = self.transports.ism.device_mut().receive_clc(id) else {
                    break;
                };
                let entry = self.entry(conn).filter(|at| at.arrival.is_some());
                if let Some(peer) = entry.and_then(|at| at.peer) {
                    self.receive_clc_of(peer, now);
                }
                if self.is_verified(conn, clc.cookie) {
                    self.engine_clc(conn, &clc.bytes, now);
                } else {
                    // The peer says that it accepted the connection, which it did not.
                    self.refuse(conn, now);
                }
            }
        }
    }

    /// Whether the peer of a connection holds the other end of its TCP connection, which has
    /// this cookie as the peer says.
    //= SHM-009
    fn is_verified(&mut self, conn: ConnId, theirs: u64) -> bool {
        let Some(entry) = self.entry(conn) else {
            return false;
        };
        match (entry.handshake, entry.peer, &self.owners) {
            (Some(Handshake::Open { is_verified, .. }), ..) if is_verified => return true,
            (_, Some(peer), Some(owners)) => {
                if !owners.speaks_for(&entry.socket.tcp, peer.uid, theirs) {
                    return false;
                }
            }
            _ => return false,
        }
        if let Some(entry) = self.entry_mut(conn)
            && let Some(Handshake::Open { is_verified, .. }) = &mut entry.handshake
        {
            *is_verified = true;
        }
        true
    }

    /// Goes on over TCP, as after a Decline of the peer.
    fn refuse(&mut self, conn: ConnId, now: Instant) {
        let decline = opening::decline(Default::default(), DiagnosisCode::NO_SMCD_DEVICE);
        if let Some(decline) = decline {
            if let Some(Handshake::Open { id, cookie, .. }) = self.handshake(conn) {
                let device = self.transports.ism.device_mut();
                device.send_clc(id, cookie, &decline);
            }
            self.engine_clc(conn, &decline, now);
        }
    }

    fn engine_clc(&mut self, conn: ConnId, bytes: &[u8], now: Instant) {
        // A message comes whole. What breaks the rules otherwise has ended the connection.
        if let Ok(ClcProgress::NeedMore { .. }) = self.engine.handle_clc(now, conn, bytes) {
            self.engine.handle_tcp(now, conn, TcpEvent::PeerReset);
        }
    }

    fn handle_clc_of(&mut self, shard: &Arc<Shard>, conn: ConnId, bytes: &[u8], now: Instant) {
        self.engine_clc(conn, bytes, now);
        self.settle(shard, now);
    }
}

#[cfg(test)]
mod tests;
