//! CDC messages and cursors.

use crate::rule::{Judgement, rules, wrong};
use crate::view::CdcView;

rules! {
    /// Rules about every CDC message.
    RULES: CdcView, Cdc;
    reserved "CDC-001" "cdc-reserved" needs "the message"
        says "What a CDC message does not use is zero.";
    token "CDC-004" "cdc-token" needs "the group's beginning"
        says "A CDC message has the alert token that the receiver gave to a connection of the group.";
    first "CDC-006" "cdc-first" needs "Accept and Confirm"
        says "The first CDC message of a side has the number 1.";
    consecutive "CDC-007" "cdc-sequence" needs "the message before it"
        says "Each CDC message has the next number, from 65535 on to 0.";
    cursors "CDC-015" "cdc-cursor" needs "the element and CONFIRM LINK"
        says "Cursors stay within the data part of the element.";
    started "CDC-016" "cdc-start" needs "Accept and Confirm, and CONFIRM LINK"
        says "Wrap counts start at 0.";
    producer "CDC-017" "cdc-producer" needs "the message before it"
        says "The producer cursor goes forward, by no more than the element holds.";
    consumer "CDC-021" "cdc-consumer" needs "the message before it"
        says "The consumer cursor goes forward, by no more than the element holds.";
    covered "CDC-023" "cdc-written-first" needs "every RDMA WRITE"
        says "The producer cursor covers octets that RDMA WRITEs carried before it on the same link.";
}

fn reserved(view: &CdcView<'_>) -> Judgement {
    // Bytes 10 to 23 of a validation count for nothing.
    let mut bytes = view.bytes.iter().zip(view.cdc.emit());
    match bytes.position(|(is, should)| *is != should) {
        None => Judgement::Fine,
        Some(place) => wrong!("octet {place} of a CDC message is not zero"),
    }
}

fn token(view: &CdcView<'_>) -> Judgement {
    if view.connection.is_some() {
        return Judgement::Fine;
    }
    if !view.group.is_known() {
        return Judgement::Unknown;
    }
    let (token, owner) = (view.cdc.alert_token, view.from.other());
    wrong!("a CDC message for {token}, which is no connection of {owner}")
}

fn first(view: &CdcView<'_>) -> Judgement {
    match view.flow() {
        Some(flow) if flow.last.is_none() && !flow.lost && !view.is_validation() => {
            match (view.cdc.sequence, view.follows_move()) {
                (1, _) | (_, true) => Judgement::Fine,
                (number, false) => {
                    wrong!("the first CDC message of {} has number {number}", view.from)
                }
            }
        }
        _ => Judgement::Fine,
    }
}

fn consecutive(view: &CdcView<'_>) -> Judgement {
    let Some(flow) = view
        .flow()
        .filter(|_| !view.is_validation() && !view.follows_move())
    else {
        return Judgement::Fine;
    };
    if flow.lost {
        return Judgement::Unknown;
    }
    match flow.last {
        Some(last) if view.cdc.sequence != last.sequence.wrapping_add(1) => {
            wrong!("CDC number {} follows {}", view.cdc.sequence, last.sequence)
        }
        _ => Judgement::Fine,
    }
}

fn cursors(view: &CdcView<'_>) -> Judgement {
    if view.is_validation() {
        return Judgement::Fine;
    }
    let rings = [
        ("producer", view.cdc.producer, view.into),
        ("consumer", view.cdc.consumer, view.own),
    ];
    for (what, cursor, ring) in rings {
        if let Some(ring) = ring.filter(|ring| !ring.has(cursor)) {
            let (base, size, count) = (ring.base, ring.size, cursor.count);
            return wrong!("the {what} cursor {count} is not in {base} to {size}");
        }
    }
    Judgement::Fine
}

fn started(view: &CdcView<'_>) -> Judgement {
    let Some((flow, _, into, own)) = view.judged() else {
        return Judgement::Fine;
    };
    let (produced, consumed) = (flow.producer(into, view.cdc), flow.consumer(own, view.cdc));
    let (holds, reads) = (i64::from(into.usable()), i64::from(own.usable()));
    if flow.last.is_some() || (0..=holds).contains(&produced) && (0..=reads).contains(&consumed) {
        return Judgement::Fine;
    }
    wrong!("the first CDC message is {produced} octets behind the start, and {consumed} read")
}

fn producer(view: &CdcView<'_>) -> Judgement {
    let Some((flow, _, into, _)) = view.judged().filter(|_| view.is_placed()) else {
        return Judgement::Fine;
    };
    // A side that changed its link begins at what was completed.
    if flow.last.is_none() || view.follows_move() {
        return Judgement::Fine;
    }
    let step = flow.producer(into, view.cdc) - flow.produced.cast_signed();
    if (0..=i64::from(into.usable())).contains(&step) {
        return Judgement::Fine;
    }
    wrong!("the producer cursor of {} goes {step} octets", view.from)
}

fn consumer(view: &CdcView<'_>) -> Judgement {
    let Some((flow, _, _, own)) = view.judged().filter(|_| view.is_placed()) else {
        return Judgement::Fine;
    };
    if flow.last.is_none() || view.follows_move() {
        return Judgement::Fine;
    }
    let step = flow.consumer(own, view.cdc) - flow.consumed.cast_signed();
    if (0..=i64::from(own.usable())).contains(&step) {
        return Judgement::Fine;
    }
    wrong!("the consumer cursor of {} goes {step} octets", view.from)
}

fn covered(view: &CdcView<'_>) -> Judgement {
    let Some((flow, back, into, _)) = view.judged().filter(|_| view.is_placed()) else {
        return Judgement::Fine;
    };
    // A WRITE that is missing in the capture is not missing on the wire.
    if view.group.gaps || *view.link.gaps.of(view.from) || view.peer_unclear {
        return Judgement::Unknown;
    }
    let Ok(to) = u64::try_from(flow.producer(into, view.cdc)) else {
        return Judgement::Fine;
    };
    let gap_behind = |from: u64| {
        let from = from.max(back.consumed);
        let gap = flow.written.first_gap(from, to);
        gap.filter(|_| to - from <= u64::from(into.usable()))
    };
    // Behind a change of link only what was not completed and not read is owed again.
    let completed = flow.moved.and_then(|number| flow.position_of(number));
    let Some(gap) = gap_behind(completed.unwrap_or(flow.produced)) else {
        return Judgement::Fine;
    };
    let words = format!(
        "{} publishes octets from {gap} on (of {to}) that it did not write",
        view.from
    );
    let next = flow.moved.map(|number| number.wrapping_add(1));
    match next.and_then(|number| flow.position_of(number)) {
        Some(next) if gap_behind(next).is_none() => {
            Judgement::Known(&crate::deviation::VALIDATION_ONE_BEHIND, words)
        }
        _ => Judgement::Wrong(words),
    }
}
