//! Peers that go before this side has asked for what they offered.

use std::os::fd::AsFd;

use super::{HOSTILE, LEN, memory, offer, registered, ring, ring_for, with_hostile};
use crate::device::{DeviceEvent, DmbToken, IsmDevice, IsmError, IsmReport, RemoteDmb};
use crate::shared::Device;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

fn vanished() -> Option<IsmReport> {
    Some(IsmReport::Event(DeviceEvent::vanished(HOSTILE)))
}

/// A device that is polled externally, and whose peer has offered a DMB and gone.
fn left_with_an_offer() -> Device {
    let (mut device, far, _doorbells) = with_hostile();
    device.set_externally_polled();
    far.send(offer(1), Some(memory(LEN).as_fd())).unwrap();
    drop(far);
    device
}

fn claimed(device: &mut Device) -> RemoteDmb {
    device.attach_dmb(HOSTILE, DmbToken(1), LEN).unwrap()
}

//= SHM-037 test
#[test]
fn what_a_peer_offered_can_be_claimed_behind_its_end() {
    let mut device = left_with_an_offer();
    // Other threads poll the device as often as they like.
    for _ in 0..1_000 {
        assert!(device.park());
        assert_eq!(device.poll(), None);
    }
    device.note_readable();
    assert_eq!(device.poll(), None);
    let remote = claimed(&mut device);
    device.note_readable();
    assert_eq!(device.poll(), vanished());
    device.detach_dmb(remote).unwrap();
    assert_eq!(device.poll(), None);
}

//= SHM-037 test
#[test]
fn an_end_waits_for_two_readable_events_at_most() {
    let mut device = left_with_an_offer();
    device.note_readable();
    assert_eq!(device.poll(), None);
    device.note_readable();
    assert_eq!(device.poll(), None);
    device.note_readable();
    assert_eq!(device.poll(), vanished());
    assert!(device.attach_dmb(HOSTILE, DmbToken(1), LEN).is_err());
}

//= SHM-037 test
#[test]
fn an_end_with_nothing_to_claim_is_reported_at_once() {
    let mut device = left_with_an_offer();
    claimed(&mut device);
    device.note_readable();
    assert_eq!(device.poll(), vanished());

    let (mut device, far, _doorbells) = with_hostile();
    device.set_externally_polled();
    drop(far);
    device.note_readable();
    assert_eq!(device.poll(), vanished());
}

#[test]
fn a_peer_that_goes_with_something_unread_is_read_to_the_end() {
    let (mut device, far, _doorbells) = with_hostile();
    device.set_externally_polled();
    far.send(offer(1), Some(memory(LEN).as_fd())).unwrap();
    // What the device sends is not read any more.
    device.signal_event(HOSTILE, None, 1, 7).unwrap();
    drop(far);
    device.note_readable();
    assert_eq!(device.poll(), None);
    claimed(&mut device);
    device.note_readable();
    assert_eq!(device.poll(), vanished());
}

/// The answer to the last signal of a peer that has gone: if it failed, the failure would end
/// the connection before its bytes are read.
//= SHM-029 test
#[test]
fn no_move_fails_between_the_signals_of_a_peer_and_the_report_of_its_end() {
    let (mut device, far, doorbells) = with_hostile();
    let (own, _) = registered(&mut device, HOSTILE);
    far.send(offer(1), Some(memory(LEN).as_fd())).unwrap();
    let remote = claimed(&mut device);
    ring(&doorbells, ring_for(&device, own));
    drop(far);
    device.note_readable();
    let signalled = device.poll();
    assert!(matches!(signalled, Some(IsmReport::Signalled { dmb, .. }) if dmb == own));
    assert_eq!(device.move_data(remote, 0, 32, &[1]), Ok(()));
    assert_eq!(device.move_cdc(remote, 0, 0, &[1; 32], true), Ok(()));
    assert_eq!(device.poll(), vanished());
    let moved = device.move_cdc(remote, 0, 0, &[1; 32], true);
    assert_eq!(moved, Err(IsmError::Unreachable));
}

const GO: Message = Message::Go {
    fresh: true,
    gid: HOSTILE,
};

//= SHM-020 test
#[test]
fn a_peer_that_breaks_the_rules_is_cut_off_whatever_it_offered() {
    let (mut device, far, _doorbells) = with_hostile();
    device.set_externally_polled();
    far.send(offer(1), Some(memory(LEN).as_fd())).unwrap();
    far.send(GO, None).unwrap();
    device.note_readable();
    assert_eq!(device.poll(), vanished());
}

/// Linux checks for a message, and if there is none for the end of the peer: a message that is
/// sent between the two comes behind an end.
//= SHM-012 test
#[test]
fn what_a_peer_sends_before_it_closes_is_received_before_its_end() {
    const ROUNDS: u32 = 20_000;
    let (to_sender, sockets) = std::sync::mpsc::sync_channel::<Socket>(1);
    let sender = std::thread::spawn(move || {
        for socket in sockets {
            socket.send(GO, None).unwrap();
        }
    });
    let received = |socket: &Socket| loop {
        match socket.receive() {
            Received::Nothing => std::hint::spin_loop(),
            received => return received,
        }
    };
    for round in 0..ROUNDS {
        let (near, far) = Socket::pair().unwrap();
        to_sender.send(far).unwrap();
        let first = received(&near);
        let is_go = matches!(first, Received::Message(GO, None));
        assert!(is_go, "round {round}: {first:?}");
        let second = received(&near);
        assert!(matches!(second, Received::End), "round {round}: {second:?}");
    }
    drop(to_sender);
    sender.join().unwrap();
}
