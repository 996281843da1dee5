//! Channels with a hostile or a slow peer, and devices in an event loop.

mod charges;
mod crowds;
mod ends;
mod handshakes;
mod heads;
mod in_flight;
mod offers;
mod pages;
mod ring_suppression;
mod unclaimed;
mod waits;
mod withdrawals;

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::Device;
use super::channel::{Begun, Channel};
use super::device::OF_A_STRANGER;
use super::message::Message;
use super::pairing::Peer;
use super::socket::{Received, Socket};
use crate::device::{
    DeviceEvent, Dmb, DmbToken, Gid128, IsmDevice, IsmError, IsmReport, MAX_DMB_LEN, RemoteDmb,
};
use crate::doorbell::{Ring, SLOTS};
use crate::memory::{DoorbellPage, FLAGS, PagesOf, SharedRegion};

const LEN: u32 = 16384;
const HOSTILE: Gid128 = Gid128 {
    gid: 0xbad,
    ext: 0xbad,
};

fn joined() -> (Device, Device) {
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut one, &mut two).unwrap();
    (one, two)
}

/// Two devices with two channels, which they took in in another order.
fn joined_twice() -> (Device, Device) {
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    let channels = [(); 2].map(|()| {
        let (left, right) = Socket::pair().unwrap();
        let left = Begun::begin(left, one.gid).unwrap();
        let right = Begun::begin(right, two.gid).unwrap();
        let now = Instant::now();
        (left.finish(now).unwrap(), right.finish(now).unwrap())
    });
    let [(left, right), (other_left, other_right)] = channels;
    one.adopt(left).unwrap();
    one.adopt(other_left).unwrap();
    two.adopt(other_right).unwrap();
    two.adopt(right).unwrap();
    (one, two)
}

fn next(device: &mut Device) -> IsmReport {
    device
        .wait(Some(Duration::from_secs(20)))
        .unwrap()
        .expect("a report")
}

fn registered(owner: &mut Device, peer: Gid128) -> (Dmb, DmbToken) {
    owner.register_dmb(LEN, peer, None).unwrap();
    let IsmReport::DmbRegistered { dmb, token } = next(owner) else {
        panic!()
    };
    (dmb, token)
}

fn attached(mover: &mut Device, owner: &mut Device) -> (Dmb, RemoteDmb) {
    let (dmb, token) = registered(owner, mover.facts().gid);
    (
        dmb,
        mover.attach_dmb(owner.facts().gid, token, LEN).unwrap(),
    )
}

/// Connections that pair at the same time make a channel each, and the two sides may
/// take them in in any order.
//= SHM-013 test
#[test]
fn channels_taken_in_in_another_order_serve_both_ways() {
    let (mut one, mut two) = joined_twice();
    for _ in 0..3 {
        for (mover, owner) in [(0, 1), (1, 0)] {
            let mut devices = [&mut one, &mut two];
            let [mover, owner] = devices.get_disjoint_mut([mover, owner]).unwrap();
            let (dmb, remote) = attached(mover, owner);
            mover.move_cdc(remote, 0, 0, &[7; 32], true).unwrap();
            let report = next(owner);
            assert!(matches!(report, IsmReport::Signalled { dmb: of, .. } if of == dmb));
        }
    }
}

/// A device, and a peer that speaks by hand.
fn with_hostile() -> (Device, Socket, DoorbellPage) {
    let mut device = Device::open().unwrap();
    let (doorbells, socket) = join_hostile(&mut device, HOSTILE);
    (device, socket, doorbells)
}

fn join_hostile(device: &mut Device, gid: Gid128) -> (DoorbellPage, Socket) {
    let (channel, doorbells, far) = begun_by_hostile(device, gid);
    device.adopt(channel).unwrap();
    assert!(matches!(
        far.receive(),
        Received::Message(Message::Hello { .. }, Some(_))
    ));
    (doorbells, far)
}

/// Sends the file for the device's CLC messages, with a slot and a generation to ring at.
fn send_handshakes(far: &Socket, file: &OwnedFd) {
    let (slot, generation) = (0, 1);
    let message = Message::Handshakes { slot, generation };
    far.send(message, Some(file.as_fd())).unwrap();
}

fn begun_by_hostile(device: &Device, gid: Gid128) -> (Channel, DoorbellPage, Socket) {
    let (near, far) = Socket::pair().unwrap();
    let (doorbells, fd) = DoorbellPage::create().unwrap();
    far.send(Message::Hello { gid }, Some(fd.as_fd())).unwrap();
    let begun = Begun::begin(near, device.gid).unwrap();
    (begun.finish(Instant::now()).unwrap(), doorbells, far)
}

//= SHM-033 test
#[test]
fn a_stranger_cannot_take_all_channels() {
    let mut device = Device::open().unwrap();
    let own = rustix::process::geteuid().as_raw();
    let strangers = [own + 1, own + 2];
    let mut ends = Vec::new();
    let mut join = |device: &mut Device, gid: usize, uid| {
        let gid = Gid128 {
            gid: gid as u64,
            ext: 0,
        };
        let (mut channel, doorbells, far) = begun_by_hostile(device, gid);
        channel.uid = uid;
        ends.push((doorbells, far));
        device.adopt(channel).map_err(|error| error.kind())
    };
    for gid in 1..=OF_A_STRANGER {
        assert_eq!(join(&mut device, gid, strangers[0]), Ok(()));
    }
    let refused = join(&mut device, 1000, strangers[0]);
    assert_eq!(refused, Err(std::io::ErrorKind::QuotaExceeded));
    assert_eq!(join(&mut device, 1000, strangers[1]), Ok(()));
    for gid in 2000..2000 + 2 * OF_A_STRANGER {
        assert_eq!(join(&mut device, gid, own), Ok(()));
    }
}

/// A process that has learned the GID of another one, and claims it first.
//= SHM-055 test
#[test]
fn a_gid_that_another_user_has_learned_keeps_its_owner_from_nothing() {
    let (mut device, owner) = (Device::open().unwrap(), Device::open().unwrap());
    let own = rustix::process::geteuid().as_raw();
    let [honest, attacker] = [own + 1, own + 2];
    let mut join = |gid, uid| {
        let (mut channel, doorbells, far) = begun_by_hostile(&device, gid);
        channel.uid = uid;
        device.adopt(channel).unwrap();
        assert!(device.is_joined(&Peer { gid, uid }));
        (doorbells, far)
    };
    let _claimed = join(owner.gids().toward(attacker), attacker);
    let _joined = join(owner.gids().toward(own), honest);
}

/// Makes the device's last peer a process of another user.
fn estrange_last(device: &mut Device) {
    let own = rustix::process::geteuid().as_raw();
    let last = device.channels.iter().map(|(key, _)| key).max().unwrap();
    device.channels.at_mut(last).unwrap().uid = own + 1;
}

/// A GID is what a peer claims: until the engine knows that the peer has gone which had it,
/// no other user's has it.
//= SHM-055 test
#[test]
fn a_gid_is_one_users_until_its_end_was_reported() {
    let (mut device, far, _doorbells) = with_hostile();
    let join = |device: &mut Device, uid: u32| {
        let (mut channel, doorbells, far) = begun_by_hostile(device, HOSTILE);
        channel.uid = rustix::process::geteuid().as_raw() + uid;
        let joined = device.adopt(channel).map_err(|error| error.kind());
        joined.map(|()| (doorbells, far))
    };
    let refused = Err(std::io::ErrorKind::AddrInUse);
    assert_eq!(join(&mut device, 1).map(drop), refused);
    // It goes, which is not reported yet.
    drop(far);
    let gone = device.attach_dmb(HOSTILE, DmbToken(1), LEN);
    assert_eq!(gone, Err(IsmError::Token));
    assert!(!device.query_reach(HOSTILE, None));
    assert_eq!(join(&mut device, 1).map(drop), refused);
    let vanished = DeviceEvent::vanished(HOSTILE);
    assert_eq!(device.poll(), Some(IsmReport::Event(vanished)));
    let _joined = join(&mut device, 1).expect("the GID is free");
    assert_eq!(join(&mut device, 0).map(drop), refused);
}

/// What a peer of another user offers under the same GID is not the peer's.
//= SHM-055 test
#[test]
fn offers_under_one_gid_are_kept_apart_by_user() {
    let (mut device, far, _doorbells) = with_hostile();
    let (_other_doorbells, other_far) = join_hostile(&mut device, HOSTILE);
    estrange_last(&mut device);
    let file = memory(LEN);
    far.send(offer(1), Some(file.as_fd())).unwrap();
    other_far.send(offer(2), Some(file.as_fd())).unwrap();
    let one = device.attach_dmb(HOSTILE, DmbToken(1), LEN);
    assert!(one.is_ok(), "of the first");
    let two = device.attach_dmb(HOSTILE, DmbToken(2), LEN);
    assert_eq!(two, Err(IsmError::Token), "of the other user's");
    // Nor is what a connection of the other user has attached.
    let keys: Vec<_> = device.channels.iter().map(|(key, _)| key).collect();
    device.attached.for_each(|at| {
        if let super::device::Attached::Live { channel, .. } = at {
            *channel = keys[1];
        }
    });
    let again = device.attach_dmb(HOSTILE, DmbToken(1), LEN);
    assert_eq!(again, Err(IsmError::Token));
    // The end of the other one is an end.
    drop(other_far);
    device.note_readable();
    let vanished = DeviceEvent::vanished(HOSTILE);
    assert!(std::iter::from_fn(|| device.poll()).any(|at| at == IsmReport::Event(vanished)));
}

fn offer(token: u64) -> Message {
    Message::Offer {
        token: DmbToken(token),
        len: LEN,
        slot: 1,
        generation: 1,
    }
}

/// How a peer rings for a DMB.
fn ring_for(device: &Device, dmb: Dmb) -> Ring {
    let (slot, generation) = device.dmbs.at(dmb.0).unwrap().slot;
    Ring::new(slot, generation)
}

/// A hostile peer rings, and makes no further page.
fn ring(doorbells: &DoorbellPage, ring: Ring) {
    doorbells.doorbells().ring(&PagesOf::default(), ring);
}

fn memory(len: u32) -> std::os::fd::OwnedFd {
    SharedRegion::create(len, false).unwrap().1
}

//= SHM-020 test
//= SHM-022 test
#[test]
fn a_peer_that_breaks_the_rules_is_cut_off() {
    type Breach = (&'static str, fn(&Socket));
    let breaches: [Breach; 10] = [
        ("no descriptor", |far| far.send(offer(1), None).unwrap()),
        ("a descriptor too many", |far| {
            far.send(Message::Wake, Some(memory(LEN).as_fd())).unwrap()
        }),
        ("too short a file", |far| {
            far.send(offer(1), Some(memory(4096).as_fd())).unwrap()
        }),
        ("too long a file", |far| {
            far.send(offer(1), Some(memory(2 * LEN).as_fd())).unwrap()
        }),
        ("not memory", |far| {
            far.send(offer(1), Some(far.as_fd())).unwrap()
        }),
        ("a token twice", |far| {
            far.send(offer(1), Some(memory(LEN).as_fd())).unwrap();
            far.send(offer(1), Some(memory(LEN).as_fd())).unwrap();
        }),
        ("a slot there is not", |far| {
            let offer = Message::Offer {
                token: DmbToken(1),
                len: LEN,
                slot: SLOTS,
                generation: 1,
            };
            far.send(offer, Some(memory(LEN).as_fd())).unwrap();
        }),
        ("a length no DMB has", |far| {
            for len in [0, 4097, MAX_DMB_LEN + 4096, u32::MAX] {
                let offer = Message::Offer {
                    token: DmbToken(1),
                    len,
                    slot: 1,
                    generation: 1,
                };
                far.send(offer, Some(memory(LEN).as_fd())).unwrap();
            }
        }),
        ("a message of pairing", |far| {
            far.send(
                Message::Go {
                    fresh: true,
                    gid: HOSTILE,
                },
                None,
            )
            .unwrap()
        }),
        ("a second handshake", |far| {
            far.send(Message::Hello { gid: HOSTILE }, None).unwrap()
        }),
    ];
    for (breach, act) in breaches {
        let (mut device, far, _doorbells) = with_hostile();
        act(&far);
        let vanished = IsmReport::Event(DeviceEvent::vanished(HOSTILE));
        assert_eq!(next(&mut device), vanished, "{breach}");
        assert!(!device.query_reach(HOSTILE, None));
        while let Received::Message(..) = far.receive() {}
        assert!(matches!(far.receive(), Received::End), "{breach}");
    }
}

//= SHM-025 test
#[test]
fn rings_for_others_are_not_reported() {
    let (mut device, _far, doorbells) = with_hostile();
    let mut friend = Device::open().unwrap();
    Device::join(&mut device, &mut friend).unwrap();
    let (own, _) = registered(&mut device, HOSTILE);
    let friends = [(); 4].map(|()| attached(&mut friend, &mut device).0);
    let of_own = ring_for(&device, own);
    let other = |of: Ring| Ring::new(of.slot, u32::from(of.generation) + 1);
    let of_friends = friends.map(|dmb| ring_for(&device, dmb));
    let beyond = Ring::new(SLOTS - 1, 0);
    // What it can name are slots of its own, of which it has one.
    for not_its in [of_friends[1], of_friends[3], other(of_own), beyond] {
        (0..3).for_each(|_| ring(&doorbells, not_its));
        assert_eq!((0..1000).find_map(|_| device.poll()), None);
    }
    ring(&doorbells, of_own);
    assert!(matches!(next(&mut device), IsmReport::Signalled { dmb, .. } if dmb == own));
}

#[test]
fn no_peer_takes_the_gid_of_another() {
    let (mut device, friend) = joined();
    let (near, far) = Socket::pair().unwrap();
    let (_doorbells, fd) = DoorbellPage::create().unwrap();
    for gid in [friend.gid, device.gid] {
        far.send(Message::Hello { gid }, Some(fd.as_fd())).unwrap();
    }
    // One user may have it twice, another may not; no peer has the own one.
    let begun = Begun::begin(near, device.gid).unwrap();
    let mut channel: Channel = begun.finish(Instant::now()).unwrap();
    channel.uid += 1;
    let refused = device.adopt(channel).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
    assert!(device.query_reach(friend.gid, None));
    let (near, far) = Socket::pair().unwrap();
    far.send(Message::Hello { gid: device.gid }, Some(fd.as_fd()))
        .unwrap();
    let begun = Begun::begin(near, device.gid).unwrap();
    assert!(device.adopt(begun.finish(Instant::now()).unwrap()).is_err());
}

//= SHM-028 test
#[test]
fn a_peer_that_does_not_read_makes_busy_and_is_caught_up_with() {
    let (mut one, mut two) = joined();
    let (a, b) = (one.gid, two.gid);
    let mut sent = 0;
    while one.signal_event(b, None, 1, sent).is_ok() {
        sent += 1;
    }
    assert_eq!(one.register_dmb(LEN, b, None), Err(IsmError::Busy));
    assert!(one.query_reach(b, None));
    // Taken away while it waits: the peer is never notified.
    assert_eq!(one.dmbs.len(), 0);
    let mut info = 0;
    while info < sent {
        if let Some(report) = two.poll() {
            assert_eq!(report, IsmReport::Event(DeviceEvent::software(a, 1, info)));
            info += 1;
        }
        assert_eq!(one.poll(), None);
    }
    let (dmb, remote) = attached(&mut two, &mut one);
    two.move_cdc(remote, 0, 0, &[1; 32], true).unwrap();
    assert!(matches!(next(&mut one), IsmReport::Signalled { dmb: of, .. } if of == dmb));
}

//= SHM-023 test
#[test]
fn a_registration_that_waits_is_reported_when_sent_or_failed() {
    for is_read in [true, false] {
        let (mut device, far, _doorbells) = with_hostile();
        while !device.behind {
            device.signal_event(HOSTILE, None, 1, 1).unwrap();
        }
        let late = device.register_dmb(LEN, HOSTILE, None).unwrap();
        assert_eq!(
            (0..1000).find_map(|_| device.poll()),
            None,
            "it is not announced"
        );
        if is_read {
            while let Received::Message(Message::Event { .. }, None) = far.receive() {}
            let report = next(&mut device);
            assert!(matches!(report, IsmReport::DmbRegistered { dmb, .. } if dmb == late));
            let events = core::iter::from_fn(|| match far.receive() {
                Received::Message(Message::Event { .. }, None) => Some(()),
                Received::Message(Message::Offer { .. }, Some(_)) => None,
                other => panic!("{other:?}"),
            });
            assert!(events.count() <= 1, "in order");
        } else {
            drop(far);
            let error = IsmError::Unreachable;
            assert_eq!(next(&mut device), IsmReport::Failed { dmb: late, error });
            assert_eq!(
                next(&mut device),
                IsmReport::Event(DeviceEvent::vanished(HOSTILE))
            );
            assert_eq!(device.unregister_dmb(late), Err(IsmError::Stale));
        }
    }
}

//= SHM-028 test
#[test]
fn a_peer_that_sends_without_end_is_not_read_without_end() {
    let (mut device, far, _doorbells) = with_hostile();
    let done = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let messages = [
                Message::Wake,
                Message::Withdraw { token: DmbToken(5) },
                Message::Event { code: 0, info: 0 },
            ];
            for message in messages.into_iter().cycle() {
                if done.load(order) {
                    break;
                }
                let _ = far.send(message, None);
            }
        });
        for _ in 0..50 {
            let unknown = device.attach_dmb(HOSTILE, DmbToken(9), LEN);
            assert_eq!(unknown, Err(IsmError::Token));
            for _ in 0..1000 {
                let _ = device.poll();
            }
            assert!(device.reports.len() <= 1100, "{}", device.reports.len());
        }
        done.store(true, order);
    });
}

//= SHM-026 test
#[test]
fn an_event_loop_is_woken() {
    let (mut one, mut two) = joined();
    let (_, remote) = attached(&mut one, &mut two);
    let readable = |device: &Device| {
        let polled = &mut [PollFd::new(device, PollFlags::IN)];
        rustix::event::poll(polled, Some(&Default::default())).unwrap() == 1
    };
    for round in 0..20 {
        while two.poll().is_some() {}
        assert!(two.park(), "nothing to report");
        assert!(!readable(&two), "{round}");
        one.move_cdc(remote, 0, 0, &[2; 32], true).unwrap();
        one.move_cdc(remote, 0, 0, &[3; 32], true).unwrap();
        assert!(readable(&two));
        let Some(IsmReport::Signalled { cdc, .. }) = two.poll() else {
            panic!()
        };
        assert_eq!(cdc, [3; 32]);
        // What rang before parking is there, and sleep refused.
        one.move_cdc(remote, 0, 0, &[4; 32], true).unwrap();
        assert!(!two.park());
        assert!(matches!(two.poll(), Some(IsmReport::Signalled { .. })));
    }
    while two.poll().is_some() {}
    assert!(two.park());
    drop(one);
    assert!(readable(&two));
    assert!(matches!(next(&mut two), IsmReport::Event(_)));
}

//= SHM-027 test
#[test]
fn a_full_socket_wakes_by_what_fills_it_and_stops_no_peer() {
    let (mut one, mut two) = joined();
    let (_, remote) = attached(&mut one, &mut two);
    let b = two.gid;
    while two.poll().is_some() {}
    assert!(two.park(), "nothing to report");
    while one.signal_event(b, None, 1, 0).is_ok() {}
    // There is no room for a wake, and the ringer does not wait for any.
    one.move_cdc(remote, 0, 0, &[5; 32], true).unwrap();
    let polled = &mut [PollFd::new(&two, PollFlags::IN)];
    let woken = rustix::event::poll(polled, Some(&Default::default())).unwrap();
    assert_eq!(woken, 1, "what fills the socket wakes");
    let reports = std::iter::from_fn(|| two.poll());
    let rang = reports.filter(|report| matches!(report, IsmReport::Signalled { .. }));
    assert_eq!(rang.count(), 1);
}

//= CASE-H03 test
//= SHM-024 test
#[test]
fn cursors_are_never_torn_while_a_peer_scribbles() {
    let (mut one, mut two) = joined();
    let (dmb, remote) = attached(&mut one, &mut two);
    let done = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut byte = 0u8;
            while !done.load(order) {
                byte = byte.wrapping_add(1);
                one.move_data(remote, 0, 32, &[byte; 4096]).unwrap();
                one.move_cdc(remote, 0, 0, &[byte; 32], byte.is_multiple_of(8))
                    .unwrap();
            }
        });
        // The producer's flags are cleared in a step of their own.
        let is_whole = |cdc: &[u8]| {
            cdc.chunks(8).enumerate().all(|(unit, bytes)| {
                let mut bytes = bytes.iter().enumerate();
                bytes.all(|(at, byte)| *byte == cdc[unit * 8] || (unit, at) == (FLAGS, 6))
            })
        };
        let mut whole = true;
        let mut bytes = [0; 4096];
        for _ in 0..20_000 {
            whole &= is_whole(&two.read_cdc(dmb, 0).unwrap());
            if let Some(IsmReport::Signalled { cdc, .. }) = two.poll() {
                whole &= is_whole(&cdc);
            }
            two.read(dmb, 32, &mut bytes).unwrap();
        }
        done.store(true, order);
        assert!(whole);
    });
}

/// A report made on the way to sleep was once overtaken by the next one, so that a
/// cursor seemed to go back. What waits is reported as it is then.
#[test]
fn reported_cursors_never_go_back() {
    let (mut one, mut two) = joined();
    let (dmb, remote) = attached(&mut one, &mut two);
    let signalled = |cdc| {
        Some(IsmReport::Signalled {
            dmb,
            mask: 0x8000,
            cdc,
        })
    };
    one.move_cdc(remote, 0, 0, &[1; 32], true).unwrap();
    let asleep = two.park();
    assert!(!asleep, "it rang meanwhile");
    one.move_cdc(remote, 0, 0, &[2; 32], true).unwrap();
    assert_eq!(two.after_park(asleep), signalled([2; 32]));
    assert_eq!(two.poll(), signalled([2; 32]));
}
