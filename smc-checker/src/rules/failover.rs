//! Changes of link.

use smc_proto::wire::cdc::ConnectionFlags;

use crate::rule::{Judgement, rules, wrong};
use crate::view::{CdcView, WriteView};

rules! {
    /// Rules about CDC messages on a link that a side did not use before.
    RULES: CdcView, Failover;
    validated "FAILOVER-005" "failover-validation" needs "the message before it"
        says "The first CDC message of a connection on another link is a validation.";
    number "FAILOVER-008" "failover-number" needs "the message before it"
        says "A validation has the number of a message that was sent.";
    resumed "FAILOVER-020" "failover-resume" needs "the validation"
        says "The message behind a validation has a number behind the validation's.";
    replayed "FAILOVER-016" "failover-replay" needs "the validation"
        says "Behind a validation a side resumes at what was completed or read, and not behind it.";
}

rules! {
    /// Rules about RDMA WRITEs on a link that a side did not use before.
    WRITES: WriteView, Failover;
    validated_write "FAILOVER-008" "failover-write" needs "the message before it"
        says "Nothing is written for a connection on another link before the validation.";
}

/// Messages that can be in flight.
const WINDOW: u16 = 4096;

fn validated(view: &CdcView<'_>) -> Judgement {
    let Some(flow) = view.flow().filter(|_| !view.is_validation()) else {
        return Judgement::Fine;
    };
    match flow.link {
        Some(link) if link != view.index => {}
        _ => return Judgement::Fine,
    }
    let words = format!(
        "CDC number {} of {} comes on {} without a validation",
        view.cdc.sequence,
        view.from,
        view.link.name()
    );
    match view
        .cdc
        .connection_flags
        .contains(ConnectionFlags::ABNORMAL_CLOSE)
    {
        true => Judgement::Known(&crate::deviation::ABORT_ON_OTHER_LINK, words),
        false => Judgement::Wrong(words),
    }
}

fn number(view: &CdcView<'_>) -> Judgement {
    let Some(flow) = view.flow().filter(|_| view.is_validation()) else {
        return Judgement::Fine;
    };
    if flow.lost {
        return Judgement::Unknown;
    }
    let last = flow.last.map_or(0, |last| last.sequence);
    let behind = last.wrapping_sub(view.cdc.sequence);
    if behind < 0x8000 {
        return Judgement::Fine;
    }
    // Messages that were lost behind the tap may not be in the capture.
    if behind.wrapping_neg() <= WINDOW && *view.link.gaps.of(view.from) {
        return Judgement::Unknown;
    }
    wrong!(
        "a validation with number {}, behind {last}",
        view.cdc.sequence
    )
}

fn resumed(view: &CdcView<'_>) -> Judgement {
    let moved = view.flow().and_then(|flow| flow.moved);
    let Some(moved) = moved.filter(|_| !view.is_validation()) else {
        return Judgement::Fine;
    };
    let step = view.cdc.sequence.wrapping_sub(moved);
    if (1..=WINDOW).contains(&step) {
        return Judgement::Fine;
    }
    wrong!(
        "CDC number {} follows the validation of {moved}",
        view.cdc.sequence
    )
}

fn replayed(view: &CdcView<'_>) -> Judgement {
    let Some((flow, _, into, _)) = view.judged() else {
        return Judgement::Fine;
    };
    let Some(completed) = flow.moved.and_then(|moved| flow.position_of(moved)) else {
        return Judgement::Fine;
    };
    let now = flow.producer(into, view.cdc);
    if now >= completed.cast_signed() {
        return Judgement::Fine;
    }
    let back = completed.cast_signed() - now;
    wrong!(
        "{} resumes {back} octets before what was completed",
        view.from
    )
}

fn validated_write(view: &WriteView<'_>) -> Judgement {
    let Some((connection, _)) = view.target else {
        return Judgement::Fine;
    };
    match connection.flows.of(view.from).link {
        Some(link) if link != view.index => wrong!(
            "{} writes on {} before it validates the connection there",
            view.from,
            view.link.name()
        ),
        _ => Judgement::Fine,
    }
}
