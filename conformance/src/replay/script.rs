//! A capture as a script: sender and content of each message, in order, and its connection.

mod builder;
mod links;

use core::fmt;
use std::collections::BTreeMap;
use std::path::Path as FilePath;

use smc_capture::follow::{Follower, RdmaWrite};
use smc_capture::frame::{Frame, parse_frame};
use smc_capture::reader::CaptureReader;
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage};
use smc_proto::wire::types::{Gid, LinkNumber, Mac};

use builder::{Builder, TcpEnd};
pub(super) use links::Links;

use super::message::Llc;

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
    /// The link that carried it, if it is not of a TCP connection.
    pub(super) link: Option<LinkNumber>,
    pub(super) what: What,
    /// Bytes of the message, empty for others.
    pub(super) bytes: Vec<u8>,
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
    Llc {
        message: Llc,
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

/// Description of one end in its Accept or Confirm.
pub(super) type Half = AcceptConfirm;

/// A capture in order.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    /// Both halves of each connection, by stream and end.
    pub(super) halves: BTreeMap<(u64, End), Half>,
    pub(super) links: Links,
    /// The ports of each end, in the order in which the capture names them.
    pub(super) ports: BTreeMap<End, Vec<(Gid, Mac)>>,
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
            if let Frame::Tcp(segment) = parse_frame(frame.link, &frame.bytes)
                && (segment.flags.fin || segment.flags.reset)
            {
                ends.push(TcpEnd::of(frame.number, frame.time, &segment));
            }
            follower.push(&frame, &mut items);
        }
        follower.finish(&mut items);
        let start = follower.start().unwrap_or(0);
        let mut builder = Builder::new(Links::of(&items)?);
        for item in items.iter().filter(|item| !item.retransmission) {
            builder
                .take(item, start)
                .map_err(|what| format!("frame {}: {what}", item.frame))?;
        }
        builder.insert_tcp_ends(&items, &ends, start);
        Ok(builder.script())
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
            Some(stream) => write!(f, "{by} #{stream}")?,
            None => f.write_str(by)?,
        }
        match self.link {
            Some(link) => write!(f, " on link {link}: ")?,
            None => f.write_str(": ")?,
        }
        match &self.what {
            What::Option { .. } => f.write_str("SMC option"),
            What::Clc { message, .. } => message.fmt(f),
            What::Llc { message } => message.fmt(f),
            What::Cdc { cdc, .. } => cdc.fmt(f),
            What::Write { write, .. } => write.fmt(f),
            What::Fin { .. } => f.write_str("TCP FIN"),
            What::Reset { .. } => f.write_str("TCP RST"),
        }
    }
}
