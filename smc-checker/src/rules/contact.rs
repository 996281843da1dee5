//! First and subsequent contact: how Accept and Confirm describe link groups.

use smc_proto::wire::clc::{AcceptConfirm, ClcMessage};

use crate::known::Place;
use crate::rule::{Judgement, rules, wrong};
use crate::state::group::Group;
use crate::state::link::LinkIndex;
use crate::state::side::Side;
use crate::state::stream::Answer;
use crate::view::ClcView;

rules! {
    /// Rules about Accept, Confirm and the link groups there are.
    RULES: ClcView, Contact;
    new_queue_pair "RENDEZVOUS-054" "contact-new-queue-pair" needs "the group's beginning"
        says "On first contact both sides name queue pairs that no living link has.";
    known_link "RENDEZVOUS-036" "contact-known-link" needs "the group's beginning"
        says "On subsequent contact the Accept names a link that was not deleted.";
    same_end "RENDEZVOUS-011" "contact-same-end" needs "the group's beginning"
        says "On subsequent contact peer ID and MAC are those of the link that is named.";
    same_kind "CLC-043" "contact-same-kind" needs "the Accept"
        says "A Confirm calls the contact first or subsequent as the Accept does.";
    same_group "RENDEZVOUS-043" "contact-same-group" needs "the group's beginning"
        says "On subsequent contact the Confirm names a living link of the Accept's group.";
    server_announced "RENDEZVOUS-038" "contact-rmb-of-accept" needs "the group's beginning"
        says "The RMB that a subsequent Accept names was announced by CONFIRM RKEY, with this address.";
    client_announced "RENDEZVOUS-039" "contact-rmb-of-confirm" needs "the group's beginning"
        says "The RMB that a subsequent Confirm names was announced by CONFIRM RKEY, with this address.";
    on_all_links "RENDEZVOUS-056" "contact-rmb-on-all-links" needs "the group's beginning"
        says "An RMB that a connection begins to use has an RToken on every link.";
    free_element "RENDEZVOUS-040" "contact-free-element" needs "the connection that has it"
        says "The RMB element of an Accept or Confirm is not in use.";
    own_token "CLC-037" "contact-token" needs "the connection that has it"
        says "An alert token names one living connection of its group.";
    back_to_tcp "RENDEZVOUS-058" "contact-no-return" needs "the connection"
        says "A side that sent CDC messages for a connection does not decline it.";
}

/// An Accept or Confirm of SMC-R with the place that its queue pair has.
fn named<'a>(view: &ClcView<'a>) -> Option<(&'a AcceptConfirm, Side, Option<Place>)> {
    let (message, side) = match view.message {
        ClcMessage::Accept(message) => (message, Side::Server),
        ClcMessage::Confirm(message) => (message, Side::Client),
        _ => return None,
    };
    let place = view.known.place((message.gid, message.qpn));
    Some((message, side, place.filter(|place| place.owner == side)))
}

/// A subsequent Accept or Confirm and the link it names, if the group's beginning is
/// in the capture.
fn subsequent<'a>(view: &ClcView<'a>) -> Option<(&'a AcceptConfirm, Side, &'a Group, LinkIndex)> {
    let (message, side, place) = named(view)?;
    let place = place.filter(|_| !message.first_contact)?;
    let group = view.known.groups.get(&place.group)?;
    group.whole.then_some((message, side, group, place.link))
}

fn new_queue_pair(view: &ClcView<'_>) -> Judgement {
    let Some((message, side, _)) = named(view) else {
        return Judgement::Fine;
    };
    let address = (message.gid, message.qpn);
    match view.known.live(address) {
        Some(place) if message.first_contact && place.owner == side => {
            // A host that began anew may give its queue pairs the same numbers.
            let peer = view.known.groups.get(&place.group);
            let same = peer.and_then(|group| *group.peers.of(side)) == Some(message.peer_id);
            match same {
                true => wrong!(
                    "first contact over queue pair {}, which has a link",
                    message.qpn
                ),
                false => Judgement::Fine,
            }
        }
        _ => Judgement::Fine,
    }
}

fn known_link(view: &ClcView<'_>) -> Judgement {
    let Some((message, side, place)) = named(view) else {
        return Judgement::Fine;
    };
    if message.first_contact || side == Side::Client {
        return Judgement::Fine;
    }
    let Some(group) = place.and_then(|place| view.known.groups.get(&place.group)) else {
        return Judgement::Unknown;
    };
    let link = place.and_then(|place| group.link(place.link));
    if group.ended == Some(Side::Server) {
        return wrong!("subsequent contact in a group that the server ended");
    }
    match link {
        Some(link) if link.is_long_gone(view.time) => {
            wrong!("subsequent contact over {}, which is gone", link.name())
        }
        _ => Judgement::Fine,
    }
}

fn same_end(view: &ClcView<'_>) -> Judgement {
    let Some((message, side, group, link)) = subsequent(view) else {
        return Judgement::Fine;
    };
    if group
        .peers
        .of(side)
        .is_some_and(|peer| peer != message.peer_id)
    {
        return wrong!(
            "{side} calls itself {}, but not in this group",
            message.peer_id
        );
    }
    let end = group.link(link).and_then(|link| *link.ends.of(side));
    match end {
        Some(end) if end.mac != message.mac => {
            wrong!("the MAC is {}, that of the link {}", message.mac, end.mac)
        }
        _ => Judgement::Fine,
    }
}

fn same_kind(view: &ClcView<'_>) -> Judgement {
    let is = match view.message {
        ClcMessage::Confirm(m) => m.first_contact,
        ClcMessage::SmcdConfirm(m) => m.first_contact,
        _ => return Judgement::Fine,
    };
    match view.stream.accept.as_ref().map(Answer::first_contact) {
        // The bit is reserved in RFC 7609's Confirm.
        Some(false) if is => wrong!("first contact by the Confirm, but not by the Accept"),
        Some(true) if !is && !is_v1(view.message) => {
            wrong!("first contact by the Accept, but not by the Confirm")
        }
        _ => Judgement::Fine,
    }
}

fn is_v1(message: &ClcMessage) -> bool {
    matches!(message, ClcMessage::Confirm(m) if m.v2.is_none())
}

fn same_group(view: &ClcView<'_>) -> Judgement {
    let ClcMessage::Confirm(confirm) = view.message else {
        return Judgement::Fine;
    };
    let group = view
        .stream
        .group
        .and_then(|n| Some((n, view.known.groups.get(&n)?)));
    let subsequent = view
        .stream
        .accept
        .as_ref()
        .is_some_and(|a| !a.first_contact());
    let Some((number, group)) = group.filter(|_| subsequent) else {
        return Judgement::Fine;
    };
    if !group.whole {
        return Judgement::Unknown;
    }
    let place = view.known.place((confirm.gid, confirm.qpn));
    let there = place.filter(|p| p.group == number && p.owner == Side::Client);
    match there.and_then(|place| group.link(place.link)) {
        None => wrong!(
            "the Confirm names queue pair {}, which is none of the group",
            confirm.qpn
        ),
        Some(link) if link.is_long_gone(view.time) => {
            wrong!("the Confirm names {}, which is gone", link.name())
        }
        Some(_) => Judgement::Fine,
    }
}

fn server_announced(view: &ClcView<'_>) -> Judgement {
    announced(view, Side::Server)
}

fn client_announced(view: &ClcView<'_>) -> Judgement {
    announced(view, Side::Client)
}

fn announced(view: &ClcView<'_>, whose: Side) -> Judgement {
    let Some((message, side, group, link)) = subsequent(view) else {
        return Judgement::Fine;
    };
    if side != whose {
        return Judgement::Fine;
    }
    if !group.is_known() {
        return Judgement::Unknown;
    }
    let rkey = message.rtoken.rkey;
    match group.rmb(side, link, rkey) {
        None => wrong!("the RMB of key {rkey} was never announced"),
        Some(rmb) if rmb.withdrawn => wrong!("the RMB of key {rkey} was withdrawn"),
        Some(rmb) if rmb.on(link) != Some(message.rtoken) => {
            wrong!("the RMB of key {rkey} was announced at another address")
        }
        Some(_) => Judgement::Fine,
    }
}

fn on_all_links(view: &ClcView<'_>) -> Judgement {
    let Some((message, side, group, link)) = subsequent(view) else {
        return Judgement::Fine;
    };
    // Links that come or go right now may be announced later, or no more.
    if !group.is_known() || group.addition.is_some() {
        return Judgement::Unknown;
    }
    let Some(rmb) = group.rmb(side, link, message.rtoken.rkey) else {
        return Judgement::Fine;
    };
    // The side that asks for a link's deletion, or is asked, need not announce RMBs there.
    let mut lasting = group.up().filter(|(_, link)| !link.doubtful);
    let missing = lasting.find(|(index, _)| rmb.on(*index).is_none());
    match missing {
        Some((index, link)) => {
            let sentence = format!("the RMB of {side} has no RToken on {}", link.name());
            Judgement::Omits {
                link: index,
                by: side,
                sentence,
            }
        }
        None => Judgement::Fine,
    }
}

fn free_element(view: &ClcView<'_>) -> Judgement {
    let Some((message, side, place)) = named(view) else {
        return Judgement::Fine;
    };
    let group = place.and_then(|place| Some((place.link, view.known.groups.get(&place.group)?)));
    let Some((link, group)) = group.filter(|_| !message.first_contact) else {
        return Judgement::Fine;
    };
    let rmb = group
        .rmb(side, link, message.rtoken.rkey)
        .filter(|rmb| !rmb.withdrawn);
    let user = rmb.and_then(|rmb| group.by_element(side, rmb.number, message.rmbe_index.0));
    let user = user.and_then(|number| group.connections.get(&number));
    match user {
        Some(user) if user.is_alive() && Some(user.stream) != own_stream(view) => {
            wrong!(
                "element {} of {side}'s RMB belongs to a living connection",
                message.rmbe_index.0
            )
        }
        _ => Judgement::Fine,
    }
}

/// The TCP connection of the connection that the view is about.
fn own_stream(view: &ClcView<'_>) -> Option<u64> {
    let group = view.known.groups.get(&view.stream.group?)?;
    let connection = group.connections.get(&view.stream.connection?)?;
    Some(connection.stream)
}

fn own_token(view: &ClcView<'_>) -> Judgement {
    let Some((message, side, place)) = named(view) else {
        return Judgement::Fine;
    };
    let group = place.and_then(|place| view.known.groups.get(&place.group));
    let Some(group) = group.filter(|_| !message.first_contact) else {
        return Judgement::Fine;
    };
    let user = group.by_token(side, message.alert_token);
    match user.and_then(|number| group.connections.get(&number)) {
        Some(user) if user.is_alive() && Some(user.stream) != own_stream(view) => {
            wrong!(
                "alert token {} belongs to a living connection",
                message.alert_token
            )
        }
        _ => Judgement::Fine,
    }
}

fn back_to_tcp(view: &ClcView<'_>) -> Judgement {
    if !matches!(view.message, ClcMessage::Decline(_)) {
        return Judgement::Fine;
    }
    let group = view.stream.group.and_then(|n| view.known.groups.get(&n));
    let number = view.stream.connection;
    let connection = group.and_then(|group| group.connections.get(&number?));
    match connection {
        Some(connection) if connection.flows.of(view.from).last.is_some() => {
            wrong!("{} declines a connection that SMC-R carries", view.from)
        }
        _ => Judgement::Fine,
    }
}
