//! Polling the head of a DMB, beside the reports of rings.

use super::{attached, joined, next};
use crate::device::{IsmDevice, IsmReport};
use crate::shared::Device;

//= SHM-034 test
#[test]
fn a_polled_head_shows_a_message_before_its_ring_is_reported() {
    let (mut one, mut two) = joined();
    let (dmb, remote) = attached(&mut one, &mut two);
    let cdc = |count: u8| core::array::from_fn(|at| if at == 10 { count } else { 0 });
    let send = |one: &mut Device, count| one.move_cdc(remote, 0, 0, &cdc(count), true).unwrap();
    let report = |count| IsmReport::Signalled {
        dmb,
        mask: 0x8000,
        cdc: cdc(count),
    };
    let poll = |two: &Device| {
        let mut head = [0xff; 32];
        two.poll_head(dmb, &mut head).then_some(head)
    };
    assert_eq!(poll(&two), None, "nothing was written");
    send(&mut one, 1);
    assert_eq!(poll(&two), Some(cdc(1)));
    assert_eq!(poll(&two), None, "nothing was written since");
    assert_eq!(two.poll(), Some(report(1)), "the ring stays");
    send(&mut one, 2);
    assert_eq!((two.poll(), poll(&two)), (Some(report(2)), None));
    // A change of flags alone is reported.
    let mut done = cdc(2);
    done[23] = 0x80;
    one.move_cdc(remote, 0, 0, &done, false).unwrap();
    assert_eq!(poll(&two), Some(done));
    // A sleeping owner is woken by a ring, and gets the report.
    assert!(two.park());
    send(&mut one, 3);
    assert_eq!(poll(&two), None);
    assert_eq!(next(&mut two), report(3));
    // What was received is reported first, as it is then.
    send(&mut one, 4);
    assert!(!two.park());
    send(&mut one, 5);
    assert_eq!(poll(&two), None);
    assert_eq!(two.poll(), Some(report(5)));
    assert_eq!(poll(&two), None);
    send(&mut one, 6);
    assert_eq!(poll(&two), Some(cdc(6)));
    // Nothing is seen of what is gone.
    two.unregister_dmb(dmb).unwrap();
    assert_eq!(poll(&two), None);
}
