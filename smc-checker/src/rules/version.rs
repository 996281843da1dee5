//! What both sides agree on.

use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, Proposal, V2Offer};
use smc_proto::wire::types::Eid;

use crate::rule::{Judgement, rules, wrong};
use crate::state::stream::Answer;
use crate::view::ClcView;

rules! {
    /// Rules about versions, releases, EIDs and limits.
    RULES: ClcView, Version;
    offered "V2-130" "version-offered" needs "the Proposal"
        says "An Accept takes a technology and version that the Proposal offers.";
    confirmed "CLC-008" "version-confirmed" needs "the Accept"
        says "A Confirm has the technology and version of the Accept.";
    eid_offered "V2-104" "version-eid" needs "the Proposal"
        says "The EID of an Accept is one of the Proposal's, or the system EID.";
    eid_repeated "V2-051" "version-eid-repeated" needs "the Accept"
        says "A Confirm repeats the EID of the Accept.";
    release "V2-056" "version-release" needs "the Proposal"
        says "The release of an Accept is not above that of the Proposal, and the Confirm's is that of the Accept.";
    limits "V2-057" "version-limits" needs "the Proposal"
        says "The limits of an Accept are not above those of the Proposal, and a Confirm repeats them.";
    chid "D-026" "version-chid" needs "the Proposal"
        says "The CHID of an SMC-D Accept is one that the Proposal names.";
}

fn offered(view: &ClcView<'_>) -> Judgement {
    let accepts = matches!(
        view.message,
        ClcMessage::Accept(_) | ClcMessage::SmcdAccept(_)
    );
    let Some(proposal) = view.stream.proposal.as_ref().filter(|_| accepts) else {
        return Judgement::Fine;
    };
    let v2 = proposal.v2_offer.as_ref();
    let (fine, what) = match view.message {
        ClcMessage::Accept(m) if m.v2.is_some() => {
            (v2.is_some_and(|o| o.path.has_smcr()), "SMC-R of version 2")
        }
        ClcMessage::Accept(_) => (proposal.v1.has_smcr(), "SMC-R of version 1"),
        ClcMessage::SmcdAccept(m) if m.v2.is_some() => {
            (v2.is_some_and(|o| o.path.has_smcd()), "SMC-D of version 2")
        }
        ClcMessage::SmcdAccept(_) => (proposal.v1.has_smcd(), "SMC-D of version 1"),
        _ => return Judgement::Fine,
    };
    if fine {
        return Judgement::Fine;
    }
    wrong!("the server accepts {what}, which was not offered")
}

fn confirmed(view: &ClcView<'_>) -> Judgement {
    let Some(accept) = &view.stream.accept else {
        return Judgement::Fine;
    };
    let fine = match (view.message, accept) {
        (ClcMessage::Confirm(m), Answer::SmcR(a)) => m.v2.is_some() == a.v2.is_some(),
        (ClcMessage::SmcdConfirm(m), Answer::SmcD(a)) => m.v2.is_some() == a.v2.is_some(),
        (ClcMessage::Confirm(_) | ClcMessage::SmcdConfirm(_), _) => false,
        _ => true,
    };
    if fine {
        return Judgement::Fine;
    }
    wrong!("the Confirm is of another technology or version than the Accept")
}

/// The EID of a message, if it has one.
fn eid(message: &ClcMessage) -> Option<Eid> {
    match message {
        ClcMessage::Accept(m) | ClcMessage::Confirm(m) => m.v2.as_ref().map(|v2| v2.eid),
        ClcMessage::SmcdAccept(m) | ClcMessage::SmcdConfirm(m) => m.v2.as_ref().map(|v2| v2.eid),
        _ => None,
    }
}

/// The offer of version 2 that an Accept answers.
fn offer<'a>(view: &ClcView<'a>) -> Option<&'a V2Offer> {
    let accepts = matches!(
        view.message,
        ClcMessage::Accept(_) | ClcMessage::SmcdAccept(_)
    );
    let proposal: &Proposal = view.stream.proposal.as_deref()?;
    proposal.v2_offer.as_ref().filter(|_| accepts)
}

fn eid_offered(view: &ClcView<'_>) -> Judgement {
    let (Some(offer), Some(eid)) = (offer(view), eid(view.message)) else {
        return Judgement::Fine;
    };
    let system = matches!(view.message, ClcMessage::SmcdAccept(_)) && eid.is_system();
    if offer.eids.contains(&eid) || system {
        return Judgement::Fine;
    }
    wrong!("the server chose the EID {eid}, which was not offered")
}

fn eid_repeated(view: &ClcView<'_>) -> Judgement {
    let known = match &view.stream.accept {
        Some(Answer::SmcR(a)) => a.v2.as_ref().map(|v2| v2.eid),
        Some(Answer::SmcD(a)) => a.v2.as_ref().map(|v2| v2.eid),
        None => None,
    };
    let (ClcMessage::Confirm(_) | ClcMessage::SmcdConfirm(_), Some(known), Some(eid)) =
        (view.message, known, eid(view.message))
    else {
        return Judgement::Fine;
    };
    if known == eid {
        return Judgement::Fine;
    }
    wrong!("the Confirm has the EID {eid}, the Accept {known}")
}

/// The Accept that a Confirm on first contact answers.
fn accept_of<'a>(view: &ClcView<'a>) -> Option<&'a AcceptConfirm> {
    match (view.message, &view.stream.accept) {
        (ClcMessage::Confirm(_), Some(Answer::SmcR(accept))) => Some(accept),
        _ => None,
    }
}

/// The parts of version 2 of a first contact.
fn first_v2(message: &ClcMessage) -> Option<&AcceptConfirm> {
    match message {
        ClcMessage::Accept(m) | ClcMessage::Confirm(m) if m.first_contact && m.v2.is_some() => {
            Some(m)
        }
        _ => None,
    }
}

fn release(view: &ClcView<'_>) -> Judgement {
    let Some(v2) = first_v2(view.message).and_then(|m| m.v2.as_ref()) else {
        return Judgement::Fine;
    };
    let is = v2.extension.release;
    if let Some(offer) = offer(view) {
        if is <= offer.release {
            return Judgement::Fine;
        }
        let most = offer.release.number();
        return wrong!(
            "the Accept has release {}, the Proposal {most}",
            is.number()
        );
    }
    let accept = accept_of(view).and_then(|accept| accept.v2.as_ref());
    match accept.map(|accept| accept.extension.release) {
        Some(chosen) if chosen != is => {
            let chosen = chosen.number();
            wrong!(
                "the Confirm has release {}, the Accept {chosen}",
                is.number()
            )
        }
        _ => Judgement::Fine,
    }
}

fn limits(view: &ClcView<'_>) -> Judgement {
    let Some(v2) = first_v2(view.message).and_then(|m| m.v2.as_ref()) else {
        return Judgement::Fine;
    };
    let extension = &v2.extension;
    if !extension.release.has_limits() {
        return Judgement::Fine;
    }
    let is = (extension.max_connections, extension.max_links);
    if let Some(offer) = offer(view) {
        let most = (offer.max_connections, offer.max_links);
        if is.0 <= most.0 && is.1 <= most.1 {
            return Judgement::Fine;
        }
        return wrong!("the Accept has the limits {is:?}, the Proposal {most:?}");
    }
    let accept = accept_of(view).and_then(|accept| accept.v2.as_ref());
    let chosen = accept.map(|a| (a.extension.max_connections, a.extension.max_links));
    match chosen {
        Some(chosen) if chosen != is => {
            wrong!("the Confirm has the limits {is:?}, the Accept {chosen:?}")
        }
        _ => Judgement::Fine,
    }
}

fn chid(view: &ClcView<'_>) -> Judgement {
    let (ClcMessage::SmcdAccept(accept), Some(proposal)) = (view.message, &view.stream.proposal)
    else {
        return Judgement::Fine;
    };
    let Some(v2) = &accept.v2 else {
        return Judgement::Fine;
    };
    if proposal.ism_gids().any(|gid| gid.chid == v2.chid) {
        return Judgement::Fine;
    }
    wrong!(
        "the server chose CHID {:04x}, which was not offered",
        v2.chid.0
    )
}
