//! Our end: an endpoint, its memory and an RNIC that does at once what it is
//! asked, with everything the endpoint sends kept in order.

mod checks;
mod links;
mod memory;

use std::collections::{BTreeMap, VecDeque};

use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::endpoint::Endpoint;
use smc_proto::event::Event;
use smc_proto::id::{BufferId, ConnId, LinkId, WrId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::cdc::{CDC_TYPE, Cdc};
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};
use smc_proto::wire::types::{LinkNumber, Qpn, RKey};

use super::message::Llc;
use super::script::Links;
pub(super) use links::QueuePair;
use links::QueuePairs;
use memory::Registration;

/// Output of the endpoint.
#[derive(Clone, Debug)]
pub(super) enum Output {
    Clc(ConnId, Box<ClcMessage>),
    Llc(LinkNumber, Llc),
    Cdc(LinkNumber, Cdc),
    Write {
        link: LinkNumber,
        conn: ConnId,
        rkey: RKey,
        address: u64,
        bytes: Vec<u8>,
    },
    Event(Event),
    Tcp(ConnId, TcpCommand),
}

pub(super) struct Host {
    pub(super) endpoint: Endpoint<Owned>,
    pub(super) now: Instant,
    /// Our ports; the first one is in the subnet of the TCP connections.
    pub(super) paths: Vec<LocalPath>,
    links: Links,
    pairs: QueuePairs,
    pub(super) outputs: Vec<Output>,
    /// Whether SENDs complete only when asked to.
    late: bool,
    posted: VecDeque<(LinkId, WrId)>,
    memory: BTreeMap<BufferId, Vec<u8>>,
    registered: BTreeMap<RKey, Registration>,
    numbers: u32,
}

impl Host {
    pub(super) fn new(config: Config, paths: Vec<LocalPath>, links: Links, late: bool) -> Self {
        let mut endpoint = Endpoint::new(config, 0x5eed, Owned::new(Limits::for_connections(32)));
        for path in &paths {
            endpoint.handle_path(Instant::ZERO, PathEvent::PortUp(*path));
        }
        Self {
            endpoint,
            now: Instant::ZERO,
            paths,
            links,
            pairs: QueuePairs::default(),
            outputs: Vec::new(),
            late,
            posted: VecDeque::new(),
            memory: BTreeMap::new(),
            registered: BTreeMap::new(),
            numbers: 0,
        }
    }

    fn next_number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
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
                        .accept(self.now, conn, &self.paths)
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
                let bytes = buffer.get(..length).unwrap_or_default();
                let (message, _) = ClcMessage::parse(bytes).map_err(|e| e.to_string())?;
                self.outputs.push(Output::Clc(conn, Box::new(message)));
            }
            for index in 0..self.paths.len() {
                let device = self.paths[index].device;
                while let Some(command) = self.endpoint.poll_rdma(self.now, device) {
                    idle = false;
                    self.execute(&command)?;
                }
            }
            while let Some((conn, command)) = self.endpoint.poll_tcp() {
                self.outputs.push(Output::Tcp(conn, command));
            }
            if idle && self.outputs.len() == before {
                return Ok(());
            }
        }
        Err("the endpoint never becomes idle".into())
    }

    /// The posted SEND completes, now or later.
    fn complete_or_keep(&mut self, link: LinkId, wr_id: WrId) {
        if self.late {
            self.posted.push_back((link, wr_id));
        } else {
            let completion = RdmaCompletion::Sent { link, wr_id };
            self.endpoint.handle_rdma(self.now, completion);
        }
    }

    fn execute(&mut self, command: &RdmaCommand) -> Result<(), String> {
        let completion = match *command {
            RdmaCommand::CreateQp { link, device, .. } => {
                let qpn = Qpn::new(0x00a5_0000 + self.next_number());
                self.pairs.create(link, device, qpn);
                RdmaCompletion::QpCreated { link, qpn }
            }
            RdmaCommand::ConnectQp {
                link, peer, mtu, ..
            } => {
                let number = self.links.number((peer.gid, peer.qpn));
                let pair = self.pairs.get(link)?;
                pair.bound = Some((peer, mtu));
                pair.number = number;
                RdmaCompletion::QpConnected { link }
            }
            RdmaCommand::ActivateQp { link, psn } => {
                self.pairs.get(link)?.psn = Some(psn);
                RdmaCompletion::QpActive { link }
            }
            RdmaCommand::QpToError { link } => {
                self.pairs.get(link)?.up = false;
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
            RdmaCommand::RegisterBuffer { buffer, link } => RdmaCompletion::BufferRegistered {
                buffer,
                link,
                rtoken: self.register(buffer, link),
            },
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                self.deregister(buffer, link);
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
                link,
                conn,
                buffer,
                source,
                rkey,
                address,
            } => {
                let bytes = self.gather(buffer, source)?;
                let link = self.sender(link)?;
                self.outputs.push(Output::Write {
                    link,
                    conn,
                    rkey,
                    address,
                    bytes,
                });
                return Ok(());
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => {
                let number = self.sender(link)?;
                let output = if payload.first() == Some(&CDC_TYPE) {
                    Output::Cdc(number, Cdc::parse(&payload).map_err(|e| e.to_string())?)
                } else {
                    Output::Llc(number, Llc::parse(&payload)?)
                };
                self.outputs.push(output);
                self.complete_or_keep(link, wr_id);
                return Ok(());
            }
            RdmaCommand::SendLarge {
                link,
                wr_id,
                length,
            } => {
                let number = self.sender(link)?;
                let mut bytes = vec![0; length as usize];
                let written = self.endpoint.emit_llc(link, wr_id, &mut bytes);
                if written != Ok(bytes.len()) {
                    return Err(format!("{length} octets announced, {written:?} written"));
                }
                self.outputs.push(Output::Llc(number, Llc::parse(&bytes)?));
                self.complete_or_keep(link, wr_id);
                return Ok(());
            }
        };
        self.endpoint.handle_rdma(self.now, completion);
        Ok(())
    }

    // ---- links -------------------------------------------------------------

    /// The link of the capture that a queue pair of ours sends on.
    fn sender(&mut self, link: LinkId) -> Result<LinkNumber, String> {
        let pair = self.pairs.get(link)?;
        if !pair.up || pair.psn.is_none() {
            return Err(format!("{link:?} is not ready to send"));
        }
        pair.number
            .ok_or_else(|| format!("the capture has no link to {:?}", pair.bound))
    }

    /// Our end of a link of the capture, until it is taken down.
    pub(super) fn carrier(&self, number: LinkNumber) -> Option<LinkId> {
        self.pairs.carrier(number)
    }

    /// Whether no queue pair is bound any more.
    pub(super) fn is_cut_off(&self) -> bool {
        !self
            .pairs
            .iter()
            .any(|(_, pair)| pair.up && pair.bound.is_some())
    }

    /// All queue pairs that there ever were.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &QueuePair> {
        self.pairs.iter().map(|(_, pair)| pair)
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

    /// Gives a SEND of the peer to the endpoint; `false` if our end of the link is
    /// gone.
    pub(super) fn receive(&mut self, number: LinkNumber, payload: &[u8]) -> Result<bool, String> {
        let Some(link) = self.carrier(number) else {
            return Ok(false);
        };
        self.endpoint
            .handle_rdma(self.now, RdmaCompletion::Received { link, payload });
        self.pump()?;
        Ok(true)
    }
}
