//! The loop: what happened goes into the engine, what it wants goes out, until
//! nobody wants anything; then time passes.
//!
//! ```text
//!  application   write, read, close           the same calls on either carrier
//!       │
//!  Connection ── Tcp ──► smoltcp socket ◄── CLC octets ──┐
//!       │                                                │
//!       └────── Smc ──► memory of the RNIC ◄── RDMA ── Endpoint
//! ```

use core::fmt;

use smc_proto::command::{EYE_CATCHER, RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next, TcpEvent};
use smc_proto::event::{CloseReason, Event, FallbackReason};
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{LocalPath, RoceVersion, Route};
use smc_proto::storage::Fixed;
use smc_proto::time::Instant;
use smc_proto::wire::cdc::CDC_TYPE;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, Subnets};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{Gid, Mac, Mtu, PeerId};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::wire::Ipv4Address;

use crate::rnic::Network;
use crate::stack::Stack;

/// Room for 4 connections, 2 of them in rendezvous at once, 1 link group, 2
/// links, 8 buffers (an RMB and a send buffer for each connection) and 4 RMBs of
/// the peer. This is all the memory the engine has; it could be a `static`.
type Tables = Fixed<4, 2, 1, 2, 8, 4>;

/// The only RNIC of a host.
const DEVICE: DeviceId = DeviceId(0);
const PREFIX_LENGTH: u8 = 24;

/// What carries the application's octets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
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
    socket: SocketHandle,
    /// The engine's handle, once the TCP connection is established.
    conn: Option<ConnId>,
    pub(crate) carrier: Carrier,
    /// Whether octets received over TCP are shown to the engine.
    clc: bool,
    /// Octets there must be before it is worth showing them.
    needed: usize,
    /// Whether the engine was told that TCP ended.
    tcp_over: bool,
    /// Octets of CLC messages sent over TCP.
    pub(crate) clc_octets: usize,
    /// Octets of the application that came with the last CLC message.
    pub(crate) behind_clc: usize,
    pub(crate) first_contact: bool,
    pub(crate) fell_back: Option<FallbackReason>,
    pub(crate) closed: Option<CloseReason>,
}

/// A host: its TCP stack, its SMC engine, and what joins them.
struct Host {
    number: usize,
    name: &'static str,
    address: Ipv4Address,
    stack: Stack,
    engine: Endpoint<Tables>,
    /// The RNIC port that may carry connections, if there is one.
    path: Option<LocalPath>,
    /// By number of the connection; both hosts count in step.
    connections: Vec<Connection>,
}

/// Two hosts and what is between them.
pub(crate) struct World {
    hosts: [Host; 2],
    network: Network,
    now: Instant,
}

/// The host that opens connections.
pub(crate) const CLIENT: usize = 0;
/// The host that accepts them.
pub(crate) const SERVER: usize = 1;

fn tcp_time(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros((now.as_nanos() / 1000) as i64)
}

impl Host {
    fn new(number: usize, name: &'static str, address: Ipv4Address, stack: Stack) -> Self {
        let octet = number as u8 + 1;
        let mac = Mac([2, 0, 0, 0, 0, octet]);
        let mut gid = [0; 16];
        (gid[10], gid[11]) = (0xff, 0xff);
        gid[12..].copy_from_slice(&address.octets());
        // The instance must change when the stack restarts, and the seed must be
        // nothing a peer could guess. A story that repeats wants both fixed.
        let config = Config::new(PeerId::new(u16::from(octet), mac));
        let seed = 0x5eed + u64::from(octet);
        Self {
            number,
            name,
            address,
            stack,
            engine: Endpoint::new(config, seed, Tables::new()),
            path: Some(LocalPath {
                device: DEVICE,
                port: 1,
                gid_index: 0,
                gid: Gid(gid),
                mac,
                mtu: Mtu::M1024,
                lan: smc_proto::id::LanId(0),
                subnet_match: false,
                roce: RoceVersion::V1,
                route: Route::Direct,
            }),
            connections: Vec::new(),
        }
    }

    fn add_connection(&mut self, socket: SocketHandle, is_client: bool) {
        self.connections.push(Connection {
            is_client,
            socket,
            conn: None,
            carrier: Carrier::Undecided,
            clc: false,
            needed: 1,
            tcp_over: false,
            clc_octets: 0,
            behind_clc: 0,
            first_contact: false,
            fell_back: None,
            closed: None,
        });
    }

    fn say(&self, now: Instant, what: impl fmt::Display) {
        let millis = now.as_nanos() as f64 / 1e6;
        println!("  {millis:7.2} ms  {:<6}  {what}", self.name);
    }

    /// Whose handle this is. No handle is given out twice, but with many
    /// connections an array by `conn.index()` would be faster.
    fn connection(&mut self, conn: ConnId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|c| c.conn == Some(conn))
    }

    // ---- inputs --------------------------------------------------------------

    /// Tells the engine everything that happened; whether anything did.
    fn inputs(&mut self, now: Instant, network: &mut Network) -> bool {
        let mut moved = self.stack.poll(tcp_time(now));
        for index in 0..self.connections.len() {
            moved |= self.tcp_opened(now, index);
            moved |= self.show_clc(now, index);
            moved |= self.tcp_ended(now, index);
        }
        while let Some(completion) = network.rnic(self.number).next_completion() {
            self.engine.handle_rdma(now, completion.as_input());
            moved = true;
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
        if c.conn.is_some() || c.carrier != Carrier::Undecided {
            return false;
        }
        if socket.state() != tcp::State::Established {
            return false;
        }
        let network = u32::from(self.address) & (u32::MAX << (32 - PREFIX_LENGTH));
        let options = ConnOptions {
            option_negotiated: self.stack.both_offered_smc(c.socket),
            ..ConnOptions::new(Subnets {
                network: network.into(),
                prefix_length: PREFIX_LENGTH,
                ..Subnets::default()
            })
        };
        let opened = if c.is_client {
            self.engine.connect(now, options, self.path.as_slice())
        } else {
            self.engine.listen(now, options)
        };
        match opened {
            Ok(conn) => (c.conn, c.clc) = (Some(conn), true),
            // No slot is free: the connection is what it was, plain TCP.
            Err(_) => c.carrier = Carrier::Tcp,
        }
        true
    }

    /// Shows octets of the TCP stream to the engine while they may be CLC
    /// messages.
    ///
    /// They are peeked at, and taken out of the socket only as far as the engine
    /// says that they were a message: the octet behind it may be the
    /// application's, already in the same segment.
    fn show_clc(&mut self, now: Instant, index: usize) -> bool {
        let mut moved = false;
        let mut octets = [0; MAX_LENGTH];
        loop {
            let c = &mut self.connections[index];
            let (Some(conn), true) = (c.conn, c.clc) else {
                return moved;
            };
            let socket = self.stack.socket(c.socket);
            let have = socket.peek_slice(&mut octets).unwrap_or(0);
            if have < c.needed {
                return moved;
            }
            moved = true;
            match self.engine.handle_clc(now, conn, &octets[..have]) {
                // So many octets, counted from the first one shown.
                Ok(ClcProgress::NeedMore { total }) => c.needed = total,
                Ok(ClcProgress::Consumed { len, next }) => {
                    let taken = socket.recv_slice(&mut octets[..len]);
                    assert_eq!(taken, Ok(len), "they were peeked at");
                    c.needed = 1;
                    c.clc = next != Next::Stop;
                    c.behind_clc = have - len;
                }
                // All of these octets stay for the application.
                Ok(ClcProgress::NotClc) => c.clc = false,
                // The engine resets the connection by a command of its own.
                Err(error) => {
                    c.clc = false;
                    self.say(now, format_args!("CLC refused: {error}"));
                }
            }
        }
    }

    /// Tells of FIN, reset and timeout, once. After the rendezvous the engine
    /// ignores a FIN: SMC-R has its own close.
    fn tcp_ended(&mut self, now: Instant, index: usize) -> bool {
        let c = &mut self.connections[index];
        let (Some(conn), false) = (c.conn, c.tcp_over) else {
            return false;
        };
        let event = match self.stack.socket(c.socket).state() {
            tcp::State::CloseWait | tcp::State::LastAck => TcpEvent::PeerFin,
            // smoltcp does not tell a reset from a timeout.
            tcp::State::Closed => TcpEvent::PeerReset,
            _ => return false,
        };
        c.tcp_over = true;
        self.engine.handle_tcp(now, conn, event);
        true
    }

    // ---- outputs -------------------------------------------------------------

    /// Does everything the engine asks for; whether it asked for anything.
    fn outputs(&mut self, now: Instant, network: &mut Network) -> bool {
        let mut moved = false;
        let mut octets = [0; MAX_LENGTH];
        loop {
            if let Some((conn, length)) = self
                .engine
                .poll_clc(now, &mut octets)
                .expect("MAX_LENGTH octets suffice")
            {
                self.send_clc(now, conn, &octets[..length]);
            } else if let Some((conn, command)) = self.engine.poll_tcp() {
                self.on_tcp_command(now, conn, command);
            } else if let Some(command) = self.engine.poll_rdma(now, DEVICE) {
                // An adapter polls only while its queues have room, and rings the
                // doorbell once after the last command.
                self.show_llc(now, &command);
                network.execute(self.number, command);
            } else if let Some(event) = self.engine.poll_event() {
                self.on_event(now, event);
            } else {
                return moved;
            }
            moved = true;
        }
    }

    fn send_clc(&mut self, now: Instant, conn: ConnId, octets: &[u8]) {
        if let Ok((message, _)) = ClcMessage::parse(octets) {
            self.say(now, format_args!("{message}"));
        }
        let Some(c) = self.connection(conn) else {
            return;
        };
        c.clc_octets += octets.len();
        let socket = c.socket;
        // A rendezvous sends less than a kibibyte in each direction, before
        // anything else on this connection: the socket's buffer has room.
        let sent = self.stack.socket(socket).send_slice(octets);
        debug_assert!(sent.is_err() || sent == Ok(octets.len()));
    }

    fn on_tcp_command(&mut self, now: Instant, conn: ConnId, command: TcpCommand) {
        let Some(c) = self.connection(conn) else {
            return;
        };
        let socket = c.socket;
        match command {
            TcpCommand::HandOver { watch_for_decline } => {
                c.carrier = Carrier::Tcp;
                c.clc = watch_for_decline;
                self.say(now, "TCP the connection is the application's");
            }
            TcpCommand::Close => self.stack.socket(socket).close(),
            TcpCommand::Reset => self.stack.socket(socket).abort(),
        }
    }

    fn show_llc(&self, now: Instant, command: &RdmaCommand) {
        if let RdmaCommand::Send { payload, .. } = command
            && payload[0] != CDC_TYPE
            && let Ok(message) = LlcMessage::parse(payload)
        {
            self.say(now, format_args!("{message}"));
        }
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            // The engine decides; we give the facts: which ports there are, and
            // whether they are in the client's network.
            Event::Proposed { conn } => {
                let address = self.address;
                let in_network = self.engine.proposal(conn).is_some_and(|proposal| {
                    let host_bits = 32 - u32::from(proposal.subnets.prefix_length).min(32);
                    let network = |a: Ipv4Address| u64::from(u32::from(a)) >> host_bits;
                    network(proposal.subnets.network) == network(address)
                });
                let path = self.path.map(|path| LocalPath {
                    lan: smc_proto::id::LanId(0),
                    subnet_match: in_network,
                    roce: RoceVersion::V1,
                    route: Route::Direct,
                    ..path
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
                    (c.carrier, c.clc, c.first_contact) = (Carrier::Smc, false, first_contact);
                }
                let group = if first_contact { "a new" } else { "the same" };
                self.say(now, format_args!("SMC established in {group} link group"));
            }
            Event::FellBack { conn, why } => {
                if let Some(c) = self.connection(conn) {
                    c.fell_back = Some(why);
                }
                self.say(now, format_args!("SMC not used: {why}"));
            }
            Event::Closed { conn, reason } => {
                if let Some(c) = self.connection(conn) {
                    (c.carrier, c.closed) = (Carrier::Closed, Some(reason));
                }
                self.say(now, format_args!("SMC {reason}"));
            }
            // The application of this story looks at its connections anyway, and
            // what comes to `Event` later needs no answer.
            _ => {}
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let addresses = [Ipv4Address::new(10, 0, 0, 1), Ipv4Address::new(10, 0, 0, 2)];
        let [a, b] = Stack::pair(addresses);
        let hosts = [
            Host::new(CLIENT, "client", addresses[CLIENT], a),
            Host::new(SERVER, "server", addresses[SERVER], b),
        ];
        let gids = [&hosts[0], &hosts[1]].map(|host| host.path.expect("just made").gid);
        Self {
            hosts,
            network: Network::new(gids),
            now: Instant::ZERO,
        }
    }

    /// Takes the RNIC from a host: connections it carries live on, new ones
    /// cannot use it.
    pub(crate) fn withhold_rnic(&mut self, host: usize) {
        self.hosts[host].path = None;
    }

    /// Makes a host leave the SMC option out of its SYN-ACKs.
    pub(crate) fn speak_plain_tcp(&mut self, host: usize) {
        self.hosts[host].stack.offer_smc(false);
    }

    /// Octets that a host wrote into the memory of the other.
    pub(crate) fn octets_written(&mut self, host: usize) -> (u64, u64) {
        let rnic = self.network.rnic(host);
        (rnic.writes, rnic.octets_written)
    }

    /// Opens a TCP connection: the number it has at both hosts.
    pub(crate) fn open(&mut self) -> usize {
        let number = self.hosts[CLIENT].connections.len();
        let [client, server] = &mut self.hosts;
        let socket = server.stack.listen();
        server.add_connection(socket, false);
        let port = 50_000 + number as u16;
        let socket = client.stack.connect(server.address, port);
        client.add_connection(socket, true);
        number
    }

    pub(crate) fn end(&self, host: usize, number: usize) -> &Connection {
        &self.hosts[host].connections[number]
    }

    pub(crate) fn carriers(&self, number: usize) -> [Carrier; 2] {
        [CLIENT, SERVER].map(|host| self.end(host, number).carrier)
    }

    /// Runs both hosts until a condition holds. It is tested whenever one of them
    /// did something; time passes only when neither has anything to do.
    pub(crate) fn run_until(&mut self, mut condition: impl FnMut(&mut Self) -> bool) {
        for _ in 0..100_000 {
            let mut moved = false;
            for host in 0..2 {
                let host = &mut self.hosts[host];
                moved |= host.inputs(self.now, &mut self.network);
                moved |= host.outputs(self.now, &mut self.network);
                if condition(self) {
                    return;
                }
            }
            if !moved {
                self.sleep();
            }
        }
        panic!("what was waited for does not come");
    }

    /// Lets time pass until somebody has something to do. A real stack sleeps
    /// until then, or until a packet or a completion arrives.
    fn sleep(&mut self) {
        let mut next = None;
        for host in &mut self.hosts {
            let tcp = host.stack.poll_at(tcp_time(self.now));
            let tcp = tcp.map(|at| Instant::from_nanos(at.total_micros() as u64 * 1000));
            for deadline in [host.engine.poll_timeout(), tcp].into_iter().flatten() {
                next = Some(next.map_or(deadline, |other: Instant| other.min(deadline)));
            }
        }
        let soonest = Instant::from_nanos(self.now.as_nanos() + 1000);
        self.now = next.map_or(soonest, |next| next.max(soonest));
    }

    // ---- what the application does -------------------------------------------

    /// Sends octets: how many there was room for.
    pub(crate) fn write(&mut self, host: usize, number: usize, data: &[u8]) -> usize {
        let Host {
            stack,
            engine,
            connections,
            ..
        } = &mut self.hosts[host];
        let c = &connections[number];
        match c.carrier {
            Carrier::Undecided | Carrier::Closed => 0,
            Carrier::Tcp => stack.socket(c.socket).send_slice(data).unwrap_or(0),
            Carrier::Smc => {
                let Some(mut connection) = c.conn.and_then(|conn| engine.conn(conn)) else {
                    return 0;
                };
                let Some(space) = connection.send_space() else {
                    return 0;
                };
                let memory = self.network.rnic(host).memory(space.buffer);
                let mut rest = data;
                for piece in space.segments {
                    let (head, tail) = rest.split_at(rest.len().min(piece.length as usize));
                    memory[piece.offset as usize..][..head.len()].copy_from_slice(head);
                    rest = tail;
                }
                let written = data.len() - rest.len();
                match connection.commit(self.now, written as u32) {
                    Ok(()) => written,
                    Err(_) => 0,
                }
            }
        }
    }

    /// Takes received octets: how many there were.
    pub(crate) fn read(&mut self, host: usize, number: usize, data: &mut [u8]) -> usize {
        let Host {
            stack,
            engine,
            connections,
            ..
        } = &mut self.hosts[host];
        let c = &connections[number];
        match c.carrier {
            Carrier::Undecided | Carrier::Closed => 0,
            // A Decline of the peer may still stand before its first octet.
            Carrier::Tcp if c.clc => 0,
            Carrier::Tcp => stack.socket(c.socket).recv_slice(data).unwrap_or(0),
            Carrier::Smc => {
                let Some(mut connection) = c.conn.and_then(|conn| engine.conn(conn)) else {
                    return 0;
                };
                let Some(readable) = connection.readable() else {
                    return 0;
                };
                let memory = self.network.rnic(host).memory(readable.buffer);
                // Only with `Config::eye_catcher`: something wrote before the
                // start of the element, and nothing in it can be trusted.
                if let Some(at) = readable.eye_catcher_at
                    && memory[at as usize..][..EYE_CATCHER.len()] != EYE_CATCHER
                {
                    if let Some(conn) = c.conn {
                        let damaged = RdmaCompletion::EyeCatcherDamaged { conn };
                        engine.handle_rdma(self.now, damaged);
                    }
                    return 0;
                }
                let mut read = 0;
                for piece in readable.segments {
                    let n = (data.len() - read).min(piece.length as usize);
                    let from = &memory[piece.offset as usize..][..n];
                    data[read..read + n].copy_from_slice(from);
                    read += n;
                }
                match connection.consume(self.now, read as u32) {
                    Ok(()) => read,
                    Err(_) => 0,
                }
            }
        }
    }

    /// Closes one end in order.
    pub(crate) fn close(&mut self, host: usize, number: usize) {
        let now = self.now;
        let host = &mut self.hosts[host];
        let c = &mut host.connections[number];
        match c.carrier {
            Carrier::Tcp => {
                host.stack.socket(c.socket).close();
                c.carrier = Carrier::Closed;
            }
            _ => {
                if let Some(mut connection) = c.conn.and_then(|conn| host.engine.conn(conn)) {
                    connection.shutdown(now, Shutdown::Both);
                }
            }
        }
    }

    /// Whether the TCP connection of an end is over.
    pub(crate) fn is_tcp_closed(&mut self, host: usize, number: usize) -> bool {
        let host = &mut self.hosts[host];
        let socket = host.connections[number].socket;
        let state = host.stack.socket(socket).state();
        matches!(state, tcp::State::Closed | tcp::State::TimeWait)
    }
}
