//! Our end: an endpoint, its memory and an RNIC that does at once what it is
//! asked, with everything the endpoint says kept in order.

use std::collections::{BTreeMap, VecDeque};

use smc_proto::command::{QpAddress, RdmaCommand, Segment, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::endpoint::{BufferSpans, Endpoint};
use smc_proto::event::Event;
use smc_proto::id::{BufferId, ConnId, DeviceId, LinkId, WrId};
use smc_proto::path::LocalPath;
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::cdc::{CDC_TYPE, Cdc};
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{Gid, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken};

const DEVICE: DeviceId = DeviceId(0);

/// What the endpoint says to the world.
#[derive(Clone, Debug)]
pub(super) enum Output {
    Clc(ConnId, Box<ClcMessage>),
    Llc(LlcMessage),
    Cdc(Cdc),
    Write {
        conn: ConnId,
        rkey: RKey,
        address: u64,
        octets: Vec<u8>,
    },
    Event(Event),
    Tcp(ConnId, TcpCommand),
}

pub(super) struct Host {
    pub(super) endpoint: Endpoint<Owned>,
    pub(super) now: Instant,
    pub(super) path: LocalPath,
    /// The queue pair that carries everything, once it is bound.
    pub(super) carrier: Option<LinkId>,
    /// What it is bound to.
    pub(super) bound: Option<(QpAddress, Mtu)>,
    pub(super) outputs: Vec<Output>,
    /// Numbers of our queue pairs, in the order of their making.
    qpns: Vec<Qpn>,
    /// First packet number in Accept or Confirm, and of the queue pair.
    told_psn: Option<Psn>,
    psn: Option<Psn>,
    /// Whether SENDs complete only when asked to.
    late: bool,
    posted: VecDeque<(LinkId, WrId)>,
    memory: BTreeMap<BufferId, Vec<u8>>,
    registered: BTreeMap<RKey, (BufferId, u64)>,
    numbers: u32,
}

impl Host {
    pub(super) fn new(config: Config, path: LocalPath, late: bool) -> Self {
        Self {
            endpoint: Endpoint::new(config, 0x5eed, Owned::new(Limits::for_connections(32))),
            now: Instant::ZERO,
            path,
            carrier: None,
            bound: None,
            outputs: Vec::new(),
            qpns: Vec::new(),
            told_psn: None,
            psn: None,
            late,
            posted: VecDeque::new(),
            memory: BTreeMap::new(),
            registered: BTreeMap::new(),
            numbers: 0,
        }
    }

    /// Lets the time pass up to `now`, with every timer at its time.
    pub(super) fn advance_to(&mut self, now: Instant) -> Result<(), String> {
        while let Some(deadline) = self.endpoint.poll_timeout().filter(|d| *d <= now) {
            self.now = self.now.max(deadline);
            self.pump()?;
        }
        self.now = self.now.max(now);
        self.pump()
    }

    /// Does what the endpoint wants until it wants nothing more.
    pub(super) fn pump(&mut self) -> Result<(), String> {
        for _ in 0..10_000 {
            let before = self.outputs.len();
            let mut idle = true;
            if self
                .endpoint
                .poll_timeout()
                .is_some_and(|deadline| deadline <= self.now)
            {
                self.endpoint.handle_timeout(self.now);
                idle = false;
            }
            while let Some(event) = self.endpoint.poll_event() {
                if let Event::Proposed { conn } = event {
                    self.endpoint
                        .accept(self.now, conn, &[self.path])
                        .map_err(|e| e.to_string())?;
                }
                self.outputs.push(Output::Event(event));
            }
            let mut buffer = [0; MAX_LENGTH];
            while let Some((conn, length)) = self
                .endpoint
                .poll_clc(self.now, &mut buffer)
                .map_err(|e| format!("{e:?}"))?
            {
                let octets = buffer.get(..length).unwrap_or_default();
                let (message, _) = ClcMessage::parse(octets).map_err(|e| e.to_string())?;
                self.outputs.push(Output::Clc(conn, Box::new(message)));
            }
            while let Some(command) = self.endpoint.poll_rdma(self.now, DEVICE) {
                idle = false;
                self.execute(&command)?;
            }
            while let Some((conn, command)) = self.endpoint.poll_tcp() {
                self.outputs.push(Output::Tcp(conn, command));
            }
            if idle && self.outputs.len() == before {
                return Ok(());
            }
        }
        Err("the endpoint never comes to rest".into())
    }

    fn execute(&mut self, command: &RdmaCommand) -> Result<(), String> {
        let completion = match *command {
            RdmaCommand::CreateQp { link, .. } => {
                self.numbers += 1;
                let qpn = Qpn::new(0x00a5_0000 + self.numbers);
                self.qpns.push(qpn);
                RdmaCompletion::QpCreated { link, qpn }
            }
            RdmaCommand::ConnectQp { link, peer, mtu } => {
                if self.carrier.is_some() {
                    return Err("a second queue pair is bound".into());
                }
                self.carrier = Some(link);
                self.bound = Some((peer, mtu));
                RdmaCompletion::QpConnected { link }
            }
            RdmaCommand::ActivateQp { link, psn } => {
                self.psn = Some(psn);
                RdmaCompletion::QpActive { link }
            }
            RdmaCommand::QpToError { link } => {
                if self.carrier == Some(link) {
                    self.carrier = None;
                }
                self.posted.retain(|(posted, _)| *posted != link);
                RdmaCompletion::QpDrained { link }
            }
            RdmaCommand::DestroyQp { link } => RdmaCompletion::QpDestroyed { link },
            RdmaCommand::AllocBuffer {
                buffer,
                elements,
                element_size,
                ..
            } => {
                let size = usize::from(elements) * element_size as usize;
                self.memory.insert(buffer, vec![0; size]);
                RdmaCompletion::BufferAllocated { buffer }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                self.numbers += 1;
                let rtoken = RToken {
                    rkey: RKey(0xa500_0000 + self.numbers),
                    address: 0x00a5_0000_0000_0000 + (u64::from(self.numbers) << 32),
                };
                self.registered
                    .insert(rtoken.rkey, (buffer, rtoken.address));
                RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken,
                }
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                self.registered.retain(|_, (owner, _)| *owner != buffer);
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => {
                self.memory.remove(&buffer);
                RdmaCompletion::BufferFreed { buffer }
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                ..
            } => {
                self.slice(buffer, offset, length)?.fill(0);
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::Write {
                conn,
                buffer,
                source,
                rkey,
                address,
                ..
            } => {
                let octets = self.gather(buffer, source)?;
                self.outputs.push(Output::Write {
                    conn,
                    rkey,
                    address,
                    octets,
                });
                return Ok(());
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => {
                if self.carrier != Some(link) {
                    return Err("a SEND on a queue pair that is not bound".into());
                }
                let output = if payload.first() == Some(&CDC_TYPE) {
                    Output::Cdc(Cdc::parse(&payload).map_err(|e| e.to_string())?)
                } else {
                    Output::Llc(LlcMessage::parse(&payload).map_err(|e| e.to_string())?)
                };
                self.outputs.push(output);
                if self.late {
                    self.posted.push_back((link, wr_id));
                    return Ok(());
                }
                RdmaCompletion::Sent { link, wr_id }
            }
        };
        self.endpoint.handle_rdma(self.now, completion);
        Ok(())
    }

    // ---- identities --------------------------------------------------------

    /// Whether a CLC message of ours names our own objects.
    pub(super) fn check_clc(&mut self, ours: &ClcMessage) -> Result<(), String> {
        match ours {
            ClcMessage::Proposal(m) => {
                self.check_peer_id(m.peer_id)?;
                self.check_port(m.gid, m.mac)
            }
            ClcMessage::Accept(m) | ClcMessage::Confirm(m) => {
                self.check_peer_id(m.peer_id)?;
                self.check_port(m.gid, m.mac)?;
                self.check_qpn(m.qpn, 0)?;
                if *self.told_psn.get_or_insert(m.psn) != m.psn {
                    return Err(format!("another packet number: {}", m.psn));
                }
                match self.registered.get(&m.rtoken.rkey) {
                    Some((_, address)) if *address == m.rtoken.address => Ok(()),
                    _ => Err(format!("{} is not registered", m.rtoken)),
                }
            }
            ClcMessage::Decline(_) => Ok(()),
        }
    }

    /// The same for an LLC message.
    pub(super) fn check_llc(&self, ours: &LlcMessage) -> Result<(), String> {
        match ours {
            LlcMessage::ConfirmLink(m) => {
                self.check_port(m.gid, m.mac)?;
                self.check_qpn(m.qpn, 0)
            }
            LlcMessage::AddLink(m) if m.rejection.is_none() => {
                self.check_port(m.gid, m.mac)?;
                self.check_qpn(m.qpn, 1)
            }
            LlcMessage::AddLink(m) => self.check_port(m.gid, m.mac),
            _ => Ok(()),
        }
    }

    /// Whether our queue pair begins with the packet number that we told.
    pub(super) fn check_psn(&self) -> Result<(), String> {
        if self.psn.is_some() && self.psn == self.told_psn {
            Ok(())
        } else {
            Err(format!(
                "packet numbers: {:?}, {:?}",
                self.psn, self.told_psn
            ))
        }
    }

    fn check_peer_id(&self, peer_id: PeerId) -> Result<(), String> {
        if peer_id == self.endpoint.config().peer_id {
            Ok(())
        } else {
            Err(format!("our peer ID is not {peer_id}"))
        }
    }

    fn check_port(&self, gid: Gid, mac: Mac) -> Result<(), String> {
        if (gid, mac) == (self.path.gid, self.path.mac) {
            Ok(())
        } else {
            Err(format!("our port is not {gid}, {mac}"))
        }
    }

    fn check_qpn(&self, qpn: Qpn, link: usize) -> Result<(), String> {
        if self.qpns.get(link) == Some(&qpn) {
            Ok(())
        } else {
            Err(format!("our queue pair is not {qpn}"))
        }
    }

    // ---- memory ------------------------------------------------------------

    fn slice(&mut self, buffer: BufferId, offset: u32, length: u32) -> Result<&mut [u8], String> {
        let (start, length) = (offset as usize, length as usize);
        self.memory
            .get_mut(&buffer)
            .and_then(|memory| memory.get_mut(start..start + length))
            .ok_or_else(|| format!("{length} octets at {start} are not all in {buffer:?}"))
    }

    fn gather(&mut self, buffer: BufferId, segments: [Segment; 2]) -> Result<Vec<u8>, String> {
        let mut octets = Vec::new();
        for Segment { offset, length } in segments {
            octets.extend_from_slice(self.slice(buffer, offset, length)?);
        }
        Ok(octets)
    }

    /// SENDs that are posted and not completed.
    pub(super) fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Completes the oldest `count` SENDs.
    pub(super) fn complete(&mut self, count: usize) -> Result<(), String> {
        for (link, wr_id) in self.posted.drain(..count) {
            self.endpoint
                .handle_rdma(self.now, RdmaCompletion::Sent { link, wr_id });
        }
        self.pump()
    }

    /// Gives a SEND of the peer to the endpoint; `false` if no queue pair is left.
    pub(super) fn receive(&mut self, payload: &[u8]) -> Result<bool, String> {
        let Some(link) = self.carrier else {
            return Ok(false);
        };
        self.endpoint
            .handle_rdma(self.now, RdmaCompletion::Received { link, payload });
        self.pump()?;
        Ok(true)
    }

    /// Carries out an RDMA WRITE of the peer.
    pub(super) fn write(&mut self, to: RToken, offset: u64, octets: &[u8]) -> Result<(), String> {
        let (buffer, base) = *self
            .registered
            .get(&to.rkey)
            .ok_or_else(|| format!("rkey {} is not registered", to.rkey))?;
        let start = u32::try_from(to.address.wrapping_add(offset).wrapping_sub(base))
            .map_err(|_| "an RDMA WRITE before the RMB")?;
        let length = u32::try_from(octets.len()).map_err(|_| "an RDMA WRITE too long")?;
        self.slice(buffer, start, length)?.copy_from_slice(octets);
        Ok(())
    }

    /// The application sends octets; the last one is urgent if asked for.
    pub(super) fn commit(&mut self, id: ConnId, data: &[u8], urgent: bool) -> Result<(), String> {
        let space = self
            .endpoint
            .conn(id)
            .and_then(|conn| conn.send_space())
            .ok_or("no such connection")?;
        if (space.len() as usize) < data.len() {
            return Err(format!(
                "{} octets to send, but room for {}",
                data.len(),
                space.len()
            ));
        }
        let mut rest = data;
        for Segment { offset, length } in space.segments {
            let (head, tail) = rest.split_at(rest.len().min(length as usize));
            self.slice(space.buffer, offset, head.len() as u32)?
                .copy_from_slice(head);
            rest = tail;
        }
        let (now, length) = (self.now, data.len() as u32);
        let mut conn = self.endpoint.conn(id).ok_or("no such connection")?;
        if urgent {
            conn.commit_urgent(now, length)
        } else {
            conn.commit(now, length)
        }
        .map_err(|e| format!("{e:?}"))
    }

    /// How many octets the application can read.
    pub(super) fn readable(&mut self, id: ConnId) -> usize {
        let spans = self.endpoint.conn(id).and_then(|conn| conn.readable());
        spans.map_or(0, |spans| spans.len() as usize)
    }

    /// The application reads so many octets.
    pub(super) fn consume(&mut self, id: ConnId, count: usize) -> Result<Vec<u8>, String> {
        let spans: BufferSpans = self
            .endpoint
            .conn(id)
            .and_then(|conn| conn.readable())
            .ok_or("no such connection")?;
        let mut octets = self.gather(spans.buffer, spans.segments)?;
        if octets.len() < count {
            return Err(format!(
                "{count} octets to read, but {} are there",
                octets.len()
            ));
        }
        octets.truncate(count);
        let now = self.now;
        self.endpoint
            .conn(id)
            .ok_or("no such connection")?
            .consume(now, count as u32)
            .map_err(|e| format!("{e:?}"))?;
        Ok(octets)
    }
}
