//! A capture as a script: who sent what, in order, and for which connection.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path as FilePath;

use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{AlertToken, Gid, Qpn, RKey};
use smc_transport_sim::capture::follow::{
    Content, Follower, Item, Path, RdmaWrite, RocePath, TcpPath,
};
use smc_transport_sim::capture::frame::{Frame, TcpSegment, parse_frame};
use smc_transport_sim::capture::reader::CaptureReader;

/// An end of the TCP connections of a capture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// Opened them.
    Client,
    /// Accepted them.
    Server,
}

impl End {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    const fn opened(to_server: bool) -> Self {
        if to_server {
            Self::Client
        } else {
            Self::Server
        }
    }
}

/// What one end did.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The frame that shows it.
    pub(super) frame: u64,
    /// Nanoseconds since the first frame.
    pub(super) time: u64,
    pub(super) by: End,
    pub(super) what: What,
    /// Octets of the message, empty for others.
    pub(super) octets: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// SYN or SYN-ACK with the SMC option.
    Option {
        stream: u64,
    },
    Clc {
        stream: u64,
        message: Box<ClcMessage>,
    },
    /// On the first link of the group, unless `elsewhere`.
    Llc {
        message: LlcMessage,
        elsewhere: bool,
    },
    Cdc {
        stream: u64,
        cdc: Cdc,
    },
    Write {
        stream: u64,
        write: RdmaWrite,
    },
    Fin {
        stream: u64,
    },
    Reset {
        stream: u64,
    },
}

/// What one end said of itself in Accept or Confirm.
pub(super) type Half = AcceptConfirm;

/// A capture in order.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    /// Both halves of each connection, by stream and end.
    pub(super) halves: BTreeMap<(u64, End), Half>,
    /// Streams whose connection the capture has on another link than the first.
    pub(super) elsewhere: BTreeSet<u64>,
}

/// Accept and Confirm of the first contact.
#[derive(Clone, Copy)]
struct FirstLink {
    client: (Gid, Qpn),
    server: (Gid, Qpn),
}

#[derive(Default)]
struct Builder {
    halves: BTreeMap<(u64, End), Half>,
    /// The connection that a token of an end means at present.
    tokens: BTreeMap<(End, AlertToken), u64>,
    /// The connection that an RMB of an end belongs to at present.
    rmbs: BTreeMap<(End, RKey), u64>,
    gids: BTreeMap<Gid, End>,
    elsewhere: BTreeSet<u64>,
    steps: Vec<Step>,
}

impl Script {
    /// Reads a capture of one client and one server.
    pub(super) fn read(path: &FilePath) -> Result<Self, String> {
        let reader = CaptureReader::open(path).map_err(|e| e.to_string())?;
        let mut follower = Follower::default();
        let mut items = Vec::new();
        let mut ends = Vec::new();
        for frame in reader {
            let frame = frame.map_err(|e| e.to_string())?;
            if let Frame::Tcp(segment) = parse_frame(frame.link, &frame.octets)
                && (segment.flags.fin || segment.flags.reset)
            {
                ends.push(TcpEnd::of(frame.number, frame.time, &segment));
            }
            follower.push(&frame, &mut items);
        }
        follower.finish(&mut items);
        let start = follower.start().unwrap_or(0);
        let mut builder = Builder::default();
        for item in items.iter().filter(|item| !item.retransmission) {
            builder
                .take(item, start)
                .map_err(|what| format!("frame {}: {what}", item.frame))?;
        }
        builder.insert_tcp_ends(&items, &ends, start);
        let first = builder.first_link()?;
        builder.mark_elsewhere(first, &items);
        Ok(Self {
            steps: builder.steps,
            halves: builder.halves,
            elsewhere: builder.elsewhere,
        })
    }
}

/// A FIN or RST.
struct TcpEnd {
    frame: u64,
    time: u64,
    source: SocketAddr,
    destination: SocketAddr,
    reset: bool,
}

impl TcpEnd {
    fn of(frame: u64, time: u64, segment: &TcpSegment<'_>) -> Self {
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
    fn take(&mut self, item: &Item, start: u64) -> Result<(), String> {
        let (by, what) = match (&item.path, &item.content) {
            (Path::Tcp(path), Content::TcpOption(_)) => (
                End::opened(path.to_server),
                What::Option {
                    stream: path.stream,
                },
            ),
            (Path::Tcp(path), Content::Clc(message)) => self.clc(path, message),
            (Path::Roce(path), Content::Llc(message)) => {
                let by = self.sender(path)?;
                if let LlcMessage::AddLink(add) = message
                    && add.rejection.is_none()
                {
                    self.gids.insert(add.gid, by);
                }
                let what = What::Llc {
                    message: message.clone(),
                    elsewhere: false,
                };
                (by, what)
            }
            (Path::Roce(path), Content::Cdc(cdc)) => {
                let by = self.sender(path)?;
                let stream = *self
                    .tokens
                    .get(&(by.other(), cdc.alert_token))
                    .ok_or("a CDC message for no connection")?;
                (by, What::Cdc { stream, cdc: *cdc })
            }
            (Path::Roce(path), Content::Write(write)) => {
                if !write.complete {
                    return Err("an RDMA WRITE that is not all there".into());
                }
                let by = self.sender(path)?;
                // The two tokens of an RMB on two links are told apart by key.
                let stream = *self
                    .rmbs
                    .get(&(by.other(), write.rkey))
                    .ok_or("an RDMA WRITE into no RMB")?;
                let write = write.clone();
                (by, What::Write { stream, write })
            }
            (_, content) => return Err(content.to_string()),
        };
        self.steps.push(Step {
            frame: item.frame,
            time: item.time.saturating_sub(start),
            by,
            what,
            octets: item.octets.clone(),
        });
        Ok(())
    }

    fn clc(&mut self, path: &TcpPath, message: &ClcMessage) -> (End, What) {
        let by = End::opened(path.to_server);
        let stream = path.stream;
        match message {
            ClcMessage::Proposal(proposal) => {
                self.gids.insert(proposal.gid, by);
            }
            ClcMessage::Accept(half) | ClcMessage::Confirm(half) => {
                self.gids.insert(half.gid, by);
                self.halves.insert((stream, by), *half);
                self.tokens.insert((by, half.alert_token), stream);
                self.rmbs.insert((by, half.rtoken.rkey), stream);
            }
            ClcMessage::Decline(_) => {}
        }
        let message = Box::new(message.clone());
        (by, What::Clc { stream, message })
    }

    fn sender(&self, path: &RocePath) -> Result<End, String> {
        let known = |gid| self.gids.get(gid).copied();
        known(&path.source)
            .or_else(|| known(&path.destination).map(End::other))
            .ok_or_else(|| {
                format!(
                    "a RoCE packet between strangers: {}",
                    Path::Roce(path.clone())
                )
            })
    }

    /// Puts the FINs and RSTs of the followed connections between the steps.
    fn insert_tcp_ends(&mut self, items: &[Item], ends: &[TcpEnd], start: u64) {
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
                what,
                octets: Vec::new(),
            });
        }
        self.steps.sort_by_key(|step| step.frame);
    }

    fn first_link(&self) -> Result<FirstLink, String> {
        let firsts: Vec<_> = self
            .halves
            .iter()
            .filter(|(_, half)| half.first_contact)
            .collect();
        match firsts.as_slice() {
            [((a, End::Client), client), ((b, End::Server), server)] if a == b => Ok(FirstLink {
                client: (client.gid, client.qpn),
                server: (server.gid, server.qpn),
            }),
            _ => Err("not exactly one first contact".into()),
        }
    }

    /// Notes what the capture has on another link than the first one.
    fn mark_elsewhere(&mut self, first: FirstLink, items: &[Item]) {
        for ((stream, end), half) in &self.halves {
            let own = match end {
                End::Client => first.client,
                End::Server => first.server,
            };
            if (half.gid, half.qpn) != own {
                self.elsewhere.insert(*stream);
            }
        }
        let mut other_link = BTreeSet::new();
        for item in items {
            if let Path::Roce(path) = &item.path {
                let (to, from) = match self.gids.get(&path.destination) {
                    Some(End::Client) => (first.client, first.server),
                    _ => (first.server, first.client),
                };
                if (path.destination, path.destination_qpn) != to || path.source != from.0 {
                    other_link.insert(item.frame);
                }
            }
        }
        for step in &mut self.steps {
            if let What::Llc { elsewhere, .. } = &mut step.what {
                *elsewhere = other_link.contains(&step.frame);
            }
        }
    }
}

impl Step {
    /// The connection it belongs to, if it is of one.
    pub(super) fn stream(&self) -> Option<u64> {
        match &self.what {
            What::Option { stream }
            | What::Clc { stream, .. }
            | What::Cdc { stream, .. }
            | What::Write { stream, .. }
            | What::Fin { stream }
            | What::Reset { stream } => Some(*stream),
            What::Llc { .. } => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            End::Client => "client",
            End::Server => "server",
        };
        match self.stream() {
            Some(stream) => write!(f, "{by} #{stream}: ")?,
            None => write!(f, "{by}: ")?,
        }
        match &self.what {
            What::Option { .. } => f.write_str("SMC option"),
            What::Clc { message, .. } => message.fmt(f),
            What::Llc { message, .. } => message.fmt(f),
            What::Cdc { cdc, .. } => cdc.fmt(f),
            What::Write { write, .. } => write.fmt(f),
            What::Fin { .. } => f.write_str("TCP FIN"),
            What::Reset { .. } => f.write_str("TCP RST"),
        }
    }
}
