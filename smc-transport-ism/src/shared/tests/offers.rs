//! Offers to a peer that reads late or never, and offers that fail at this side.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{Shutdown, shutdown};

use super::{HOSTILE, LEN, memory, next, offer, with_hostile};
use crate::device::{DeviceEvent, Dmb, IsmDevice, IsmError, IsmReport};
use crate::shared::Device;
use crate::shared::message::Message;
use crate::shared::outbox::STALLED;
use crate::shared::socket::{Received, Socket, timespec};

/// Registers DMBs for the peer until this many offers wait for room in its socket.
fn register_until_waiting(device: &mut Device, count: usize) -> BTreeSet<Dmb> {
    let mut dmbs = BTreeSet::new();
    let waiting = |device: &Device| {
        let channels = device.channels.iter();
        channels
            .map(|(_, at)| at.outbox.descriptors())
            .sum::<usize>()
    };
    while waiting(device) < count {
        dmbs.insert(device.register_dmb(LEN, HOSTILE, None).unwrap());
    }
    dmbs
}

/// Reads this many messages of the device; fewer if there are no more.
fn read(far: &Socket, most: usize) -> usize {
    let is_message = |_: &usize| matches!(far.receive(), Received::Message(..));
    (0..most).take_while(is_message).count()
}

/// Everything the device reports now: DMBs registered, and DMBs failed.
fn outcomes(device: &mut Device) -> (Vec<Dmb>, Vec<Dmb>) {
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    while let Some(report) = (0..600).find_map(|_| device.poll()) {
        match report {
            IsmReport::DmbRegistered { dmb, .. } => done.push(dmb),
            IsmReport::Failed { dmb, .. } => failed.push(dmb),
            other => panic!("{other:?}"),
        }
    }
    (done, failed)
}

/// A peer that stops for a while: offers lie unread, more wait for room, it reads some of
/// them, and one DMB is closed, whose withdrawal makes way for all that waits.
fn rounds(count: usize) {
    let (mut device, far, _doorbells) = with_hostile();
    for round in 0..count {
        let mut dmbs = register_until_waiting(&mut device, 50);
        let (mut reported, _) = outcomes(&mut device);
        let unread = dmbs.len() - 50;
        read(&far, unread * 2 / 3);
        let closed = dmbs.pop_first().unwrap();
        device.unregister_dmb(closed).unwrap();
        while read(&far, usize::MAX) > 0 {
            let (done, failed) = outcomes(&mut device);
            assert_eq!(failed, [], "round {round}");
            reported.extend(done);
        }
        reported.retain(|dmb| *dmb != closed);
        let all: BTreeSet<_> = reported.iter().copied().collect();
        assert_eq!(all.len(), reported.len(), "round {round}: reported twice");
        assert_eq!(
            all, dmbs,
            "round {round}: DMBs that nothing was reported of"
        );
        for dmb in dmbs {
            device.unregister_dmb(dmb).unwrap();
            read(&far, usize::MAX);
        }
        assert_eq!(outcomes(&mut device), (vec![], vec![]));
        assert_eq!(device.dmbs.len(), 0, "round {round}");
    }
}

//= SHM-023 test
#[test]
fn each_dmb_that_a_withdrawal_makes_way_for_is_reported() {
    rounds(200);
}

#[test]
#[ignore = "a campaign: takes minutes"]
fn ten_thousand_rounds_lose_no_slot() {
    rounds(10_000);
}

//= SHM-023 test
#[test]
fn each_dmb_that_another_message_makes_way_for_is_reported() {
    type Flush = fn(&mut Device) -> Option<Dmb>;
    let flushes: [(&str, Flush); 2] = [
        ("a registration", |device| {
            Some(device.register_dmb(LEN, HOSTILE, None).unwrap())
        }),
        ("an event", |device| {
            device.signal_event(HOSTILE, None, 1, 1).unwrap();
            None
        }),
    ];
    for (what, flush) in flushes {
        let (mut device, far, _doorbells) = with_hostile();
        let mut dmbs = register_until_waiting(&mut device, 5);
        let (mut reported, _) = outcomes(&mut device);
        read(&far, usize::MAX);
        dmbs.extend(flush(&mut device));
        reported.extend(outcomes(&mut device).0);
        let reported: BTreeSet<_> = reported.into_iter().collect();
        assert_eq!(reported, dmbs, "{what}");
    }
}

/// The peer reads, and goes before what then was sent is reported.
//= SHM-023 test
#[test]
fn each_dmb_is_reported_though_the_flush_fails_then() {
    let (mut device, far, _doorbells) = with_hostile();
    let dmbs = register_until_waiting(&mut device, 5);
    let (reported, _) = outcomes(&mut device);
    drop(far);
    assert_eq!(
        device.register_dmb(LEN, HOSTILE, None),
        Err(IsmError::Unreachable)
    );
    let mut failed = BTreeSet::new();
    loop {
        match next(&mut device) {
            IsmReport::Failed { dmb, error } => {
                assert_eq!(error, IsmError::Unreachable);
                failed.insert(dmb);
            }
            IsmReport::Event(event) => {
                assert_eq!(event, DeviceEvent::vanished(HOSTILE));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(failed.len(), 5, "those that waited");
    let all: BTreeSet<_> = failed.into_iter().chain(reported).collect();
    assert_eq!(all, dmbs);
}

/// A stopped peer keeps the slots of DMBs that wait for it no longer than their
/// connections last.
//= SHM-028 test
#[test]
fn offers_that_wait_for_a_stopped_peer_fail_in_time() {
    let (mut device, far, _doorbells) = with_hostile();
    let begin = Instant::now();
    let dmbs = register_until_waiting(&mut device, 50);
    let (reported, _) = outcomes(&mut device);
    let mut failed = 0;
    while failed < 50 {
        let report = device.wait(Some(STALLED * 2)).unwrap();
        assert!(
            matches!(report, Some(IsmReport::Failed { .. })),
            "{report:?}"
        );
        failed += 1;
    }
    assert!(begin.elapsed() >= STALLED);
    assert_eq!(device.dmbs.len(), reported.len());
    assert_eq!(reported.len() + failed, dmbs.len());
    let refused = device.register_dmb(LEN, HOSTILE, None);
    assert_eq!(refused, Err(IsmError::Unreachable), "it has not read yet");
    // It goes on, and is served as before.
    read(&far, usize::MAX);
    device.signal_event(HOSTILE, None, 1, 1).unwrap_err();
    assert_eq!(outcomes(&mut device).0, []);
    let late = device.register_dmb(LEN, HOSTILE, None).unwrap();
    assert_eq!(outcomes(&mut device).0, [late]);
}

/// Runs an event loop that polls the device's descriptor, until nothing happens for a
/// while: their number, and what was reported.
fn iterate(device: &mut Device) -> (usize, Vec<IsmReport>) {
    let (mut iterations, mut reports) = (0, Vec::new());
    loop {
        while let Some(report) = device.poll() {
            reports.push(report);
        }
        device.park();
        let polled = &mut [PollFd::new(&*device, PollFlags::IN)];
        let time = timespec(Duration::from_millis(100));
        if rustix::event::poll(polled, Some(&time)).unwrap() == 0 || iterations == 1000 {
            return (iterations, reports);
        }
        iterations += 1;
        device.note_readable();
    }
}

/// A peer that refuses to be written to, and stays: a flush fails, and not for want of
/// room.
//= SHM-028 test
#[test]
fn a_flush_that_fails_for_good_ends_the_channel_and_keeps_no_processor_busy() {
    for polled in [true, false] {
        let (mut device, far, _doorbells) = with_hostile();
        if polled {
            device.set_externally_polled();
        }
        register_until_waiting(&mut device, 5);
        outcomes(&mut device);
        read(&far, usize::MAX);
        far.send(Message::Event { code: 1, info: 1 }, None).unwrap();
        far.send(offer(1), Some(memory(LEN).as_fd())).unwrap();
        shutdown(far.as_fd(), Shutdown::Read).unwrap();
        let (iterations, reports) = iterate(&mut device);
        assert!(
            iterations < 20,
            "polled: {polled}, {iterations} iterations, {reports:?}"
        );
        assert!(!device.query_reach(HOSTILE, None), "polled: {polled}");
        let (first, last) = (
            DeviceEvent::software(HOSTILE, 1, 1),
            DeviceEvent::vanished(HOSTILE),
        );
        let failed = |at: &&IsmReport| matches!(at, IsmReport::Failed { .. });
        assert_eq!(reports.iter().filter(failed).count(), 5, "{reports:?}");
        assert!(reports.contains(&IsmReport::Event(first)), "{reports:?}");
        assert_eq!(reports.last(), Some(&IsmReport::Event(last)));
    }
}
