//! Two endpoints in one process, joined by nothing but bytes: separate
//! memories, encoded messages, no clock, no queue of events.
//!
//! The simulator is for protocol tests; this is for what must cost no more than
//! the engine itself: benchmarks, and tests that move gigabytes.

use smc_proto::command::{DataTransmit, RdmaCommand, Segment, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::endpoint::{BufferSpans, ClcProgress, ConnOptions, Endpoint};
use smc_proto::event::Event;
use smc_proto::id::{BufferId, ConnId, DeviceId, LinkId, WrId};
use smc_proto::path::LocalPath;
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::{Mac, PeerId, RKey, RToken};

use crate::rig::{Nic, Numbers, ipv4_gid, local_port};

/// The only RNIC of a host.
pub const DEVICE: DeviceId = DeviceId(0);
/// Bits of a queue pair number that identify the link.
const LINK_BITS: u32 = 12;

/// One end: an endpoint and its memory.
#[derive(Clone, Debug)]
pub struct Host {
    /// The engine.
    pub endpoint: Endpoint<Owned>,
    /// The port it uses.
    pub path: LocalPath,
    /// The RNIC of the host, and the memory of the host's buffers. If the buffers have none, bytes
    /// are counted, and nothing is copied.
    nic: Nic<Vec<u8>>,
    /// The other end of each connection, by index.
    joined: Vec<ConnId>,
    /// The link at the other end of each link, by index.
    other_ends: Vec<Option<LinkId>>,
    /// Events since they were last taken.
    pub events: Vec<Event>,
    /// Commands for TCP connections since they were last taken.
    pub tcp: Vec<(ConnId, TcpCommand)>,
}

/// Two hosts; 0 is the client.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The hosts.
    pub hosts: [Host; 2],
    /// The time given to the engines.
    pub now: Instant,
    /// Where the engines put what a connection sends.
    transmit: DataTransmit,
}

impl Host {
    /// A host with a number of its own, for this many connections.
    #[must_use]
    pub fn new(number: u16, connections: usize, configure: &dyn Fn(&mut Config)) -> Self {
        let [high, low] = number.to_be_bytes();
        let mac = Mac([2, 0, 0, 0, high, low]);
        let gid = ipv4_gid([10, 0, high, low]);
        let mut config = Config::new(PeerId::new(number, mac));
        configure(&mut config);
        let path = local_port(DEVICE, 1, gid, mac);
        Self {
            endpoint: Endpoint::new(
                config,
                u64::from(number),
                Owned::new(Limits::for_connections(connections)),
            ),
            path,
            nic: Nic::new(Numbers {
                first: number.into(),
                qpn: |first, made, link| (first + made) << LINK_BITS | link.index(),
                rtoken: |_, _, buffer, _| RToken {
                    rkey: RKey(buffer.index() + 1),
                    address: Numbers::BASE,
                },
            }),
            joined: Vec::new(),
            other_ends: Vec::new(),
            events: Vec::new(),
            tcp: Vec::new(),
        }
    }

    /// From here on, new buffers have no memory and no byte is copied: what
    /// remains is the engine.
    pub fn without_memory(&mut self) {
        self.nic.bare = true;
    }

    fn join(&mut self, conn: ConnId, other: ConnId) {
        let index = conn.index() as usize;
        if self.joined.len() <= index {
            self.joined.resize(index + 1, other);
        }
        self.joined[index] = other;
    }

    /// The memory of a buffer.
    pub fn memory(&mut self, buffer: BufferId) -> &mut [u8] {
        &mut self.nic.memory[buffer.index() as usize]
    }

    /// Copies `data` into free space of a connection's send buffer and sends it:
    /// how many bytes.
    pub fn write(&mut self, now: Instant, conn: ConnId, data: &[u8]) -> usize {
        let Some(mut connection) = self.endpoint.conn(conn) else {
            return 0;
        };
        let (bare, buffers) = (self.nic.bare, &mut self.nic.memory);
        let written = connection.write(now, |space| match bare {
            true => space.len().min(data.len() as u32),
            false => copy_in(buffers, space, data),
        });
        written.map_or(0, |bytes| bytes as usize)
    }

    /// Copies received bytes out and frees them: how many.
    pub fn read(&mut self, now: Instant, conn: ConnId, data: &mut [u8]) -> usize {
        let Some(mut connection) = self.endpoint.conn(conn) else {
            return 0;
        };
        let (bare, buffers) = (self.nic.bare, &self.nic.memory);
        let read = connection.read(now, |bytes| match bare {
            true => bytes.len().min(data.len() as u32),
            false => copy_out(buffers, bytes, data),
        });
        read.map_or(0, |bytes| bytes as usize)
    }

    /// An RDMA WRITE of the peer arrives.
    #[inline(always)]
    fn place(&mut self, from: &[u8], source: [Segment; 2], key: RKey, address: u64) {
        if self.nic.bare {
            return;
        }
        let mut at = usize::try_from(address - Numbers::BASE).expect("an address of this buffer");
        let target = &mut self.nic.memory[key.0 as usize - 1];
        for Segment { offset, length } in source {
            let n = length as usize;
            if n == 0 {
                break;
            }
            target[at..][..n].copy_from_slice(&from[offset as usize..][..n]);
            at += n;
        }
    }

    /// Executes what the connections send, then returns any other command.
    // Not inlined where it is not known which host this is.
    #[inline(never)]
    fn take_transmits(
        &mut self,
        peer: &mut Self,
        now: Instant,
        transmit: &mut DataTransmit,
    ) -> Option<RdmaCommand> {
        while self.endpoint.poll_data(now, DEVICE, transmit) {
            self.post(peer, now, transmit);
        }
        self.endpoint.poll_rdma(now, DEVICE)
    }

    /// Executes one transmit of a connection.
    #[inline]
    fn post(&mut self, peer: &mut Self, now: Instant, transmit: &DataTransmit) {
        let from = &self.nic.memory[transmit.buffer.index() as usize];
        for write in &transmit.writes {
            if write.is_empty() {
                break;
            }
            peer.place(from, write.source, transmit.rkey, write.address);
        }
        self.send(
            peer,
            now,
            transmit.link,
            transmit.wr_id,
            &transmit.payload(),
        );
    }

    /// A SEND arrives at the peer, and completes.
    #[inline]
    fn send(&mut self, peer: &mut Self, now: Instant, link: LinkId, wr_id: WrId, payload: &[u8]) {
        let to = self.other_ends[link.index() as usize];
        let link_there = to.expect("a connected queue pair");
        let received = RdmaCompletion::Received {
            link: link_there,
            payload,
        };
        peer.endpoint.handle_rdma(now, received);
        self.endpoint
            .handle_rdma(now, RdmaCompletion::Sent { link, wr_id });
    }

    fn execute(&mut self, now: Instant, command: &RdmaCommand) {
        if let Some(completion) = self.nic.execute(command) {
            self.endpoint.handle_rdma(now, completion);
        }
    }
}

/// Copies bytes into pieces of a buffer: how many.
#[inline]
fn copy_in(buffers: &mut [Vec<u8>], space: &BufferSpans, data: &[u8]) -> u32 {
    let buffer = &mut buffers[space.buffer.index() as usize];
    let [first, second] = space.segments;
    let n = data.len().min(first.length as usize);
    let (head, tail) = data.split_at(n);
    buffer[first.offset as usize..][..n].copy_from_slice(head);
    if tail.is_empty() {
        return n as u32;
    }
    let more = tail.len().min(second.length as usize);
    buffer[second.offset as usize..][..more].copy_from_slice(&tail[..more]);
    (n + more) as u32
}

/// Copies bytes out of pieces of a buffer: how many.
#[inline]
fn copy_out(buffers: &[Vec<u8>], bytes: &BufferSpans, data: &mut [u8]) -> u32 {
    let buffer = &buffers[bytes.buffer.index() as usize];
    let [first, second] = bytes.segments;
    let n = data.len().min(first.length as usize);
    let (head, tail) = data.split_at_mut(n);
    head.copy_from_slice(&buffer[first.offset as usize..][..n]);
    if tail.is_empty() {
        return n as u32;
    }
    let more = tail.len().min(second.length as usize);
    tail[..more].copy_from_slice(&buffer[second.offset as usize..][..more]);
    (n + more) as u32
}

impl Pair {
    /// Two hosts for this many connections, with default settings.
    #[must_use]
    pub fn new(connections: usize) -> Self {
        Self::with(connections, |_| {})
    }

    /// Two hosts whose settings `configure` changes.
    #[must_use]
    pub fn with(connections: usize, configure: impl Fn(&mut Config)) -> Self {
        Self::of([
            Host::new(1, connections, &configure),
            Host::new(2, connections, &configure),
        ])
    }

    /// Two hosts made before; they may have other peers, too.
    #[must_use]
    pub fn of(hosts: [Host; 2]) -> Self {
        Self {
            hosts,
            now: Instant::ZERO,
            transmit: DataTransmit::EMPTY,
        }
    }

    /// Does everything the endpoints ask for.
    pub fn pump(&mut self) {
        loop {
            let mut idle = true;
            for side in 0..2 {
                idle &= !self.pump_clc(side);
                while let Some(command) = self.hosts[side].endpoint.poll_rdma(self.now, DEVICE) {
                    idle = false;
                    self.execute(side, &command);
                }
                let host = &mut self.hosts[side];
                while let Some(command) = host.endpoint.poll_tcp() {
                    host.tcp.push(command);
                }
                while let Some(event) = host.endpoint.poll_event() {
                    if let Event::Proposed { conn } = event {
                        let path = host.path;
                        host.endpoint
                            .accept(self.now, conn, &[path])
                            .expect("just proposed");
                        idle = false;
                    }
                    host.events.push(event);
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Moves CLC messages.
    fn pump_clc(&mut self, side: usize) -> bool {
        let mut buffer = [0; smc_proto::wire::clc::MAX_LENGTH];
        let mut moved = false;
        while let Ok(Some((conn, len))) = self.hosts[side].endpoint.poll_clc(self.now, &mut buffer)
        {
            moved = true;
            let conn = self.hosts[side].joined[conn.index() as usize];
            let other = &mut self.hosts[1 - side].endpoint;
            let progress = other.handle_clc(self.now, conn, &buffer[..len]);
            assert!(
                matches!(progress, Ok(ClcProgress::Consumed { len: n, .. }) if n == len),
                "{progress:?}"
            );
        }
        moved
    }

    /// Carries out the data commands of one side until it has none, without
    /// handling anything else.
    pub fn pump_data(&mut self, side: usize) {
        loop {
            let [a, b] = &mut self.hosts;
            let (host, peer) = if side == 0 { (a, b) } else { (b, a) };
            let Some(command) = host.take_transmits(peer, self.now, &mut self.transmit) else {
                return;
            };
            self.execute(side, &command);
        }
    }

    /// Lets connections of one side transmit so many times at most: how often they did.
    pub fn pump_transmits(&mut self, side: usize, most: usize) -> usize {
        let [a, b] = &mut self.hosts;
        let (host, peer) = if side == 0 { (a, b) } else { (b, a) };
        let mut transmits = 0;
        while transmits < most
            && host
                .endpoint
                .poll_data(self.now, DEVICE, &mut self.transmit)
        {
            host.post(peer, self.now, &self.transmit);
            transmits += 1;
        }
        transmits
    }

    fn execute(&mut self, side: usize, command: &RdmaCommand) {
        let now = self.now;
        let [a, b] = &mut self.hosts;
        let (host, peer) = if side == 0 { (a, b) } else { (b, a) };
        match *command {
            RdmaCommand::Write {
                buffer,
                source,
                rkey,
                address,
                ..
            } => {
                let from = &host.nic.memory[buffer.index() as usize];
                peer.place(from, source, rkey, address);
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => host.send(peer, now, link, wr_id, &payload),
            RdmaCommand::ConnectQp {
                link,
                peer: address,
                ..
            } => {
                let (to, at) = (address.qpn, link.index() as usize);
                if host.other_ends.len() <= at {
                    host.other_ends.resize(at + 1, None);
                }
                host.other_ends[at] = peer.nic.numbered(to).map(|qp| qp.link);
                host.execute(now, command);
            }
            _ => host.execute(now, command),
        }
    }

    /// Opens a connection and carries out its rendezvous: both ends' handles.
    pub fn open(&mut self) -> (ConnId, ConnId) {
        let options = ConnOptions::new(Subnets::default());
        self.open_with(options.clone(), options)
    }

    /// Opens a connection with options of their own for client and server.
    pub fn open_with(&mut self, client: ConnOptions, server: ConnOptions) -> (ConnId, ConnId) {
        let path = self.hosts[0].path;
        let a = self.hosts[0]
            .endpoint
            .connect(self.now, client, &[path])
            .expect("a free slot");
        let b = self.hosts[1]
            .endpoint
            .listen(self.now, server)
            .expect("a free slot");
        self.hosts[0].join(a, b);
        self.hosts[1].join(b, a);
        self.pump();
        // The server pauses before CONFIRM LINK.
        for _ in 0..4 {
            if let Some(deadline) = self.earliest()
                && deadline.since(self.now).as_millis() < 100
            {
                self.advance_to(deadline);
            }
        }
        (a, b)
    }

    fn earliest(&mut self) -> Option<Instant> {
        self.hosts
            .iter_mut()
            .filter_map(|host| host.endpoint.poll_timeout())
            .min()
    }

    /// Moves the time forward, lets timers fire and does what follows.
    pub fn advance_to(&mut self, now: Instant) {
        self.now = self.now.max(now);
        for host in &mut self.hosts {
            host.endpoint.handle_timeout(self.now);
        }
        self.pump();
    }
}
