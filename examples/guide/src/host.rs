//! A host: the engine, an RNIC, one end of a TCP connection; and two of them, joined.

use smc_proto::adapter::Rnic as _;
use smc_proto::command::TcpCommand;
use smc_proto::config::Config;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ConnOptions, Endpoint, OpenError, TcpEvent};
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::path::LocalPath;
use smc_proto::storage::Fixed;
use smc_proto::time::Instant;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, Subnets};
use smc_proto::wire::types::{BufferSize, Gid, Mac, PeerId};

use crate::rnic::{BUFFERS, Cable, DEVICE, LINKS, Report, Rnic};

/// Room for 2 connections, 1 of them in rendezvous, 1 link group, 2 links, 4 buffers (an RMB and
/// a send buffer for each connection), 2 RMBs of the peer. The engine has no other memory.
pub type Tables = Fixed<2, 1, 1, LINKS, BUFFERS, 2>;

/// What carries the bytes of the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// Not decided.
    Undecided,
    /// SMC-R.
    Smc,
    /// The TCP connection itself.
    Tcp,
    /// Nothing: the connection ended.
    Closed,
}

/// One end of a connection, and all it needs.
pub struct Host {
    name: &'static str,
    engine: Endpoint<Tables>,
    rnic: Rnic,
    port: LocalPath,
    conn: Option<ConnId>,
    carrier: Carrier,
}

impl Host {
    /// A host with this number.
    #[must_use]
    pub fn new(name: &'static str, number: u8) -> Self {
        let mac = Mac([2, 0, 0, 0, 0, number]);
        let mut config = Config::new(PeerId::new(u16::from(number), mac));
        config.receive_buffer = BufferSize::K16;
        config.send_buffer = BufferSize::K16;
        let gid = Gid([
            0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, number,
        ]);
        let mut port = LocalPath::new(DEVICE, 1, gid, mac);
        port.subnet_match = true;
        Self {
            name,
            // A real seed is nothing that a peer can guess.
            engine: Endpoint::new(config, 0x5eed + u64::from(number), Tables::new()),
            rnic: Rnic::new(u32::from(number) << 8),
            port,
            conn: None,
            carrier: Carrier::Undecided,
        }
    }

    /// What carries the bytes of the application.
    #[must_use]
    pub const fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// Sends bytes: how many there was room for.
    pub fn write(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let Some(mut conn) = self.conn.and_then(|conn| self.engine.conn(conn)) else {
            return 0;
        };
        let rnic = &mut self.rnic;
        conn.write(now, |space| rnic.fill(space, bytes))
            .unwrap_or(0) as usize
    }

    /// Takes received bytes: how many there were.
    pub fn read(&mut self, now: Instant, into: &mut [u8]) -> usize {
        let Some(mut conn) = self.conn.and_then(|conn| self.engine.conn(conn)) else {
            return 0;
        };
        let rnic = &self.rnic;
        conn.read(now, |readable| rnic.take(readable, into))
            .unwrap_or(0) as usize
    }

    /// Closes this end.
    pub fn close(&mut self, now: Instant) {
        if let Some(mut conn) = self.conn.and_then(|conn| self.engine.conn(conn)) {
            conn.shutdown(now, Shutdown::Both);
        }
    }
}

/// Two hosts, joined by a TCP connection and by a cable between their RNICs.
pub struct World {
    /// The client, and the server.
    pub hosts: [Host; 2],
    /// The time of both.
    pub now: Instant,
}

impl World {
    /// Begins with a TCP connection whose SYN and SYN-ACK both carried the SMC option.
    ///
    /// # Errors
    /// A table is full, which here is a mistake.
    pub fn connect() -> Result<Self, OpenError> {
        let mut world = Self {
            hosts: [Host::new("client", 1), Host::new("server", 2)],
            now: Instant::from_nanos(1),
        };
        let options = ConnOptions::new(Subnets::default());
        let [client, server] = &mut world.hosts;
        let ports = [client.port];
        client.conn = Some(client.engine.connect(world.now, options.clone(), &ports)?);
        server.conn = Some(server.engine.listen(world.now, options)?);
        Ok(world)
    }

    /// Runs both hosts until neither has anything to do before its next timer.
    pub fn run(&mut self, report: Report<'_>) {
        let [client, server] = &mut self.hosts;
        while turn(client, server, self.now, report) | turn(server, client, self.now, report) {}
    }

    /// Lets time pass until the next timer of either host is due.
    pub fn sleep(&mut self) {
        let timers = self.hosts.each_mut().map(|host| host.engine.poll_timeout());
        if let Some(next) = timers.into_iter().flatten().min() {
            self.now = self.now.max(next);
        }
        for host in &mut self.hosts {
            host.engine.handle_timeout(self.now);
        }
    }
}

/// Does everything that an engine asks for; whether it asked for anything.
fn turn(near: &mut Host, far: &mut Host, now: Instant, report: Report<'_>) -> bool {
    let mut clc = [0; MAX_LENGTH];
    let mut moved = false;
    loop {
        if let Ok(Some((_, length))) = near.engine.poll_clc(now, &mut clc) {
            deliver_clc(near, far, now, &clc[..length], report);
        } else if let Some((_, command)) = near.engine.poll_tcp() {
            on_tcp_command(near, far, now, command);
        } else if (Cable {
            name: near.name,
            near: &mut near.rnic,
            far: &mut far.rnic,
            report,
        })
        .drive(&mut near.engine, now)
        {
            // Commands were executed, or messages arrived.
        } else if let Some(event) = near.engine.poll_event() {
            on_event(near, now, event, report);
        } else {
            return moved;
        }
        moved = true;
    }
}

/// Takes a CLC message across the TCP connection.
fn deliver_clc(near: &Host, far: &mut Host, now: Instant, clc: &[u8], report: Report<'_>) {
    if let Ok((message, _)) = ClcMessage::parse(clc) {
        report(near.name, format_args!("{message}"));
    }
    // This TCP delivers whole messages. One that does not keeps what the engine did not
    // consume, and shows it again with what follows (`ClcProgress`).
    if let Some(conn) = far.conn {
        let _ = far.engine.handle_clc(now, conn, clc);
    }
}

/// What the engine wants of the TCP connection.
fn on_tcp_command(near: &mut Host, far: &mut Host, now: Instant, command: TcpCommand) {
    let event = match command {
        TcpCommand::HandOver { .. } => {
            near.carrier = Carrier::Tcp;
            return;
        }
        TcpCommand::Close => TcpEvent::PeerFin,
        TcpCommand::Reset => TcpEvent::PeerReset,
    };
    if let Some(conn) = far.conn {
        far.engine.handle_tcp(now, conn, event);
    }
}

/// What the application has to know.
fn on_event(host: &mut Host, now: Instant, event: Event, report: Report<'_>) {
    match event {
        // The server has the facts, its ports that reach the client, and the engine decides.
        Event::Proposed { conn } => {
            let ports = [host.port];
            let _ = host.engine.accept(now, conn, &ports);
        }
        Event::Established { .. } => {
            host.carrier = Carrier::Smc;
            report(host.name, format_args!("established over SMC-R"));
        }
        Event::FellBack { why, .. } => report(host.name, format_args!("TCP: {why}")),
        Event::Closed { reason, .. } => {
            host.carrier = Carrier::Closed;
            report(host.name, format_args!("{reason}"));
        }
        _ => {}
    }
}
