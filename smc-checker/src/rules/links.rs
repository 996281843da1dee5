//! Links: how they come to be, what they carry, how they end.

use smc_proto::wire::llc::{DeleteLinkFlags, RTokenPair};
use smc_proto::wire::types::LinkNumber;

use crate::deviation;
use crate::rule::{Judgement, early, rules, wrong};
use crate::state::group::{Addition, Request};
use crate::state::link::{Link, LinkEnd, Stage};
use crate::state::message::Message;
use crate::state::side::Side;
use crate::view::{LinkView, LlcView, On};

rules! {
    /// Rules about everything on a link.
    ON_LINKS: LinkView, Links;
    first_psn "CLC-042" "link-first-psn" needs "Accept and Confirm, or ADD LINK"
        says "The first packet of a side has the number that it announced.";
    confirmed "LLC-013" "link-confirmed-first" needs "the link's beginning"
        says "A link carries nothing before CONFIRM LINK and its reply.";
    deleted "LLC-046" "link-after-deletion" needs "the link's messages"
        says "A client that answered the deletion of a link sends nothing more on it, nor the server.";
    settled "RENDEZVOUS-025" "link-data-in-first-contact" needs "the group's beginning"
        says "In the first contact the server sends no data while a second link is being added.";
}

rules! {
    /// Rules about the messages that make and end links.
    RULES: LlcView, Links;
    identity "RENDEZVOUS-023" "link-confirm-identity" needs "Accept and Confirm, or ADD LINK"
        says "CONFIRM LINK names the sender's own end of the link that carries it.";
    number "LLC-016" "link-confirm-number" needs "the request or ADD LINK"
        says "CONFIRM LINK has the number of its link; the reply repeats it.";
    max_links "LINK-015" "link-max-links" needs "the request"
        says "The client's limit of links is not above the server's.";
    subsequent "RENDEZVOUS-041" "link-confirm-once" needs "the link's beginning"
        says "A link is confirmed once.";
    new_number "LINK-025" "link-new-number" needs "the group's links"
        says "An ADD LINK has a number that no link of the group has, and none that is 0.";
    reused_number "LINK-027" "link-number-reuse" needs "the group's beginning"
        says "The number of a deleted link is not used again before all were.";
    add_reply "LLC-023" "link-add-reply" needs "the request"
        says "A client that accepts ADD LINK repeats the link's number.";
    parallel "LINK-007" "link-parallel" needs "the group's links"
        says "No two links of a group join the same two RNICs.";
    most "LINK-019" "link-limit" needs "both CONFIRM LINKs"
        says "A group has no more links than both sides want, but for one that replaces another.";
    round_place "LLC-033" "link-continuation-link" needs "ADD LINK and its reply"
        says "ADD LINK CONTINUATION comes behind an accepted ADD LINK, on its link and with the new link's number.";
    round_count "LLC-036" "link-continuation-count" needs "the exchange"
        says "The count of pairs left falls by two with each ADD LINK CONTINUATION, down to the last pairs.";
    round_rmbs "LLC-040" "link-continuation-rmbs" needs "the group's beginning"
        says "ADD LINK and its CONTINUATIONs announce each RMB of the sender, once.";
    all_announced "LLC-018" "link-announced-before-confirm" needs "the group's beginning"
        says "When the server confirms an added link both sides have announced all their RMBs.";
    known_number "LLC-042" "link-delete-known" needs "the group's beginning"
        says "A server deletes links that there are.";
}

fn first_psn(view: &LinkView<'_>) -> Judgement {
    match view.astray {
        Some(first) => wrong!(
            "{} begins with packet {:06x}, but announced {first:06x}",
            view.from,
            view.psn
        ),
        None => Judgement::Fine,
    }
}

fn confirmed(view: &LinkView<'_>) -> Judgement {
    let what = match view.what {
        On::Llc(Message::ConfirmLink(_)) => return Judgement::Fine,
        // The end of the group needs no link that works.
        On::Llc(message) if message.ends_group() => return Judgement::Fine,
        On::Llc(message) => message.kind().name(),
        On::Cdc => "a CDC message",
        On::Write => "an RDMA WRITE",
    };
    if !view.link.whole || view.link.stage >= Stage::Confirmed {
        return Judgement::Fine;
    }
    if view.group.gaps {
        return Judgement::Unknown;
    }
    wrong!(
        "{} sends {what} on {} before it is confirmed",
        view.from,
        view.link.name()
    )
}

fn deleted(view: &LinkView<'_>) -> Judgement {
    if !*view.link.left.of(view.from) {
        return Judgement::Fine;
    }
    let what = match view.what {
        On::Llc(message) => message.kind().name(),
        On::Cdc => "a CDC message",
        On::Write => "an RDMA WRITE",
    };
    wrong!(
        "{} sends {what} on {}, which is deleted",
        view.from,
        view.link.name()
    )
}

/// How long an addition is not given up, in nanoseconds.
const TIMEOUT: u64 = 1_000_000_000;

fn settled(view: &LinkView<'_>) -> Judgement {
    let Some(addition) = view.group.addition.as_ref().filter(|_| !view.group.settled) else {
        return Judgement::Fine;
    };
    let data = matches!(view.what, On::Cdc | On::Write);
    let at = view.time.saturating_sub(addition.time);
    if !data || view.from == Side::Client || at > TIMEOUT {
        return Judgement::Fine;
    }
    early!("the server sends data before the second link is confirmed or given up")
}

fn identity(view: &LlcView<'_>) -> Judgement {
    let (Message::ConfirmLink(confirm), Some(end)) = (view.message, view.link.ends.of(view.from))
    else {
        return Judgement::Fine;
    };
    let is = (confirm.gid, confirm.qpn, confirm.mac);
    let LinkEnd { address, mac, .. } = *end;
    if is == (address.0, address.1, mac) || !view.link.whole {
        return Judgement::Fine;
    }
    wrong!(
        "CONFIRM LINK names {} qp {} of {}, which is not this link's end",
        is.0,
        is.1,
        is.2
    )
}

fn number(view: &LlcView<'_>) -> Judgement {
    let Message::ConfirmLink(confirm) = view.message else {
        return Judgement::Fine;
    };
    if confirm.link == LinkNumber(0) {
        return wrong!("CONFIRM LINK has link number 0");
    }
    match view.link.number {
        Some(number) if number != confirm.link => {
            wrong!("CONFIRM LINK of link {number} says link {}", confirm.link)
        }
        _ => Judgement::Fine,
    }
}

fn max_links(view: &LlcView<'_>) -> Judgement {
    let (Message::ConfirmLink(confirm), Some(most)) =
        (view.message, *view.group.max_links.of(Side::Server))
    else {
        return Judgement::Fine;
    };
    if view.from == Side::Server || confirm.max_links <= most {
        return Judgement::Fine;
    }
    wrong!(
        "the client wants {} links, the server {most}",
        confirm.max_links
    )
}

fn subsequent(view: &LlcView<'_>) -> Judgement {
    match view.message {
        Message::ConfirmLink(m)
            // Not one that its deletion, on another link, overtook.
            if !m.reply && view.link.whole && view.link.was_up =>
        {
            wrong!("{} is confirmed once more", view.link.name())
        }
        _ => Judgement::Fine,
    }
}

/// The number of a new link that the server asks for.
fn adds(view: &LlcView<'_>) -> Option<LinkNumber> {
    match view.message {
        Message::AddLink(add, _) if !add.reply && view.from == Side::Server => Some(add.link),
        _ => None,
    }
}

fn new_number(view: &LlcView<'_>) -> Judgement {
    let Some(number) = adds(view) else {
        return Judgement::Fine;
    };
    if number == LinkNumber(0) {
        return wrong!("ADD LINK has link number 0");
    }
    match view.group.numbered(number) {
        Some(there) if view.group.link(there).is_some_and(|link| link.is_up()) => {
            wrong!("ADD LINK has number {number}, which a link has")
        }
        _ => Judgement::Fine,
    }
}

fn reused_number(view: &LlcView<'_>) -> Judgement {
    let Some(number) = adds(view).filter(|_| view.group.whole) else {
        return Judgement::Fine;
    };
    let links = &view.group.links;
    // An attempt that failed need not have cost its number.
    let used = |link: &&crate::state::link::Link| link.number == Some(number) && link.was_up;
    let numbers = links.iter().filter_map(|link| link.number);
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() < 255 && links.iter().any(|link| used(&link) && link.is_gone()) {
        return wrong!("ADD LINK has the number {number} of a deleted link");
    }
    Judgement::Fine
}

/// The addition that a client's acceptance answers, and its end of the new link.
fn accepts<'a>(
    view: &LlcView<'a>,
) -> Option<(&'a Addition, &'a smc_proto::wire::llc::AddLink<'static>)> {
    match view.message {
        Message::AddLink(add, _) if add.reply && add.rejection.is_none() => {
            Some((view.group.addition.as_ref()?, add))
        }
        _ => None,
    }
}

fn add_reply(view: &LlcView<'_>) -> Judgement {
    let Some((addition, add)) = accepts(view) else {
        return Judgement::Fine;
    };
    let number = view.group.link(addition.link).and_then(|link| link.number);
    match number {
        Some(number) if number != add.link => {
            wrong!("ADD LINK of link {number} is accepted as link {}", add.link)
        }
        _ => Judgement::Fine,
    }
}

fn parallel(view: &LlcView<'_>) -> Judgement {
    let Some((addition, add)) = accepts(view) else {
        return Judgement::Fine;
    };
    let new = view.group.link(addition.link);
    let Some(server) = new.and_then(|link| *link.ends.of(Side::Server)) else {
        return Judgement::Fine;
    };
    let same = view.group.up().find(|(_, link)| {
        let [Some(client), Some(there)] = [Side::Client, Side::Server].map(|s| *link.ends.of(s))
        else {
            return false;
        };
        (client.address.0, client.mac) == (add.gid, add.mac)
            && (there.address.0, there.mac) == (server.address.0, server.mac)
    });
    match same {
        Some((_, link)) => wrong!("the new link joins the same RNICs as {}", link.name()),
        None => Judgement::Fine,
    }
}

fn most(view: &LlcView<'_>) -> Judgement {
    if adds(view).is_none() {
        return Judgement::Fine;
    }
    let limits = Side::BOTH.map(|side| *view.group.max_links.of(side));
    let [Some(client), Some(server)] = limits else {
        return Judgement::Unknown;
    };
    // A client may leave its limit out.
    let client = if client == 0 { server } else { client };
    let (most, up) = (usize::from(client.min(server)), view.group.up().count());
    if up <= most {
        return Judgement::Fine;
    }
    wrong!("ADD LINK although there are {up} links and both sides want {most}")
}

fn round_place(view: &LlcView<'_>) -> Judgement {
    let Message::Continuation(round) = view.message else {
        return Judgement::Fine;
    };
    let Some(addition) = view.group.addition.as_ref().filter(|a| a.accepted) else {
        // The server may have given the link up while its message waited for this answer.
        let asked = |r: &Request| {
            let kinds = (r.message.kind(), view.message.kind());
            kinds.0 == kinds.1 && r.from != view.from && r.link == view.index
        };
        if round.reply && view.group.requests.iter().any(asked) {
            return Judgement::Fine;
        }
        // Or announced so over another link, on which it came first.
        let overtaken = |link: &Link| {
            let over = link.deleted_over.is_some_and(|over| over != view.index);
            over && link.number == Some(round.link)
        };
        if view.group.links.iter().any(overtaken) {
            return Judgement::Fine;
        }
        return match view.group.is_known() {
            true => wrong!("ADD LINK CONTINUATION without an accepted ADD LINK"),
            false => Judgement::Unknown,
        };
    };
    if addition.carrier != view.index {
        return wrong!("ADD LINK CONTINUATION on another link than ADD LINK");
    }
    match view.group.link(addition.link).and_then(|link| link.number) {
        Some(number) if number != round.link => {
            wrong!(
                "ADD LINK CONTINUATION is of link {}, ADD LINK of {number}",
                round.link
            )
        }
        _ => Judgement::Fine,
    }
}

fn round_count(view: &LlcView<'_>) -> Judgement {
    let (Message::Continuation(round), Some(addition)) = (view.message, &view.group.addition)
    else {
        return Judgement::Fine;
    };
    let last = addition.announced.of(view.from).remaining;
    let should = last.map(|last| last.saturating_sub(2));
    let pairs = u8::try_from(round.pairs.len()).unwrap_or(u8::MAX);
    if should.is_some_and(|should| round.remaining != should) {
        let should = should.unwrap_or(0);
        return Judgement::Known(
            &deviation::CONTINUATION_OF_CONNECTIONS,
            format!("{} pairs are left in place of {should}", round.remaining),
        );
    }
    if round.remaining < 2 && pairs != round.remaining {
        return wrong!("{pairs} pairs although {} are left", round.remaining);
    }
    Judgement::Fine
}

fn round_rmbs(view: &LlcView<'_>) -> Judgement {
    let pairs: Vec<_> = match view.message {
        Message::Continuation(round) => round.pairs.iter().copied().collect(),
        Message::AddLink(add, Some(pairs)) if add.rejection.is_none() => pairs.clone(),
        _ => return Judgement::Fine,
    };
    if !view.group.is_known() {
        return Judgement::Unknown;
    }
    let addition = view.group.addition.as_ref();
    for (place, pair) in pairs.iter().enumerate() {
        let key = pair.reference;
        let Some(rmb) = view.group.rmb(view.from, view.index, key) else {
            let sentence = format!(
                "a pair of key {key}, which is no RMB's on {}",
                view.link.name()
            );
            // What Linux fills up with, and nothing else.
            if *pair != RTokenPair::default() {
                return wrong!("{sentence}");
            }
            return Judgement::Known(&deviation::CONTINUATION_OF_CONNECTIONS, sentence);
        };
        let announced = addition.map(|a| a.announced.of(view.from));
        let again = pairs
            .iter()
            .take(place)
            .any(|earlier| earlier.reference == key);
        let rounds = matches!(view.message, Message::Continuation(_));
        if again || (rounds && announced.is_some_and(|known| known.rmbs.contains(&rmb.number))) {
            return wrong!("the RMB of key {key} is announced twice");
        }
    }
    Judgement::Fine
}

fn all_announced(view: &LlcView<'_>) -> Judgement {
    let Some(addition) = &view.group.addition else {
        return Judgement::Fine;
    };
    let confirms = matches!(view.message, Message::ConfirmLink(m) if !m.reply);
    if !confirms || addition.link != view.index {
        return Judgement::Fine;
    }
    if !view.group.is_known() || view.group.requests.iter().any(|r| r.is_of_rkeys()) {
        return Judgement::Unknown;
    }
    for side in Side::BOTH {
        let announced = addition.announced.of(side);
        let missing = view
            .group
            .rmbs(side)
            // One that came meanwhile is announced behind the addition, and so is one whose
            // owner may not know yet that the peer has it on the carrying link.
            .find(|rmb| {
                let here = rmb.on(addition.link).is_some() || rmb.during == Some(addition.link);
                rmb.counted.contains(&addition.carrier) && !here
            });
        if missing.is_some() && announced.odd {
            return Judgement::Known(
                &deviation::CONTINUATION_OF_CONNECTIONS,
                format!("{side} announced connections, not every RMB"),
            );
        }
        if missing.is_some() {
            return wrong!("{side} did not announce all its RMBs");
        }
    }
    Judgement::Fine
}

fn known_number(view: &LlcView<'_>) -> Judgement {
    let Message::DeleteLink(delete) = view.message else {
        return Judgement::Fine;
    };
    let all = delete.flags.contains(DeleteLinkFlags::ALL);
    if delete.reply || all || view.from == Side::Client {
        return Judgement::Fine;
    }
    if !view.group.is_known() {
        return Judgement::Unknown;
    }
    let links = &view.group.links;
    if links.iter().any(|link| link.number == Some(delete.link)) {
        return Judgement::Fine;
    }
    // Its ADD LINK may have been lost in front of the tap, with the link that was to
    // carry it.
    if links.iter().any(|link| link.doubtful) {
        return Judgement::Unknown;
    }
    // DELETE LINK of the link that was to carry it comes behind that of the new one.
    let at_once = !delete.flags.contains(DeleteLinkFlags::ORDERLY);
    let newest = links.iter().filter_map(|link| link.number).max();
    if at_once && newest.is_some_and(|newest| delete.link.0 > newest.0) {
        return Judgement::Unknown;
    }
    wrong!(
        "the server deletes link {}, which there never was",
        delete.link
    )
}
