//! Descriptors that peers do not receive.

use std::time::Duration;

use super::unclaimed::{Stranger, stranger};
use super::{LEN, begun_by_hostile};
use crate::device::{DmbToken, Gid128, IsmDevice, IsmError, IsmReport};
use crate::shared::Device;
use crate::shared::device::OF_A_STRANGER;
use crate::shared::in_flight::{OF_A_USER, OF_ALL};
use crate::shared::message::Message;
use crate::shared::outbox::STALLED;
use crate::shared::pairing::{Peer, Reach};
use crate::shared::socket::{Received, Socket, WINDOW};

fn registered(device: &mut Device) -> usize {
    let reports = std::iter::from_fn(|| (0..600).find_map(|_| device.poll()));
    let is_registered = |at: &IsmReport| matches!(at, IsmReport::DmbRegistered { .. });
    reports.filter(is_registered).count()
}

/// Messages that the peer has not received, and receives now.
fn unread(of: &Stranger) -> usize {
    std::iter::from_fn(|| matches!(of.far.receive(), Received::Message(..)).then_some(())).count()
}

//= SHM-042 test
#[test]
fn a_peer_that_does_not_read_has_one_window_of_descriptors() {
    for user in [0, 1] {
        let mut device = Device::open().unwrap();
        let deaf = Stranger::join(&mut device, 7, stranger(user));
        // Whatever is queued besides is the device's own affair.
        let gid = deaf.peer.gid;
        while device.register_dmb(LEN, gid, None).is_ok() {}
        let sent = registered(&mut device);
        // The channel's first message has one, too.
        assert!((WINDOW / 2..=WINDOW).contains(&(sent + 1)), "{sent}");
        assert_eq!(unread(&deaf), sent + 1);
        assert!(registered(&mut device) > 0, "it goes on as the peer reads");
    }
}

/// Peers of one user over all its channels, and of all users.
//= SHM-042 test
#[test]
fn a_user_whose_peers_do_not_read_has_few_descriptors_in_flight() {
    let mut device = Device::open().unwrap();
    let honest = Stranger::join(&mut device, 7, stranger(9));
    let deaf: Vec<_> = (100..120)
        .map(|gid| Stranger::join(&mut device, gid, stranger(1)))
        .collect();
    let try_all = |device: &mut Device| {
        let mut refusals = Vec::new();
        for _ in 0..30 {
            for one in &deaf {
                refusals.extend(device.register_dmb(LEN, one.peer.gid, None).err());
            }
        }
        refusals
    };
    let refusals = try_all(&mut device);
    assert!(refusals.contains(&IsmError::Busy));
    let held: usize = registered(&mut device);
    assert!(held <= OF_A_USER && held > OF_A_USER / 2, "{held}");
    assert!(device.register_dmb(LEN, honest.peer.gid, None).is_ok());
    assert_eq!(registered(&mut device), 1);
    // Not for ever: what they are asked for fails then, and is not tried again.
    std::thread::sleep(STALLED);
    let refusals = try_all(&mut device);
    assert!(refusals.iter().all(|at| *at == IsmError::Unreachable));
    // They read, and are served.
    let received: usize = deaf.iter().map(unread).sum();
    assert_eq!(received, held + deaf.len(), "and the first messages");
    std::thread::sleep(Duration::from_millis(20));
    for one in &deaf {
        assert!(device.register_dmb(LEN, one.peer.gid, None).is_ok());
    }
    // More users do not make it endless.
    let users: Vec<_> = (1000..1018)
        .map(|gid| Stranger::join(&mut device, gid, stranger(2 + gid as u32 % 6)))
        .collect();
    for one in users.iter().cycle().take(30 * users.len()) {
        let _ = device.register_dmb(LEN, one.peer.gid, None);
    }
    let all = device.in_flight_to(|_| true);
    assert!(all <= OF_ALL && all > OF_ALL / 2, "{all}");
}

/// A peer makes channel after channel, reads nothing of them, and breaks each: what is
/// unread lies in its queues all the same.
//= SHM-042 test
#[test]
fn what_a_peer_leaves_unread_counts_after_its_channel_has_ended() {
    let mut device = Device::open().unwrap();
    let uid = stranger(1);
    let mut kept = Vec::new();
    let mut greeted = 0;
    for gid in 1..=300 {
        let gid = Gid128 { gid, ext: 0 };
        let peer = Peer { gid, uid };
        let Reach { joined, may_greet } = device.reach(&peer);
        assert!(!joined);
        if !may_greet {
            continue;
        }
        greeted += 1;
        let (mut channel, _, far) = begun_by_hostile(&device, gid);
        channel.uid = uid;
        device.in_flight.remove_handshake(uid);
        device.adopt(channel).unwrap();
        far.send(
            Message::Go {
                fresh: true,
                gid: super::HOSTILE,
            },
            None,
        )
        .unwrap();
        let unknown = device.attach_dmb(gid, DmbToken(0), LEN);
        assert_eq!(unknown, Err(IsmError::Token));
        assert!(!device.query_reach(gid, None), "a breach");
        kept.push(far);
    }
    assert_eq!(greeted, OF_A_USER);
    assert_eq!(device.channels.iter().count(), 0);
    let honest = Peer {
        gid: Gid128 { gid: 1, ext: 1 },
        uid: stranger(2),
    };
    assert!(device.reach(&honest).may_greet);
    // It ends: nothing is kept.
    assert_eq!(device.in_flight.ended_sockets(), OF_A_USER);
    drop(kept);
    device.note_readable();
    while device.poll().is_some() {}
    device.note_readable();
    while device.poll().is_some() {}
    assert_eq!(device.in_flight.ended_sockets(), 0);
    assert_eq!(device.in_flight_to(|_| true), 0);
}

/// Channels that are about to be made count as those that are.
//= SHM-033 test
#[test]
fn a_user_cannot_begin_more_channels_than_it_can_have() {
    let mut device = Device::open().unwrap();
    let uid = stranger(1);
    let allowed = (0..200).filter(|gid| {
        let gid = Gid128 { gid: *gid, ext: 7 };
        device.reach(&Peer { gid, uid }).may_greet
    });
    assert_eq!(allowed.count(), OF_A_STRANGER);
}

/// Only what a stranger has not read holds its socket.
//= SHM-042 test
#[test]
fn a_socket_is_kept_for_what_a_stranger_has_not_read_and_for_nothing_else() {
    let own = rustix::process::geteuid().as_raw();
    for (uid, reads, kept) in [
        (own, true, 0),
        (own, false, 0),
        (stranger(1), true, 0),
        (stranger(1), false, 1),
    ] {
        let mut device = Device::open().unwrap();
        let (near, far) = Socket::pair().unwrap();
        near.send(Message::Wake, None).unwrap();
        if reads {
            assert!(matches!(far.receive(), Received::Message(..)));
        }
        device.keep_ended_socket(uid, near);
        assert_eq!(device.in_flight.ended_sockets(), kept, "{uid} {reads}");
    }
}
