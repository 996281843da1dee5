//! The message ladder of a run: sender, receiver, time and content of messages, as text.
//!
//! ```text
//!                 client               server
//!      75.0µs       │───────────────────▶│       CLC Proposal ...
//!     101.0µs       │◀───────────────────│       CLC Accept ...
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use smc_proto::time::Instant;
use smc_proto::wire::types::RKey;

use crate::describe::{self, Stream};
use crate::fabric::HostId;
use crate::observe::{Arrival, IsmMoved, Observer, Outcome, TcpSegment};
use crate::tcp::TcpId;

/// One message of a ladder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rung {
    /// When it arrived.
    pub at: Instant,
    /// The sender.
    pub source: HostId,
    /// The receiver; `None` if no host has that address.
    pub destination: Option<HostId>,
    /// What the receiver did with it.
    pub outcome: Outcome,
    /// The message in words.
    pub text: String,
}

/// Collects the messages of a run, the latest ones if there are too many.
#[derive(Clone, Debug)]
pub struct Ladder {
    names: Vec<String>,
    rungs: VecDeque<Rung>,
    limit: usize,
    forgotten: u64,
    /// CLC bytes that are not a whole message yet; `None` once others came.
    streams: BTreeMap<(TcpId, bool), Option<Vec<u8>>>,
}

const COLUMN: usize = 22;

impl Ladder {
    /// Keeps the latest `limit` messages.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            names: Vec::new(),
            rungs: VecDeque::new(),
            limit,
            forgotten: 0,
            streams: BTreeMap::new(),
        }
    }

    /// Keeps the latest `limit` messages from now on; none costs nothing.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        let surplus = self.rungs.len().saturating_sub(limit);
        self.rungs.drain(..surplus);
        self.forgotten += surplus as u64;
    }

    /// The messages, oldest first.
    pub fn rungs(&self) -> impl Iterator<Item = &Rung> {
        self.rungs.iter()
    }

    /// Messages forgotten because there were too many.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Each message as `client > server: CLC Proposal ...`.
    #[must_use]
    pub fn messages(&self) -> Vec<String> {
        let line = |rung: &Rung| {
            let (source, destination) = (self.name(Some(rung.source)), self.name(rung.destination));
            let mark = mark(rung.outcome);
            format!("{source} > {destination}: {}{mark}", rung.text)
        };
        self.rungs.iter().map(line).collect()
    }

    /// Compares a run with what it should have been, one message a line, each
    /// the beginning of a line of [`Ladder::messages`]. A line of three dots
    /// stands for any messages; empty lines do not count.
    ///
    /// # Errors
    /// The ladder, and the line that no message fits.
    pub fn expect(&self, transcript: &str) -> Result<(), String> {
        let messages = self.messages();
        let mut rest = messages.as_slice();
        let mut skipping = false;
        for line in transcript
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            if line == "..." {
                skipping = true;
                continue;
            }
            let found = rest.iter().position(|message| message.starts_with(line));
            match found {
                Some(0) => {}
                Some(_) if skipping => {}
                _ => {
                    let next = rest.first().map_or("nothing", String::as_str);
                    return Err(format!("expected: {line}\ncame: {next}\n\n{self}"));
                }
            }
            rest = rest
                .get(found.map_or(0, |index| index + 1)..)
                .unwrap_or_default();
            skipping = false;
        }
        match rest.first() {
            Some(more) if !skipping => Err(format!("expected: the end\ncame: {more}\n\n{self}")),
            _ => Ok(()),
        }
    }

    fn name(&self, host: Option<HostId>) -> &str {
        let name = host.and_then(|host| self.names.get(usize::from(host.0)));
        name.map_or("?", String::as_str)
    }

    fn add(&mut self, rung: Rung) {
        if self.rungs.len() >= self.limit {
            self.rungs.pop_front();
            self.forgotten += 1;
        }
        if self.limit > 0 {
            self.rungs.push_back(rung);
        }
    }

    fn arrival(&mut self, arrival: &Arrival<'_>, text: String) {
        if let Some(source) = arrival.flow.source.host {
            self.add(Rung {
                at: arrival.at,
                source,
                destination: arrival.flow.destination.host,
                outcome: arrival.outcome,
                text,
            });
        }
    }

    fn tcp(&mut self, segment: &TcpSegment<'_>, text: String) {
        self.add(Rung {
            at: segment.at,
            source: segment.source,
            destination: Some(segment.destination),
            outcome: Outcome::Accepted,
            text,
        });
    }
}

const fn mark(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted => "",
        Outcome::Duplicate => " [repeated]",
        Outcome::Dropped => " [lost]",
        Outcome::ReceiverNotReady => " [receiver not ready]",
        Outcome::Refused => " [refused]",
    }
}

impl Observer for Ladder {
    fn on_host(&mut self, host: HostId, name: &str) {
        let number = usize::from(host.0);
        if self.names.len() <= number {
            self.names.resize(number + 1, String::new());
        }
        if let Some(place) = self.names.get_mut(number) {
            name.clone_into(place);
        }
    }

    fn on_tcp_syn(&mut self, segment: &TcpSegment<'_>) {
        let kind = if segment.ack { "SYN-ACK" } else { "SYN" };
        let option = if segment.smc_option {
            " with SMC option"
        } else {
            ""
        };
        self.tcp(segment, format!("TCP {kind}{option}"));
    }

    fn on_tcp_segment(&mut self, segment: &TcpSegment<'_>) {
        if segment.fin {
            self.tcp(segment, "TCP FIN".to_owned());
        }
        if segment.rst {
            self.tcp(segment, "TCP RST".to_owned());
        }
        if segment.payload.is_empty() {
            return;
        }
        let key = (segment.tcp, segment.from_client);
        let Some(mut bytes) = self.streams.remove(&key).unwrap_or(Some(Vec::new())) else {
            self.streams.insert(key, None);
            let length = segment.payload.len();
            return self.tcp(segment, format!("TCP {length} octets"));
        };
        bytes.extend_from_slice(segment.payload);
        while !bytes.is_empty() {
            match describe::stream(&bytes) {
                Stream::Clc(text, length) => {
                    bytes.drain(..length);
                    self.tcp(segment, text);
                }
                Stream::Incomplete => break,
                Stream::Other => {
                    self.tcp(segment, format!("TCP {} octets", bytes.len()));
                    self.streams.insert(key, None);
                    return;
                }
            }
        }
        self.streams.insert(key, Some(bytes));
    }

    fn on_send(&mut self, send: &Arrival<'_>) {
        if self.limit == 0 {
            return;
        }
        self.arrival(send, describe::send(send.payload));
    }

    fn on_write(&mut self, write: &Arrival<'_>, rkey: RKey, address: u64) {
        if self.limit == 0 {
            return;
        }
        let length = write.payload.len();
        self.arrival(
            write,
            format!("RDMA WRITE {length} octets to {rkey}@0x{address:x}"),
        );
    }

    fn on_ism(&mut self, moved: &IsmMoved<'_>) {
        if self.limit == 0 {
            return;
        }
        self.add(Rung {
            at: moved.at,
            source: moved.source,
            destination: Some(moved.destination),
            outcome: Outcome::Accepted,
            text: describe::ism(&moved.what),
        });
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12}", "")?;
        for name in &self.names {
            write!(f, "{name:^COLUMN$}")?;
        }
        writeln!(f)?;
        if self.forgotten > 0 {
            writeln!(f, "{:12}{} messages before these", "", self.forgotten)?;
        }
        for rung in &self.rungs {
            let time = rung.at.to_string();
            write!(f, "{time:>12}{}", self.arrow(rung))?;
            writeln!(f, "  {}{}", rung.text, mark(rung.outcome))?;
        }
        Ok(())
    }
}

impl Ladder {
    /// The lifelines of all hosts and the arrow between two of them.
    fn arrow(&self, rung: &Rung) -> String {
        let center = |host: usize| host * COLUMN + COLUMN / 2;
        let mut line = vec![' '; self.names.len() * COLUMN];
        let from = center(rung.source.0.into());
        let to = rung.destination.map_or(from, |host| center(host.0.into()));
        let lost = rung.outcome == Outcome::Dropped;
        for (position, place) in line.iter_mut().enumerate() {
            let on_line = position > from.min(to) && position < from.max(to);
            let tip = if to > from {
                position + 1 == to
            } else {
                position == to + 1
            };
            *place = match (position % COLUMN == COLUMN / 2, on_line) {
                (true, false) => '│',
                (_, true) if tip && lost => '✗',
                (_, true) if tip => {
                    if to > from {
                        '▶'
                    } else {
                        '◀'
                    }
                }
                (_, true) => '─',
                (false, false) => ' ',
            };
        }
        line.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
