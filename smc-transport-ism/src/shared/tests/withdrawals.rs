//! DMBs that are taken back, and the reports to their writers.

use std::os::fd::AsFd;

use super::{
    HOSTILE, LEN, attached, join_hostile, joined_twice, memory, offer, registered, ring, ring_for,
    with_hostile,
};
use crate::device::{Dmb, DmbToken, IsmDevice, IsmError, IsmReport, RemoteDmb};
use crate::shared::Device;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};
use crate::shared::waiting::REPORTS;

/// A DMB that a hostile peer offers, attached.
fn offered(device: &mut Device, far: &Socket, token: u64) -> RemoteDmb {
    far.send(offer(token), Some(memory(LEN).as_fd())).unwrap();
    device.attach_dmb(HOSTILE, DmbToken(token), LEN).unwrap()
}

/// A peer sends its last messages over one channel and takes its DMB back over another.
//= SHM-035 test
#[test]
fn last_messages_come_first_whichever_channel_they_came_by() {
    let (mut one, mut two) = joined_twice();
    // Each side offers over the channel it took in first, which is not the same.
    let words = [(); 3].map(|()| attached(&mut one, &mut two));
    let (lost, to_one) = attached(&mut two, &mut one);
    for (_, to_two) in words {
        one.move_cdc(to_two, 0, 0, &[9; 32], true).unwrap();
    }
    one.unregister_dmb(lost).unwrap();
    two.note_readable();
    let mut reported: Vec<Dmb> = Vec::new();
    for _ in 0..3 {
        match two.poll() {
            Some(IsmReport::Signalled { dmb, cdc, .. }) if cdc == [9; 32] => reported.push(dmb),
            other => panic!("{other:?} behind {reported:?}"),
        }
    }
    assert!(words.iter().all(|(dmb, _)| reported.contains(dmb)));
    assert_eq!(two.poll(), Some(IsmReport::Withdrawn { remote: to_one }));
    assert_eq!(two.move_data(to_one, 0, 32, &[1]), Err(IsmError::Stale));
}

/// A channel ends, and there is another one to the same peer: no peer vanished, but what
/// was offered over the first is gone.
//= SHM-035 test
#[test]
fn a_channel_that_ends_beside_another_takes_its_dmbs_along() {
    let (mut device, first, _doorbells) = with_hostile();
    let (_other_doorbells, _other) = join_hostile(&mut device, HOSTILE);
    let remote = offered(&mut device, &first, 1);
    drop(first);
    device.note_readable();
    assert_eq!(device.poll(), Some(IsmReport::Withdrawn { remote }));
    assert_eq!((0..1000).find_map(|_| device.poll()), None);
    let moved = device.move_data(remote, 0, 32, &[1]);
    assert_eq!(moved, Err(IsmError::Unreachable));
    assert!(device.query_reach(HOSTILE, None));
}

/// A hostile peer takes its DMBs back one by one and rings all the while.
//= SHM-028 test
//= SHM-035 test
#[test]
fn withdrawals_among_rings_without_end_fill_no_memory() {
    let (mut device, far, doorbells) = with_hostile();
    let own = [(); 8].map(|()| registered(&mut device, HOSTILE).0);
    let lost: Vec<_> = (1..=200)
        .map(|token| offered(&mut device, &far, token))
        .collect();
    let mut reported = Vec::new();
    for token in 1..=200 {
        for _ in 0..1024 {
            own.iter()
                .for_each(|dmb| ring(&doorbells, ring_for(&device, *dmb)));
        }
        let token = DmbToken(token);
        far.send(Message::Withdraw { token }, None).unwrap();
        device.note_readable();
        if let Some(IsmReport::Withdrawn { remote }) = device.poll() {
            reported.push(remote);
        }
        let waiting = device.reports.len();
        assert!(waiting <= REPORTS + own.len() + 1, "{waiting}");
    }
    device.note_readable();
    while let Some(report) = (0..1000).find_map(|_| device.poll()) {
        if let IsmReport::Withdrawn { remote } = report {
            reported.push(remote);
        }
    }
    assert_eq!(reported, lost, "each is reported, in their order");
}

/// All DMBs of a peer are rung for, again and again, before each withdrawal: each is in the
/// queue once, however long that is, and again after it was taken.
//= SHM-035 test
#[test]
fn a_signal_is_queued_once_until_it_is_taken() {
    let (mut device, far, doorbells) = with_hostile();
    let own: Vec<_> = (0..500)
        .map(|at| {
            device.register_dmb(LEN, HOSTILE, None).unwrap();
            if at % 16 == 0 {
                while let Received::Message(..) = far.receive() {}
            }
            let Some(IsmReport::DmbRegistered { dmb, .. }) = device.poll() else {
                panic!()
            };
            dmb
        })
        .collect();
    for round in 0..3 {
        let lost = [1, 2].map(|at| offered(&mut device, &far, 2 * round + at));
        for at in [1, 2] {
            own.iter()
                .for_each(|dmb| ring(&doorbells, ring_for(&device, *dmb)));
            let token = DmbToken(2 * round + at);
            far.send(Message::Withdraw { token }, None).unwrap();
            // The withdrawal is read, not only the rings before it.
            assert_eq!(
                device.attach_dmb(HOSTILE, DmbToken(0), LEN),
                Err(IsmError::Token)
            );
        }
        assert_eq!(device.reports.len(), own.len() + 2);
        let mut signalled = Vec::new();
        let mut withdrawn = Vec::new();
        for _ in 0..own.len() + 2 {
            match device.poll() {
                Some(IsmReport::Signalled { dmb, .. }) => signalled.push(dmb),
                Some(IsmReport::Withdrawn { remote }) => withdrawn.push(remote),
                other => panic!("{other:?}"),
            }
        }
        signalled.sort_unstable();
        signalled.dedup();
        assert_eq!((signalled.len(), &withdrawn[..]), (own.len(), &lost[..]));
        for remote in lost {
            device.detach_dmb(remote).unwrap();
        }
        assert_eq!(device.poll(), None);
    }
}
