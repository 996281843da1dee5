//! Looking at the head of a DMB, beside hearing rings.

use super::{attached, joined, next};
use crate::device::{IsmDevice, IsmReport};
use crate::shared::Device;

//= SHM-034 test
#[test]
fn who_looks_sees_a_message_before_its_ring_is_heard() {
    let (mut one, mut two) = joined();
    let (dmb, remote) = attached(&mut one, &mut two);
    let cdc = |count: u8| core::array::from_fn(|at| if at == 10 { count } else { 0 });
    let say = |one: &mut Device, count| one.move_cdc(remote, 0, 0, &cdc(count), true).unwrap();
    let heard = |count| IsmReport::Signalled {
        dmb,
        mask: 0x8000,
        cdc: cdc(count),
    };
    let look = |two: &Device| {
        let mut head = [0xff; 32];
        two.look(dmb, &mut head).then_some(head)
    };
    assert_eq!(look(&two), None, "nothing was written");
    say(&mut one, 1);
    assert_eq!(look(&two), Some(cdc(1)));
    assert_eq!(look(&two), None, "nothing was written since");
    assert_eq!(two.poll(), Some(heard(1)), "the ring stays");
    say(&mut one, 2);
    assert_eq!((two.poll(), look(&two)), (Some(heard(2)), None));
    // Flags alone are news.
    let mut done = cdc(2);
    done[23] = 0x80;
    one.move_cdc(remote, 0, 0, &done, false).unwrap();
    assert_eq!(look(&two), Some(done));
    // A sleeping owner is woken by a ring, and gets the report.
    assert!(two.park());
    say(&mut one, 3);
    assert_eq!(look(&two), None);
    assert_eq!(next(&mut two), heard(3));
    // What was received is reported first, as it is then.
    say(&mut one, 4);
    assert!(!two.park());
    say(&mut one, 5);
    assert_eq!(look(&two), None);
    assert_eq!(two.poll(), Some(heard(5)));
    assert_eq!(look(&two), None);
    say(&mut one, 6);
    assert_eq!(look(&two), Some(cdc(6)));
    // Nothing is seen of what is gone.
    two.unregister_dmb(dmb).unwrap();
    assert_eq!(look(&two), None);
}
