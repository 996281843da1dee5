//! CLC messages: form and order.

use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};
use smc_proto::wire::types::PeerId;

use crate::rule::{Chapter, Judgement, Rule, rules, wrong};
use crate::state::side::Side;
use crate::state::stream::Answer;
use crate::view::ClcView;

rules! {
    /// Rules about single CLC messages and their order.
    RULES: ClcView, Clc;
    sender "CLC-073" "clc-sender" needs "the message"
        says "A Proposal and a Confirm come from the client, an Accept from the server.";
    once "CLC-073" "clc-order" needs "the messages before it"
        says "An Accept answers a Proposal, a Confirm an Accept; none of them comes twice.";
    chase "CLC-048" "clc-no-chase" needs "the message"
        says "A side sends no Decline behind its own message while the answer to it is due.";
    server_declines_late "CLC-055" "clc-decline-after-accept" needs "the Accept"
        says "On subsequent contact the server sends no Decline after its Accept.";
    client_declines_late "CLC-056" "clc-decline-after-confirm" needs "the Confirm"
        says "On subsequent contact the client sends no Decline after its Confirm.";
    length "CLC-010" "clc-length" needs "the message"
        says "Length is exactly that of the message's parts.";
    reserved "CLC-005" "clc-reserved" needs "the message"
        says "Reserved fields are zero.";
    index "CLC-035" "clc-element" needs "the message"
        says "The index of an RMB element is 1 to 255.";
    mtu "CLC-039" "clc-mtu" needs "the message"
        says "On first contact the MTU is one of the five there are.";
    out_of_sync "V2-072" "clc-out-of-sync" needs "the message"
        says "The out-of-sync bit of a Decline goes with diagnosis 04000000 only.";
    peer_id "CLC-019" "clc-peer-id" needs "the Proposal"
        says "All messages of a client carry the same peer ID, if they carry one.";
}

/// Rules that are judged where bytes are read.
pub(crate) static OTHERS: &[Rule] = &[MALFORMED];

/// What is expected to be CLC is CLC.
pub(crate) const MALFORMED: Rule = Rule {
    name: "clc-malformed",
    chapter: Chapter::Clc,
    id: "CLC-070",
    needs: "both SYNs",
    says: "Where a CLC message is due there is one that can be read.",
};

fn sender(view: &ClcView<'_>) -> Judgement {
    let owner = match view.message {
        ClcMessage::Proposal(_) | ClcMessage::Confirm(_) | ClcMessage::SmcdConfirm(_) => {
            Side::Client
        }
        ClcMessage::Accept(_) | ClcMessage::SmcdAccept(_) => Side::Server,
        ClcMessage::Decline(_) => return Judgement::Fine,
    };
    if owner == view.from {
        return Judgement::Fine;
    }
    wrong!("{} sends {}", view.from, name(view.message))
}

fn name(message: &ClcMessage) -> &'static str {
    match message {
        ClcMessage::Proposal(_) => "a Proposal",
        ClcMessage::Accept(_) | ClcMessage::SmcdAccept(_) => "an Accept",
        ClcMessage::Confirm(_) | ClcMessage::SmcdConfirm(_) => "a Confirm",
        ClcMessage::Decline(_) => "a Decline",
    }
}

fn once(view: &ClcView<'_>) -> Judgement {
    let stream = view.stream;
    let (proposal, accept, confirm) = (
        stream.proposal.is_some(),
        stream.accept.is_some(),
        stream.confirm.is_some(),
    );
    // A message that is not there may be missing in the capture; one that comes behind
    // its answer is late.
    let (again, late, known) = match view.message {
        ClcMessage::Proposal(_) => (proposal, accept, true),
        ClcMessage::Accept(_) | ClcMessage::SmcdAccept(_) => (accept, confirm, proposal),
        ClcMessage::Confirm(_) | ClcMessage::SmcdConfirm(_) => (confirm, false, accept),
        ClcMessage::Decline(_) => return Judgement::Fine,
    };
    if again {
        return wrong!("{} comes once more", name(view.message));
    }
    if late {
        return wrong!("{} comes behind its answer", name(view.message));
    }
    match known {
        true => Judgement::Fine,
        false => Judgement::Unknown,
    }
}

fn chase(view: &ClcView<'_>) -> Judgement {
    let stream = view.stream;
    if !matches!(view.message, ClcMessage::Decline(_))
        || stream.declines.of(view.from.other()).is_some()
    {
        return Judgement::Fine;
    }
    let (own, answer) = match view.from {
        Side::Client if stream.accept.is_none() => (stream.proposal.is_some(), "Accept"),
        Side::Server if stream.confirm.is_none() => (stream.accept.is_some(), "Confirm"),
        _ => return Judgement::Fine,
    };
    if !own || stream.broken {
        return Judgement::Fine;
    }
    wrong!("{} declines while the {answer} is due", view.from)
}

/// Whether a message is a Decline on subsequent contact by this side.
fn declines_subsequent(view: &ClcView<'_>, from: Side) -> bool {
    let subsequent = view
        .stream
        .accept
        .as_ref()
        .is_some_and(|a| !a.first_contact());
    matches!(view.message, ClcMessage::Decline(_)) && view.from == from && subsequent
}

fn server_declines_late(view: &ClcView<'_>) -> Judgement {
    if !declines_subsequent(view, Side::Server) {
        return Judgement::Fine;
    }
    wrong!("the server declines after its Accept on subsequent contact")
}

fn client_declines_late(view: &ClcView<'_>) -> Judgement {
    if !declines_subsequent(view, Side::Client) || view.stream.confirm.is_none() {
        return Judgement::Fine;
    }
    wrong!("the client declines after its Confirm on subsequent contact")
}

fn length(view: &ClcView<'_>) -> Judgement {
    let (is, should) = (view.bytes.len(), view.message.encoded_len());
    if is == should {
        return Judgement::Fine;
    }
    wrong!(
        "{} has {is} octets in place of {should}",
        name(view.message)
    )
}

fn reserved(view: &ClcView<'_>) -> Judgement {
    let mut buffer = [0; MAX_LENGTH];
    let Ok(length) = view.message.emit(&mut buffer) else {
        return Judgement::Unknown;
    };
    // A message of another length is another rule's business.
    if length != view.bytes.len() {
        return Judgement::Fine;
    }
    let mut bytes = view.bytes.iter().zip(&buffer);
    match bytes.position(|(is, should)| is != should) {
        None => Judgement::Fine,
        Some(place) => wrong!("octet {place} of {} is not zero", name(view.message)),
    }
}

fn index(view: &ClcView<'_>) -> Judgement {
    match view.message {
        ClcMessage::Accept(m) | ClcMessage::Confirm(m) if m.rmbe_index.0 == 0 => {
            wrong!("{} names the RMB element 0", name(view.message))
        }
        _ => Judgement::Fine,
    }
}

fn mtu(view: &ClcView<'_>) -> Judgement {
    match view.message {
        ClcMessage::Accept(m) | ClcMessage::Confirm(m)
            if m.first_contact && m.mtu.octets().is_none() =>
        {
            wrong!("{} has MTU code {}", name(view.message), m.mtu.code())
        }
        _ => Judgement::Fine,
    }
}

fn out_of_sync(view: &ClcView<'_>) -> Judgement {
    match view.message {
        ClcMessage::Decline(m) if m.out_of_sync && m.diagnosis.0 != 0x0400_0000 => {
            wrong!("a Decline out of sync with diagnosis {:08x}", m.diagnosis.0)
        }
        _ => Judgement::Fine,
    }
}

fn peer_id(view: &ClcView<'_>) -> Judgement {
    let known = match view.from {
        Side::Client => view.stream.proposal.as_ref().map(|p| p.peer_id),
        Side::Server => match &view.stream.accept {
            Some(Answer::SmcR(accept)) => Some(accept.peer_id),
            _ => None,
        },
    };
    let now = match view.message {
        ClcMessage::Accept(m) | ClcMessage::Confirm(m) => m.peer_id,
        ClcMessage::Decline(m) => m.peer_id,
        _ => return Judgement::Fine,
    };
    let Some(known) = known else {
        return Judgement::Fine;
    };
    let none = PeerId::default();
    if known == now || known == none || now == none {
        return Judgement::Fine;
    }
    wrong!("{} calls itself {now} and called itself {known}", view.from)
}
