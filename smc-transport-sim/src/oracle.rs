//! What must have come of a connection when a run is over.
//!
//! If a link to the peer was usable the whole time and nothing on it was lost
//! behind the sender's back, every byte must have arrived. Otherwise what
//! arrived must be the beginning of what was sent, and each side must have been
//! notified exactly once that it is over. That what arrived is the beginning is
//! checked byte by byte while it is read; that each side is notified once, by the
//! [invariants](crate::invariants). Here the two ends are put together.

mod conduct;

#[cfg(test)]
mod tests;

use std::fmt;

use smc_proto::event::CloseReason;

use crate::sim::{SocketState, Transport};

/// What is known of a connection when a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conduct {
    /// The client's end and the server's.
    pub ends: [End; 2],
    /// Both applications wrote everything, read everything and closed in order.
    pub graceful: bool,
    /// A link was usable the whole time, and nothing of the connection was
    /// acknowledged and lost.
    pub survivable: bool,
}

/// One end of a connection when a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// What is known of its socket.
    pub state: SocketState,
    /// Bytes its application had to write.
    pub planned: u64,
    /// Of these, those handed to the connection.
    pub written: u64,
    /// Bytes its application read.
    pub read: u64,
    /// Whether it read the end of the stream.
    pub at_end: bool,
}

/// How an end of a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// The host of the end crashed.
    Crashed,
    /// The connection never reached it.
    Absent,
    /// The connection ended as an SMC-R connection.
    Closed(CloseReason),
    /// The connection ended as a TCP connection, with or without a reset.
    Tcp {
        /// Whether it was reset.
        reset: bool,
    },
    /// The connection still waits: a failure.
    Waiting,
}

/// Outcome of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// Every byte arrived, over SMC-R.
    Complete,
    /// Every byte arrived, over TCP.
    CompleteOverTcp,
    /// The applications ended it early, and it ended.
    EndedEarly,
    /// The connection broke, and each side was notified.
    Broken,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Complete => "complete",
            Self::CompleteOverTcp => "complete over TCP",
            Self::EndedEarly => "ended early",
            Self::Broken => "broken",
        })
    }
}

impl End {
    /// How it ended.
    #[must_use]
    pub const fn fate(&self) -> Fate {
        let state = &self.state;
        if state.crashed {
            return Fate::Crashed;
        }
        match (state.closed, state.transport) {
            (Some(reason), _) => Fate::Closed(reason),
            (None, Transport::Tcp) if state.tcp_reset => Fate::Tcp { reset: true },
            (None, Transport::Tcp) if self.at_end => Fate::Tcp { reset: false },
            // TCP itself did not get established.
            (None, Transport::None) if state.conn.is_none() && state.tcp_reset => {
                Fate::Tcp { reset: true }
            }
            (None, Transport::None) if state.conn.is_none() => Fate::Absent,
            _ => Fate::Waiting,
        }
    }
}

impl Conduct {
    /// Whether every byte arrived at both ends, and both ended in order.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let [one, other] = &self.ends;
        let in_order = |end: &End| {
            matches!(
                end.fate(),
                Fate::Closed(CloseReason::Normal) | Fate::Tcp { reset: false }
            )
        };
        one.read == other.planned && other.read == one.planned && in_order(one) && in_order(other)
    }

    /// Outcome of the connection.
    ///
    /// # Errors
    /// Everything that must not have come of it.
    pub fn judge(&self) -> Result<Outcome, Vec<String>> {
        let mut wrong = Vec::new();
        let [client, server] = &self.ends;
        for (name, end, other) in [("client", client, server), ("server", server, client)] {
            if end.read > other.written {
                let (read, written) = (end.read, other.written);
                wrong.push(format!("the {name} read {read} of {written} octets"));
            }
            if end.fate() == Fate::Waiting {
                wrong.push(format!("the {name} waits for ever: {:?}", end.state));
            }
        }
        if let Some(what) = self.disagreement() {
            wrong.push(what);
        }
        if self.graceful && self.survivable && !self.is_complete() {
            wrong.push(format!(
                "a link was usable the whole time, yet the client is {:?} with {} of {} octets, \
                 the server {:?} with {} of {}",
                client.fate(),
                client.read,
                server.planned,
                server.fate(),
                server.read,
                client.planned,
            ));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(match (self.is_complete(), client.state.transport) {
            (true, Transport::Tcp) => Outcome::CompleteOverTcp,
            (true, _) => Outcome::Complete,
            (false, _) if self.graceful => Outcome::Broken,
            (false, _) => Outcome::EndedEarly,
        })
    }

    /// I12: one end on SMC-R and the other on TCP, and neither was notified.
    fn disagreement(&self) -> Option<String> {
        let [client, server] = &self.ends;
        let silent = |end: &End| {
            matches!(
                end.fate(),
                Fate::Closed(CloseReason::Normal) | Fate::Tcp { reset: false } | Fate::Waiting
            )
        };
        let transports = [client.state.transport, server.state.transport];
        let differ = matches!(
            transports,
            [Transport::Smc, Transport::Tcp] | [Transport::Tcp, Transport::Smc]
        );
        (differ && silent(client) && silent(server))
            .then(|| format!("I12: one end is on SMC-R, the other on TCP: {transports:?}"))
    }
}
