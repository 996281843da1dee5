//! What the engine wants and tells.

use std::sync::Arc;

use smc_proto::command::TcpCommand;
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::ConnId;
use smc_proto::path::Paths;
use smc_proto::wire::clc::MAX_LENGTH;

use rustix::net::SendFlags;
use smc_proto::endpoint::TcpEvent;

use super::{Shard, State};
use crate::carrier::Carrier;

impl State {
    /// Does all that the engine wants done, and hears all it has to tell.
    pub(crate) fn carry_out(&mut self, shard: &Arc<Shard>) {
        loop {
            while let Some(command) = self.engine.poll_ism(shard.now(), self.ism.id()) {
                self.ism.execute(command);
            }
            if self.send_clc(shard) {
                continue;
            }
            if let Some((conn, command)) = self.engine.poll_tcp() {
                self.command_tcp(conn, command);
            } else if let Some(event) = self.engine.poll_event() {
                self.hear(shard, event);
            } else {
                return;
            }
        }
    }

    /// Sends a CLC message, if there is one.
    fn send_clc(&mut self, shard: &Shard) -> bool {
        let mut octets = [0; MAX_LENGTH];
        // There is always room for one.
        let Ok(Some((conn, len))) = self.engine.poll_clc(shard.now(), &mut octets) else {
            return false;
        };
        let message = octets.get(..len).unwrap_or_default();
        let Some(entry) = self.entry(conn) else {
            return true;
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // What is sent over TCP before the application's octets never fills a socket.
        if rustix::net::send(&entry.socket.tcp, message, flags) != Ok(len) {
            self.engine.handle_tcp(shard.now(), conn, TcpEvent::Failed);
        }
        true
    }

    fn command_tcp(&mut self, conn: ConnId, command: TcpCommand) {
        let Some(entry) = self.entry(conn) else {
            return;
        };
        let tcp = &entry.socket.tcp;
        // Whatever fails here, TCP is gone already.
        match command {
            TcpCommand::HandOver { watch_for_decline } => {
                let watching = &entry.socket.watching;
                watching.store(watch_for_decline, std::sync::atomic::Ordering::Release);
            }
            TcpCommand::Close => {
                let _ = tcp.shutdown(std::net::Shutdown::Write);
            }
            TcpCommand::Reset => {
                let _ = rustix::net::connect_unspec(tcp);
            }
        }
    }

    fn hear(&mut self, shard: &Arc<Shard>, event: Event) {
        match event {
            Event::Proposed { conn } => self.answer(shard, conn),
            Event::Established { conn, group, .. } => {
                if let Some(terms) = self.engine.terms(group) {
                    self.decided(shard, conn, Carrier::Smc(terms));
                }
            }
            Event::FellBack { conn, why } => {
                if let Some(entry) = self.entry(conn) {
                    shard.unwatch(&entry.socket);
                }
                self.decided(shard, conn, Carrier::Tcp(why));
                if let Some(entry) = self.remove(conn) {
                    entry.socket.status().place = None;
                }
            }
            Event::Readable { conn } | Event::Urgent { conn } => {
                if let Some(ready) = self.entry(conn).and_then(|at| at.socket.readiness()) {
                    ready.set_readable(true);
                }
            }
            Event::Writable { conn } => {
                if let Some(ready) = self.entry(conn).and_then(|at| at.socket.readiness()) {
                    ready.set_writable(true);
                }
            }
            Event::Closed { conn, reason } => self.closed(conn, reason),
            // Groups are the engine's matter.
            _ => {}
        }
    }

    /// Tells the engine which of this side's devices reaches the client.
    fn answer(&mut self, shard: &Shard, conn: ConnId) {
        let mut path = self.path();
        if let Some(proposal) = self.engine.proposal(conn) {
            path.reaches = proposal.ism_gids().find(|gid| self.ism.reaches(*gid));
        }
        let ism = [path];
        let paths = Paths {
            rnics: &[],
            ism: &ism,
        };
        // Who no longer waits for an answer has ended.
        let _ = self.engine.accept(shard.now(), conn, paths);
    }

    /// It is known what carries a connection.
    fn decided(&mut self, shard: &Shard, conn: ConnId, carrier: Carrier) {
        let at = conn.index() as usize;
        let Some(entry) = self.sockets.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        if entry.conn != conn {
            return;
        }
        let socket = entry.socket.clone();
        socket.status().carrier = Some(carrier);
        if let Some(arrival) = entry.arrival.take()
            && !arrival.deliver(socket)
            && let Some(mut conn) = self.engine.conn(conn)
        {
            // Nobody accepts any more.
            conn.abort(shard.now());
        }
    }

    fn closed(&mut self, conn: ConnId, reason: CloseReason) {
        let Some(entry) = self.remove(conn) else {
            return;
        };
        {
            let mut status = entry.socket.status();
            status.closed = Some(reason);
            status.conn = None;
            status.place = None;
        }
        if let Some(ready) = entry.socket.readiness() {
            ready.hang_up();
        }
        // A stream that is still held has no more use for TCP.
        let _ = entry.socket.tcp.shutdown(std::net::Shutdown::Both);
    }
}
