//! Commands and events of the engine.

use std::io;
use std::sync::Arc;

use smc_proto::command::TcpCommand;
use smc_proto::connection::{CloseState, Shutdown};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_proto::wire::types::DiagnosisCode;

use rustix::net::SendFlags;
use smc_proto::endpoint::TcpEvent;
use smc_view::Role;

use super::{Shard, State};
use crate::carrier::{Carrier, Cause, Limit};
use crate::listening::Delivery;
use crate::readiness::Readiness;
use crate::socket::Socket;
use crate::waiting::Direction;

impl State {
    /// Executes all commands of the engine, and handles all its events.
    #[inline]
    pub(crate) fn execute_commands(&mut self, shard: &Arc<Shard>, now: Instant) {
        if !self.transports.is_idle(&self.engine) {
            self.execute_all_commands(shard, now);
        }
    }

    fn execute_all_commands(&mut self, shard: &Arc<Shard>, now: Instant) {
        loop {
            self.send_fin();
            self.transports.execute_commands(&mut self.engine, now);
            if self.send_clc(now) {
                continue;
            }
            if self.execute_tcp() {
                continue;
            }
            if let Some(event) = self.engine.poll_event() {
                self.handle_event(shard, event, now);
                if self.transports.is_idle(&self.engine) {
                    return;
                }
            } else {
                break;
            }
        }
        if self.transports.is_due() {
            shard.ring();
        }
    }

    /// Sends a CLC message, if there is one.
    fn send_clc(&mut self, now: Instant) -> bool {
        // There is always room for one.
        let Ok(Some((conn, len))) = self.engine.poll_clc(now, self.clc.as_mut_slice()) else {
            return false;
        };
        if self.has_handshake(conn) {
            let message = self.clc.get(..len).unwrap_or_default().to_vec();
            self.send_over_memory(conn, &message, now);
            return true;
        }
        let message = self.clc.get(..len).unwrap_or_default();
        let Some(entry) = self.entry(conn) else {
            return true;
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // What is sent over TCP before the application's bytes never fills a socket.
        if rustix::net::send(&entry.socket.tcp, message, flags) != Ok(len) {
            self.engine.handle_tcp(now, conn, TcpEvent::Failed);
        }
        true
    }

    /// Ends the TCP connections whose streams this side ends, before the peers are notified of that:
    /// they answer by an end of their own, which is to come later.
    fn send_fin(&mut self) {
        while self.engine.peek_tcp() == Some(TcpCommand::Close) {
            self.execute_tcp();
        }
    }

    /// Executes a command to a TCP connection, if there is one.
    fn execute_tcp(&mut self) -> bool {
        let next = self.engine.poll_tcp();
        next.map(|(conn, command)| self.command_tcp(conn, command))
            .is_some()
    }

    fn command_tcp(&mut self, conn: ConnId, command: TcpCommand) {
        let Some(entry) = self.entry_mut(conn) else {
            return;
        };
        let tcp = &entry.socket.tcp;
        // Whatever fails here, TCP is gone already.
        match command {
            TcpCommand::HandOver { watch_for_decline } => {
                // A Decline that is to come would come over shared memory.
                let watches = watch_for_decline && entry.handshake.is_none();
                entry.socket.set_watching(watches);
                entry.socket.set_low_water(1);
                let handed_out = entry.socket.status().carrier.is_some();
                if handed_out && !watches {
                    self.watched(conn);
                }
            }
            TcpCommand::Close => {
                let _ = tcp.shutdown(std::net::Shutdown::Write);
                entry.tcp_closed = true;
            }
            TcpCommand::Reset => {
                let _ = rustix::net::connect_unspec(tcp);
            }
        }
    }

    fn handle_event(&mut self, shard: &Arc<Shard>, event: Event, now: Instant) {
        match event {
            Event::Proposed { conn } => self.answer(conn, now),
            Event::Established { conn, group, .. } => {
                if let Some(terms) = self.engine.terms(group) {
                    let delivery = self.decided(conn, Carrier::Smc(terms), now);
                    self.publish_established(conn);
                    self.end_handshake(conn);
                    // From now on what happens to it happens to its stream, if there is one.
                    self.set_urgent(conn, delivery == Delivery::Closed);
                }
            }
            Event::FellBack { conn, why } => {
                let over_memory = self.has_handshake(conn);
                if let Some(entry) = self.entry(conn).filter(|_| !over_memory) {
                    shard.unwatch(&entry.socket);
                }
                let known = self.limit_behind(shard, why.code);
                self.decided(conn, Carrier::fallen_back(why, known), now);
                // While a Decline may come, it has its place at the engine, too.
                if self
                    .entry(conn)
                    .is_some_and(|entry| !entry.socket.is_watching())
                {
                    self.watched(conn);
                }
                if let Some(mut conn) = self.engine.conn(conn).filter(|_| over_memory) {
                    conn.abort(now);
                }
            }
            Event::Readable { conn } => {
                self.publish_state(conn);
                self.notify(conn, Direction::Read);
            }
            Event::Urgent { conn } => {
                let _ = self.keep_urgent(conn, now);
                self.notify(conn, Direction::Read);
            }
            Event::Writable { conn } => {
                self.notify(conn, Direction::Write);
            }
            Event::Reset {
                conn,
                reason,
                end_of_stream,
            } => self.reset(conn, reason, end_of_stream),
            Event::Closed { conn, reason } => self.closed(conn, reason),
            Event::GroupUp { group } => self.group_up(group),
            Event::GroupDown { group } => {
                self.groups.retain(|up| *up != group);
                self.unpublish_group(group);
            }
            Event::LinkUp { link, .. } => self.publish_link(link),
            Event::LinkDown { link, .. } => self.unpublish_link(link),
            _ => {}
        }
    }

    /// Notifies what waits for a connection in this direction.
    #[inline]
    pub(super) fn notify(&mut self, conn: ConnId, direction: Direction) {
        let entry = self.sockets.get(conn.index() as usize);
        if let Some(entry) = entry.and_then(Option::as_ref).filter(|at| at.conn == conn) {
            entry.socket.is_ready(direction, &mut self.wakes);
            if entry.socket.is_polled() {
                let state = self.engine.conn(conn).and_then(|at| at.state());
                if state.is_some_and(has_peer_ended) {
                    entry.socket.end(Direction::Read);
                }
            }
        }
    }

    /// What is polled for a stream, if reading and writing it would not wait as `readable` and
    /// `writable` say; made when it is first asked for.
    pub(crate) fn ready_fd<'a>(
        &mut self,
        shard: &Shard,
        socket: &'a Socket,
        (readable, writable): (bool, bool),
    ) -> io::Result<&'a Readiness> {
        let is_new = !socket.is_polled();
        let readiness = socket.ready_fd(readable, writable)?;
        if is_new && let Some(conn) = socket.conn() {
            let state = self.engine.conn(conn).and_then(|at| at.state());
            if state.is_some_and(has_peer_ended) {
                readiness.end(Direction::Read);
            }
            if state.is_some_and(has_this_ended) {
                readiness.end(Direction::Write);
            }
            readiness.watch(|own| shard.watch_strays(conn, own));
        }
        Ok(readiness)
    }

    /// The program wrote to the descriptor that it is to poll.
    pub(crate) fn drop_strays(&self, conn: ConnId) {
        if let Some(readiness) = self.entry(conn).and_then(|entry| entry.socket.readiness()) {
            readiness.drop_strays();
        }
    }

    /// What this side knows of a code that it came to itself.
    fn limit_behind(&self, shard: &Shard, code: DiagnosisCode) -> Option<Cause> {
        if code == DiagnosisCode::DMB_LIMIT {
            return shard.memory_limit().map(Cause::Limit);
        }
        let verbs = self.transports.verbs.as_ref();
        let limit = verbs
            .filter(|_| code == DiagnosisCode::MEMORY)?
            .reached_limit()?;
        Some(Cause::Limit(Limit::LockedMemory(limit)))
    }

    /// The bytes of a connection that fell back are the application's from here on.
    pub(crate) fn watched(&mut self, conn: ConnId) {
        if let Some(entry) = self.remove(conn) {
            entry.socket.set_watching(false);
            entry.socket.set_low_water(1);
            entry.socket.status().place = None;
        }
    }

    /// Reports to the engine which of this side's devices reach the client.
    fn answer(&mut self, conn: ConnId, now: Instant) {
        let ends = self.entry(conn).map(|entry| entry.socket.ends());
        let Some(Ok((local, _))) = ends else {
            // Its TCP is reported as gone.
            return;
        };
        let proposed = self.engine.proposal(conn);
        let peer = self.entry(conn).and_then(|entry| entry.peer);
        let offered = self.transports.server(peer, local.ip(), proposed);
        // A connection that no longer waits for an answer has ended.
        let _ = self.engine.accept(now, conn, offered.paths());
    }

    /// Handles the decision about what carries a connection.
    fn decided(&mut self, conn: ConnId, carrier: Carrier, now: Instant) -> Delivery {
        let Some(entry) = self.entry_mut(conn) else {
            return Delivery::Refused;
        };
        let (socket, arrival) = (entry.socket.clone(), entry.arrival.take());
        let role = match arrival {
            Some(_) => Role::Server,
            None => Role::Client,
        };
        socket.decided(carrier, role);
        // A task that connects.
        socket.waiters.notify(Direction::Read, &mut self.wakes);
        let delivery = arrival.map_or(Delivery::Taken, |arrival| arrival.deliver(socket));
        if let Some(mut conn) = self.engine.conn(conn) {
            match delivery {
                Delivery::Taken => {}
                Delivery::Closed => conn.shutdown(now, Shutdown::Both),
                // No thread accepts any more.
                Delivery::Refused => conn.abort(now),
            }
        }
        delivery
    }

    /// Handles the reset of a connection of which not everything was read.
    fn reset(&mut self, conn: ConnId, reason: CloseReason, end_of_stream: bool) {
        let Some(entry) = self.entry(conn) else {
            return;
        };
        let socket = entry.socket.clone();
        {
            let mut status = socket.status();
            status.closed = Some(reason);
            status.ended = end_of_stream;
        }
        socket.has_ended(&mut self.wakes);
    }

    fn closed(&mut self, conn: ConnId, reason: CloseReason) {
        let Some(entry) = self.remove(conn) else {
            return;
        };
        self.publish_closed(&entry, reason);
        let was_reset = {
            let mut status = entry.socket.status();
            status.place = None;
            // What a reset has brought the program to stays so when it has read everything.
            let was_reset = status.closed.is_some();
            status.closed.get_or_insert(reason);
            was_reset
        };
        if !was_reset {
            entry.socket.has_ended(&mut self.wakes);
        }
        // A stream that is still held has no more use for TCP. Of a peer in order comes its end.
        if reason != CloseReason::Normal || !entry.tcp_closed {
            let _ = entry.socket.tcp.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Whether the peer sends no more.
pub(crate) fn has_peer_ended(state: CloseState) -> bool {
    !matches!(state, CloseState::Active | CloseState::PeerCloseWait1)
}

/// Whether neither side sends any more.
pub(crate) fn has_both_ended(state: CloseState) -> bool {
    has_peer_ended(state) && has_this_ended(state)
}

/// Whether this side sends no more.
pub(crate) fn has_this_ended(state: CloseState) -> bool {
    !matches!(state, CloseState::Active | CloseState::AppCloseWait1)
}
