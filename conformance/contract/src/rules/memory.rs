//! Buffers, and what they may be used for.

use smc_proto::command::{EYE_CATCHER, RdmaCommand};
use smc_proto::completion::RdmaCompletion;

use crate::Adapters;
use crate::ends::{Ends, LENGTH, one};

pub(super) fn memory_is_zero_and_marked<A: Adapters>(make: &dyn Fn() -> A) {
    for marked in [false, true] {
        let mut ends = Ends::made(make(), [44; 2], marked);
        for side in 0..2 {
            let bytes = ends.memory(side, 0, 2 * LENGTH);
            for element in bytes.chunks(LENGTH as usize) {
                let (head, rest) = element.split_at(EYE_CATCHER.len());
                let wanted = if marked { EYE_CATCHER } else { [0; 4] };
                assert_eq!(head, wanted);
                assert!(rest.iter().all(|byte| *byte == 0));
            }
        }
        ends.join();
        ends.down();
    }
}

pub(super) fn elements_are_cleared_alone<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 44);
    let bytes = ends.fill(0);
    ends.write(0, one(0, LENGTH), 0);
    ends.write(0, one(0, LENGTH), LENGTH.into());
    ends.send(0, 0);
    ends.until(|at| at[1].received.len() == 1);
    let buffer = ends.at[1].of.rmb;
    for (offset, eye_catcher) in [(LENGTH, true), (0, false)] {
        let clear = RdmaCommand::ClearElement {
            buffer,
            offset,
            length: LENGTH,
            eye_catcher,
        };
        let cleared = RdmaCompletion::ElementCleared { buffer, offset };
        assert_eq!(ends.ask(1, clear), cleared);
        if offset > 0 {
            assert_eq!(ends.memory(1, 0, LENGTH), bytes, "the other one stays");
            assert_eq!(ends.memory(1, LENGTH, 4), EYE_CATCHER);
        }
        assert_eq!(
            ends.memory(1, offset + 4, LENGTH - 4),
            vec![0; LENGTH as usize - 4]
        );
    }
    assert_eq!(ends.memory(1, 0, 4), [0; 4], "no mark is asked for");
    ends.until(|at| at[0].sent == [0]);
    ends.down();
}

pub(super) fn a_damaged_eye_catcher_is_reported_and_nothing_read<A: Adapters>(
    make: &dyn Fn() -> A,
) {
    let mut ends = Ends::made(make(), [44; 2], true);
    ends.join();
    let bytes = ends.fill(0);
    // One byte of the second mark, and one behind the first.
    ends.write(0, one(9, 1), u64::from(LENGTH) + 3);
    ends.write(0, one(4, 1), 4);
    ends.send(0, 0);
    ends.until(|at| at[1].received.len() == 1 && at[0].sent.len() == 1);
    let before = ends.at[1].answers.len();
    assert_eq!(ends.marked(1, 4, 1, Some(0)).unwrap(), bytes[4..5]);
    ends.listen(1);
    assert_eq!(ends.at[1].answers.len(), before, "nothing to report");
    assert_eq!(ends.marked(1, LENGTH + 4, 1, Some(LENGTH)), None);
    let conn = ends.at[1].of.conn;
    let damaged = RdmaCompletion::EyeCatcherDamaged { conn };
    ends.until(|at| at[1].answers.len() > before);
    assert_eq!(ends.at[1].answers[before..], [damaged]);
    ends.down();
}

pub(super) fn keys_are_new_each_time<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 44);
    ends.fill(0);
    let (rmb, first) = (ends.at[1].of.rmb, ends.at[1].rmb.unwrap());
    ends.deregister(1, rmb);
    ends.register(1, rmb);
    let second = ends.at[1].rmb.unwrap();
    assert_ne!(first.rkey, second.rkey);
    ends.write(0, one(0, 8), 0);
    ends.send(0, 0);
    ends.until(|at| at[1].received.len() == 1 && at[0].sent.len() == 1);
    assert_eq!(ends.memory(1, 0, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
    // The old one is no good any more.
    ends.write_to(0, one(0, 8), first, 16);
    ends.until(|at| at.iter().all(|end| end.failed.is_some()));
    assert_eq!(ends.memory(1, 16, 8), [0; 8]);
    ends.down();
}

pub(super) fn a_refused_registration_harms_nothing_else<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 44);
    let (buffer, link) = (ends.at[0].of.rmb, ends.at[0].of.link);
    ends.deregister(0, buffer);
    if ends.adapters.refuse_registrations() {
        for _ in 0..2 {
            let answer = ends.ask(0, RdmaCommand::RegisterBuffer { buffer, link });
            assert_eq!(answer, RdmaCompletion::BufferRefused { buffer });
        }
    }
    let bytes = ends.fill(0);
    ends.write(0, one(100, 50), 7);
    ends.send(0, 0);
    ends.send(1, 0);
    ends.until(|at| {
        at.iter()
            .all(|end| end.received.len() == 1 && end.sent == [0])
    });
    assert_eq!(ends.memory(1, 7, 50), bytes[100..150]);
    ends.down();
}
