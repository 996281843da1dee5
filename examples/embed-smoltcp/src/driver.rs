//! The loop of a host: what happened goes into the engine, what it wants goes out.
//!
//! ```text
//!  application   write, read, close           the same calls on either transport
//!       │
//!  Connection ── Tcp ──► smoltcp socket ◄── CLC bytes ───┐
//!       │                                                │
//!       └────── Smc ──► memory of the RNIC ◄── RDMA ── Endpoint
//! ```

use core::fmt;

use smc_proto::adapter::Rnic as _;
use smc_proto::command::TcpCommand;
use smc_proto::config::Config;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next, TcpEvent};
use smc_proto::event::{CloseReason, Event, FallbackReason};
use smc_proto::id::ConnId;
use smc_proto::path::LocalPath;
use smc_proto::storage::Fixed;
use smc_proto::time::Instant;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, Subnets};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{Gid, Mac, PeerId};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::wire::Ipv4Address;

use crate::rnic::{DEVICE, Network};
use crate::stack::Stack;

/// Room for 4 connections, 2 of them in rendezvous at once, 1 link group, 2
/// links, 8 buffers (an RMB and a send buffer for each connection) and 4 RMBs of
/// the peer. This is all the memory the engine has; it could be a `static`.
type Tables = Fixed<4, 2, 1, 2, 8, 4>;

const PREFIX_LENGTH: u8 = 24;

/// What carries the application's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// The TCP connection is being opened, or is in rendezvous: nothing yet.
    Undecided,
    /// SMC-R.
    Smc,
    /// The TCP connection itself.
    Tcp,
    /// Nothing any more.
    Closed,
}

/// One end of a connection, as this stack sees it.
#[derive(Debug)]
pub(crate) struct Connection {
    is_client: bool,
    pub(crate) socket: SocketHandle,
    /// The engine's handle, once the TCP connection is established.
    pub(crate) conn: Option<ConnId>,
    pub(crate) transport: Transport,
    /// Whether bytes received over TCP are shown to the engine.
    pub(crate) clc: bool,
    /// Bytes there must be before it is worth showing them.
    needed: usize,
    /// Whether the engine was notified that TCP ended.
    tcp_over: bool,
    /// Bytes of CLC messages sent over TCP.
    pub(crate) clc_bytes: usize,
    /// Bytes of the application that came with the last CLC message.
    pub(crate) behind_clc: usize,
    pub(crate) first_contact: bool,
    pub(crate) fell_back: Option<FallbackReason>,
    pub(crate) closed: Option<CloseReason>,
}

/// A host: its TCP stack, its SMC engine, and what joins them.
pub(crate) struct Host {
    number: usize,
    name: &'static str,
    pub(crate) address: Ipv4Address,
    pub(crate) stack: Stack,
    pub(crate) engine: Endpoint<Tables>,
    /// The RNIC port that may carry connections, if there is one.
    pub(crate) path: Option<LocalPath>,
    /// By number of the connection; both hosts count in step.
    pub(crate) connections: Vec<Connection>,
}

pub(crate) fn tcp_time(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros((now.as_nanos() / 1000) as i64)
}

fn print(now: Instant, name: &str, what: impl fmt::Display) {
    let millis = now.as_nanos() as f64 / 1e6;
    println!("  {millis:7.2} ms  {name:<6}  {what}");
}

impl Host {
    pub(crate) fn new(
        number: usize,
        name: &'static str,
        address: Ipv4Address,
        stack: Stack,
    ) -> Self {
        let byte = number as u8 + 1;
        let mac = Mac([2, 0, 0, 0, 0, byte]);
        let mut gid = [0; 16];
        (gid[10], gid[11]) = (0xff, 0xff);
        gid[12..].copy_from_slice(&address.octets());
        // The instance must change when the stack restarts, and the seed must be
        // nothing a peer could guess. A reproducible run wants both fixed.
        let config = Config::new(PeerId::new(u16::from(byte), mac));
        let seed = 0x5eed + u64::from(byte);
        Self {
            number,
            name,
            address,
            stack,
            engine: Endpoint::new(config, seed, Tables::new()),
            path: Some(LocalPath::new(DEVICE, 1, Gid(gid), mac)),
            connections: Vec::new(),
        }
    }

    pub(crate) fn add_connection(&mut self, socket: SocketHandle, is_client: bool) {
        self.connections.push(Connection {
            is_client,
            socket,
            conn: None,
            transport: Transport::Undecided,
            clc: false,
            needed: 1,
            tcp_over: false,
            clc_bytes: 0,
            behind_clc: 0,
            first_contact: false,
            fell_back: None,
            closed: None,
        });
    }

    fn print(&self, now: Instant, what: impl fmt::Display) {
        print(now, self.name, what);
    }

    /// Whose handle this is. No handle is given out twice, but with many
    /// connections an array by `conn.index()` would be faster.
    fn connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|c| c.conn == Some(conn))
    }

    // ---- inputs --------------------------------------------------------------

    /// Passes everything that happened to the engine; whether anything did.
    pub(crate) fn inputs(&mut self, now: Instant) -> bool {
        let mut moved = self.stack.poll(tcp_time(now));
        for index in 0..self.connections.len() {
            moved |= self.tcp_opened(now, index);
            moved |= self.show_clc(now, index);
            moved |= self.tcp_ended(now, index);
        }
        // Calling this too early or too often would be harmless.
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now);
            moved = true;
        }
        moved
    }

    /// The TCP connection is established: SMC may be tried.
    fn tcp_opened(&mut self, now: Instant, index: usize) -> bool {
        let c = &mut self.connections[index];
        let socket = self.stack.socket(c.socket);
        if c.conn.is_some() || c.transport != Transport::Undecided {
            return false;
        }
        if socket.state() != tcp::State::Established {
            return false;
        }
        let network = u32::from(self.address) & (u32::MAX << (32 - PREFIX_LENGTH));
        let mut options = ConnOptions::new(Subnets::ipv4(network.into(), PREFIX_LENGTH));
        options.option_negotiated = self.stack.both_offered_smc(c.socket);
        let opened = if c.is_client {
            self.engine.connect(now, options, self.path.as_slice())
        } else {
            self.engine.listen(now, options)
        };
        match opened {
            Ok(conn) => (c.conn, c.clc) = (Some(conn), true),
            // No slot is free: the connection is what it was, plain TCP.
            Err(_) => c.transport = Transport::Tcp,
        }
        true
    }

    /// Shows bytes of the TCP stream to the engine while they may be CLC
    /// messages.
    ///
    /// They are peeked at, and taken out of the socket only as far as the engine
    /// reports that they were a message: the byte behind it may be the
    /// application's, already in the same segment.
    fn show_clc(&mut self, now: Instant, index: usize) -> bool {
        let mut moved = false;
        let mut bytes = [0; MAX_LENGTH];
        loop {
            let c = &mut self.connections[index];
            let (Some(conn), true) = (c.conn, c.clc) else {
                return moved;
            };
            let socket = self.stack.socket(c.socket);
            let have = socket.peek_slice(&mut bytes).unwrap_or(0);
            if have < c.needed {
                return moved;
            }
            moved = true;
            match self.engine.handle_clc(now, conn, &bytes[..have]) {
                // So many bytes, counted from the first one shown.
                Ok(ClcProgress::NeedMore { total }) => c.needed = total,
                Ok(ClcProgress::Consumed { len, next }) => {
                    let taken = socket.recv_slice(&mut bytes[..len]);
                    assert_eq!(taken, Ok(len), "they were peeked at");
                    c.needed = 1;
                    c.clc = next != Next::Stop;
                    c.behind_clc = have - len;
                }
                // All of these bytes stay for the application.
                Ok(ClcProgress::NotClc) => c.clc = false,
                // The engine resets the connection by a command of its own.
                Err(error) => {
                    c.clc = false;
                    self.print(now, format_args!("CLC refused: {error}"));
                }
            }
        }
    }

    /// Reports FIN, reset and timeout, once. After the rendezvous the engine
    /// ignores a FIN: SMC-R has its own close.
    fn tcp_ended(&mut self, now: Instant, index: usize) -> bool {
        let c = &mut self.connections[index];
        let (Some(conn), false) = (c.conn, c.tcp_over) else {
            return false;
        };
        let event = match self.stack.socket(c.socket).state() {
            tcp::State::CloseWait | tcp::State::LastAck => TcpEvent::PeerFin,
            // smoltcp does not distinguish a reset from a timeout.
            tcp::State::Closed => TcpEvent::PeerReset,
            _ => return false,
        };
        c.tcp_over = true;
        self.engine.handle_tcp(now, conn, event);
        true
    }

    // ---- outputs -------------------------------------------------------------

    /// Does everything the engine asks for; whether it asked for anything.
    pub(crate) fn outputs(&mut self, now: Instant, network: &mut Network) -> bool {
        let mut moved = false;
        let mut bytes = [0; MAX_LENGTH];
        loop {
            if let Some((conn, length)) = self
                .engine
                .poll_clc(now, &mut bytes)
                .expect("MAX_LENGTH octets suffice")
            {
                self.send_clc(now, conn, &bytes[..length]);
            } else if let Some((conn, command)) = self.engine.poll_tcp() {
                self.on_tcp_command(now, conn, command);
            } else if self.drive(now, network) {
                // Commands were executed, or messages arrived.
            } else if let Some(event) = self.engine.poll_event() {
                self.on_event(now, event);
            } else {
                return moved;
            }
            moved = true;
        }
    }

    fn send_clc(&mut self, now: Instant, conn: ConnId, bytes: &[u8]) {
        if let Ok((message, _)) = ClcMessage::parse(bytes) {
            self.print(now, format_args!("{message}"));
        }
        let Some(c) = self.connection(conn) else {
            return;
        };
        c.clc_bytes += bytes.len();
        let socket = c.socket;
        // A rendezvous sends less than a kibibyte in each direction, before
        // anything else on this connection: the socket's buffer has room.
        let sent = self.stack.socket(socket).send_slice(bytes);
        debug_assert!(sent.is_err() || sent == Ok(bytes.len()));
    }

    fn on_tcp_command(&mut self, now: Instant, conn: ConnId, command: TcpCommand) {
        let Some(c) = self.connection(conn) else {
            return;
        };
        let socket = c.socket;
        match command {
            TcpCommand::HandOver { watch_for_decline } => {
                c.transport = Transport::Tcp;
                c.clc = watch_for_decline;
                self.print(now, "TCP the connection is the application's");
            }
            TcpCommand::Close => self.stack.socket(socket).close(),
            TcpCommand::Reset => self.stack.socket(socket).abort(),
        }
    }

    /// Lets the RNIC do what the engine asks for.
    fn drive(&mut self, now: Instant, network: &mut Network) -> bool {
        let name = self.name;
        let print_llc = |message: &LlcMessage<'_>| print(now, name, message);
        let mut cable = network.cable(self.number, &print_llc);
        cable.drive(&mut self.engine, now)
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            // The engine decides; we give the facts: which ports there are, and
            // whether they are in the client's network.
            Event::Proposed { conn } => {
                let address = self.address;
                let in_network = self.engine.proposal(conn).is_some_and(|proposal| {
                    proposal.subnets.contain(core::net::IpAddr::V4(address))
                });
                let path = self.path.map(|mut path| {
                    path.subnet_match = in_network;
                    path
                });
                let answered = self.engine.accept(now, conn, path.as_slice());
                answered.expect("it was proposed just now");
            }
            Event::Established {
                conn,
                first_contact,
                ..
            } => {
                if let Some(c) = self.connection(conn) {
                    (c.transport, c.clc, c.first_contact) = (Transport::Smc, false, first_contact);
                }
                let group = if first_contact { "a new" } else { "the same" };
                self.print(now, format_args!("SMC established in {group} link group"));
            }
            Event::FellBack { conn, why } => {
                if let Some(c) = self.connection(conn) {
                    c.fell_back = Some(why);
                }
                self.print(now, format_args!("SMC not used: {why}"));
            }
            Event::Closed { conn, reason } => {
                if let Some(c) = self.connection(conn) {
                    (c.transport, c.closed) = (Transport::Closed, Some(reason));
                }
                self.print(now, format_args!("SMC {reason}"));
            }
            // The application of this example polls its connections anyway, and
            // variants added to `Event` later need no answer.
            _ => {}
        }
    }
}
