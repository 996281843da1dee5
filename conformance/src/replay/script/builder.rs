//! From the items of a capture to its steps.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use smc_capture::follow::{Content, Item, Path, RdmaWrite, RocePath, TcpPath};
use smc_capture::frame::TcpSegment;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{AlertToken, Gid, LinkNumber, Mac, RKey};

use super::{End, Half, Links, Llc, Script, Step, What};

pub(super) struct Builder {
    links: Links,
    halves: BTreeMap<(u64, End), Half>,
    /// The connection that a token of an end means at present.
    tokens: BTreeMap<(End, AlertToken), u64>,
    /// The connection that an RMB of an end belongs to at present. Each RNIC has
    /// its own keys.
    rmbs: BTreeMap<(End, LinkNumber, RKey), u64>,
    ports: BTreeMap<End, Vec<(Gid, Mac)>>,
    steps: Vec<Step>,
}

/// A FIN or RST.
pub(super) struct TcpEnd {
    frame: u64,
    time: u64,
    source: SocketAddr,
    destination: SocketAddr,
    reset: bool,
}

impl TcpEnd {
    pub(super) fn of(frame: u64, time: u64, segment: &TcpSegment<'_>) -> Self {
        Self {
            frame,
            time,
            source: segment.source,
            destination: segment.destination,
            reset: segment.flags.reset,
        }
    }
}

impl Builder {
    pub(super) fn new(links: Links) -> Self {
        Self {
            links,
            halves: BTreeMap::new(),
            tokens: BTreeMap::new(),
            rmbs: BTreeMap::new(),
            ports: BTreeMap::new(),
            steps: Vec::new(),
        }
    }

    pub(super) fn script(self) -> Script {
        Script {
            steps: self.steps,
            halves: self.halves,
            links: self.links,
            ports: self.ports,
        }
    }

    pub(super) fn take(&mut self, item: &Item, start: u64) -> Result<(), String> {
        let (by, link, what) = match (&item.path, &item.content) {
            (Path::Tcp(path), Content::TcpOption(_)) => {
                let stream = path.stream;
                (End::opened(path.to_server), None, What::Option { stream })
            }
            (Path::Tcp(path), Content::Clc(message)) => {
                let (by, what) = self.clc(path, message)?;
                (by, None, what)
            }
            (Path::Roce(path), content) => {
                let (by, link) = (self.sender(path)?, self.links.carrier(path)?);
                (by, Some(link), self.rdma(by, link, content)?)
            }
            (_, content) => return Err(content.to_string()),
        };
        self.steps.push(Step {
            frame: item.frame,
            time: item.time.saturating_sub(start),
            by,
            link,
            what,
            bytes: item.bytes.clone(),
        });
        Ok(())
    }

    fn rdma(&mut self, by: End, link: LinkNumber, content: &Content) -> Result<What, String> {
        match content {
            Content::Llc(message) => {
                let llc = Llc::of(&message.message(), message.version())?;
                // A rejection names the server's own port again.
                if let LlcMessage::AddLink(add) = &llc.message
                    && add.rejection.is_none()
                {
                    self.note_port(by, add.gid, add.mac);
                }
                Ok(What::Llc { message: llc })
            }
            Content::Cdc(cdc) => {
                let stream = *self
                    .tokens
                    .get(&(by.other(), cdc.alert_token))
                    .ok_or("a CDC message for no connection")?;
                Ok(What::Cdc { stream, cdc: *cdc })
            }
            Content::Write(write) => self.write(by, link, write),
            content => Err(content.to_string()),
        }
    }

    fn write(&self, by: End, link: LinkNumber, write: &RdmaWrite) -> Result<What, String> {
        if !write.complete {
            return Err("an RDMA WRITE that is not all there".into());
        }
        let stream = *self
            .rmbs
            .get(&(by.other(), link, write.rkey))
            .ok_or("an RDMA WRITE into no RMB")?;
        let write = write.clone();
        Ok(What::Write { stream, write })
    }

    fn clc(&mut self, path: &TcpPath, message: &ClcMessage) -> Result<(End, What), String> {
        let by = End::opened(path.to_server);
        let stream = path.stream;
        match message {
            // In version 2 its MAC may be left out: the Confirm has it.
            ClcMessage::Proposal(proposal) if proposal.v2_offer.is_some() => {}
            ClcMessage::Proposal(proposal) => self.note_port(by, proposal.gid, proposal.mac),
            ClcMessage::Accept(half) | ClcMessage::Confirm(half) => {
                let link = self
                    .links
                    .number((half.gid, half.qpn))
                    .ok_or("a connection on no link")?;
                self.note_port(by, half.gid, half.mac);
                self.halves.insert((stream, by), *half);
                self.tokens.insert((by, half.alert_token), stream);
                self.rmbs.insert((by, link, half.rtoken.rkey), stream);
            }
            ClcMessage::SmcdAccept(_) | ClcMessage::SmcdConfirm(_) => {
                return Err("captures of SMC-D cannot be replayed".to_owned());
            }
            ClcMessage::Decline(_) => {}
        }
        let message = Box::new(message.clone());
        Ok((by, What::Clc { stream, message }))
    }

    fn note_port(&mut self, by: End, gid: Gid, mac: Mac) {
        let ports = self.ports.entry(by).or_default();
        if !ports.contains(&(gid, mac)) {
            ports.push((gid, mac));
        }
    }

    fn sender(&self, path: &RocePath) -> Result<End, String> {
        let owner = |gid| {
            let owns = |ports: &Vec<(Gid, Mac)>| ports.iter().any(|port| port.0 == gid);
            self.ports.iter().find(|(_, ports)| owns(ports))
        };
        owner(path.source).map(|(end, _)| *end).ok_or_else(|| {
            let path = Path::Roce(path.clone());
            format!("a RoCE packet of a stranger: {path}")
        })
    }

    /// Puts the FINs and RSTs of the followed connections between the steps.
    pub(super) fn insert_tcp_ends(&mut self, items: &[Item], ends: &[TcpEnd], start: u64) {
        let mut streams = BTreeMap::new();
        for item in items {
            if let Path::Tcp(path) = &item.path {
                let to = (path.source, path.destination);
                streams.insert(to, (path.stream, path.to_server));
                let from = (path.destination, path.source);
                streams.insert(from, (path.stream, !path.to_server));
            }
        }
        for end in ends {
            let Some(&(stream, to_server)) = streams.get(&(end.source, end.destination)) else {
                continue;
            };
            let what = if end.reset {
                What::Reset { stream }
            } else {
                What::Fin { stream }
            };
            self.steps.push(Step {
                frame: end.frame,
                time: end.time.saturating_sub(start),
                by: End::opened(to_server),
                link: None,
                what,
                bytes: Vec::new(),
            });
        }
        self.steps.sort_by_key(|step| step.frame);
    }
}
