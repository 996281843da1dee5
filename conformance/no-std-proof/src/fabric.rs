//! Two endpoints in static memory, joined by nothing but octets.

use smc_proto::command::{DataTurn, EYE_CATCHER, RdmaCommand, Segment, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::endpoint::{BufferSpans, ClcProgress, ConnOptions, Endpoint};
use smc_proto::event::{CloseReason, Event, FallbackReason};
use smc_proto::id::{BufferId, ConnId, DeviceId, GroupId, LanId, LinkId};
use smc_proto::path::{LocalPath, PathEvent, RoceVersion, Route};
use smc_proto::storage::Fixed;
use smc_proto::time::Instant;
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::llc::v2::LLC_V2_MAX_LENGTH;
use smc_proto::wire::types::{DiagnosisCode, Gid, Mac, Mtu, PeerId, Qpn, RKey, RToken};

use crate::Failure;

/// Connections of each endpoint.
pub const CONNECTIONS: usize = 4;
const LINKS: usize = 4;
const BUFFERS: usize = 8;
/// Octets of the largest buffer.
const MEMORY: usize = 1 << 16;
/// Address of each buffer's first octet, the same for all: the key tells them apart.
const BASE: u64 = 0x7f00_0000_0000;

/// The tables of an endpoint.
pub type Tables = Fixed<CONNECTIONS, CONNECTIONS, 2, LINKS, BUFFERS, BUFFERS>;

/// The only RNIC of a host.
pub const DEVICE: DeviceId = DeviceId(0);

/// The second one, of hosts that have it.
pub const SPARE: DeviceId = DeviceId(1);

/// What a server does with a Proposal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Accept,
    Decline(DiagnosisCode),
    Wait,
}

/// What the RNIC of a host refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Nothing,
    QueuePairs,
    Registrations,
}

/// What is known of a connection, by its index.
#[derive(Clone, Copy)]
pub struct Known {
    pub peer: Option<ConnId>,
    /// Whether it was a first contact.
    pub established: Option<bool>,
    pub group: Option<GroupId>,
    pub fell_back: Option<FallbackReason>,
    pub closed: Option<CloseReason>,
    pub tcp: Option<TcpCommand>,
    pub urgent: u32,
    pub readable: u32,
    pub writable: u32,
}

impl Known {
    const NOTHING: Self = Self {
        peer: None,
        established: None,
        group: None,
        fell_back: None,
        closed: None,
        tcp: None,
        urgent: 0,
        readable: 0,
        writable: 0,
    };
}

/// One end: an endpoint, its memory and its RNIC.
pub struct Host {
    pub endpoint: Endpoint<Tables>,
    pub path: LocalPath,
    memory: [[u8; MEMORY]; BUFFERS],
    buffers: [Option<BufferId>; BUFFERS],
    /// Handle of each link, and the link at the other end.
    pub links: [Option<(LinkId, Option<LinkId>)>; LINKS],
    next_qpn: u32,
    known: [Known; CONNECTIONS],
    pub answer: Answer,
    pub refusal: Refusal,
    pub groups_up: u32,
    pub groups_down: u32,
}

/// Two hosts; 0 is the client.
pub struct Pair {
    pub hosts: [Host; 2],
    pub now: Instant,
    /// Whether CLC messages are lost.
    pub clc_lost: bool,
}

const fn config(number: u8) -> Config {
    Config::new(PeerId::new(number as u16, mac(number)))
}

const fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, number])
}

const fn path(number: u8, device: DeviceId) -> LocalPath {
    LocalPath {
        device,
        port: 1,
        gid_index: 0,
        gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, number]),
        mac: mac(number),
        mtu: Mtu::M1024,
        lan: LanId(0),
        subnet_match: true,
        roce: RoceVersion::V1,
        route: Route::Direct,
    }
}

impl Host {
    const fn new(number: u8) -> Self {
        Self {
            endpoint: Endpoint::new(config(number), number as u64, Tables::new()),
            path: path(number, DEVICE),
            memory: [[0; MEMORY]; BUFFERS],
            buffers: [None; BUFFERS],
            links: [None; LINKS],
            next_qpn: 0,
            known: [Known::NOTHING; CONNECTIONS],
            answer: Answer::Accept,
            refusal: Refusal::Nothing,
            groups_up: 0,
            groups_down: 0,
        }
    }

    /// What is known of a connection.
    pub fn known(&self, conn: ConnId) -> Known {
        let known = self.known.get(conn.index() as usize);
        known.copied().unwrap_or(Known::NOTHING)
    }

    fn know(&mut self, conn: ConnId, change: impl FnOnce(&mut Known)) {
        if let Some(known) = self.known.get_mut(conn.index() as usize) {
            change(known);
        }
    }

    fn buffer(&mut self, index: u32) -> Result<&mut [u8; MEMORY], Failure> {
        self.memory
            .get_mut(index as usize)
            .ok_or(Failure::NoSuchBuffer)
    }

    /// The octets of some pieces of a buffer, in stream order.
    fn octets<'a>(
        memory: &'a mut [[u8; MEMORY]; BUFFERS],
        spans: &BufferSpans,
    ) -> Result<impl Iterator<Item = &'a mut u8> + use<'a>, Failure> {
        let buffer = memory
            .get_mut(spans.buffer.index() as usize)
            .ok_or(Failure::NoSuchBuffer)?;
        let [first, second] = spans.segments;
        // The second stands before the first in memory: the ring wrapped.
        let (low, high) = buffer
            .split_at_mut_checked(first.offset as usize)
            .ok_or(Failure::OutsideBuffer)?;
        let first = high
            .get_mut(..first.length as usize)
            .ok_or(Failure::OutsideBuffer)?;
        let end = second.offset.saturating_add(second.length) as usize;
        let second = low.get_mut(second.offset as usize..end).unwrap_or(&mut []);
        Ok(first.iter_mut().chain(second))
    }

    /// Puts octets of the stream into the send buffer, at most `most`, and sends them:
    /// how many.
    pub fn write(
        &mut self,
        now: Instant,
        conn: ConnId,
        most: u32,
        urgent: bool,
        mut stream: impl FnMut() -> u8,
    ) -> Result<u32, Failure> {
        let mut connection = self.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
        let Some(space) = connection.send_space() else {
            return Ok(0);
        };
        let n = space.len().min(most);
        let mut put = 0;
        for octet in Self::octets(&mut self.memory, &space)?.take(n as usize) {
            *octet = stream();
            put = u32::saturating_add(put, 1);
        }
        if put != n {
            return Err(Failure::OutsideBuffer);
        }
        if n > 0 {
            let sent = if urgent {
                connection.commit_urgent(now, n)
            } else {
                connection.commit(now, n)
            };
            sent.map_err(|_| Failure::CommitRefused)?;
        }
        Ok(n)
    }

    /// Takes what can be read and compares it with the stream: how many octets.
    pub fn read(
        &mut self,
        now: Instant,
        conn: ConnId,
        mut stream: impl FnMut() -> u8,
    ) -> Result<u32, Failure> {
        let mut connection = self.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
        let Some(spans) = connection.readable() else {
            return Ok(0);
        };
        if spans.is_empty() {
            return Ok(0);
        }
        let mut taken = 0u32;
        for octet in Self::octets(&mut self.memory, &spans)? {
            if *octet != stream() {
                return Err(Failure::WrongOctet);
            }
            taken = taken.saturating_add(1);
        }
        if taken != spans.len() {
            return Err(Failure::OutsideBuffer);
        }
        connection
            .consume(now, taken)
            .map_err(|_| Failure::ConsumeRefused)?;
        Ok(taken)
    }

    /// Takes the urgent octet out of line.
    pub fn read_urgent(&mut self, now: Instant, conn: ConnId) -> Result<Option<u8>, Failure> {
        let mut connection = self.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
        let Some((_, spans)) = connection.urgent() else {
            return Ok(None);
        };
        let octet = Self::octets(&mut self.memory, &spans)?.next().copied();
        connection.take_urgent(now).map_err(|_| Failure::NoUrgent)?;
        Ok(octet)
    }

    /// What can be answered without the other host.
    fn execute(&mut self, now: Instant, command: &RdmaCommand) -> Result<(), Failure> {
        let completion = match *command {
            RdmaCommand::CreateQp { link, .. } if self.refusal == Refusal::QueuePairs => {
                RdmaCompletion::LinkRefused { link }
            }
            RdmaCommand::RegisterBuffer { buffer, .. }
                if self.refusal == Refusal::Registrations =>
            {
                RdmaCompletion::BufferRefused { buffer }
            }
            RdmaCommand::CreateQp { link, .. } => {
                let slot = self.links.get_mut(link.index() as usize);
                *slot.ok_or(Failure::NoSuchLink)? = Some((link, None));
                self.next_qpn = self.next_qpn.wrapping_add(1);
                RdmaCompletion::QpCreated {
                    link,
                    qpn: Qpn::new(self.next_qpn << 8 | link.index()),
                }
            }
            RdmaCommand::ActivateQp { link, .. } => RdmaCompletion::QpActive { link },
            RdmaCommand::QpToError { link } => RdmaCompletion::QpDrained { link },
            RdmaCommand::DestroyQp { link } => {
                if let Some(slot) = self.links.get_mut(link.index() as usize) {
                    *slot = None;
                }
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::AllocBuffer {
                buffer,
                elements,
                element_size,
                eye_catcher,
                ..
            } => {
                let needed = u32::from(elements).saturating_mul(element_size) as usize;
                let memory = self.buffer(buffer.index())?;
                if needed <= memory.len() {
                    memory.fill(0);
                    for element in memory.chunks_mut(element_size.max(1) as usize) {
                        if eye_catcher && let Some(head) = element.first_chunk_mut() {
                            *head = EYE_CATCHER;
                        }
                    }
                    if let Some(slot) = self.buffers.get_mut(buffer.index() as usize) {
                        *slot = Some(buffer);
                    }
                    RdmaCompletion::BufferAllocated { buffer }
                } else {
                    RdmaCompletion::BufferRefused { buffer }
                }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => RdmaCompletion::BufferRegistered {
                buffer,
                link,
                rtoken: RToken {
                    rkey: RKey(buffer.index().saturating_add(1)),
                    address: BASE,
                },
            },
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => RdmaCompletion::BufferFreed { buffer },
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                eye_catcher,
            } => {
                let end = offset.saturating_add(length) as usize;
                let memory = self.buffer(buffer.index())?;
                let element = memory.get_mut(offset as usize..end);
                let element = element.ok_or(Failure::OutsideBuffer)?;
                element.fill(0);
                if eye_catcher && let Some(head) = element.first_chunk_mut() {
                    *head = EYE_CATCHER;
                }
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::ConnectQp { .. }
            | RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => return Ok(()),
        };
        self.endpoint.handle_rdma(now, completion);
        Ok(())
    }

    /// Whether the element still has its eye catcher.
    pub fn eye_catcher_stands(&mut self, conn: ConnId) -> Result<bool, Failure> {
        let connection = self.endpoint.conn(conn).ok_or(Failure::NoSuchConnection)?;
        let Some(spans) = connection.readable() else {
            return Ok(false);
        };
        let Some(at) = spans.eye_catcher_at else {
            return Ok(false);
        };
        let found = self
            .buffer(spans.buffer.index())?
            .get(at as usize..)
            .and_then(<[u8]>::first_chunk);
        Ok(found == Some(&EYE_CATCHER))
    }
}

impl Pair {
    pub const fn new() -> Self {
        Self {
            hosts: [Host::new(1), Host::new(2)],
            now: Instant::ZERO,
            clc_lost: false,
        }
    }

    /// Starts both hosts anew.
    pub fn restart(&mut self, seed: u64, configure: impl Fn(&mut Config)) {
        for (host, number) in self.hosts.iter_mut().zip([1u8, 2]) {
            let mut config = config(number);
            configure(&mut config);
            let seed = seed.wrapping_add(u64::from(number));
            host.endpoint = Endpoint::new(config, seed, Tables::new());
            host.links = [None; LINKS];
            host.buffers = [None; BUFFERS];
            host.known = [Known::NOTHING; CONNECTIONS];
            host.answer = Answer::Accept;
            host.refusal = Refusal::Nothing;
            host.groups_up = 0;
            host.groups_down = 0;
            host.path.roce = RoceVersion::V1;
        }
        self.clc_lost = false;
    }

    /// The ports of both hosts have GIDs of this kind.
    pub fn use_gids(&mut self, roce: RoceVersion) {
        for host in &mut self.hosts {
            host.path.roce = roce;
        }
    }

    /// Gives both hosts a second RNIC.
    pub fn add_spares(&mut self) {
        let now = self.now;
        for (host, number) in self.hosts.iter_mut().zip([3u8, 4]) {
            let up = PathEvent::PortUp(LocalPath {
                roce: host.path.roce,
                ..path(number, SPARE)
            });
            host.endpoint.handle_path(now, up);
        }
    }

    /// One host and the other.
    pub fn side(&mut self, side: usize) -> (&mut Host, &mut Host) {
        let [a, b] = &mut self.hosts;
        if side == 0 { (a, b) } else { (b, a) }
    }

    /// Does everything the endpoints ask for.
    pub fn pump(&mut self) -> Result<(), Failure> {
        for _ in 0..10_000 {
            let (mut idle, now) = (true, self.now);
            for side in 0..2 {
                idle &= !self.pump_clc(side)?;
                for device in [DEVICE, SPARE] {
                    // One side posts whole turns, the other one step by step.
                    let mut turn = DataTurn::EMPTY;
                    while side == 0 && self.side(side).0.endpoint.poll_data(now, device, &mut turn)
                    {
                        idle = false;
                        self.execute_turn(side, &turn)?;
                    }
                    while let Some(command) = self.side(side).0.endpoint.poll_rdma(now, device) {
                        idle = false;
                        self.execute(side, &command)?;
                    }
                }
                idle &= !self.pump_events(side)?;
            }
            if idle {
                return Ok(());
            }
        }
        Err(Failure::NeverIdle)
    }

    fn pump_events(&mut self, side: usize) -> Result<bool, Failure> {
        let now = self.now;
        let mut moved = false;
        let (host, _) = self.side(side);
        while let Some((conn, command)) = host.endpoint.poll_tcp() {
            host.know(conn, |known| known.tcp = Some(command));
            moved = true;
        }
        while let Some(event) = host.endpoint.poll_event() {
            moved = true;
            match event {
                Event::Proposed { conn } => {
                    if host.endpoint.proposal(conn).is_none() {
                        return Err(Failure::NoProposal);
                    }
                    let path = host.path;
                    match host.answer {
                        Answer::Accept => host.endpoint.accept(now, conn, &[path]),
                        Answer::Decline(why) => host.endpoint.decline(now, conn, why),
                        Answer::Wait => Ok(()),
                    }
                    .map_err(|_| Failure::NoProposal)?;
                }
                Event::Established {
                    conn,
                    group,
                    first_contact,
                } => host.know(conn, |known| {
                    known.established = Some(first_contact);
                    known.group = Some(group);
                }),
                Event::FellBack { conn, why } => {
                    host.know(conn, |known| known.fell_back = Some(why));
                }
                Event::Closed { conn, reason } => {
                    host.know(conn, |known| known.closed = Some(reason));
                }
                Event::Urgent { conn } => {
                    host.know(conn, |known| known.urgent = known.urgent.saturating_add(1));
                }
                Event::Readable { conn } => {
                    host.know(conn, |known| {
                        known.readable = known.readable.saturating_add(1)
                    });
                }
                Event::Writable { conn } => {
                    host.know(conn, |known| {
                        known.writable = known.writable.saturating_add(1)
                    });
                }
                Event::GroupUp { .. } => host.groups_up = host.groups_up.saturating_add(1),
                Event::GroupDown { .. } => host.groups_down = host.groups_down.saturating_add(1),
                _ => {}
            }
        }
        Ok(moved)
    }

    /// Moves CLC messages, each first cut short and then whole.
    fn pump_clc(&mut self, side: usize) -> Result<bool, Failure> {
        let (now, lost) = (self.now, self.clc_lost);
        let (host, other) = self.side(side);
        let mut buffer = [0; MAX_LENGTH];
        let mut moved = false;
        if host.endpoint.poll_clc(now, &mut []).is_err() {
            // Nothing happened: it comes again.
            moved = true;
        }
        while let Ok(Some((conn, length))) = host.endpoint.poll_clc(now, &mut buffer) {
            let Some(peer) = host.known(conn).peer else {
                return Err(Failure::NoSuchConnection);
            };
            if lost {
                continue;
            }
            let (Some(part), Some(message)) =
                (buffer.get(..length.saturating_sub(1)), buffer.get(..length))
            else {
                return Err(Failure::OutsideBuffer);
            };
            if let Ok(ClcProgress::Consumed { .. }) = other.endpoint.handle_clc(now, peer, part) {
                return Err(Failure::ClcTakenEarly);
            }
            match other.endpoint.handle_clc(now, peer, message) {
                Ok(ClcProgress::Consumed { len, .. }) if len == length => {}
                // The other end gave up at the same time.
                Ok(ClcProgress::NotClc) => {}
                _ => return Err(Failure::ClcRefused),
            }
        }
        Ok(moved)
    }

    fn execute_turn(&mut self, side: usize, turn: &DataTurn) -> Result<(), Failure> {
        for write in &turn.writes {
            if !write.is_empty() {
                let command = RdmaCommand::Write {
                    link: turn.link,
                    conn: turn.conn,
                    buffer: turn.buffer,
                    source: write.source,
                    rkey: turn.rkey,
                    address: write.address,
                };
                self.execute(side, &command)?;
            }
        }
        let command = RdmaCommand::Send {
            link: turn.link,
            wr_id: turn.wr_id,
            payload: turn.payload,
        };
        self.execute(side, &command)
    }

    fn execute(&mut self, side: usize, command: &RdmaCommand) -> Result<(), Failure> {
        let now = self.now;
        let (host, peer) = self.side(side);
        match *command {
            RdmaCommand::Write {
                buffer,
                source,
                rkey,
                address,
                ..
            } => {
                let at = address.checked_sub(BASE).ok_or(Failure::OutsideBuffer)?;
                let target = peer.buffer(rkey.0.wrapping_sub(1))?;
                let mut to = target
                    .get_mut(at as usize..)
                    .ok_or(Failure::OutsideBuffer)?;
                let from = host.buffer(buffer.index())?;
                for Segment { offset, length } in source {
                    let end = offset.saturating_add(length) as usize;
                    let piece = from
                        .get(offset as usize..end)
                        .ok_or(Failure::OutsideBuffer)?;
                    let (head, tail) = to
                        .split_at_mut_checked(piece.len())
                        .ok_or(Failure::OutsideBuffer)?;
                    for (to, from) in head.iter_mut().zip(piece) {
                        *to = *from;
                    }
                    to = tail;
                }
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => {
                let known = host.links.get(link.index() as usize).copied().flatten();
                let Some((_, Some(to))) = known else {
                    return Err(Failure::NoSuchLink);
                };
                let payload = &payload;
                peer.endpoint
                    .handle_rdma(now, RdmaCompletion::Received { link: to, payload });
                host.endpoint
                    .handle_rdma(now, RdmaCompletion::Sent { link, wr_id });
            }
            RdmaCommand::SendLarge {
                link,
                wr_id,
                length,
            } => {
                let known = host.links.get(link.index() as usize).copied().flatten();
                let Some((_, Some(to))) = known else {
                    return Err(Failure::NoSuchLink);
                };
                let mut octets = [0; LLC_V2_MAX_LENGTH];
                let written = host.endpoint.emit_llc(link, wr_id, &mut octets);
                let written = written.map_err(|_| Failure::OutsideBuffer)?;
                let payload = octets.get(..written).ok_or(Failure::OutsideBuffer)?;
                if written != length as usize {
                    return Err(Failure::OutsideBuffer);
                }
                peer.endpoint
                    .handle_rdma(now, RdmaCompletion::Received { link: to, payload });
                host.endpoint
                    .handle_rdma(now, RdmaCompletion::Sent { link, wr_id });
            }
            RdmaCommand::ConnectQp {
                link,
                peer: address,
                ..
            } => {
                let to = (address.qpn.value() & 0xff) as usize;
                let to = peer.links.get(to).copied().flatten().map(|(id, _)| id);
                if let Some(Some(entry)) = host.links.get_mut(link.index() as usize) {
                    entry.1 = to;
                }
                host.endpoint
                    .handle_rdma(now, RdmaCompletion::QpConnected { link });
            }
            _ => host.execute(now, command)?,
        }
        Ok(())
    }

    /// Opens a connection on both sides, and nothing more.
    pub fn start(
        &mut self,
        client: ConnOptions,
        server: ConnOptions,
    ) -> Result<(ConnId, ConnId), Failure> {
        let now = self.now;
        let (host, other) = self.side(0);
        let path = host.path;
        let a = host
            .endpoint
            .connect(now, client, &[path])
            .map_err(|_| Failure::Full)?;
        let b = other
            .endpoint
            .listen(now, server)
            .map_err(|_| Failure::Full)?;
        host.know(a, |known| {
            *known = Known {
                peer: Some(b),
                ..Known::NOTHING
            }
        });
        other.know(b, |known| {
            *known = Known {
                peer: Some(a),
                ..Known::NOTHING
            }
        });
        Ok((a, b))
    }

    /// Opens a connection and carries out its rendezvous.
    pub fn open_with(&mut self, options: ConnOptions) -> Result<(ConnId, ConnId), Failure> {
        let both = self.start(options.clone(), options)?;
        self.pump()?;
        // The server pauses before CONFIRM LINK.
        self.settle(100_000_000)?;
        Ok(both)
    }

    /// The same with the usual options.
    pub fn open(&mut self) -> Result<(ConnId, ConnId), Failure> {
        self.open_with(ConnOptions::new(Subnets::default()))
    }

    /// The earliest deadline of both.
    pub fn earliest(&mut self) -> Option<Instant> {
        let [a, b] = &mut self.hosts;
        let deadlines = [a.endpoint.poll_timeout(), b.endpoint.poll_timeout()];
        deadlines.into_iter().flatten().min()
    }

    /// Moves the time to the next deadline, unless it is later than `end`.
    pub fn advance(&mut self, end: Instant) -> Result<bool, Failure> {
        let Some(deadline) = self.earliest().filter(|deadline| *deadline <= end) else {
            return Ok(false);
        };
        self.now = self.now.max(deadline);
        for host in &mut self.hosts {
            host.endpoint.handle_timeout(self.now);
        }
        self.pump()?;
        Ok(true)
    }

    /// Lets this many nanoseconds pass.
    pub fn settle(&mut self, nanoseconds: u64) -> Result<(), Failure> {
        let end = Instant::from_nanos(self.now.as_nanos().saturating_add(nanoseconds));
        for _ in 0..1000 {
            if !self.advance(end)? {
                self.now = end;
                return Ok(());
            }
        }
        Err(Failure::TimeStands)
    }
}
