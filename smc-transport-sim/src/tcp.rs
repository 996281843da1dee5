//! TCP connections between hosts: two byte pipes, ordered and reliable.
//!
//! What TCP does to keep its promises (retransmission, windows) is left out: no
//! user of a socket sees it. What a user does see is here: bytes arrive in any
//! pieces, a FIN and a RST arrive at any byte, and each SYN carries the SMC
//! option or not. The verbs are methods of [`Fabric`](crate::fabric::Fabric).

use std::collections::BTreeMap;

use smc_proto::time::{Duration, Instant};

use crate::fabric::HostId;
#[allow(deprecated)]
pub use crate::renamed::TcpNews;

/// A TCP connection of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TcpId(pub u32);

/// One side of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Side {
    /// Opened it.
    Client,
    /// Accepted it.
    Server,
}

impl Side {
    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Whether the SMC option is in the SYNs. Both must for SMC to be tried.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SmcOption {
    /// In the client's SYN.
    pub client_offers: bool,
    /// In the server's SYN/ACK, if the client offers.
    pub server_answers: bool,
}

impl SmcOption {
    /// Both sides speak SMC.
    pub const BOTH: Self = Self {
        client_offers: true,
        server_answers: true,
    };
}

/// How bytes are cut into segments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum TcpSplit {
    /// In segments as they were sent, up to 32 KiB.
    #[default]
    Whole,
    /// Into pieces of so many bytes.
    Every(u16),
    /// Into pieces of 1 to so many bytes, drawn from the seed.
    Random(u16),
}

/// An event of TCP for one side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TcpNotice {
    /// The connection.
    pub tcp: TcpId,
    /// The side.
    pub side: Side,
    /// What happened.
    pub kind: TcpNoticeKind,
}

/// What may happen to a side of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TcpNoticeKind {
    /// The connection is established. SMC may be tried if both SYNs had the option.
    Connected {
        /// Whether both had.
        smc: bool,
    },
    /// Bytes arrived.
    Readable,
    /// The peer sends no more bytes.
    PeerFin,
    /// The connection was reset.
    Reset,
    /// TCP gave up waiting for the peer.
    TimedOut,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct TcpEvent {
    pub(crate) tcp: TcpId,
    pub(crate) to: Side,
    pub(crate) sent_at: Instant,
    pub(crate) sequence: u64,
    pub(crate) acknowledged: u64,
    pub(crate) item: TcpItem,
}

#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub(crate) enum TcpItem {
    Syn,
    SynAck,
    /// The ACK that ends the handshake.
    Ack,
    Bytes(Vec<u8>),
    Fin,
    Reset,
    /// Not a segment: this side gives up.
    TimeOut,
}

/// How a host's bytes are cut, and because of which fault.
#[derive(Clone, Copy, Debug)]
struct Split {
    split: TcpSplit,
    fault: usize,
    noted: bool,
}

/// All TCP connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tcp {
    pub(crate) connections: Vec<TcpConnection>,
    splits: BTreeMap<HostId, Split>,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct TcpConnection {
    pub(crate) option: SmcOption,
    /// Whether CLC messages may still come.
    pub(crate) rendezvous: bool,
    pub(crate) client: TcpEnd,
    pub(crate) server: TcpEnd,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct TcpEnd {
    pub(crate) host: HostId,
    pub(crate) latency: Duration,
    /// Bytes that arrived and were not read; those before `read` were.
    pub(crate) incoming: Vec<u8>,
    pub(crate) read: usize,
    /// Bytes sent and received since the beginning.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// When the last segment sent arrives, to keep the order.
    pub(crate) last_arrival: Instant,
    pub(crate) established: bool,
    pub(crate) fin_sent: bool,
    pub(crate) fin_received: bool,
    pub(crate) reset: bool,
}

impl TcpEnd {
    pub(crate) fn new(host: HostId, latency: Duration) -> Self {
        Self {
            host,
            latency,
            incoming: Vec::new(),
            read: 0,
            sent: 0,
            received: 0,
            last_arrival: Instant::ZERO,
            established: false,
            fin_sent: false,
            fin_received: false,
            reset: false,
        }
    }

    pub(crate) fn unread(&self) -> &[u8] {
        self.incoming.get(self.read..).unwrap_or_default()
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.read = (self.read + bytes).min(self.incoming.len());
        // Moving the rest pays once half of the vector is read.
        if self.read * 2 >= self.incoming.len() {
            self.incoming.drain(..self.read);
            self.read = 0;
        }
    }
}

impl TcpConnection {
    pub(crate) fn end(&self, side: Side) -> &TcpEnd {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    pub(crate) fn end_mut(&mut self, side: Side) -> &mut TcpEnd {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

impl Tcp {
    pub(crate) fn get(&self, tcp: TcpId) -> Option<&TcpConnection> {
        self.connections.get(tcp.0 as usize)
    }

    pub(crate) fn end_mut(&mut self, tcp: TcpId, side: Side) -> Option<&mut TcpEnd> {
        Some(self.connections.get_mut(tcp.0 as usize)?.end_mut(side))
    }

    /// Cuts the bytes of a host because of a fault.
    pub(crate) fn set_split(&mut self, host: HostId, split: TcpSplit, fault: usize) {
        let noted = false;
        self.splits.insert(
            host,
            Split {
                split,
                fault,
                noted,
            },
        );
    }

    /// The fault that cuts the bytes of a host, when it does so first.
    pub(crate) fn split_hit(&mut self, host: HostId) -> Option<usize> {
        let split = self.splits.get_mut(&host)?;
        (!std::mem::replace(&mut split.noted, true)).then_some(split.fault)
    }

    /// Whether a host has a connection on which CLC messages may still come.
    pub(crate) fn in_rendezvous(&self, host: HostId) -> bool {
        self.connections.iter().any(|connection| {
            connection.rendezvous
                && (connection.client.host == host || connection.server.host == host)
        })
    }

    pub(crate) fn hash_splits<H: std::hash::Hasher>(&self, hasher: &mut H) {
        use std::hash::Hash;
        for (host, split) in &self.splits {
            (host, split.split).hash(hasher);
        }
    }

    pub(crate) fn split(&self, host: HostId) -> TcpSplit {
        self.splits
            .get(&host)
            .map_or_else(TcpSplit::default, |split| split.split)
    }
}
