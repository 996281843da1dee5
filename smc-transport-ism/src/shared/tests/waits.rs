//! How long messages wait for room, and how a device waits for reports.

use std::time::{Duration, Instant};

use super::{HOSTILE, LEN, memory, offer, with_hostile};
use crate::device::{DeviceEvent, IsmDevice, IsmError, IsmReport};
use crate::shared::message::Message;
use crate::shared::outbox::{Outbox, STALLED};
use crate::shared::socket::Socket;
use crate::slots::Key;

const DMB: Key = (1, 1);
const MOMENT: Duration = Duration::from_millis(1);

//= SHM-028 test
#[test]
fn an_offer_fails_when_the_peer_has_taken_nothing_for_so_long_and_not_before() {
    let (near, _far) = Socket::pair().unwrap();
    let mut outbox = Outbox::new();
    let before = Instant::now();
    while !outbox.is_full() {
        outbox.push(Message::Wake, None);
        outbox.flush(&near);
    }
    assert_eq!(outbox.timeout(), None, "nothing that waits can fail");
    outbox.push(offer(1), Some((DMB, memory(LEN))));
    outbox.flush(&near);
    let at = outbox.timeout().expect("an offer waits");
    assert!(at >= before + STALLED && at <= Instant::now() + STALLED);
    for (time, room, failed) in [
        (at - MOMENT, Ok(()), vec![]),
        (
            at,
            Err(IsmError::Unreachable),
            vec![(DMB, Err(IsmError::Unreachable))],
        ),
    ] {
        assert_eq!(outbox.check_room(time), room);
        outbox.handle_timeout(&near, time);
        assert_eq!(outbox.take_outcomes(), failed);
    }
    assert_eq!(outbox.timeout(), None);
}

/// A message that only wakes is no report. What follows it is received at once, as the socket
/// woke the device, and not by one of the rare polls of all sockets.
#[test]
fn a_wait_without_end_ends_with_a_report() {
    let (mut device, far, _doorbells) = with_hostile();
    device.limit_spin(Duration::ZERO);
    far.send(Message::Wake, None).unwrap();
    far.send(Message::Event { code: 1, info: 2 }, None).unwrap();
    let event = DeviceEvent::software(HOSTILE, 1, 2);
    assert_eq!(device.wait(None).unwrap(), Some(IsmReport::Event(event)));
    assert!(device.polls < 50, "{} polls", device.polls);
}

#[test]
fn sockets_are_polled_once_for_each_notification_that_they_may_be_readable() {
    let (mut device, _far, _doorbells) = with_hostile();
    device.set_externally_polled();
    device.note_readable();
    assert!(device.unread);
    assert_eq!(device.poll(), None);
    assert!(!device.unread);
}
