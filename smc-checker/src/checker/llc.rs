//! LLC messages: they make links, and announce RMBs.

use smc_proto::wire::llc::{AddLink, ConfirmLink, DeleteLink, RTokenPair};
use smc_proto::wire::types::LinkNumber;

use super::{Checker, Where, judge};
use crate::known::Place;
use crate::report::Omission;
use crate::rules;
use crate::rules::rkeys::is_refused;
use crate::state::flow::CROSSING;
use crate::state::group::{Addition, Announced, Group, MAX_LINKS, Request};
use crate::state::link::{Link, LinkEnd, LinkIndex, Stage};
use crate::state::message::{Kind, Message};
use crate::state::side::{Pair, Side};
use crate::view::LlcView;

impl Checker {
    pub(super) fn llc(&mut self, here: Where, message: &Message, bytes: &[u8]) {
        self.report.seen.llc += 1;
        let Where { place, from, at } = here;
        let Self { known, report, .. } = self;
        let Some(group) = known.groups.get(&place.group) else {
            return;
        };
        let Some(link) = group.link(place.link) else {
            return;
        };
        let view = LlcView {
            group,
            index: place.link,
            link,
            from,
            message,
            bytes,
            time: at.time,
        };
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::llc::RULES,
            &view,
        );
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::links::RULES,
            &view,
        );
        judge(
            report,
            at,
            Some((place.group, group.gaps)),
            rules::rkeys::RULES,
            &view,
        );
        self.note_llc(here, message);
    }

    fn note_llc(&mut self, here: Where, message: &Message) {
        let Where { place, from, at } = here;
        self.excuse_omission(here, message);
        let Some(group) = self.known.groups.get_mut(&place.group) else {
            return;
        };
        let request = match message.is_reply() {
            true => group.answer(message, from.other(), place.link),
            false => None,
        };
        if !message.is_reply() && wants_reply(message, from) {
            // One that waits is given up if the same is asked once more.
            group.supersede(message, from, place.link);
            group.ask(Request {
                from,
                link: place.link,
                message: message.clone(),
                frame: at.frame,
                time: at.time,
                given_up: false,
            });
        }
        match message {
            Message::ConfirmLink(confirm) => note_confirm(group, here, confirm),
            Message::AddLink(add, pairs) => {
                self.note_add(here, add, pairs.as_deref(), request);
            }
            Message::Continuation(round) => {
                let pairs: Vec<_> = round.pairs.iter().copied().collect();
                announce_pairs(group, here, &pairs, Some(round.remaining));
            }
            Message::DeleteLink(delete) if message.ends_group() => {
                group.ended = Some(from);
                let _ = delete;
            }
            Message::DeleteLink(delete) => note_delete(group, here, delete, request.is_some()),
            Message::ConfirmRkey(confirm) if confirm.reply && !is_refused(confirm.flags) => {
                if let Some(Request {
                    message: Message::ConfirmRkey(asked),
                    ..
                }) = request
                {
                    let owner = from.other();
                    let rmb = group
                        .announced_before(owner, place.link, &asked)
                        .unwrap_or_else(|| group.learn(owner, place.link, asked.rtoken));
                    group.learn_on(owner, rmb, place.link, asked.rtoken);
                    for other in &asked.others {
                        if let Some(link) = group.numbered(other.link) {
                            group.learn_on(owner, rmb, link, other.rtoken);
                        }
                    }
                    *group.announcing.of_mut(owner) = (asked.other_links > 2).then_some(rmb);
                }
            }
            Message::ConfirmRkeyContinuation(round) if round.reply => {
                let owner = from.other();
                if let Some(rmb) = *group.announcing.of(owner) {
                    for other in &round.others {
                        if let Some(link) = group.numbered(other.link) {
                            group.learn_on(owner, rmb, link, other.rtoken);
                        }
                    }
                }
            }
            Message::DeleteRkey { reply: true, .. } => {
                if let Some(Request {
                    message: Message::DeleteRkey { rkeys, .. },
                    ..
                }) = request
                {
                    for rkey in rkeys {
                        group.withdraw(from.other(), place.link, rkey);
                    }
                }
            }
            _ => {}
        }
    }

    /// A side that asks to delete a link had lost it when it left it out a moment before,
    /// unless the other side has asked first: that may follow from the omission.
    fn excuse_omission(&mut self, here: Where, message: &Message) {
        let Where { place, from, at } = here;
        let Message::DeleteLink(delete) = message else {
            return;
        };
        let Some(group) = self.known.groups.get(&place.group) else {
            return;
        };
        let Some(index) = group.numbered(delete.link) else {
            return;
        };
        if delete.reply || group.link(index).is_none_or(|link| link.doubtful) {
            return;
        }
        let omission = Omission {
            group: place.group,
            link: index,
            by: from,
        };
        self.report
            .excuse(omission, at.time.saturating_sub(CROSSING));
    }

    fn note_add(
        &mut self,
        here: Where,
        add: &AddLink,
        pairs: Option<&[RTokenPair]>,
        asked: Option<Request>,
    ) {
        let Where { place, from, at } = here;
        let Some(group) = self.known.groups.get_mut(&place.group) else {
            return;
        };
        if from == Side::Server && !add.reply {
            if group.links.len() >= MAX_LINKS {
                group.gaps = true;
                return;
            }
            let index = group.links.len();
            let mut link = Link::new(true);
            link.number = Some(add.link).filter(|number| *number != LinkNumber(0));
            group.links.push(link);
            group.addition = Some(Addition {
                carrier: place.link,
                link: index,
                accepted: false,
                announced: Pair::default(),
                time: at.time,
            });
            self.end_of_new(here, index, add, pairs);
            return;
        }
        if from == Side::Server || !add.reply {
            return;
        }
        // An answer to another addition, which was given up, has no bearing on this one.
        let wanted = asked.as_ref().and_then(|request| request.message.adds());
        let current = group.addition.as_ref().map(|addition| addition.link);
        let current = current.and_then(|index| group.link(index)?.number);
        if wanted.is_some() && current.is_some() && wanted != current {
            return;
        }
        let Some(addition) = group.addition.as_mut().filter(|a| a.carrier == place.link) else {
            return;
        };
        let index = addition.link;
        if add.rejection.is_some() {
            group.addition = None;
            group.settled = true;
            if let Some(link) = group.links.get_mut(index) {
                link.stage = Stage::Gone;
                link.gone_at = at.time;
            }
            return;
        }
        addition.accepted = true;
        self.end_of_new(here, index, add, pairs);
    }

    /// One side announced its end of a link that is added, and in version 2 its RMBs.
    fn end_of_new(
        &mut self,
        here: Where,
        index: LinkIndex,
        add: &AddLink,
        pairs: Option<&[RTokenPair]>,
    ) {
        let Where { place, from, .. } = here;
        let end = LinkEnd {
            address: (add.gid, add.qpn),
            mac: add.mac,
            mtu: add.mtu,
            psn: add.psn,
        };
        let new = Place {
            link: index,
            owner: from,
            ..place
        };
        self.known.set_end(new, end);
        let Some(group) = self.known.groups.get_mut(&place.group) else {
            return;
        };
        if let Some(pairs) = pairs {
            announce_pairs(group, here, pairs, None);
        }
        let ends = group
            .link(index)
            .map(|link| Side::BOTH.map(|s| *link.ends.of(s)));
        if let Some([Some(client), Some(server)]) = ends {
            self.begin(client.address, server.psn);
            self.begin(server.address, client.psn);
        }
    }
}

/// Whether a request has to be answered.
fn wants_reply(message: &Message, from: Side) -> bool {
    match message.kind() {
        Kind::DeleteLink => from == Side::Server && !message.ends_group(),
        Kind::AddLink => from == Side::Server,
        _ => true,
    }
}

fn note_confirm(group: &mut Group, here: Where, confirm: &ConfirmLink) {
    let Where { place, from, .. } = here;
    let first = group.links.len() == 1;
    let Some(link) = group.links.get_mut(place.link) else {
        return;
    };
    link.number.get_or_insert(confirm.link);
    let stage = match confirm.reply {
        true => Stage::Confirmed,
        false => Stage::Asked,
    };
    if link.stage < stage {
        link.stage = stage;
        link.was_up |= stage == Stage::Confirmed;
    }
    if first || group.eye_catchers.of(from).is_none() {
        *group.eye_catchers.of_mut(from) = Some(!confirm.announces_no_eye_catcher());
        *group.max_links.of_mut(from) = Some(confirm.max_links);
    }
    let added = group
        .addition
        .as_ref()
        .is_some_and(|a| a.link == place.link);
    if confirm.reply && added {
        group.addition = None;
        group.settled = true;
    }
}

/// Notes the RTokens that one side announced for a link that is added.
fn announce_pairs(group: &mut Group, here: Where, pairs: &[RTokenPair], remaining: Option<u8>) {
    let Where { place, from, .. } = here;
    let Some(mut addition) = group.addition.take() else {
        return;
    };
    let announced: &mut Announced = addition.announced.of_mut(from);
    for pair in pairs {
        let rmb = group.rmb(from, place.link, pair.reference);
        match rmb.map(|rmb| rmb.number) {
            Some(rmb) => {
                group.learn_on(from, rmb, addition.link, pair.new);
                group.count(from, rmb, place.link);
                group.count(from, rmb, addition.link);
                announced.rmbs.push(rmb);
            }
            None => announced.odd = true,
        }
    }
    if let (Some(now), Some(last)) = (remaining, announced.remaining) {
        announced.odd |= now != last.saturating_sub(2);
    }
    announced.remaining = remaining;
    group.addition = Some(addition);
}

fn note_delete(group: &mut Group, here: Where, delete: &DeleteLink, answers: bool) {
    let Where { place, from, at } = here;
    if from == Side::Server && !delete.reply {
        group.give_up(delete.link);
    }
    let Some(index) = group.numbered(delete.link) else {
        return;
    };
    // A client asks for its end; the server goes on until it has received that.
    let ends = from == Side::Server || delete.reply;
    let addition = group.addition.as_ref();
    if ends && addition.is_some_and(|addition| addition.link == index) {
        group.addition = None;
        group.settled = true;
    }
    let Some(link) = group.links.get_mut(index) else {
        return;
    };
    link.doubtful = true;
    match (from, delete.reply) {
        (Side::Server, false) => {
            link.stage = link.stage.max(Stage::Leaving);
            link.deleted_over = Some(place.link);
        }
        (Side::Client, true) if answers => {
            link.stage = Stage::Gone;
            link.gone_at = at.time;
            if index == place.link {
                *link.left.of_mut(Side::Client) = true;
            }
        }
        _ => {}
    }
}
