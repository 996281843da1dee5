//! Several rings at a time, many peers, and how a parked device is woken.

use rustix::event::{PollFd, PollFlags};

use super::{HOSTILE, attached, begun_by_hostile, join_hostile, joined};
use crate::device::{Gid128, IsmDevice, IsmReport};
use crate::doorbell::{ParkTarget, Waker};
use crate::memory::DoorbellPage;
use crate::shared::Device;
use crate::shared::message::Message;
use crate::shared::socket::Received;

/// Most peers at whose futexes one thread can sleep.
const MOST_PEERS: u64 = 127;

fn is_readable(device: &Device) -> bool {
    let polled = &mut [PollFd::new(device, PollFlags::IN)];
    rustix::event::poll(polled, Some(&Default::default())).unwrap() == 1
}

#[test]
fn several_rings_between_two_polls_are_a_crowd_and_one_is_none() {
    let (mut one, mut two) = joined();
    let (_, first) = attached(&mut one, &mut two);
    let (_, second) = attached(&mut one, &mut two);
    for (rings, crowded) in [(&[first][..], false), (&[first, second], true)] {
        for remote in rings {
            one.move_cdc(*remote, 0, 0, &[1; 32], true).unwrap();
        }
        for _ in rings {
            assert!(matches!(two.poll(), Some(IsmReport::Signalled { .. })));
            assert_eq!(two.crowded, crowded, "{} rings", rings.len());
        }
    }
    one.move_cdc(first, 0, 0, &[2; 32], true).unwrap();
    assert!(matches!(two.poll(), Some(IsmReport::Signalled { .. })));
    assert!(!two.crowded, "the crowd is over");
}

//= SHM-026 test
#[test]
fn a_peer_that_joins_a_parked_device_knows_that_it_has_to_wake_it() {
    let mut device = Device::open().unwrap();
    assert!(device.park());
    let (channel, _doorbells, far) = begun_by_hostile(&device, HOSTILE);
    device.adopt(channel).unwrap();
    let Received::Message(Message::Hello { .. }, Some(fd)) = far.receive() else {
        panic!("no handshake");
    };
    let doorbells = DoorbellPage::open(&fd).unwrap();
    assert_eq!(
        Waker::default().must_wake(doorbells.doorbells()),
        Some(ParkTarget::Socket)
    );
    assert_eq!(device.poll(), None);
    assert_eq!(
        Waker::default().must_wake(doorbells.doorbells()),
        None,
        "awake"
    );
}

//= SHM-032 test
#[test]
fn while_a_thread_sleeps_at_futexes_peers_do_not_wake_the_descriptor() {
    let (mut one, mut two) = joined();
    let (_, remote) = attached(&mut one, &mut two);
    for at_futexes in [true, false] {
        while two.poll().is_some() {}
        let words = at_futexes.then(|| two.futex_words().expect("one peer"));
        assert!(two.park());
        one.move_cdc(remote, 0, 0, &[3; 32], true).unwrap();
        assert_eq!(is_readable(&two), words.is_none());
        assert!(matches!(two.poll(), Some(IsmReport::Signalled { .. })));
        two.release_futex_words();
    }
}

#[test]
fn a_thread_can_sleep_at_the_futexes_of_so_many_peers_and_no_more() {
    let mut device = Device::open().unwrap();
    let mut ends = Vec::new();
    for gid in 1..=MOST_PEERS + 1 {
        assert!(device.futex_words().is_some(), "{} peers", gid - 1);
        ends.push(join_hostile(&mut device, Gid128 { gid, ext: 0 }));
    }
    assert!(device.futex_words().is_none());
}
