//! Rules of RTokens: how CONFIRM RKEY and DELETE RKEY announce and withdraw RMBs, and which side may
//! write where.

use smc_proto::wire::llc::RkeyFlags;
use smc_proto::wire::types::RKey;

use crate::rule::{Judgement, rules, wrong};
use crate::state::link::Stage;
use crate::state::message::{Kind, Message};
use crate::state::side::Side;
use crate::view::{LlcView, WriteView};

rules! {
    /// Rules about the messages that announce and withdraw RMBs.
    RULES: LlcView, Rkeys;
    current_links "LLC-066" "rkey-current-links" needs "the group's beginning"
        says "CONFIRM RKEY and its CONTINUATIONs name links that there are, each once, and not the carrying one.";
    every_link "LLC-069" "rkey-every-link" needs "the group's beginning"
        says "CONFIRM RKEY has an RToken for every link of the group.";
    known_keys "LLC-070" "rkey-delete-known" needs "the group's beginning"
        says "DELETE RKEY names RMBs of its sender by their keys on the carrying link.";
    unused "RMB-028" "rkey-delete-unused" needs "the connections of the RMB"
        says "An RMB is not withdrawn while a connection uses it.";
}

rules! {
    /// Rules about where RDMA WRITEs go.
    WRITES: WriteView, Rkeys;
    known "RMB-008" "write-key" needs "the group's beginning"
        says "An RDMA WRITE has the key that an RMB of the receiver has on this link.";
    alive "RMB-010" "write-key-alive" needs "the DELETE RKEY"
        says "No side writes into an RMB that was withdrawn.";
    element "RMB-012" "write-element" needs "the group's beginning"
        says "An RDMA WRITE goes to an element that a connection of the group has.";
    inside "FLOW-002" "write-inside" needs "the element and CONFIRM LINK"
        says "An RDMA WRITE stays within the element.";
    eye_catcher "RMB-020" "write-eye-catcher" needs "the element and CONFIRM LINK"
        says "No side writes the eye catcher of an element.";
    packets "CLC-040" "write-mtu" needs "both MTUs"
        says "No packet has more payload than the lower MTU of both ends.";
}

fn current_links(view: &LlcView<'_>) -> Judgement {
    let others: Vec<_> = match view.message {
        Message::ConfirmRkey(m) if !m.reply => m.others.iter().map(|o| o.link).collect(),
        Message::ConfirmRkeyContinuation(m) if !m.reply => {
            m.others.iter().map(|o| o.link).collect()
        }
        _ => return Judgement::Fine,
    };
    if !view.group.is_known() {
        return Judgement::Unknown;
    }
    for (place, other) in others.iter().enumerate() {
        if others.iter().take(place).any(|earlier| earlier == other) {
            return wrong!("{} names link {other} twice", view.message.kind().name());
        }
        match view.group.numbered(*other) {
            None => {
                return wrong!(
                    "{} names link {other}, which is not there",
                    view.message.kind().name()
                );
            }
            Some(index) if index == view.index => {
                return wrong!(
                    "{} names its own link {other} as another one",
                    view.message.kind().name()
                );
            }
            Some(_) => {}
        }
    }
    Judgement::Fine
}

fn every_link(view: &LlcView<'_>) -> Judgement {
    let Message::ConfirmRkey(confirm) = view.message else {
        return Judgement::Fine;
    };
    // If there are more links, their RTokens follow in CONTINUATIONs.
    if confirm.reply || confirm.other_links > 2 {
        return Judgement::Fine;
    }
    if !view.group.is_known() || are_links_changing(view) {
        return Judgement::Unknown;
    }
    let missing = view.group.up().find(|(index, link)| {
        let named = confirm
            .others
            .iter()
            .any(|other| Some(other.link) == link.number);
        *index != view.index && !named && !link.doubtful
    });
    match missing {
        Some((index, link)) => {
            let sentence = format!("CONFIRM RKEY says nothing of {}", link.name());
            Judgement::Omits {
                link: index,
                by: view.from,
                sentence,
            }
        }
        None => Judgement::Fine,
    }
}

/// Whether a link is being added or deleted: the sender may know of it before the capture shows that,
/// or after.
fn are_links_changing(view: &LlcView<'_>) -> bool {
    let group = view.group;
    let is_leaving = group.links.iter().any(|link| link.stage == Stage::Leaving);
    let mut requests = group.requests.iter().map(|r| r.message.kind());
    group.addition.is_some() || is_leaving || requests.any(|kind| kind == Kind::DeleteLink)
}

/// The keys that a request DELETE RKEY withdraws; none for other messages.
fn withdrawn_keys<'a>(view: &LlcView<'a>) -> &'a [RKey] {
    match view.message {
        Message::DeleteRkey {
            reply: false,
            rkeys,
            ..
        } => rkeys,
        _ => &[],
    }
}

fn known_keys(view: &LlcView<'_>) -> Judgement {
    let keys = withdrawn_keys(view);
    if keys.is_empty() {
        return Judgement::Fine;
    }
    if !view.group.is_known() {
        return Judgement::Unknown;
    }
    let unknown = keys
        .iter()
        .find(|key| view.group.rmb(view.from, view.index, **key).is_none());
    match unknown {
        Some(key) => wrong!(
            "DELETE RKEY of {key}, which is no key of {}'s RMBs",
            view.from
        ),
        None => Judgement::Fine,
    }
}

fn unused(view: &LlcView<'_>) -> Judgement {
    for key in withdrawn_keys(view) {
        let rmb = view.group.rmb(view.from, view.index, *key);
        let mut users = rmb
            .into_iter()
            .flat_map(|r| view.group.users(view.from, r.number));
        if users.any(|connection| connection.is_alive()) {
            return wrong!("DELETE RKEY of {key}, which a living connection uses");
        }
    }
    Judgement::Fine
}

fn known(view: &WriteView<'_>) -> Judgement {
    if view.rmb.is_some() {
        return Judgement::Fine;
    }
    if !view.group.is_known() || !view.link.whole {
        return Judgement::Unknown;
    }
    let (key, owner) = (view.write.rkey, view.from.other());
    wrong!(
        "an RDMA WRITE with key {key}, which no RMB of {owner} has on {}",
        view.link.name()
    )
}

fn alive(view: &WriteView<'_>) -> Judgement {
    match view.rmb {
        Some(rmb) if rmb.withdrawn => {
            wrong!(
                "an RDMA WRITE with key {}, which was withdrawn",
                view.write.rkey
            )
        }
        _ => Judgement::Fine,
    }
}

fn element(view: &WriteView<'_>) -> Judgement {
    if view.rmb.is_none_or(|rmb| rmb.withdrawn) || view.target.is_some() {
        return Judgement::Fine;
    }
    if !view.group.is_known() {
        return Judgement::Unknown;
    }
    wrong!(
        "an RDMA WRITE to {:x}, where no connection has an element",
        view.write.address
    )
}

fn inside(view: &WriteView<'_>) -> Judgement {
    let (Some((_, end)), Some(offset)) = (view.target, view.offset) else {
        return Judgement::Fine;
    };
    let behind = u64::from(offset) + u64::from(view.write.length);
    if behind <= u64::from(end.size) {
        return Judgement::Fine;
    }
    wrong!(
        "an RDMA WRITE of {} octets at {offset} ends behind its element of {}",
        view.write.length,
        end.size
    )
}

fn eye_catcher(view: &WriteView<'_>) -> Judgement {
    let (Some(ring), Some(offset)) = (view.ring, view.offset) else {
        return Judgement::Fine;
    };
    if offset >= ring.base {
        return Judgement::Fine;
    }
    wrong!(
        "an RDMA WRITE at octet {offset} of the element, whose data begins at {}",
        ring.base
    )
}

fn packets(view: &WriteView<'_>) -> Judgement {
    let mtus = Side::BOTH.map(|side| (*view.link.ends.of(side)).and_then(|end| end.mtu.octets()));
    let [Some(client), Some(server)] = mtus else {
        return Judgement::Unknown;
    };
    let most = u32::from(client.min(server));
    if !view.write.complete || view.write.length.div_ceil(view.write.packets.max(1)) <= most {
        return Judgement::Fine;
    }
    wrong!(
        "{} octets in {} packets, with an MTU of {most}",
        view.write.length,
        view.write.packets
    )
}

/// Whether a reply to CONFIRM RKEY or DELETE RKEY refuses the request.
pub(crate) fn is_refused(flags: RkeyFlags) -> bool {
    flags.contains(RkeyFlags::NEGATIVE)
}
