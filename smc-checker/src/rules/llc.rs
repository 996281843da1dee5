//! LLC messages: form, requests and replies.

use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage};
use smc_proto::wire::types::{DeleteLinkReason, LinkNumber};

use crate::rule::{Chapter, Judgement, Rule, early, rules, wrong};
use crate::state::message::{Kind, Message};
use crate::state::side::Side;
use crate::view::LlcView;

rules! {
    /// Rules about single LLC messages, and about pairs of them.
    RULES: LlcView, Llc;
    asked "LLC-011" "llc-reply" needs "every message of the link"
        says "A reply answers a request of its kind that came on the same link.";
    one_flow "LLCSER-003" "llc-one-flow" needs "the group's beginning"
        says "A side that waits for the answer to an exchange does not start another one on that link.";
    by_server "LLC-014" "llc-server-only" needs "the message"
        says "The server alone asks for CONFIRM LINK and ADD LINK CONTINUATION, and answers neither.";
    echoed_test "LLC-075" "llc-test-link-echo" needs "the request"
        says "TEST LINK is answered with its own 16 octets.";
    echoed_rkeys "LLC-063" "llc-confirm-rkey-echo" needs "the request"
        says "CONFIRM RKEY and its CONTINUATION are answered by an echo.";
    echoed_delete "LLC-071" "llc-delete-rkey-echo" needs "the request, of version 1"
        says "DELETE RKEY is answered with its own keys.";
    deleted "LLC-048" "llc-delete-link-reply" needs "the request"
        says "DELETE LINK is answered with its own link number.";
    not_by_server "LLC-056" "llc-delete-link-by-server" needs "the message"
        says "The server does not answer DELETE LINK, but to say that it knows no such link.";
    all_links "LLC-043" "llc-delete-all-number" needs "the message"
        says "A DELETE LINK of all links names none.";
    reason "LLC-044" "llc-delete-link-reason" needs "the message"
        says "A DELETE LINK has one of the reasons there are.";
    padded "LLC-001" "llc-reserved" needs "the message, of version 1"
        says "What an LLC message does not use is zero.";
}

/// Rules that are judged where bytes are read.
pub(crate) static OTHERS: &[Rule] = &[MALFORMED];

/// SENDs on a link are LLC or CDC messages.
pub(crate) const MALFORMED: Rule = Rule {
    name: "llc-malformed",
    chapter: Chapter::Llc,
    id: "LLC-079",
    needs: "the message",
    says: "What comes on a link can be read as an LLC or CDC message, or an RDMA WRITE.",
};

fn asked(view: &LlcView<'_>) -> Judgement {
    let kind = view.message.kind();
    // An answer to the client's own DELETE LINK is none of a request's, but of AMB-25.
    let unknown_link = kind == Kind::DeleteLink && view.from == Side::Server;
    if !view.message.is_reply() || unknown_link {
        return Judgement::Fine;
    }
    if view
        .group
        .asked(view.message, view.from.other(), view.index)
        .is_some()
    {
        return Judgement::Fine;
    }
    if !view.link.whole || view.group.gaps || *view.link.gaps.of(view.from.other()) {
        return Judgement::Unknown;
    }
    // Version 2 may answer its REQUEST ADD LINK on any link.
    if kind == Kind::RequestAddLink {
        return Judgement::Unknown;
    }
    wrong!(
        "an unsolicited reply to {} on {}",
        kind.name(),
        view.link.name()
    )
}

/// Whether a message starts an exchange that others have to wait for.
fn starts_exchange(message: &Message, from: Side) -> bool {
    if message.is_reply() || message.ends_group() {
        return false;
    }
    match message.kind() {
        Kind::AddLink | Kind::DeleteLink => from == Side::Server,
        Kind::ConfirmRkey | Kind::DeleteRkey => true,
        _ => false,
    }
}

/// How long an exchange is surely not given up, in nanoseconds: less than any timer.
const TIMEOUT: u64 = 1_000_000_000;

fn one_flow(view: &LlcView<'_>) -> Judgement {
    if !starts_exchange(view.message, view.from) {
        return Judgement::Fine;
    }
    let open = view.group.requests.iter().find(|request| {
        request.from == view.from
            && request.link == view.index
            && starts_exchange(&request.message, request.from)
            && !request.given_up
            && view.time.saturating_sub(request.time) < TIMEOUT
    });
    // To give up the link that is being added ends that exchange.
    let addition = view.group.addition.as_ref();
    let new = addition.and_then(|a| view.group.link(a.link)?.number);
    let gives_up = matches!(view.message, Message::DeleteLink(m) if Some(m.link) == new);
    match open.filter(|_| !gives_up) {
        Some(_) if !view.group.is_known() => Judgement::Unknown,
        Some(open) => {
            let (new, old) = (view.message.kind().name(), open.message.kind().name());
            early!(
                "{} starts {new} before {old} of frame {} was answered",
                view.from,
                open.frame
            )
        }
        None => Judgement::Fine,
    }
}

fn by_server(view: &LlcView<'_>) -> Judgement {
    let kind = view.message.kind();
    if !matches!(kind, Kind::ConfirmLink | Kind::Continuation) {
        return Judgement::Fine;
    }
    let (owner, what) = match view.message.is_reply() {
        true => (Side::Client, "answers"),
        false => (Side::Server, "sends"),
    };
    if view.from == owner {
        return Judgement::Fine;
    }
    wrong!("{} {what} {}", view.from, kind.name())
}

/// The request that a reply answers.
fn request<'a>(view: &LlcView<'a>) -> Option<&'a Message> {
    if !view.message.is_reply() {
        return None;
    }
    let request = view
        .group
        .asked(view.message, view.from.other(), view.index)?;
    Some(&request.message)
}

fn echoed_test(view: &LlcView<'_>) -> Judgement {
    match (view.message, request(view)) {
        (Message::TestLink(reply), Some(Message::TestLink(request)))
            if reply.user_data != request.user_data =>
        {
            wrong!("a TEST LINK is answered with other octets")
        }
        _ => Judgement::Fine,
    }
}

fn echoed_rkeys(view: &LlcView<'_>) -> Judgement {
    let same = match (view.message, request(view)) {
        (Message::ConfirmRkey(reply), Some(Message::ConfirmRkey(request))) => {
            reply.rtoken == request.rtoken && reply.others == request.others
        }
        (
            Message::ConfirmRkeyContinuation(reply),
            Some(Message::ConfirmRkeyContinuation(request)),
        ) => reply.others == request.others,
        _ => true,
    };
    if same {
        return Judgement::Fine;
    }
    wrong!(
        "the answer to {} is no echo of it",
        view.message.kind().name()
    )
}

fn echoed_delete(view: &LlcView<'_>) -> Judgement {
    let (Message::DeleteRkey { rkeys, echoes, .. }, Some(Message::DeleteRkey { rkeys: asked, .. })) =
        (view.message, request(view))
    else {
        return Judgement::Fine;
    };
    if !echoes || rkeys == asked {
        return Judgement::Fine;
    }
    wrong!("a DELETE RKEY is answered with other keys")
}

fn deleted(view: &LlcView<'_>) -> Judgement {
    match (view.message, request(view)) {
        (Message::DeleteLink(reply), Some(Message::DeleteLink(request)))
            if reply.link != request.link =>
        {
            wrong!(
                "DELETE LINK of link {} is answered with link {}",
                request.link,
                reply.link
            )
        }
        _ => Judgement::Fine,
    }
}

fn not_by_server(view: &LlcView<'_>) -> Judgement {
    match view.message {
        Message::DeleteLink(reply)
            if reply.reply
                && view.from == Side::Server
                && reply.reason != DeleteLinkReason::UNKNOWN_LINK =>
        {
            wrong!("the server answers DELETE LINK, reason {}", reply.reason)
        }
        _ => Judgement::Fine,
    }
}

fn all_links(view: &LlcView<'_>) -> Judgement {
    match view.message {
        Message::DeleteLink(m)
            if m.flags.contains(DeleteLinkFlags::ALL) && m.link != LinkNumber(0) =>
        {
            wrong!("DELETE LINK of all links names link {}", m.link)
        }
        _ => Judgement::Fine,
    }
}

fn reason(view: &LlcView<'_>) -> Judgement {
    match view.message {
        Message::DeleteLink(m) if !m.reply && !(1..=5).contains(&(m.reason.0 >> 16)) => {
            wrong!("DELETE LINK has reason {}", m.reason)
        }
        _ => Judgement::Fine,
    }
}

fn padded(view: &LlcView<'_>) -> Judgement {
    let Ok(message) = LlcMessage::parse(view.bytes, SmcVersion::V1) else {
        return Judgement::Fine;
    };
    let Some(should) = message.emit_short(SmcVersion::V1) else {
        return Judgement::Fine;
    };
    let mut bytes = view.bytes.iter().zip(should);
    match bytes.position(|(is, should)| *is != should) {
        None => Judgement::Fine,
        Some(place) => wrong!(
            "octet {place} of {} is not zero",
            view.message.kind().name()
        ),
    }
}
