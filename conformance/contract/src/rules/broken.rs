//! Links that break, and links that are stopped.

use smc_proto::command::RdmaCommand;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::WrId;

use crate::Adapters;
use crate::ends::{Ends, LENGTH, one};

pub(super) fn a_write_to_where_it_may_not_names_its_connection<A: Adapters>(make: &dyn Fn() -> A) {
    for case in 0..4 {
        let mut ends = Ends::up(make, 44);
        ends.fill(0);
        let mut theirs = ends.at[1].rmb.unwrap();
        let mut offset = 0;
        match case {
            // One byte beyond the end.
            0 => offset = u64::from(2 * LENGTH) - 9,
            // Before the beginning.
            1 => theirs.address -= 1,
            // Another key.
            2 => theirs.rkey.0 ^= 0x10,
            // A registration that was undone.
            _ => {
                let rmb = ends.at[1].of.rmb;
                ends.deregister(1, rmb);
            }
        }
        ends.write_to(0, one(0, 10), theirs, offset);
        ends.send(0, 0);
        ends.until(|at| at.iter().all(|end| end.failed.is_some()));
        let blamed = Some(ends.at[0].of.conn);
        let failed = Some((LinkFailure::RemoteAccess, blamed));
        assert_eq!(ends.at[0].failed, failed, "case {case}");
        assert!(ends.at[0].sent.is_empty() && ends.at[1].received.is_empty());
        let untouched = ends.memory(1, 0, 2 * LENGTH);
        assert!(untouched.iter().all(|byte| *byte == 0), "case {case}");
        // What is posted now is not reported any more.
        ends.send(0, 1);
        ends.listen(0);
        assert!(ends.at[0].sent.is_empty());
        ends.down();
    }
}

pub(super) fn a_message_longer_than_the_receive_breaks_the_link<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::made(make(), [8192, 44], false);
    ends.join();
    let link = ends.at[0].of.link;
    ends.adapters.send_large(0, link, WrId(0), &[1; 100]);
    ends.until(|at| at.iter().all(|end| end.failed.is_some()));
    assert!(ends.at[1].received.is_empty());
    assert!(ends.at[0].sent.is_empty());
    ends.down();
}

pub(super) fn what_is_posted_is_flushed<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 44);
    ends.fill(0);
    for number in 0..8 {
        ends.write(0, one(0, 1000), 0);
        ends.send(0, number);
    }
    let link = ends.at[0].of.link;
    ends.drain(0);
    let sent = ends.at[0].sent.clone();
    assert!(sent.iter().copied().eq(0..sent.len() as u32), "{sent:?}");
    // Nothing is reported after what was reported by then.
    ends.send(0, 8);
    ends.clear(0);
    assert_eq!(ends.at[0].sent, sent);
    let destroyed = RdmaCompletion::QpDestroyed { link };
    assert_eq!(ends.at[0].answers.last(), Some(&destroyed));
    ends.listen(1);
    let arrived = ends.at[1].received.len();
    assert!(
        sent.len() <= arrived && arrived <= 8,
        "{arrived} of {sent:?}"
    );
    ends.drain(1);
    ends.clear(1);
    assert_eq!(ends.at[1].received.len(), arrived, "nothing after the end");
}

pub(super) fn no_peer_answers<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 44);
    ends.drain(1);
    ends.clear(1);
    ends.send(0, 0);
    ends.until(|at| at[0].failed.is_some());
    let why = ends.at[0].failed;
    assert_eq!(why, Some((LinkFailure::RetriesExhausted, None)));
    assert!(ends.at[0].sent.is_empty());
    ends.drain(0);
    ends.clear(0);
}

pub(super) fn nothing_is_written_once_it_is_drained<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 44);
    ends.fill(0);
    ends.write(0, one(0, 100), 0);
    ends.send(0, 0);
    ends.until(|at| at[1].received.len() == 1 && at[0].sent.len() == 1);
    ends.drain(1);
    // The queue pair of the receiver is stopped: its memory is its own again.
    ends.write(0, one(200, 100), 0);
    ends.send(0, 1);
    ends.adapters.pause();
    assert_eq!(ends.memory(1, 0, 2), [1, 2]);
    assert_eq!(ends.at[1].received.len(), 1);
    let (buffer, link) = (ends.at[1].of.rmb, ends.at[1].of.link);
    // Stopping a link twice is as stopping it once.
    let again = ends.ask(1, RdmaCommand::QpToError { link });
    assert_eq!(again, RdmaCompletion::QpDrained { link });
    ends.deregister(1, buffer);
    ends.drain(0);
    assert_eq!(ends.memory(1, 0, 2), [1, 2]);
    assert_eq!(ends.at[0].sent, [0]);
    ends.clear(0);
    ends.clear(1);
}
