//! Windows.

use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};

use crate::rule::{Judgement, rules, wrong};
use crate::view::{CdcView, WriteView};

rules! {
    /// Rules about windows in CDC messages.
    RULES: CdcView, Window;
    overtaken "CDC-014" "window-producer" needs "both sides' messages"
        says "The producer cursor is at most a buffer ahead of the receiver's consumer cursor.";
    ahead "CDC-020" "window-consumer" needs "both sides' messages"
        says "The consumer cursor is not ahead of what the writer published.";
    idle "FLOW-020" "window-needless" needs "the message before it"
        says "A CDC message says something new.";
    update "FLOW-004" "window-update" needs "both sides' messages"
        says "A consumer cursor by itself is sent if the writer's window is below half and grows by a tenth, or the writer asked.";
}

rules! {
    /// Rules about windows and RDMA WRITEs.
    WRITES: WriteView, Window;
    granted "FLOW-001" "window-write" needs "both sides' messages"
        says "An RDMA WRITE stays within the space that the receiver's consumer cursor leaves.";
}

fn overtaken(view: &CdcView<'_>) -> Judgement {
    let Some((flow, back, into, _)) = view.judged().filter(|_| view.is_placed()) else {
        return Judgement::Fine;
    };
    if back.lost || view.peer_unclear {
        return Judgement::Unknown;
    }
    let used = flow.producer(into, view.cdc) - back.consumed.cast_signed();
    if used <= i64::from(into.usable()) {
        return Judgement::Fine;
    }
    wrong!(
        "{} published {used} octets that are not read, in a buffer of {}",
        view.from,
        into.usable()
    )
}

fn ahead(view: &CdcView<'_>) -> Judgement {
    let Some((flow, back, _, own)) = view.judged().filter(|_| view.is_placed()) else {
        return Judgement::Fine;
    };
    if back.lost || view.peer_unclear {
        return Judgement::Unknown;
    }
    let more = flow.consumer(own, view.cdc) - back.furthest.cast_signed();
    if more <= 0 {
        return Judgement::Fine;
    }
    wrong!(
        "{} has read {more} octets that were not published",
        view.from
    )
}

fn idle(view: &CdcView<'_>) -> Judgement {
    let Some((flow, _, _, _)) = view.judged().filter(|_| !view.follows_move()) else {
        return Judgement::Fine;
    };
    let Some(last) = flow.last else {
        return Judgement::Fine;
    };
    let same = Cdc {
        sequence: view.cdc.sequence,
        ..last
    };
    if same != *view.cdc {
        return Judgement::Fine;
    }
    wrong!(
        "CDC number {} says nothing that {} did not say",
        view.cdc.sequence,
        last.sequence
    )
}

/// A message that changes nothing but how far its sender has read.
fn is_update(view: &CdcView<'_>) -> bool {
    let (Some(flow), Some(into), Some(own)) = (view.flow(), view.into, view.own) else {
        return false;
    };
    let last = flow.last.unwrap_or(Cdc {
        producer: into.start(),
        consumer: own.start(),
        producer_flags: ProducerFlags::empty(),
        connection_flags: ConnectionFlags::empty(),
        ..*view.cdc
    });
    let same = Cdc {
        sequence: view.cdc.sequence,
        consumer: view.cdc.consumer,
        ..last
    };
    same == *view.cdc && last.consumer != view.cdc.consumer
}

fn update(view: &CdcView<'_>) -> Judgement {
    let Some((flow, back, _, own)) = view.judged() else {
        return Judgement::Fine;
    };
    if !is_update(view) || view.follows_move() {
        return Judgement::Fine;
    }
    if back.lost || view.peer_unclear {
        return Judgement::Unknown;
    }
    let consumer = flow.consumer(own, view.cdc);
    if back.wants_updates(consumer, view.time) {
        return Judgement::Fine;
    }
    let size = i64::from(own.usable());
    let window = size - (back.furthest.cast_signed() - flow.consumed.cast_signed());
    let gained = consumer - flow.consumed.cast_signed();
    // The reader may have judged before the writer's latest message came.
    if window <= size / 2 && gained >= size / 10 {
        return Judgement::Fine;
    }
    wrong!("an update of {gained} octets while the writer has {window} of {size}")
}

fn granted(view: &WriteView<'_>) -> Judgement {
    let (Some((connection, _)), Some(ring), Some(offset)) = (view.target, view.ring, view.offset)
    else {
        return Judgement::Fine;
    };
    let (flow, back) = (
        connection.flows.of(view.from),
        connection.flows.of(view.from.other()),
    );
    if flow.lost || back.lost || view.peer_unclear {
        return Judgement::Unknown;
    }
    // Behind a change of link bytes are written again.
    if flow.moved.is_some() || flow.link.is_some_and(|link| link != view.index) {
        return Judgement::Fine;
    }
    let end = ring.at_offset(flow.produced, offset) + u64::from(view.write.length);
    let limit = back.consumed + u64::from(ring.usable());
    if end <= limit {
        return Judgement::Fine;
    }
    wrong!(
        "an RDMA WRITE at {offset} ends {} octets behind the window",
        end - limit
    )
}
