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

mod workers;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::{ClcProgress, TcpEvent};
use smc_proto::id::ConnId;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::pairing::{self, Peer};
use smc_transport_ism::shared::{Announced, HANDSHAKES, HandshakeId};
use smc_view::Role;

use super::left_to_loops::LeftToLoops;
use super::{Place, Shard, State};
use crate::carrier::{Carrier, Cause};
use crate::listening::Arrival;
use crate::opening;
use crate::socket::Socket;
use crate::waiting::Direction;

/// How long a handshake is left to event loops that do not poll, or to the thread that waits for it,
/// before the driver polls for it.
const UNDRIVEN: Duration = Duration::from_millis(2);

/// Doublings of [`UNDRIVEN`] while loops are not late.
const MOST_DOUBLINGS: u32 = 5;

/// A connection to be announced.
pub(crate) struct Announcement<'a> {
    /// Where it connects to.
    pub(crate) to: SocketAddr,
    /// The peers of which one accepts there.
    pub(crate) peers: &'a [Peer],
    pub(crate) socket: &'a Arc<Socket>,
    /// Cookie of its TCP socket.
    pub(crate) cookie: u64,
    /// A thread polls for the answer, as soon as TCP has begun to connect.
    pub(crate) is_awaited: bool,
}

/// A connection whose CLC messages go over shared memory, until it is decided.
#[derive(Clone, Debug)]
pub(super) struct Underway {
    conn: ConnId,
    /// The peers that it was announced to, as long as none of them has answered, if they are
    /// several.
    candidates: Vec<(Peer, HandshakeId)>,
    /// From then on the driver polls for it, unless an event loop has polled the device meanwhile.
    driven: Instant,
    loops: LeftToLoops,
    /// The task that waits for it is woken then.
    wake: Option<Instant>,
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
            to, peers, socket, ..
        } = *announcement;
        let device = self.transports.ism.device();
        let can = |peer: &&Peer| device.can_announce(peer);
        let peers: Vec<_> = peers.iter().filter(can).copied().collect();
        let offered = self.transports.announced(&peers)?;
        let mut options = self.options(to.ip(), to.ip(), &socket.tcp);
        (options.subnets, options.vlan) = (None, None);
        let now = shard.now();
        let conn = self.engine.connect(now, options, offered.paths()).ok()?;
        self.enter(conn, socket.clone(), peers.first().copied(), None);
        let handshake = Handshake::Begins(announcement.cookie);
        self.begin_handshake(shard, conn, handshake, announcement.is_awaited, now);
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
        self.forget(shard, conn, now);
        None
    }

    /// Gives up a connection that was announced, for TCP.
    pub(crate) fn withdraw(&mut self, shard: &Arc<Shard>, conn: ConnId) {
        let candidates = self.take_candidates(conn);
        if let Some(Handshake::Open { id, cookie, .. }) = self.handshake(conn)
            && let Some(decline) = opening::decline(shard.peer_id, DiagnosisCode::NO_SMCD_DEVICE)
        {
            let device = self.transports.ism.device_mut();
            device.send_clc(id, cookie, &decline);
            let others = candidates.iter().filter(|(_, of)| *of != id);
            others.for_each(|(_, of)| self.decline_answer(*of, cookie));
        }
        self.forget(shard, conn, shard.now());
        self.drain_and_park(shard, shard.now());
    }

    /// Gives up a connection that was announced, for TCP, unless its server has answered: this
    /// side may have confirmed it by then, and the server takes it for SMC.
    /// Returns whether it was given up.
    //= SHM-066
    #[must_use]
    pub(crate) fn withdraw_unanswered(&mut self, shard: &Arc<Shard>, conn: ConnId) -> bool {
        let is_unanswered = !self.is_answered(conn);
        if is_unanswered {
            self.withdraw(shard, conn);
        }
        is_unanswered
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
    pub(crate) fn take_announcement(&mut self, tcp: &TcpStream) -> Option<Announced> {
        let device = self.transports.ism.device_mut();
        //= SHM-002
        if !device.has_announcements() {
            return None;
        }
        let (cookie, uid) = self.owners.as_ref()?.client(tcp)?;
        device.take_announcement(cookie, uid)
    }

    /// The announcement of a client, if there is one: of the socket with this cookie, which is of
    /// this user, as the kernel says of the other end of an accepted connection.
    //= SHM-067
    pub(crate) fn take_announcement_of(&mut self, (cookie, uid): (u64, u32)) -> Option<Announced> {
        let device = self.transports.ism.device_mut();
        let announced = device.has_announcements();
        announced.then(|| device.take_announcement(cookie, uid))?
    }

    /// The socket at the other end of an accepted connection, by cookie and user, if its process
    /// takes calls or has announced it.
    pub(crate) fn calling_client(&self, near: SocketAddr, far: SocketAddr) -> Option<(u64, u32)> {
        self.owners.as_ref()?.calling_client(near, far)
    }

    /// The user of the other end of a connection, if it is of this host.
    pub(crate) fn other_end(&self, tcp: &TcpStream) -> Option<u32> {
        self.owners.as_ref()?.other_end(tcp)
    }

    /// Declines an announcement of an accepted connection, which is TCP.
    pub(crate) fn decline_announcement(&mut self, shard: &Shard, of: &Announced, tcp: &TcpStream) {
        // The client believes who holds the connection. It goes on at once, whatever fails here.
        let cookie = rustix::net::sockopt::socket_cookie(tcp).unwrap_or(0);
        let _ = pairing::let_go(tcp);
        let device = self.transports.ism.device_mut();
        if let Some(decline) = opening::decline(shard.peer_id, DiagnosisCode::MEMORY) {
            device.send_clc(of.id, cookie, &decline);
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
        let local = socket.ends().map_or(from, |(near, _)| near.ip());
        let options = self.options(local, from, &socket.tcp);
        let cookie = rustix::net::sockopt::socket_cookie(&socket.tcp).ok();
        let begun = cookie.and_then(|at| Some((at, self.engine.listen(now, options).ok()?)));
        let Some((cookie, conn)) = begun else {
            // There is a place for each: the engine has no other reason to refuse one.
            self.decline_announcement(shard, &announced, &socket.tcp);
            socket.decided(Carrier::tcp(Cause::Limit(shard.limit)), Role::Server);
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
        if self.polling.loops > 0 || is_awaited {
            self.set_urgent(conn, false);
            driven = now.after(UNDRIVEN);
            self.wake_about(shard, driven, now);
        }
        if let Some(entry) = self.entry_mut(conn) {
            entry.handshake = Some(handshake);
        }
        self.handshakes.push(Underway {
            conn,
            candidates: Vec::new(),
            driven,
            loops: LeftToLoops::new(self.polling.polls),
            wake: None,
        });
    }

    fn underway(&mut self, conn: ConnId) -> Option<&mut Underway> {
        self.handshakes.iter_mut().find(|at| at.conn == conn)
    }

    /// The peers that a connection was announced to, as nothing more is expected of them.
    fn take_candidates(&mut self, conn: ConnId) -> Vec<(Peer, HandshakeId)> {
        let underway = self.underway(conn);
        underway.map_or(Vec::new(), |at| std::mem::take(&mut at.candidates))
    }

    /// Has the driver poll for a connection of this side: no other thread does.
    pub(crate) fn drive_handshake(&mut self, shard: &Arc<Shard>, conn: ConnId) {
        self.set_urgent(conn, true);
        self.drain_and_park(shard, shard.now());
    }

    /// How many announcements were answered.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Has the task or the event loop that waits for a connection of this side woken at a time,
    /// unless it is decided before.
    pub(crate) fn wake_waiters_at(
        &mut self,
        shard: &Shard,
        socket: &Socket,
        time: std::time::Instant,
    ) {
        let time = shard.at(time);
        let of_socket = |at: &&mut Underway| Some(at.conn) == socket.conn();
        if let Some(underway) = self.handshakes.iter_mut().find(of_socket) {
            underway.wake = Some(time);
            self.wake_about(shard, time, shard.now());
        }
    }

    /// Wakes the tasks whose time has come; when the next one's comes.
    fn wake_tasks(&mut self, now: Instant) -> Option<Instant> {
        let is_due = |at: &Underway| at.wake.is_some_and(|wake| wake <= now);
        for at in 0..self.handshakes.len() {
            let underway = self.handshakes.get_mut(at).filter(|at| is_due(at));
            let conn = underway.map(|at| {
                at.wake = None;
                at.conn
            });
            if let Some(conn) = conn {
                self.notify_task(conn);
            }
        }
        self.handshakes.iter().filter_map(|at| at.wake).min()
    }

    /// Wakes the task that waits until it is decided what carries a connection.
    pub(super) fn notify_task(&mut self, conn: ConnId) {
        let socket = self.entry(conn).map(|entry| entry.socket.clone());
        if let Some(socket) = socket {
            socket.waiters.notify(Direction::Read, &mut self.wakes);
        }
    }

    /// Takes in what has happened, and lets the device stay awake unless something else must be
    /// woken by it.
    pub(crate) fn stay_awake(&mut self, shard: &Arc<Shard>, now: Instant) {
        self.drain_completions(shard, now);
        self.release_device(shard, now);
    }

    /// Has the driver poll for handshakes with which no event loop and no thread has gone on in
    /// time. The others are left to these: polled by the driver as well, each of their messages
    /// would wake it.
    pub(crate) fn urge_handshakes(&mut self, shard: &Arc<Shard>, now: Instant) {
        let task = self.wake_tasks(now);
        let polls = self.polling.polls;
        let due = |at: &&Underway| at.driven <= now;
        if self.polling.loops > 0 {
            let mut all_due = self.handshakes.iter().filter(due);
            let is_late = all_due.any(|at| at.loops.waits(polls)) && self.is_loop_late(shard);
            for at in self.handshakes.iter_mut().filter(|at| at.driven <= now) {
                if let Some(times) = at.loops.again(polls, is_late) {
                    at.driven = now.after(UNDRIVEN * (1 << times.min(MOST_DOUBLINGS)));
                }
            }
        }
        let later = self.handshakes.iter().filter(|at| !due(at));
        let next = later.map(|at| at.driven).chain(task).min();
        let due = self.handshakes.iter().filter(due);
        let due: Vec<_> = due.map(|at| at.conn).collect();
        if let Some(next) = next {
            self.schedule_next_check(shard, next, now);
        }
        if due.is_empty() {
            return;
        }
        for conn in due {
            self.set_urgent(conn, true);
        }
        self.drain_and_park(shard, now);
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
        let candidates = self.take_candidates(conn);
        self.handshakes.retain(|at| at.conn != conn);
        if let Handshake::Open { id, .. } = handshake {
            let device = self.transports.ism.device_mut();
            device.end_handshake(id);
            let others = candidates.iter().filter(|(_, of)| *of != id);
            others.for_each(|(_, of)| device.end_handshake(*of));
        }
    }

    /// Takes a connection out of the engine, of which TCP goes on.
    fn forget(&mut self, shard: &Arc<Shard>, conn: ConnId, now: Instant) {
        self.remove(conn);
        // What the engine wants of its TCP reaches no socket.
        if let Some(mut conn) = self.engine.conn(conn) {
            conn.abort(now);
        }
        self.execute_commands(shard, now);
    }

    /// Sends a CLC message of a connection over shared memory.
    pub(super) fn send_over_memory(&mut self, conn: ConnId, message: &[u8], now: Instant) {
        let device = self.transports.ism.device_mut();
        let sent = match self.sockets.get(conn.index() as usize) {
            Some(Some(entry)) => match entry.handshake {
                Some(Handshake::Begins(cookie)) => {
                    let announce =
                        |peer: &Peer| Some((*peer, device.announce(peer, cookie, message)?));
                    let announced = self.announced_to.iter().filter_map(announce);
                    let candidates: Vec<_> = announced.collect();
                    let open = candidates.first().map(|(peer, id)| {
                        let (id, is_verified) = (*id, false);
                        let open = Handshake::Open {
                            id,
                            cookie,
                            is_verified,
                        };
                        (*peer, open)
                    });
                    if let Some(entry) = self.entry_mut(conn)
                        && let Some((peer, open)) = open
                    {
                        entry.peer = Some(peer);
                        entry.handshake = Some(open);
                    }
                    // Of one alone, the engine knows the device.
                    if self.announced_to.len() > 1
                        && let Some(underway) = self.underway(conn)
                    {
                        underway.candidates = candidates;
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
        let all: Vec<_> = self.handshakes.iter().map(|at| at.conn).collect();
        for conn in all {
            self.receive_answer(conn, now);
            self.receive_messages(conn, now);
        }
    }

    /// Receives what the peer of a connection says. Which one that is, of several to which the
    /// connection was announced, only [`Self::receive_answer`] finds out: their answers are left
    /// to it, also one that has come since it looked.
    //= SHM-080
    pub(super) fn receive_messages(&mut self, conn: ConnId, now: Instant) {
        let of_several = |at: &mut Underway| !at.candidates.is_empty();
        if self.underway(conn).is_some_and(of_several) {
            return;
        }
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
        self.drain_and_park(shard, now);
    }
}

#[cfg(test)]
mod tests;
