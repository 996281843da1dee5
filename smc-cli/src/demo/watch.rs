//! Watches the wires of a demo: counts all messages and keeps a bounded number
//! of them for the ladder.

use std::collections::BTreeMap;

use smc_proto::time::Instant;
use smc_proto::wire::cdc::{CDC_TYPE, Cdc, ProducerFlags};
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::{LlcMessage, version_of};
use smc_proto::wire::types::{LinkNumber, Qpn, RKey, RToken};
use smc_transport_sim::describe;
use smc_transport_sim::fabric::HostId;
use smc_transport_sim::observe::{Arrival, IsmContent, IsmMoved, Observer, Outcome, TcpSegment};

use super::rung::{Effect, Ends, Message, Rung};
use super::tally::{Family, Kind, Tally};
use super::text;

/// Control messages and notes kept at the start and at the end of a run: enough
/// to add eight links and to lose some.
const CONTROL: (usize, usize) = (160, 80);
/// WRITEs and CDC messages kept at the start and at the end of a run.
const DATA: (usize, usize) = (14, 14);
/// Data messages kept where a link dies or a connection moves.
const AROUND: u8 = 3;

/// Counts and keeps messages.
#[derive(Debug)]
pub(super) struct Watch {
    client: HostId,
    pub(super) tally: Tally,
    /// Work that was not accepted: sent again, lost or refused.
    pub(super) not_accepted: Tally,
    /// When the latest LLC message arrived.
    pub(super) latest_llc: Instant,
    /// Whether there is more than one link to distinguish.
    pub(super) several_links: bool,
    seen: u64,
    /// The tally up to the latest message.
    kept: Tally,
    control: Ends,
    data: Ends,
    /// Where rings begin, by the messages.
    rings: BTreeMap<RKey, u64>,
    /// To which links queue pairs belong, by the messages.
    links: BTreeMap<(Option<HostId>, Qpn), LinkNumber>,
    /// Data messages still to be kept, whatever comes.
    around: u8,
}

impl Watch {
    pub(super) const fn new(client: HostId) -> Self {
        Self {
            client,
            tally: Tally::NONE,
            not_accepted: Tally::NONE,
            latest_llc: Instant::ZERO,
            several_links: false,
            seen: 0,
            kept: Tally::NONE,
            control: Ends::new(CONTROL),
            data: Ends::new(DATA),
            rings: BTreeMap::new(),
            links: BTreeMap::new(),
            around: 0,
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

    /// Notes what happened.
    pub(super) fn note(&mut self, at: Instant, link: Option<u8>, effect: Effect, text: String) {
        let rung = self.rung(
            at,
            true,
            link,
            Message::Note(effect, text),
            Outcome::Accepted,
        );
        self.control.add(rung);
        self.around = AROUND;
    }

    fn rung(
        &mut self,
        at: Instant,
        to_server: bool,
        link: Option<u8>,
        message: Message,
        outcome: Outcome,
    ) -> Rung {
        let number = self.seen;
        self.seen += 1;
        Rung {
            number,
            at,
            to_server,
            link,
            outcome,
            before: core::mem::replace(&mut self.kept, self.tally),
            after: self.tally,
            message,
        }
    }

    fn keep(&mut self, rung: Rung) {
        let validates = ProducerFlags::FAILOVER_VALIDATION;
        match &rung.message {
            Message::Text(..) => self.control.add(rung),
            Message::Cdc(cdc) if cdc.producer_flags.contains(validates) => {
                self.control.add(rung);
                self.around = AROUND;
            }
            _ if self.around > 0 => {
                self.control.add(rung);
                self.around -= 1;
            }
            _ => self.data.add(rung),
        }
    }

    fn tcp(&mut self, segment: &TcpSegment<'_>, family: Family, text: impl Into<String>) {
        let message = Message::Text(family, text.into());
        let (at, to_server) = (segment.at, segment.from_client);
        let rung = self.rung(at, to_server, None, message, Outcome::Accepted);
        self.keep(rung);
    }

    fn arrival(&mut self, arrival: &Arrival<'_>, kind: Option<Kind>, message: Message) {
        let to_server = arrival.flow.source.host == Some(self.client);
        let tally = if arrival.outcome == Outcome::Accepted {
            &mut self.tally
        } else {
            &mut self.not_accepted
        };
        if let Some(Kind::Write) = kind {
            tally.add_write(Kind::Write, arrival.payload.len() as u64, to_server);
        } else if let Some(kind) = kind {
            tally.add(kind, to_server);
        }
        let link = self.link_of(arrival);
        let rung = self.rung(arrival.at, to_server, link, message, arrival.outcome);
        self.keep(rung);
    }

    fn link_of(&self, arrival: &Arrival<'_>) -> Option<u8> {
        let ends = [arrival.flow.source, arrival.flow.destination];
        let mut known = ends
            .iter()
            .filter_map(|end| self.links.get(&(end.host, end.qpn)));
        known.next().map(|number| number.0)
    }

    /// Learns from a message which link a queue pair of its sender belongs to.
    fn learn_link(&mut self, arrival: &Arrival<'_>, message: &LlcMessage<'_>) {
        let (number, qpn) = match message {
            LlcMessage::ConfirmLink(confirm) => (confirm.link, confirm.qpn),
            LlcMessage::AddLink(add) if add.rejection.is_none() => (add.link, add.qpn),
            _ => return,
        };
        self.learn_end(arrival, number, qpn);
    }

    fn learn_end(&mut self, arrival: &Arrival<'_>, number: LinkNumber, qpn: Qpn) {
        let host = arrival.flow.source.host;
        self.links.insert((host, qpn), number);
    }
}

impl Observer for Watch {
    fn on_tcp_syn(&mut self, segment: &TcpSegment<'_>) {
        if segment.smc_option {
            self.tally.add(Kind::TcpOption, segment.from_client);
        }
        self.tcp(segment, Family::Tcp, text::syn(segment));
    }

    fn on_tcp_segment(&mut self, segment: &TcpSegment<'_>) {
        let mut bytes = segment.payload;
        // Each CLC message is one segment here; anything else is not SMC's.
        while let Ok((message, length)) = ClcMessage::parse(bytes)
            && let Some(rest) = bytes.get(length..)
            && length > 0
        {
            bytes = rest;
            self.tally.add(Kind::from(&message), segment.from_client);
            if let ClcMessage::Accept(contact) | ClcMessage::Confirm(contact) = &message {
                self.learn(contact.rtoken);
            }
            self.tcp(segment, Family::Clc, text::clc(&message));
        }
        if !bytes.is_empty() {
            let text = format!("TCP {} bytes", bytes.len());
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
            return self.arrival(send, Some(Kind::Cdc), Message::Cdc(cdc));
        }
        match LlcMessage::parse(send.payload, version_of(send.payload)) {
            Ok(message) => {
                self.latest_llc = send.at;
                text::rings(&message, |ring| self.learn(ring));
                self.learn_link(send, &message);
                let shown = Message::Text(Family::Llc, text::llc(&message));
                self.arrival(send, Some(Kind::from(&message)), shown);
            }
            Err(error) => {
                let message = Message::Text(Family::Llc, format!("SEND: {error}"));
                self.arrival(send, None, message);
            }
        }
    }

    fn on_write(&mut self, write: &Arrival<'_>, rkey: RKey, address: u64) {
        let message = Message::Write {
            length: write.payload.len(),
            rkey,
            address,
        };
        self.arrival(write, Some(Kind::Write), message);
    }

    fn on_ism(&mut self, moved: &IsmMoved<'_>) {
        let to_server = moved.source == self.client;
        let message = match moved.what {
            IsmContent::Data { offset, bytes } => {
                let length = bytes.len();
                self.tally.add_write(Kind::Move, length as u64, to_server);
                Message::Move { length, offset }
            }
            IsmContent::Cdc(cdc) => {
                self.tally.add(Kind::Cdc, to_server);
                match CdcIsm::parse(cdc, Endianness::NATIVE) {
                    Ok(cdc) => Message::CdcIsm(cdc),
                    Err(error) => Message::Text(Family::Cdc, error.to_string()),
                }
            }
            what @ IsmContent::Event { .. } => {
                self.tally.add(Kind::IsmEvent, to_server);
                Message::Text(Family::Event, describe::ism(&what))
            }
        };
        let rung = self.rung(moved.at, to_server, None, message, Outcome::Accepted);
        self.keep(rung);
    }
}
