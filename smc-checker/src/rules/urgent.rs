//! Rules of urgent data (RFC 7609, 4.7.5): a sender announces it by the flag *pending*, publishes it with
//! *present*, and then writes nothing more until the peer has read it.
//!
//! `flow` is the direction of the message's sender, `back` that of its peer.

use smc_proto::wire::cdc::ProducerFlags;

use crate::deviation::ANNOUNCED_EARLY;
use crate::rule::{Judgement, rules, wrong};
use crate::state::ring::Ring;
use crate::view::{CdcView, WriteView};

rules! {
    /// Rules about urgent data in CDC messages.
    RULES: CdcView, Urgent;
    pending "URG-001" "urgent-pending" needs "the messages before it"
        says "A message that publishes urgent data for the first time has both flags, pending and present.";
    published "URG-002" "urgent-published" needs "the message before it"
        says "Urgent data is present behind octets that this message publishes.";
    over "URG-009" "urgent-over" needs "both sides' messages"
        says "Behind urgent data a message that publishes nothing does not have the flags; pending alone may announce the next urgent data once this is read.";
}

rules! {
    /// Rules about urgent data and RDMA WRITEs.
    WRITES: WriteView, Urgent;
    held "URG-005" "urgent-held" needs "both sides' messages"
        says "Behind urgent data nothing is written before the peer has read it.";
}

/// The flags of a message that publishes urgent data.
const PENDING_AND_PRESENT: ProducerFlags =
    ProducerFlags::URGENT_PENDING.union(ProducerFlags::URGENT_PRESENT);

/// Whether a message has the flag that urgent data is present.
fn is_present(flags: ProducerFlags) -> bool {
    flags.contains(ProducerFlags::URGENT_PRESENT)
}

fn pending(view: &CdcView<'_>) -> Judgement {
    let flags = view.cdc.producer_flags;
    if view.is_validation() || !is_present(flags) || flags.contains(PENDING_AND_PRESENT) {
        return Judgement::Fine;
    }
    let (Some(flow), Some(into)) = (view.flow(), view.into) else {
        return Judgement::Unknown;
    };
    if flow.lost {
        return Judgement::Unknown;
    }
    // After a change of link, bytes are published again that the peer may have seen.
    if flow.producer(into, view.cdc) <= flow.furthest.cast_signed() {
        return Judgement::Fine;
    }
    wrong!("urgent data is present and not pending")
}

fn published(view: &CdcView<'_>) -> Judgement {
    let Some((flow, _, _, _)) = view.judged().filter(|_| !view.follows_move()) else {
        return Judgement::Fine;
    };
    let before = flow
        .last
        .map_or(ProducerFlags::empty(), |last| last.producer_flags);
    let last = flow.last.map(|last| last.producer);
    if !is_present(view.cdc.producer_flags) || is_present(before) {
        return Judgement::Fine;
    }
    let start = view.into.map(Ring::start);
    if last.or(start) != Some(view.cdc.producer) {
        return Judgement::Fine;
    }
    wrong!("urgent data is present, but the producer cursor did not go on")
}

fn over(view: &CdcView<'_>) -> Judgement {
    let Some((flow, back, _, _)) = view.judged().filter(|_| !view.follows_move()) else {
        return Judgement::Fine;
    };
    let (Some(last), Some(urgent)) = (flow.last, flow.urgent) else {
        return Judgement::Fine;
    };
    let flags = view.cdc.producer_flags & PENDING_AND_PRESENT;
    if flags.is_empty() || view.cdc.producer != last.producer {
        return Judgement::Fine;
    }
    if is_present(flags) {
        // Where the flag is new, `published` decides.
        return match is_present(last.producer_flags) {
            true => wrong!("the urgent flags stay without new data"),
            false => Judgement::Fine,
        };
    }
    if back.lost || view.peer_unclear {
        return Judgement::Unknown;
    }
    if back.consumed >= urgent {
        return Judgement::Fine;
    }
    Judgement::Known(
        &ANNOUNCED_EARLY,
        format!(
            "urgent data is announced with {} octets up to earlier urgent data not read",
            urgent - back.consumed
        ),
    )
}

fn held(view: &WriteView<'_>) -> Judgement {
    let Some((connection, _)) = view.target else {
        return Judgement::Fine;
    };
    let (flow, back) = (
        connection.flows.of(view.from),
        connection.flows.of(view.from.other()),
    );
    let Some(urgent) = flow.urgent else {
        return Judgement::Fine;
    };
    if flow.lost || back.lost || view.peer_unclear {
        return Judgement::Unknown;
    }
    // After a change of link, bytes are written again that were written before the urgent data.
    let repeats = flow.moved.is_some() || flow.link.is_some_and(|link| link != view.index);
    if back.consumed >= urgent || repeats {
        return Judgement::Fine;
    }
    wrong!(
        "{} writes on, with {} octets up to its urgent data not read",
        view.from,
        urgent - back.consumed
    )
}
