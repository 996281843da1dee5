//! Close and abort.

use smc_proto::wire::cdc::ConnectionFlags;

use crate::rule::{Judgement, rules, wrong};
use crate::state::flow::Flow;
use crate::view::{CdcView, WriteView};

rules! {
    /// Rules about the ends of connections in CDC messages.
    RULES: CdcView, Close;
    after_close "CLOSE-029" "close-is-final" needs "the message before it"
        says "Behind a message that says closed a side sends no other for the connection.";
    after_abort "ABORT-019" "abort-is-final" needs "the message before it"
        says "Behind a message that says aborted a side sends no other for the connection.";
    levels "CLOSE-023" "close-levels" needs "the message before it"
        says "A flag of its end that a side sent once stays set.";
    no_data "CLOSE-030" "close-no-data" needs "the message before it"
        says "Behind a message that says done its sender publishes nothing more.";
    not_both "ABORT-012" "close-or-abort" needs "the message"
        says "A message does not say both closed and aborted.";
}

rules! {
    /// Rules about the ends of connections and RDMA WRITEs.
    WRITES: WriteView, Close;
    no_write "CLOSE-030" "close-no-write" needs "the messages before it"
        says "A side that sent done, closed or aborted writes nothing more.";
}

const CLOSED: ConnectionFlags = ConnectionFlags::PEER_CONNECTION_CLOSED;
const ABORTED: ConnectionFlags = ConnectionFlags::ABNORMAL_CLOSE;
const DONE: ConnectionFlags = ConnectionFlags::SENDING_DONE;

/// Flags sent before on the same link; behind a change of link the last message
/// may come again.
fn before<'a>(view: &CdcView<'a>) -> Option<&'a Flow> {
    let flow = view.flow()?;
    let same = !view.is_validation() && !view.follows_move() && flow.link == Some(view.index);
    same.then_some(flow)
}

fn after_close(view: &CdcView<'_>) -> Judgement {
    match before(view) {
        Some(flow) if flow.flags().contains(CLOSED) => ending(
            view,
            format!(
                "{} sends CDC number {} after it closed",
                view.from, view.cdc.sequence
            ),
        ),
        _ => Judgement::Fine,
    }
}

/// Linux aborts what is left when a group ends, also what it had closed.
fn ending(view: &CdcView<'_>, words: String) -> Judgement {
    match view.cdc.connection_flags.contains(ABORTED) {
        true => Judgement::Known(&crate::deviation::ABORT_AT_THE_END, words),
        false => Judgement::Wrong(words),
    }
}

fn after_abort(view: &CdcView<'_>) -> Judgement {
    match before(view) {
        Some(flow) if flow.flags().contains(ABORTED) => {
            wrong!(
                "{} sends CDC number {} after it aborted",
                view.from,
                view.cdc.sequence
            )
        }
        _ => Judgement::Fine,
    }
}

fn levels(view: &CdcView<'_>) -> Judgement {
    let Some(flow) = view.flow().filter(|_| !view.is_validation()) else {
        return Judgement::Fine;
    };
    let (sent, now) = (flow.flags() & DONE, view.cdc.connection_flags);
    // Closed means that nothing more is sent, as aborted does.
    if now.contains(sent) || now.intersects(CLOSED | ABORTED) || view.follows_move() {
        return Judgement::Fine;
    }
    wrong!("{} takes back that it has sent all", view.from)
}

fn no_data(view: &CdcView<'_>) -> Judgement {
    let Some((flow, _, into, _)) = view.judged().filter(|_| !view.follows_move()) else {
        return Judgement::Fine;
    };
    let more = flow.producer(into, view.cdc) - flow.produced.cast_signed();
    if !flow.flags().contains(DONE) || more <= 0 {
        return Judgement::Fine;
    }
    wrong!(
        "{} publishes {more} octets after it had sent all",
        view.from
    )
}

fn not_both(view: &CdcView<'_>) -> Judgement {
    if view.is_validation() || !view.cdc.connection_flags.contains(CLOSED | ABORTED) {
        return Judgement::Fine;
    }
    ending(
        view,
        format!("{} says closed and aborted at once", view.from),
    )
}

fn no_write(view: &WriteView<'_>) -> Judgement {
    let Some((connection, _)) = view.target else {
        return Judgement::Fine;
    };
    let flow = connection.flows.of(view.from);
    let again = flow.moved.is_some() || flow.link.is_some_and(|link| link != view.index);
    if again || !flow.flags().intersects(DONE | CLOSED | ABORTED) {
        return Judgement::Fine;
    }
    wrong!(
        "{} writes {} octets after its last message",
        view.from,
        view.write.length
    )
}
