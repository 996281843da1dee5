//! Connections of programs over a while, by servers' ports and peers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use smc_proto::wire::types::DiagnosisCode;
use smc_view::{Connection, Counted, Found, Role, Technology, state};

/// Most connections that are remembered, and most pairs of a port and a peer.
const MOST: usize = 65_536;

/// From when on SMC pays for a connection.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// Bytes sent and received.
    pub bytes: u64,
    /// Calls that sent or received.
    pub calls: u64,
}

/// Which side a program was, the server's port, and the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct End {
    /// Whether the program accepted.
    pub is_server: bool,
    /// The server's port.
    pub port: u16,
    /// The peer.
    pub peer: IpAddr,
}

/// Bytes and calls over SMC; or the code of why a connection is TCP.
pub type Outcome = Result<(u64, u64), DiagnosisCode>;

/// A connection of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Process, its start, when it began to publish, and the number of the connection there.
    pub key: (u32, u64, u64, u64),
    /// Whose end it is.
    pub end: End,
    /// What carries it.
    pub outcome: Outcome,
}

/// What was seen until now.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    connections: BTreeMap<(u32, u64, u64, u64), Seen>,
}

/// Connections of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Connections for which SMC pays.
    pub paying: u64,
    /// Others over SMC.
    pub idle: u64,
    /// Bytes over SMC.
    pub bytes: u64,
    /// Connections over TCP, by code.
    pub tcp: BTreeMap<DiagnosisCode, u64>,
}

impl Seen {
    /// The connections of a process.
    pub(super) fn all(found: &Found) -> Vec<Self> {
        let (process, started, began) = (found.process, found.started, found.view.began());
        let snapshot = found.view.read();
        let connections = snapshot.connections.iter();
        let all = connections.filter_map(|(at, counted)| {
            let (end, outcome) = Self::of(at, counted)?;
            let key = (process, started, began, at.serial);
            Some(Self { key, end, outcome })
        });
        all.collect()
    }

    fn of(at: &Connection, counted: &Counted) -> Option<(End, Outcome)> {
        if at.state == state::LISTEN {
            return None;
        }
        let (is_server, port) = match at.role {
            Role::Server => (true, at.local.port()),
            Role::Client => (false, at.peer.port()),
            Role::Unknown => return None,
        };
        let peer = at.peer.ip().to_canonical();
        if port == 0 || peer.is_unspecified() {
            return None;
        }
        let end = End {
            is_server,
            port,
            peer,
        };
        let outcome = match at.technology {
            Technology::SmcD | Technology::SmcR => {
                let [sends, receives] = counted.calls();
                let bytes = counted.sent.saturating_add(counted.received);
                Ok((bytes, sends.saturating_add(receives)))
            }
            Technology::Tcp => {
                let code = smc_view::deciding_code(at.reason, at.peer_reason);
                Err(DiagnosisCode(code))
            }
            Technology::Undecided => return None,
        };
        Some((end, outcome))
    }
}

impl Observed {
    /// How many connections were seen.
    #[must_use]
    pub fn count(&self) -> usize {
        self.connections.len()
    }

    /// Takes in what there is now.
    pub fn add(&mut self, seen: &[Seen]) {
        for at in seen {
            if self.connections.len() < MOST || self.connections.contains_key(&at.key) {
                self.connections.insert(at.key, *at);
            }
        }
    }

    /// What was seen of each end.
    #[must_use]
    pub fn ends(&self, threshold: Threshold) -> BTreeMap<End, Tally> {
        let mut ends: BTreeMap<End, Tally> = BTreeMap::new();
        for at in self.connections.values() {
            let tally = ends.entry(at.end).or_default();
            match at.outcome {
                Ok((bytes, calls)) => {
                    tally.bytes = tally.bytes.saturating_add(bytes);
                    match bytes >= threshold.bytes || calls >= threshold.calls {
                        true => tally.paying += 1,
                        false => tally.idle += 1,
                    }
                }
                Err(code) => *tally.tcp.entry(code).or_default() += 1,
            }
        }
        ends
    }
}
