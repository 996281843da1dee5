//! Watches the wires of a demo: counts all messages and keeps a bounded number
//! of them for the ladder.

use std::collections::{BTreeMap, VecDeque};

use smc_proto::time::Instant;
use smc_proto::wire::cdc::{CDC_TYPE, Cdc};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{RKey, RToken};
use smc_transport_sim::fabric::HostId;
use smc_transport_sim::observe::{Arrival, Observer, Outcome, TcpSegment};

use super::tally::{Family, Kind, Tally};
use super::words;

/// Control messages kept at the start and at the end of a run.
const CONTROL: (usize, usize) = (80, 40);
/// WRITEs and CDC messages kept at the start and at the end of a run.
const DATA: (usize, usize) = (14, 14);

/// A message of the ladder.
#[derive(Clone, Debug)]
pub(super) struct Rung {
    /// Messages before this one, kept or not.
    number: u64,
    pub(super) at: Instant,
    pub(super) to_server: bool,
    pub(super) said: Said,
    pub(super) outcome: Outcome,
    /// What had been said before this, and this included.
    pub(super) before: Tally,
    pub(super) after: Tally,
}

/// What was said. Data messages come in great numbers and are put into words
/// only when they are shown.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Words(Family, String),
    Cdc(Cdc),
    Write {
        length: usize,
        rkey: RKey,
        address: u64,
    },
}

/// The first and the latest of many.
#[derive(Debug)]
struct Ends {
    limits: (usize, usize),
    first: Vec<Rung>,
    last: VecDeque<Rung>,
}

impl Ends {
    const fn new(limits: (usize, usize)) -> Self {
        Self {
            limits,
            first: Vec::new(),
            last: VecDeque::new(),
        }
    }

    fn add(&mut self, rung: Rung) {
        if self.first.len() < self.limits.0 {
            return self.first.push(rung);
        }
        if self.last.len() >= self.limits.1 {
            self.last.pop_front();
        }
        self.last.push_back(rung);
    }

    fn all(&self) -> impl Iterator<Item = &Rung> {
        self.first.iter().chain(&self.last)
    }
}

/// Counts and keeps messages.
#[derive(Debug)]
pub(super) struct Watch {
    client: HostId,
    pub(super) tally: Tally,
    /// Work that was not accepted: sent again, or refused.
    pub(super) not_accepted: u64,
    seen: u64,
    /// The tally up to the latest message.
    kept: Tally,
    control: Ends,
    data: Ends,
    /// Where rings begin, as the messages told.
    rings: BTreeMap<RKey, u64>,
}

impl Watch {
    pub(super) const fn new(client: HostId) -> Self {
        Self {
            client,
            tally: Tally::NONE,
            not_accepted: 0,
            seen: 0,
            kept: Tally::NONE,
            control: Ends::new(CONTROL),
            data: Ends::new(DATA),
            rings: BTreeMap::new(),
        }
    }

    /// Messages kept, in order.
    pub(super) fn rungs(&self) -> Vec<&Rung> {
        let mut rungs: Vec<_> = self.control.all().chain(self.data.all()).collect();
        rungs.sort_unstable_by_key(|rung| rung.number);
        rungs
    }

    /// How far behind the start of a ring an address is.
    pub(super) fn place_in_ring(&self, rkey: RKey, address: u64) -> Option<u64> {
        address.checked_sub(*self.rings.get(&rkey)?)
    }

    fn learn(&mut self, ring: RToken) {
        self.rings.insert(ring.rkey, ring.address);
    }

    fn keep(&mut self, at: Instant, to_server: bool, said: Said, outcome: Outcome) {
        let rung = Rung {
            number: self.seen,
            at,
            to_server,
            outcome,
            before: core::mem::replace(&mut self.kept, self.tally),
            after: self.tally,
            said,
        };
        self.seen += 1;
        match rung.said {
            Said::Words(..) => self.control.add(rung),
            _ => self.data.add(rung),
        }
    }

    fn tcp(&mut self, segment: &TcpSegment<'_>, family: Family, text: impl Into<String>) {
        let said = Said::Words(family, text.into());
        self.keep(segment.at, segment.from_client, said, Outcome::Accepted);
    }

    fn arrival(&mut self, arrival: &Arrival<'_>, kind: Option<Kind>, said: Said) {
        let to_server = arrival.flow.source.host == Some(self.client);
        if arrival.outcome != Outcome::Accepted {
            self.not_accepted += 1;
        } else if let Some(Kind::Write) = kind {
            self.tally
                .add_write(arrival.payload.len() as u64, to_server);
        } else if let Some(kind) = kind {
            self.tally.add(kind, to_server);
        }
        self.keep(arrival.at, to_server, said, arrival.outcome);
    }
}

impl Observer for Watch {
    fn on_tcp_syn(&mut self, segment: &TcpSegment<'_>) {
        if segment.smc_option {
            self.tally.add(Kind::TcpOption, segment.from_client);
        }
        self.tcp(segment, Family::Tcp, words::syn(segment));
    }

    fn on_tcp_segment(&mut self, segment: &TcpSegment<'_>) {
        let mut octets = segment.payload;
        // Each CLC message is one segment here; anything else is not SMC's.
        while let Ok((message, length)) = ClcMessage::parse(octets)
            && let Some(rest) = octets.get(length..)
            && length > 0
        {
            octets = rest;
            self.tally.add(Kind::from(&message), segment.from_client);
            if let ClcMessage::Accept(contact) | ClcMessage::Confirm(contact) = &message {
                self.learn(contact.rtoken);
            }
            self.tcp(segment, Family::Clc, words::clc(&message));
        }
        if !octets.is_empty() {
            let text = format!("TCP {} octets", octets.len());
            self.tcp(segment, Family::Tcp, text);
        } else if segment.fin {
            self.tcp(segment, Family::Tcp, "TCP FIN");
        } else if segment.rst {
            self.tcp(segment, Family::Tcp, "TCP RST");
        }
    }

    fn on_send(&mut self, send: &Arrival<'_>) {
        if send.payload.first() == Some(&CDC_TYPE)
            && let Ok(cdc) = Cdc::parse(send.payload)
        {
            return self.arrival(send, Some(Kind::Cdc), Said::Cdc(cdc));
        }
        match LlcMessage::parse(send.payload) {
            Ok(message) => {
                words::rings(&message, |ring| self.learn(ring));
                let said = Said::Words(Family::Llc, words::llc(&message));
                self.arrival(send, Some(Kind::from(&message)), said);
            }
            Err(error) => {
                let said = Said::Words(Family::Llc, format!("SEND: {error}"));
                self.arrival(send, None, said);
            }
        }
    }

    fn on_write(&mut self, write: &Arrival<'_>, rkey: RKey, address: u64) {
        let said = Said::Write {
            length: write.payload.len(),
            rkey,
            address,
        };
        self.arrival(write, Some(Kind::Write), said);
    }
}
