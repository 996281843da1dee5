//! The embedder's loop: what happened goes into the engines, their commands
//! go out, until every engine is idle.

use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::{ClcProgress, Next, TcpEvent};
use smc_proto::event::Event;
use smc_proto::path::Paths;
use smc_proto::wire::cdc::CDC_TYPE;
use smc_proto::wire::clc::MAX_LENGTH;

use super::socket::Clc;
use super::*;
use crate::completion::Completion;
use crate::tcp::{TcpNotice, TcpNoticeKind};

impl<S: Storage> Simulation<S> {
    /// Delivers and polls until nothing moves at this moment.
    pub(super) fn run_until_idle(&mut self) {
        loop {
            let mut moved = false;
            for index in 0..self.hosts.len() {
                moved |= self.deliver(index);
                moved |= self.collect(index);
            }
            for index in 0..self.sockets.len() {
                moved |= self.pump(index);
            }
            if !moved {
                return;
            }
        }
    }

    fn deliver(&mut self, index: usize) -> bool {
        let mut moved = false;
        let Some(host) = self.hosts.get(index).map(|host| host.id) else {
            return false;
        };
        while let Some(event) = self.fabric.next_host_event(host) {
            moved = true;
            self.on_host_event(host, event);
        }
        let now = self.host_now(host);
        if let Some(invariants) = &mut self.invariants {
            invariants.on_time(self.fabric.now());
        }
        while let Some(notice) = self.fabric.next_tcp_notice(host) {
            moved = true;
            self.on_tcp(host, notice);
        }
        while let Some(completion) = self.fabric.next_completion(host) {
            moved = true;
            if let Some(invariants) = &mut self.invariants {
                invariants.on_completion(host, &completion);
            }
            if let Some(host) = self.hosts.get_mut(index) {
                host.endpoint.handle_rdma(now, completion.as_ref());
            }
            self.count_steps(host);
            if let Completion::Received { payload, .. } = &completion
                && payload.first() == Some(&CDC_TYPE)
            {
                self.count_cdc_steps(host);
            }
        }
        while let Some(completion) = self.fabric.next_ism_completion(host) {
            moved = true;
            if let Some(invariants) = &mut self.invariants {
                invariants.on_ism_completion(host, &completion);
            }
            if let Some(host) = self.hosts.get_mut(index) {
                host.endpoint.handle_ism(now, completion);
            }
            self.count_steps(host);
            if let IsmCompletion::Signalled { .. } = completion {
                self.count_cdc_steps(host);
            }
        }
        moved
    }

    fn on_tcp(&mut self, host: HostId, notice: TcpNotice) {
        let mine = |s: &Socket| s.host == host && s.tcp == notice.tcp && s.side == notice.side;
        let Some(socket) = self.sockets.iter().position(mine) else {
            return;
        };
        match notice.kind {
            TcpNoticeKind::Connected { smc } => self.on_connected(socket, smc),
            TcpNoticeKind::Readable => self.show_clc(socket),
            TcpNoticeKind::PeerFin => {
                self.notify_tcp(socket, TcpEvent::PeerFin);
            }
            TcpNoticeKind::Reset => {
                self.notify_tcp(socket, TcpEvent::PeerReset);
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.state.tcp_reset = true;
                }
            }
            TcpNoticeKind::TimedOut => {
                self.notify_tcp(socket, TcpEvent::Failed);
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.state.tcp_reset = true;
                }
            }
        }
        if let Some(socket) = self.sockets.get_mut(socket) {
            socket.awake = true;
        }
    }

    fn notify_tcp(&mut self, socket: usize, event: TcpEvent) {
        let Some(socket) = self.sockets.get(socket) else {
            return;
        };
        let id = socket.host;
        let now = self.host_now(id);
        let host = self.hosts.get_mut(usize::from(id.0));
        if let (Some(conn), Some(host)) = (socket.state.conn, host) {
            host.endpoint.handle_tcp(now, conn, event);
            self.count_steps(id);
        }
    }

    fn on_connected(&mut self, index: usize, smc: bool) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let now = self.host_now(socket.host);
        let (id, tcp, side) = (socket.host, socket.tcp, socket.side);
        let other_end = |s: &&Socket| s.tcp == tcp && s.side != side;
        let peer = self
            .sockets
            .iter()
            .find(other_end)
            .map_or(id, |socket| socket.host);
        let (paths, ism) = (self.client_paths(id, peer), self.client_ism(id));
        let paths = Paths::new(&paths, &ism);
        let Some(host) = self.hosts.get_mut(usize::from(id.0)) else {
            return;
        };
        let mut options = host.policy.options.clone();
        options.option_negotiated = smc;
        let opened = match side {
            Side::Client => host.endpoint.connect(now, options, paths),
            Side::Server => host.endpoint.listen(now, options),
        };
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        match opened {
            Ok(conn) => {
                host.conns.insert(conn, SocketId(index));
                if let Some(invariants) = &mut self.invariants {
                    invariants.on_opened(id, conn, tcp, side);
                }
                socket.state.conn = Some(conn);
                socket.life.conn = Some(conn);
                socket.clc = Clc::Engine;
            }
            // No slot is free. A client that received the SMC option in the SYN-ACK may
            // propose it: until it sends something the server sends nothing.
            Err(_) if smc && side == Side::Server => socket.clc = Clc::Refusing,
            Err(_) if smc => self.refuse_to_propose(index),
            // The connection is what it was, plain TCP.
            Err(_) => {
                socket.state.transport = Transport::Tcp;
                socket.clc = Clc::Over;
            }
        }
    }

    /// Shows bytes of TCP to the engine while they may be CLC messages.
    fn show_clc(&mut self, index: usize) {
        if self
            .sockets
            .get(index)
            .is_some_and(|s| s.clc == Clc::Refusing)
        {
            return self.refuse_proposal(index);
        }
        let owner = self.sockets.get(index).map(|socket| socket.host);
        let now = self.host_now(owner.unwrap_or(HostId(0)));
        while let Some(socket) = self.sockets.get_mut(index) {
            let shown = matches!(socket.clc, Clc::Engine | Clc::Watching);
            let bytes = self.fabric.tcp_unread(socket.tcp, socket.side);
            let host = self.hosts.get_mut(usize::from(socket.host.0));
            let (Some(conn), Some(host)) = (socket.state.conn, host) else {
                return;
            };
            if !shown || bytes.is_empty() {
                return;
            }
            match host.endpoint.handle_clc(now, conn, bytes) {
                Ok(ClcProgress::NeedMore { .. }) => return,
                Ok(ClcProgress::Consumed { len, next }) => {
                    if let Some(invariants) = &mut self.invariants {
                        let taken = bytes.get(..len).unwrap_or_default();
                        invariants.on_clc_received(host.id, conn, taken);
                    }
                    self.fabric.tcp_consume(socket.tcp, socket.side, len);
                    if next == Next::Stop {
                        socket.clc = Clc::Over;
                    }
                }
                Ok(ClcProgress::NotClc) => socket.clc = Clc::Over,
                // The engine resets the connection by a command of its own.
                Err(_) => {
                    socket.clc = Clc::Over;
                    return;
                }
            }
        }
    }

    fn collect(&mut self, index: usize) -> bool {
        let mut moved = false;
        let at = self.fabric.now();
        let mut message = [0; MAX_LENGTH];
        loop {
            let Some(host) = self.hosts.get_mut(index) else {
                return moved;
            };
            let now = host.clock.show(at);
            if let Ok(Some((conn, length))) = host.endpoint.poll_clc(now, &mut message) {
                let socket = host
                    .conns
                    .get(&conn)
                    .and_then(|socket| self.sockets.get_mut(socket.0));
                if let Some(socket) = socket {
                    let bytes = message.get(..length).unwrap_or_default();
                    if let Some(invariants) = &mut self.invariants {
                        invariants.on_clc_sent(host.id, conn, bytes);
                    }
                    socket.note_clc(bytes);
                    self.fabric.tcp_send(socket.tcp, socket.side, bytes);
                }
            } else if let Some((conn, command)) = host.endpoint.poll_tcp() {
                if let Some(socket) = host.conns.get(&conn).copied() {
                    self.on_tcp_command(socket, command);
                }
            } else if let Some(command) = host.devices.iter().find_map(|device| {
                let ready = self.fabric.is_ready(host.id, *device);
                ready
                    .then(|| host.endpoint.poll_rdma(now, *device))
                    .flatten()
            }) {
                if let Some(invariants) = &mut self.invariants {
                    let target = self.fabric.target(host.id, &command);
                    invariants.on_command(host.id, &command, target);
                }
                if let RdmaCommand::SendLarge {
                    link,
                    wr_id,
                    length,
                } = command
                {
                    let mut bytes = vec![0; length as usize];
                    let written = host.endpoint.emit_llc(link, wr_id, &mut bytes);
                    if written != Ok(bytes.len()) {
                        let what = format!("{length} octets announced, {written:?} written");
                        let at = self.fabric.now();
                        let host = host.id;
                        self.findings.push(Violation { at, host, what });
                    }
                    self.fabric.send_large(host.id, link, wr_id, &bytes);
                } else {
                    self.fabric.execute(host.id, command);
                }
            } else if let Some((device, command)) = host.ism.iter().find_map(|device| {
                let ready = !self.fabric.is_away(host.id);
                let command = ready.then(|| host.endpoint.poll_ism(now, *device));
                command.flatten().map(|command| (*device, command))
            }) {
                if let Some(invariants) = &mut self.invariants {
                    invariants.on_ism_command(host.id, &command);
                }
                self.fabric.execute_ism(host.id, device, command);
            } else if let Some(event) = host.next_event(at, &mut self.fabric) {
                if let Some(invariants) = &mut self.invariants {
                    invariants.on_event(host.id, &event);
                }
                self.on_event(index, event);
            } else {
                return moved;
            }
            moved = true;
        }
    }

    fn on_tcp_command(&mut self, id: SocketId, command: TcpCommand) {
        let Some(socket) = self.sockets.get_mut(id.0) else {
            return;
        };
        socket.awake = true;
        match command {
            TcpCommand::HandOver { watch_for_decline } => {
                socket.state.transport = Transport::Tcp;
                socket.clc = if watch_for_decline {
                    Clc::Watching
                } else {
                    Clc::Over
                };
                self.show_clc(id.0);
            }
            TcpCommand::Close => self.fabric.tcp_close(socket.tcp, socket.side),
            TcpCommand::Reset => {
                socket.state.tcp_reset = true;
                self.fabric.tcp_reset(socket.tcp, socket.side);
            }
        }
    }

    fn on_event(&mut self, index: usize, event: Event) {
        let Some(host) = self.hosts.get_mut(index) else {
            return;
        };
        let conn = match event {
            Event::GroupUp { group } => return host.groups.push(group),
            Event::GroupDown { group } => return host.groups.retain(|known| *known != group),
            Event::LinkUp { link, .. } => return host.links.push(link),
            Event::LinkDown { link, .. } => return host.links.retain(|known| *known != link),
            Event::Proposed { conn }
            | Event::Established { conn, .. }
            | Event::FellBack { conn, .. }
            | Event::Readable { conn }
            | Event::Writable { conn }
            | Event::Urgent { conn }
            | Event::Closed { conn, .. } => conn,
            _ => return,
        };
        let Some(id) = host.conns.get(&conn).copied() else {
            return;
        };
        if let Event::Proposed { .. } = event {
            return self.on_proposed(index, id, conn);
        }
        let Some(socket) = self.sockets.get_mut(id.0) else {
            return;
        };
        socket.awake = true;
        let at = self.fabric.now();
        match event {
            Event::Established { first_contact, .. } => {
                socket.state.transport = Transport::Smc;
                socket.state.first_contact = first_contact;
                socket.life.established = Some(at);
                socket.clc = Clc::Over;
            }
            Event::FellBack { why, .. } => socket.state.fell_back = Some(why),
            Event::Closed { reason, .. } => {
                socket.state.closed = Some(reason);
                socket.life.ended = Some(at);
                socket.app.on_end();
            }
            _ => {}
        }
    }

    fn on_proposed(&mut self, index: usize, id: SocketId, conn: ConnId) {
        let Some(mine) = self.sockets.get(id.0).map(|socket| socket.host) else {
            return;
        };
        let now = self.host_now(mine);
        let (paths, ism) = (self.server_paths(mine, conn), self.server_ism(mine, conn));
        let paths = Paths::new(&paths, &ism);
        let Some(host) = self.hosts.get_mut(index) else {
            return;
        };
        let answered = match host.policy.decline {
            Some(code) => host.endpoint.decline(now, conn, code),
            None => host.endpoint.accept(now, conn, paths),
        };
        if let Err(error) = answered {
            self.finding(mine, format!("answer to a Proposal: {error}"));
        }
    }

    pub(super) fn finding(&mut self, host: HostId, what: String) {
        let at = self.fabric.now();
        self.findings.push(Violation { at, host, what });
    }
}
