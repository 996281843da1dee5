//! Two endpoints in static memory, joined by nothing but bytes.

mod host;

use smc_proto::command::{DataTransmit, RdmaCommand, Segment};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint};
use smc_proto::event::Event;
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{PathEvent, RoceVersion};
use smc_proto::storage::Fixed;
use smc_proto::time::Instant;
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::llc::LLC_V2_MAX_LENGTH;

use host::{config, path};

pub use host::{Answer, Host, Known, Refusal};

use crate::Failure;
use crate::observed::stored;

/// Connections of each endpoint.
pub const CONNECTIONS: usize = 4;
const LINKS: usize = 4;
const BUFFERS: usize = 8;
/// Bytes of the largest buffer.
const MEMORY: usize = 1 << 16;
/// Address of each buffer's first byte, the same for all: the key distinguishes them.
const BASE: u64 = 0x7f00_0000_0000;

/// The tables of an endpoint.
pub type Tables = Fixed<CONNECTIONS, CONNECTIONS, 2, LINKS, BUFFERS, BUFFERS>;

/// The only RNIC of a host.
pub const DEVICE: DeviceId = DeviceId(0);

/// The second one, of hosts that have it.
pub const SPARE: DeviceId = DeviceId(1);

/// Two hosts; 0 is the client.
pub struct Pair {
    pub hosts: [Host; 2],
    pub now: Instant,
    /// Whether CLC messages are lost.
    pub clc_lost: bool,
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
            host.endpoint = Endpoint::new(config, seed, stored(Tables::new()));
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
            let mut spare = path(number, SPARE);
            spare.roce = host.path.roce;
            host.endpoint.handle_path(now, PathEvent::PortUp(spare));
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
                    // One side posts whole transmits, the other one step by step.
                    let mut transmit = DataTransmit::EMPTY;
                    while side == 0
                        && self
                            .side(side)
                            .0
                            .endpoint
                            .poll_data(now, device, &mut transmit)
                    {
                        idle = false;
                        self.execute_transmit(side, &transmit)?;
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

    fn execute_transmit(&mut self, side: usize, transmit: &DataTransmit) -> Result<(), Failure> {
        for write in &transmit.writes {
            if !write.is_empty() {
                let command = RdmaCommand::Write {
                    link: transmit.link,
                    conn: transmit.conn,
                    buffer: transmit.buffer,
                    source: write.source,
                    rkey: transmit.rkey,
                    address: write.address,
                };
                self.execute(side, &command)?;
            }
        }
        let command = RdmaCommand::Send {
            link: transmit.link,
            wr_id: transmit.wr_id,
            payload: transmit.payload(),
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

    /// Opens a connection with the usual options.
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
