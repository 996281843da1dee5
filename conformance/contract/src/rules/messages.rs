//! Bytes and messages on their way.

use smc_proto::command::Segment;
use smc_proto::completion::LinkFailure;
use smc_proto::id::WrId;

use crate::Adapters;
use crate::ends::{End, Ends, LENGTH, one};

/// Messages that an engine has in flight on a link at most.
const IN_FLIGHT: u32 = 16;

pub(super) fn writes_are_there_when_the_send_behind_them_is<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 44);
    let bytes = ends.fill(0);
    let piece = |offset, length| Segment { offset, length };
    // Long, in two pieces, and as short as may go inline.
    ends.write(0, one(100, 5000), 0);
    ends.write(0, [piece(9000, 1000), piece(0, 500)], 5000);
    ends.write(0, one(7, 3), 9000);
    ends.write(0, one(LENGTH - 1, 1), u64::from(2 * LENGTH) - 1);
    ends.send(0, 0);
    ends.until(|at| at[1].received.len() == 1);
    assert_eq!(ends.memory(1, 0, 5000), bytes[100..5100]);
    assert_eq!(ends.memory(1, 5000, 1000), bytes[9000..10_000]);
    assert_eq!(ends.memory(1, 6000, 500), bytes[..500]);
    assert_eq!(ends.memory(1, 6500, 1), [0]);
    assert_eq!(ends.memory(1, 9000, 3), bytes[7..10]);
    assert_eq!(ends.memory(1, 9003, 1), [0]);
    let last = bytes[LENGTH as usize - 1];
    assert_eq!(ends.memory(1, 2 * LENGTH - 1, 1), [last]);
    ends.until(|at| at[0].sent == [0]);
    ends.down();
}

pub(super) fn bursts_arrive_in_order<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 8192);
    for round in 0..40 {
        for number in round * IN_FLIGHT..(round + 1) * IN_FLIGHT {
            ends.send(0, number);
            ends.send(1, number);
        }
        let all = ((round + 1) * IN_FLIGHT) as usize;
        let done = |end: &End| end.sent.len() >= all && end.received.len() >= all;
        ends.until(|at| at.iter().all(done));
    }
    for end in &ends.at {
        arrived_in_order(end, 40 * IN_FLIGHT);
        assert!(end.sent.iter().copied().eq(0..40 * IN_FLIGHT));
    }
    ends.down();
}

/// Each message once, in the order of sending.
#[track_caller]
fn arrived_in_order(end: &End, count: u32) {
    assert_eq!(end.received.len(), count as usize);
    for (number, message) in (0u32..).zip(&end.received) {
        assert_eq!(message.len(), 44);
        assert_eq!(message[..4], number.to_be_bytes());
    }
}

pub(super) fn large_messages_arrive_whole<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 8192);
    for (number, length) in (0u32..).zip([45, 88, 5000, 8192]) {
        let message: Vec<u8> = (0..length).map(|at| (at % 253) as u8).collect();
        let link = ends.at[0].of.link;
        ends.adapters.send_large(0, link, WrId(number), &message);
        let count = number as usize + 1;
        ends.until(|at| at[0].sent.len() == count && at[1].received.len() == count);
        assert!(ends.at[1].received.last() == Some(&message), "{length}");
    }
    ends.down();
}

pub(super) fn who_does_not_listen_loses_nothing<A: Adapters>(make: &dyn Fn() -> A) {
    let mut ends = Ends::up(make, 44);
    for number in 0..IN_FLIGHT {
        ends.send(0, number);
    }
    // The receiver gets nothing until all has arrived.
    let mut waits = 0;
    while ends.at[0].sent.len() < IN_FLIGHT as usize {
        ends.listen(0);
        waits += 1;
        assert!(waits < 100_000, "{:?}", ends.at[0]);
        if !ends.adapters.wait() {
            ends.listen(0);
            break;
        }
    }
    assert!(ends.at[0].sent.iter().copied().eq(0..IN_FLIGHT));
    assert!(ends.at[1].received.is_empty());
    ends.listen(1);
    arrived_in_order(&ends.at[1], IN_FLIGHT);
    ends.down();
}

pub(super) fn what_finds_no_receive_waits_or_breaks_the_link<A: Adapters>(make: &dyn Fn() -> A) {
    const ALL: u32 = 200;
    let mut ends = Ends::up(make, 44);
    // More than there are receives, and none are posted again for a while.
    let (mut posted, mut waits) = (0, 0);
    while posted < ALL && waits < 5000 && ends.at[0].failed.is_none() {
        if posted < ends.at[0].sent.len() as u32 + IN_FLIGHT {
            ends.send(0, posted);
            posted += 1;
            continue;
        }
        waits += 1;
        ends.adapters.wait();
        ends.listen(0);
    }
    assert!(ends.at[1].received.is_empty());
    ends.until(|at| at[0].failed.is_some() || at[1].received.len() == posted as usize);
    ends.until(|at| at[0].failed.is_some() || at[0].sent.len() == posted as usize);
    let (here, there) = (&ends.at[0], &ends.at[1]);
    match here.failed {
        None => {}
        Some(why) => assert_eq!(why, (LinkFailure::ReceiverNotReady, None)),
    }
    // Nothing is lost in between, and nothing is called sent that did not arrive.
    arrived_in_order(there, there.received.len() as u32);
    assert!(here.sent.len() <= there.received.len());
    assert!(here.sent.iter().copied().eq(0..here.sent.len() as u32));
    ends.down();
}
