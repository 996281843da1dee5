//! Doorbells of a channel with more DMBs than their first page has room for.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::{
    Device, Dmb, DmbToken, HOSTILE, IsmDevice, IsmError, IsmReport, LEN, Message, RemoteDmb,
    attached, join_hostile, joined, memory, next, offer, registered, ring, ring_for, with_hostile,
};
use crate::device::DeviceEvent;
use crate::doorbell::{SLOTS, pages_for};
use crate::memory::PagesOf;
use crate::shared::socket::{Received, Socket};
use crate::shared::tests::unclaimed::{Stranger, stranger};

/// DMBs whose doorbells are in the first page.
const FIRST: usize = 256;

/// Signals each DMB, and then several of each group together; what is reported.
fn rings_for_each(mover: &mut Device, owner: &mut Device, dmbs: &[(Dmb, RemoteDmb)]) {
    for (dmb, remote) in dmbs.iter().step_by(37) {
        mover.move_cdc(*remote, 0, 0, &[1; 32], true).unwrap();
        let report = next(owner);
        assert!(matches!(report, IsmReport::Signalled { dmb: of, .. } if of == *dmb));
    }
    let mut wanted: Vec<Dmb> = Vec::new();
    for (dmb, remote) in dmbs.iter().step_by(41) {
        mover.move_cdc(*remote, 0, 0, &[2; 32], true).unwrap();
        wanted.push(*dmb);
    }
    while !wanted.is_empty() {
        match next(owner) {
            IsmReport::Signalled { dmb, cdc, .. } if cdc == [2; 32] => {
                wanted.retain(|of| *of != dmb);
            }
            // In a group without its page.
            IsmReport::Signalled { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    while owner.wait(Some(Duration::ZERO)).unwrap().is_some() {}
}

fn pages(device: &Device) -> [usize; 2] {
    let (_, channel) = device.channels.iter().next().unwrap();
    channel.pages()
}

/// Each way, doorbells begin as one page and become more with the DMBs that are attached.
//= SHM-070 test
#[test]
fn doorbells_become_more_with_the_dmbs() {
    let (mut one, mut two) = joined();
    assert_eq!((pages(&one), pages(&two)), ([0, 0], [0, 0]));
    let mut dmbs: Vec<_> = (0..FIRST).map(|_| attached(&mut one, &mut two)).collect();
    assert_eq!((pages(&one), pages(&two)), ([0, 0], [0, 0]));
    rings_for_each(&mut one, &mut two, &dmbs);
    dmbs.extend((0..1200).map(|_| attached(&mut one, &mut two)));
    two.note_readable();
    rings_for_each(&mut one, &mut two, &dmbs);
    let wanted = pages_for(FIRST as u32 + 1200);
    assert_eq!(wanted, 3);
    assert_eq!((pages(&one), pages(&two)), ([wanted, 0], [0, wanted]));
    // Slots are used again before there are more of them.
    for (dmb, remote) in dmbs.drain(..1000) {
        one.detach_dmb(remote).unwrap();
        two.unregister_dmb(dmb).unwrap();
        one.note_readable();
        assert_eq!(one.poll(), None);
    }
    dmbs.extend((0..1000).map(|_| attached(&mut one, &mut two)));
    two.note_readable();
    rings_for_each(&mut one, &mut two, &dmbs);
    assert_eq!((pages(&one), pages(&two)), ([wanted, 0], [0, wanted]));
}

/// A page waits for room in the socket, and rings come before it.
//= SHM-071 test
#[test]
fn rings_before_their_page_are_reported() {
    let (mut one, mut two) = joined();
    let mut dmbs: Vec<_> = (0..FIRST).map(|_| attached(&mut one, &mut two)).collect();
    let more: Vec<_> = (0..8).map(|_| registered(&mut two, one.gid)).collect();
    one.note_readable();
    while one.poll().is_some() {}
    // The offers are read; then the socket toward the owner is full.
    let unknown = one.attach_dmb(two.gid, DmbToken(0), LEN);
    assert_eq!(unknown, Err(IsmError::Token));
    let mut events = 0;
    while !one.behind {
        one.signal_event(two.gid, None, 1, 1).unwrap();
        events += 1;
    }
    for (dmb, token) in more {
        dmbs.push((dmb, one.attach_dmb(two.gid, token, LEN).unwrap()));
    }
    assert_eq!(pages(&one), [1, 0], "made, and not sent");
    // The owner reads its socket, and finds no page.
    let mut signal = || loop {
        match two.poll()? {
            IsmReport::Signalled { dmb, cdc, .. } => return Some((dmb, cdc)),
            IsmReport::Event(_) => events -= 1,
            other => panic!("{other:?}"),
        }
    };
    for (dmb, remote) in dmbs.iter().rev().step_by(3).take(3) {
        one.move_cdc(*remote, 0, 0, &[1; 32], true).unwrap();
        assert_eq!(signal(), Some((*dmb, [1; 32])));
    }
    let together = [FIRST, FIRST + 3, FIRST + 7, 9].map(|at| dmbs[at]);
    for (_, remote) in together {
        one.move_cdc(remote, 0, 0, &[2; 32], true).unwrap();
    }
    let rang: Vec<_> = core::iter::from_fn(&mut signal).collect();
    assert!(
        together
            .iter()
            .all(|(dmb, _)| rang.contains(&(*dmb, [2; 32])))
    );
    assert_eq!(pages(&two), [0, 0], "the page has not arrived");
    // Then there is room.
    while events > 0 {
        assert_eq!(one.poll(), None);
        match two.poll() {
            Some(IsmReport::Event(_)) => events -= 1,
            Some(IsmReport::Signalled { .. }) | None => {}
            other => panic!("{other:?}"),
        }
    }
    one.note_readable();
    assert_eq!(one.poll(), None);
    two.note_readable();
    rings_for_each(&mut one, &mut two, &dmbs);
    assert_eq!((pages(&one), pages(&two)), ([1, 0], [0, 1]));
}

/// No descriptor is left for the page, at the one end or at the other.
//= SHM-071 test
#[test]
fn a_page_that_is_not_to_be_had_loses_no_ring() {
    let (mut one, mut two) = joined();
    let count = FIRST + 600;
    let mut dmbs: Vec<_> = (0..FIRST).map(|_| attached(&mut one, &mut two)).collect();
    let channel = two.channels.iter().next().unwrap().0;
    two.channels.at_mut(channel).unwrap().lose_next_page();
    dmbs.extend((FIRST..count).map(|_| attached(&mut one, &mut two)));
    two.note_readable();
    rings_for_each(&mut one, &mut two, &dmbs);
    assert_eq!((pages(&one), pages(&two)), ([2, 0], [0, 2]));
}

fn page() -> OwnedFd {
    PagesOf::default().create().unwrap()
}

/// A peer may send as many pages as it got slots, each once and in order.
//= SHM-072 test
#[test]
fn pages_that_a_peer_may_not_send_end_its_channel() {
    type Breach = (&'static str, fn(&Socket));
    let send = |far: &Socket, at| {
        far.send(Message::Page { at, rung: false }, Some(page().as_fd()))
            .unwrap()
    };
    let breaches: [(Breach, bool); 7] = [
        (("the page it may send", |_| {}), true),
        (
            ("one more", |far| {
                far.send(Message::Page { at: 1, rung: false }, Some(page().as_fd()))
                    .unwrap()
            }),
            false,
        ),
        (
            ("the same again", |far| {
                far.send(Message::Page { at: 0, rung: true }, Some(page().as_fd()))
                    .unwrap()
            }),
            false,
        ),
        (
            ("none", |far| {
                far.send(Message::Page { at: 1, rung: false }, None)
                    .unwrap()
            }),
            false,
        ),
        (
            ("a number that is too large", |far| {
                far.send(
                    Message::Page {
                        at: u32::MAX,
                        rung: false,
                    },
                    Some(page().as_fd()),
                )
                .unwrap();
            }),
            false,
        ),
        (
            ("another file", |far| {
                far.send(
                    Message::Page { at: 1, rung: false },
                    Some(memory(4096).as_fd()),
                )
                .unwrap();
            }),
            false,
        ),
        (
            ("a file of another length", |far| {
                far.send(
                    Message::Page { at: 1, rung: false },
                    Some(memory(8192).as_fd()),
                )
                .unwrap();
            }),
            false,
        ),
    ];
    for ((breach, act), is_kept) in breaches {
        let (mut device, far, _doorbells) = with_hostile();
        let slots = if breach.contains("file") {
            FIRST + 513
        } else {
            FIRST + 1
        };
        for _ in 0..slots {
            device.register_dmb(LEN, HOSTILE, None).unwrap();
            while let Received::Message(..) = far.receive() {}
        }
        while device.poll().is_some() {}
        send(&far, 0);
        act(&far);
        device.note_readable();
        let ended = device.poll();
        if is_kept {
            assert_eq!((ended, pages(&device)), (None, [0, 1]), "{breach}");
        } else {
            let vanished = IsmReport::Event(DeviceEvent::vanished(HOSTILE));
            assert_eq!(ended, Some(vanished), "{breach}");
        }
    }
    // Before it got a slot there, not even the first.
    let (mut device, far, doorbells) = with_hostile();
    let (dmb, _) = registered(&mut device, HOSTILE);
    ring(&doorbells, ring_for(&device, dmb));
    assert!(matches!(next(&mut device), IsmReport::Signalled { .. }));
    send(&far, 0);
    let vanished = IsmReport::Event(DeviceEvent::vanished(HOSTILE));
    assert_eq!(next(&mut device), vanished);
}

/// The peer chooses the slots of its DMBs.
//= SHM-070 test
#[test]
fn a_slot_far_behind_brings_no_pages() {
    let (mut device, far, _doorbells) = with_hostile();
    let offer = |token, slot| Message::Offer {
        token: DmbToken(token),
        len: LEN,
        slot,
        generation: 1,
    };
    for token in 1..=300 {
        let slot = SLOTS - token as u32;
        far.send(offer(token, slot), Some(memory(LEN).as_fd()))
            .unwrap();
        let remote = device.attach_dmb(HOSTILE, DmbToken(token), LEN).unwrap();
        device.move_cdc(remote, 0, 0, &[1; 32], true).unwrap();
        while let Received::Message(..) = far.receive() {}
        // Twice as many slots as attachments.
        let wanted = pages_for(2 * token as u32);
        assert_eq!(pages(&device), [wanted, 0], "{token}");
    }
}

/// What is bounded for each user that is neither root nor this process's own is not for others,
/// and not at the expense of others.
//= SHM-073 test
#[test]
fn dmbs_of_a_stranger_are_bounded() {
    let mut device = Device::open().unwrap();
    let most = crate::shared::ism::DMBS_OF_A_STRANGER;
    let peers = [1, 1, 2, 0].map(stranger);
    let peers: Vec<_> = (1..)
        .zip(peers)
        .map(|(gid, uid)| Stranger::join(&mut device, gid, uid))
        .collect();
    let read = |of: &Stranger| while let Received::Message(..) = of.far.receive() {};
    let mut register = |of: &Stranger| {
        read(of);
        // What is in flight is asked for again after a while only.
        loop {
            match device.register_dmb(LEN, of.peer.gid, None) {
                Err(IsmError::Busy) => {}
                other => return other,
            }
        }
    };
    for at in 0..most {
        assert!(register(&peers[at % 2]).is_ok(), "{at}");
    }
    for of_user in &peers[..2] {
        assert_eq!(register(of_user), Err(IsmError::Exhausted));
    }
    for of_other in &peers[2..] {
        assert!(register(of_other).is_ok());
    }
    let (first, _) = device.dmbs.iter().next().unwrap();
    device.unregister_dmb(Dmb(first)).unwrap();
    read(&peers[0]);
    assert!(device.register_dmb(LEN, peers[1].peer.gid, None).is_ok());
}

/// A device has as many DMBs as its limits permit.
#[test]
fn limits_of_a_device_are_its_settings() {
    let mut limits = crate::shared::Limits::default();
    assert_eq!(limits.dmbs, 16_384);
    limits.dmbs = 3;
    let (mut one, mut two) = (Device::with(limits).unwrap(), Device::open().unwrap());
    assert_eq!(one.facts().max_dmbs, 3);
    assert_eq!(two.facts().max_dmbs, 16_384);
    Device::join(&mut one, &mut two).unwrap();
    for _ in 0..3 {
        one.register_dmb(LEN, two.gid, None).unwrap();
    }
    let refused = one.register_dmb(LEN, two.gid, None);
    assert_eq!(refused, Err(IsmError::Exhausted));
    let (_other, far) = join_hostile(&mut two, HOSTILE);
    far.send(offer(1), Some(memory(LEN).as_fd())).unwrap();
    assert!(two.attach_dmb(HOSTILE, DmbToken(1), LEN).is_ok());
}
