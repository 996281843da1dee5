//! Takes frames, lets the rules judge, and remembers what they may want to know.

mod clc;
mod data;
mod llc;

use smc_capture::follow::{Content, Follower, Item, Path, Protocol, TcpPath};
use smc_capture::reader::CapturedFrame;
use smc_proto::wire::types::Psn;

use crate::known::{Known, Place};
use crate::order::{Order, Placed};
use crate::report::{Finding, Omission, Report};
use crate::rule::{Judgement, Row, Rule};
use crate::rules;
use crate::state::link::QpAddress;
use crate::state::message::Message;
use crate::state::side::Side;
use crate::view::{LinkView, On};

/// Judges the conversations of one capture.
pub struct Checker {
    follower: Follower,
    items: Vec<Item>,
    order: Order,
    known: Known,
    report: Report,
    /// Whether no frame is missing in the capture.
    complete: bool,
}

impl Default for Checker {
    fn default() -> Self {
        Self {
            follower: Follower::default().with_tcp(),
            items: Vec::new(),
            order: Order::default(),
            known: Known::default(),
            report: Report::default(),
            complete: false,
        }
    }
}

/// Frame and time of what is judged.
#[derive(Clone, Copy)]
struct Moment {
    frame: u64,
    time: u64,
}

/// Where a message was seen: on which link, and from which side.
#[derive(Clone, Copy)]
struct Where {
    place: Place,
    from: Side,
    at: Moment,
}

impl Checker {
    /// A judge of a capture that surely holds every frame: packets that it does not
    /// show never arrived.
    #[must_use]
    pub fn of_everything() -> Self {
        Self {
            complete: true,
            ..Self::default()
        }
    }

    /// Takes the next frame of the capture.
    pub fn push(&mut self, frame: &CapturedFrame) {
        self.report.seen.frames += 1;
        let mut items = core::mem::take(&mut self.items);
        self.follower.push(frame, &mut items);
        for item in items.drain(..) {
            self.item(item);
        }
        self.items = items;
    }

    /// What was found so far.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.report.findings
    }

    /// Ends the capture.
    #[must_use]
    pub fn finish(mut self) -> Report {
        let mut items = Vec::new();
        self.follower.finish(&mut items);
        for item in items {
            self.item(item);
        }
        for placed in self.order.finish() {
            self.placed(placed);
        }
        let known = &self.known;
        self.report.withdraw_if(|finding| {
            let lost = |omission: Omission| !known.is_used_since(omission, finding.frame);
            finding.omission.is_some_and(lost)
        });
        self.report.seen.groups = self.known.groups_begun();
        self.report.findings.sort_by_key(|finding| finding.frame);
        self.report
    }

    fn item(&mut self, item: Item) {
        let at = Moment {
            frame: item.frame,
            time: item.time,
        };
        match item.path.clone() {
            Path::Tcp(path) if !item.retransmission => self.tcp(at, &path, &item),
            Path::Tcp(_) => {}
            Path::Roce(_) => {
                for placed in self.order.push(item) {
                    self.placed(placed);
                }
            }
            Path::Hosts { .. } => self.malformed(at, &item.content),
        }
    }

    /// Something on a TCP connection.
    fn tcp(&mut self, at: Moment, path: &TcpPath, item: &Item) {
        let from = match path.to_server {
            true => Side::Client,
            false => Side::Server,
        };
        match &item.content {
            Content::TcpOption(_) => {
                if from == Side::Client {
                    self.report.seen.tcp_connections += 1;
                }
                *self.known.stream(path.stream).options.of_mut(from) = true;
            }
            Content::Clc(message) => self.clc(at, path.stream, from, message, &item.bytes),
            Content::Tcp(sign) => self.tcp_sign(at, path.stream, from, *sign),
            Content::Malformed { .. } => {
                let stream = self.known.stream(path.stream);
                stream.broken = true;
                // Without both SYNs it is not known that this should be CLC.
                if stream.has_options() {
                    self.malformed(at, &item.content);
                }
            }
            _ => self.known.stream(path.stream).broken = true,
        }
    }

    /// A SEND or RDMA WRITE in its turn.
    fn placed(&mut self, placed: Placed) {
        let Placed { item, path, .. } = &placed;
        let at = Moment {
            frame: item.frame,
            time: item.time,
        };
        let to = (path.destination, path.destination_qpn);
        let Some(place) = self.known.place(to) else {
            self.report.seen.strangers += 1;
            return;
        };
        let from = place.owner.other();
        let here = Where { place, from, at };
        if let Some(since) = placed.gap.filter(|_| !self.complete) {
            self.lose(here, since);
        }
        if !self.complete {
            self.check_ends(here);
        }
        let message = match &item.content {
            Content::Llc(message) => Some(Message::of(&message.message(), message.version())),
            _ => None,
        };
        let what = match (&item.content, &message) {
            (_, Some(message)) => On::Llc(message),
            (Content::Cdc(_), _) => On::Cdc,
            (Content::Write(_), _) => On::Write,
            (content, _) => return self.malformed(at, content),
        };
        self.on_link(here, what, placed.astray, path.psn);
        match (&item.content, message) {
            (_, Some(message)) => self.llc(here, &message, &item.bytes),
            (Content::Cdc(cdc), _) => self.cdc(here, cdc, &item.bytes),
            (Content::Write(write), _) => self.write(here, write),
            _ => {}
        }
    }

    /// Judges what is judged of everything on a link.
    fn on_link(&mut self, here: Where, what: On<'_>, astray: Option<Psn>, psn: Psn) {
        let Where { place, from, at } = here;
        let Self { known, report, .. } = self;
        let Some(group) = known.groups.get_mut(&place.group) else {
            return;
        };
        if let Some(link) = group.links.get_mut(place.link) {
            *link.used.of_mut(from) = true;
            *link.last.of_mut(from) = at.frame;
        }
        if from == Side::Server {
            group.settled |= group.addition.is_none() && what.goes_on();
        }
        let Some(link) = group.links.get(place.link) else {
            return;
        };
        let view = LinkView {
            group,
            link,
            from,
            what,
            astray: astray.filter(|_| link.whole).map(Psn::value),
            psn: psn.value(),
            time: at.time,
        };
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::links::ON_LINKS,
            &view,
        );
    }

    /// Reports a link in use of which one end was never announced: a CLC message is missing.
    fn check_ends(&mut self, here: Where) {
        let Where { place, from, .. } = here;
        if let Some(group) = self.known.groups.get_mut(&place.group) {
            let link = group.links.get(place.link);
            group.gaps |= link.is_some_and(|link| link.ends.of(from).is_none());
        }
    }

    /// Messages are missing: their content is not known.
    fn lose(&mut self, here: Where, since: u64) {
        let Where { place, from, .. } = here;
        self.report.withdraw(place.group, since);
        let Some(group) = self.known.groups.get_mut(&place.group) else {
            return;
        };
        if let Some(link) = group.links.get_mut(place.link) {
            *link.gaps.of_mut(from) = true;
        }
        group.gaps = true;
        for connection in group.connections.values_mut() {
            let flow = connection.flows.of_mut(from);
            if flow.link.is_none_or(|link| link == place.link) {
                flow.lost = true;
            }
        }
    }

    /// Puts messages to this queue pair in order from this number on.
    fn begin(&mut self, to: QpAddress, first: Psn) {
        for placed in self.order.begin(to, first) {
            self.placed(placed);
        }
    }

    fn malformed(&mut self, at: Moment, content: &Content) {
        let (Content::Malformed { reason, .. }, protocol) = (content, content.protocol()) else {
            return;
        };
        let rule = match protocol {
            Protocol::Clc => &rules::clc::MALFORMED,
            _ => &rules::llc::MALFORMED,
        };
        let sentence = format!("malformed {protocol}: {reason}");
        note(&mut self.report, at, None, rule, Judgement::Wrong(sentence));
    }
}

/// Evaluates all rules of a table and notes their judgements. `group` is the link group
/// that it is about, and whether messages of it are missing.
fn judge<V>(
    report: &mut Report,
    at: Moment,
    group: Option<(u64, bool)>,
    table: &'static [Row<impl Fn(&V) -> Judgement>],
    view: &V,
) {
    for row in table {
        note(report, at, group, &row.rule, (row.judge)(view));
    }
}

fn note(
    report: &mut Report,
    at: Moment,
    group: Option<(u64, bool)>,
    rule: &'static Rule,
    judgement: Judgement,
) {
    let doubtful = group.is_some_and(|(_, gaps)| gaps) && !rule.bears_gaps();
    let judgement = match judgement {
        Judgement::Wrong(_)
        | Judgement::Early(_)
        | Judgement::Omits { .. }
        | Judgement::Known(..)
            if doubtful =>
        {
            Judgement::Unknown
        }
        judgement => judgement,
    };
    let early = matches!(judgement, Judgement::Early(_));
    let group = group.map(|(number, _)| number);
    let omission = match judgement {
        Judgement::Omits { link, by, .. } => group.map(|group| Omission { group, link, by }),
        _ => None,
    };
    let (sentence, known) = match judgement {
        Judgement::Fine => return,
        Judgement::Unknown => {
            *report.unjudged.entry(rule.name).or_default() += 1;
            return;
        }
        Judgement::Wrong(sentence)
        | Judgement::Early(sentence)
        | Judgement::Omits { sentence, .. } => (sentence, None),
        Judgement::Known(deviation, sentence) => (sentence, Some(deviation)),
    };
    report.add(Finding {
        frame: at.frame,
        time: at.time,
        rule,
        sentence,
        known,
        early,
        group,
        omission,
    });
}
