//! What the embedder of an engine does: shows it what TCP received, and does what it wants.

use smc_proto::command::TcpCommand;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Next, TcpEvent};
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::path::Paths;
use smc_proto::wire::clc::{ClcMessage, ClcVersion, Decline, MAX_LENGTH, PeerOs, Subnets};
use smc_proto::wire::types::DiagnosisCode;

use super::host::{Clc, Outcome};
use super::tcp::{Chunk, Origin};
use super::world::World;
use crate::rig::{Output, Outputs};

/// Data that applications send over TCP. The server's begins like a Decline.
const DATA: [&[u8]; 2] = [b"GET /\r\n", b"\xe2\xd4\xc3\xd9\x04\x00\x1c\x10 is not one"];

impl World {
    /// Opens the TCP connection under test, on which both sides may speak SMC.
    pub(super) fn open(&mut self, side: usize) {
        let (rnics, ism) = (self.rnics(side), self.ism(side));
        let paths = Paths::new(&rnics, &ism);
        let option = self.scenario.option;
        let mut options = ConnOptions::new(Subnets::default());
        options.option_negotiated = option;
        let host = &mut self.hosts[side];
        let opened = match side {
            0 => host.endpoint.connect(host.now, options, paths),
            _ => host.endpoint.listen(host.now, options),
        };
        host.conn = opened.ok();
        host.outcome = Outcome::Undecided;
        host.clc = Clc::Engine;
        match (host.conn, side) {
            (Some(_), _) => {}
            (None, _) if !option => self.hand_over(side, Clc::Over),
            // The server was promised a CLC message.
            (None, 0) => {
                self.decline_for_want_of_room(side);
                self.hand_over(side, Clc::Over);
            }
            (None, _) => host.clc = Clc::Refusing,
        }
    }

    /// Does what an engine wants until it wants nothing more.
    pub(super) fn pump(&mut self, side: usize) {
        // Of SMC-R and of SMC-D only one is asked.
        let mut outputs = Outputs::new(1);
        loop {
            let host = &mut self.hosts[side];
            let Some(output) = outputs.next(&mut host.endpoint, host.now) else {
                if host.follow() {
                    continue;
                }
                host.deadline = host.endpoint.poll_timeout();
                return;
            };
            match output {
                Output::Clc(conn, bytes) if Some(conn) == host.conn => {
                    self.wires[side].send_clc(bytes);
                }
                Output::Tcp(conn, command) if Some(conn) == host.conn => {
                    self.on_tcp_command(side, command);
                }
                Output::Clc(..) | Output::Tcp(..) => {}
                Output::Rdma(command) => {
                    if let Err(breach) = host.execute(command) {
                        self.find(breach);
                    }
                }
                Output::Ism(_, command) => self.execute_ism(side, command),
                Output::Event(event) => self.on_event(side, event),
            }
        }
    }

    fn on_tcp_command(&mut self, side: usize, command: TcpCommand) {
        match command {
            TcpCommand::HandOver { watch_for_decline } => {
                let clc = match watch_for_decline {
                    true => Clc::Watching,
                    false => Clc::Over,
                };
                self.hand_over(side, clc);
            }
            TcpCommand::Close => self.wires[side].finish(),
            TcpCommand::Reset => self.reset(side),
        }
    }

    /// TCP carries the connection; the application sends at once what it has to send.
    fn hand_over(&mut self, side: usize, clc: Clc) {
        let first = self.hosts[side].outcome == Outcome::Undecided;
        self.decide(side, Outcome::Tcp);
        let host = &mut self.hosts[side];
        host.clc = clc;
        if first && !self.wires[side].is_closed() {
            host.written = DATA[side].len() as u16;
            self.wires[side].send_application(DATA[side]);
        }
        self.read(side);
    }

    /// RST: what is in flight to this side has no effect any more.
    pub(super) fn reset(&mut self, side: usize) {
        self.wires[side].reset();
        self.wires[1 - side].cut();
        let host = &mut self.hosts[side];
        host.unread.clear();
        host.clc = Clc::Over;
    }

    fn on_event(&mut self, side: usize, event: Event) {
        let mine = self.hosts[side].conn;
        match event {
            Event::Proposed { conn } => self.on_proposed(side, conn),
            Event::Established { conn, .. } if Some(conn) == mine => {
                self.decide(side, Outcome::Smc);
                self.hosts[side].clc = Clc::Over;
            }
            Event::FellBack { conn, .. } if Some(conn) == mine => {
                self.check_fell_back(side);
            }
            Event::Closed { conn, .. } if Some(conn) == mine => {
                self.decide(side, Outcome::Over);
                self.hosts[side].clc = Clc::Over;
            }
            _ => {}
        }
    }

    fn on_proposed(&mut self, side: usize, conn: ConnId) {
        let (rnics, ism) = (self.rnics(side), self.ism(side));
        let paths = Paths::new(&rnics, &ism);
        let host = &mut self.hosts[side];
        // The rendezvous may be over by now.
        let _ = match self.scenario.is_declined_by_policy() {
            true => {
                let why = DiagnosisCode::MEMORY;
                host.endpoint.decline(host.now, conn, why)
            }
            false => host.endpoint.accept(host.now, conn, paths),
        };
    }

    /// Something arrives over TCP at a side.
    pub(super) fn on_chunk(&mut self, side: usize, chunk: Chunk) {
        match chunk {
            Chunk::Bytes(bytes) => {
                self.hosts[side].unread.extend(bytes);
                self.read(side);
            }
            Chunk::Fin => self.on_tcp(side, TcpEvent::PeerFin),
            Chunk::Reset => {
                self.wires[side].cut();
                self.on_tcp(side, TcpEvent::PeerReset);
            }
        }
    }

    /// TCP has ended, or the peer's direction of it.
    pub(super) fn on_tcp(&mut self, side: usize, event: TcpEvent) {
        let host = &mut self.hosts[side];
        if let Some(conn) = host.conn {
            host.endpoint.handle_tcp(host.now, conn, event);
            // The watch for a Decline may end by this.
            self.pump(side);
        }
        let host = &mut self.hosts[side];
        let carried = host.outcome == Outcome::Tcp || host.clc == Clc::Refusing;
        if carried && event != TcpEvent::PeerFin {
            host.clc = Clc::Over;
            self.decide(side, Outcome::Over);
        } else if host.clc == Clc::Refusing {
            // It has nothing to send any more; nor has this side.
            self.hand_over(side, Clc::Over);
        }
    }

    /// Bytes of TCP go to the engine while they may be CLC messages, and then to the
    /// application.
    fn read(&mut self, side: usize) {
        while !self.hosts[side].unread.is_empty() {
            match self.hosts[side].clc {
                Clc::Engine | Clc::Watching => {
                    if !self.show(side) {
                        return;
                    }
                }
                Clc::Refusing => {
                    if !self.refuse(side) {
                        return;
                    }
                }
                Clc::Over => return self.give(side),
            }
        }
    }

    /// Whether there is more to do.
    fn show(&mut self, side: usize) -> bool {
        let host = &mut self.hosts[side];
        let Some(conn) = host.conn else {
            return false;
        };
        let bytes: Vec<u8> = host.unread.iter().map(|byte| byte.value).collect();
        let progress = host.endpoint.handle_clc(host.now, conn, &bytes);
        self.check_progress(side, &progress);
        let host = &mut self.hosts[side];
        match progress {
            Ok(ClcProgress::NeedMore { .. }) => return false,
            Ok(ClcProgress::Consumed { len, next }) => {
                host.unread.drain(..len);
                if next == Next::Stop {
                    host.clc = Clc::Over;
                }
            }
            // The engine resets the connection by a command of its own.
            Ok(ClcProgress::NotClc) | Err(_) => host.clc = Clc::Over,
        }
        // What it wants comes before what is read next.
        self.pump(side);
        true
    }

    /// Bytes that are no CLC messages: the application's, if it has TCP.
    fn give(&mut self, side: usize) {
        let bytes = std::mem::take(&mut self.hosts[side].unread);
        if self.hosts[side].outcome != Outcome::Tcp || self.hosts[side].application_is_done {
            // They are not read.
            return;
        }
        for byte in bytes {
            self.check_given(side, byte.origin);
        }
    }

    /// Answers a Proposal with Decline, for want of room: whether it was whole.
    fn refuse(&mut self, side: usize) -> bool {
        let unread = &mut self.hosts[side].unread;
        let bytes: Vec<u8> = unread.iter().map(|byte| byte.value).collect();
        let Ok((message, length)) = ClcMessage::parse(&bytes) else {
            // All of it is a CLC message, as far as it has come.
            return false;
        };
        unread.drain(..length);
        if let ClcMessage::Proposal(_) = message {
            self.decline_for_want_of_room(side);
        }
        self.hand_over(side, Clc::Over);
        true
    }

    fn decline_for_want_of_room(&mut self, side: usize) {
        let decline = ClcMessage::Decline(Decline {
            version: ClcVersion::V1,
            out_of_sync: false,
            peer_id: self.hosts[side].endpoint.config().peer_id,
            diagnosis: DiagnosisCode::MEMORY,
            os: PeerOs::UNKNOWN,
        });
        let mut bytes = [0; MAX_LENGTH];
        let length = decline.emit(&mut bytes).expect("the longest fits");
        self.wires[side].send_clc(&bytes[..length]);
    }

    /// An application ends its connection: in order, or not.
    pub(super) fn end(&mut self, side: usize, in_order: bool) {
        self.hosts[side].end(in_order);
        match (self.hosts[side].outcome, in_order) {
            (Outcome::Tcp, true) => self.wires[side].finish(),
            (Outcome::Tcp, false) => {
                // The watch for a Decline ends by this.
                self.pump(side);
                self.reset(side);
                self.decide(side, Outcome::Over);
            }
            // There is no engine that could do it.
            (Outcome::Undecided, _) if self.hosts[side].conn.is_none() => {
                self.reset(side);
                self.decide(side, Outcome::Over);
            }
            _ => {}
        }
    }

    /// Whether a byte that an application gets is the one that is due.
    fn check_given(&mut self, side: usize, origin: Origin) {
        let host = &mut self.hosts[side];
        let due = Origin::Application { at: host.got };
        host.got += 1;
        if origin != due {
            self.find(format!(
                "the application of side {side} is given {origin:?}"
            ));
        }
    }
}
