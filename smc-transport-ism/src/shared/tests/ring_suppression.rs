//! A device that suppresses rings and polls the heads of its DMBs.

use super::{attached, joined, next};
use crate::device::{IsmDevice, IsmReport, RemoteDmb};
use crate::shared::Device;

fn send(device: &mut Device, to: RemoteDmb, count: u8) {
    let cdc = core::array::from_fn(|at| if at == 10 { count } else { 0 });
    device.move_cdc(to, 0, 0, &cdc, true).unwrap();
}

//= SHM-075 test
#[test]
fn what_came_without_a_ring_is_reported_when_rings_are_wanted_again() {
    let (mut one, mut two) = joined();
    let (dmb, remote) = attached(&mut one, &mut two);
    let is_it = |report: Option<IsmReport>, count: u8| match report {
        Some(IsmReport::Signalled { dmb: of, cdc, .. }) => of == dmb && cdc[10] == count,
        _ => false,
    };
    two.suppress_rings();
    assert!(two.suppresses_rings());
    send(&mut one, remote, 1);
    assert_eq!(two.poll(), None, "it rang");
    two.restore_rings();
    assert!(is_it(two.poll(), 1));
    assert_eq!(two.poll(), None);
    send(&mut one, remote, 2);
    assert!(is_it(two.poll(), 2), "no ring");
    // Parking restores rings, too.
    two.suppress_rings();
    send(&mut one, remote, 3);
    assert!(!two.park() && !two.suppresses_rings());
    assert!(is_it(two.poll(), 3));
    assert!(two.park());
    two.suppress_rings();
    assert!(!two.suppresses_rings(), "it sleeps");
    send(&mut one, remote, 4);
    assert!(is_it(Some(next(&mut two)), 4));
    // The heads can be polled at any time, without an end of the suppression.
    two.suppress_rings();
    send(&mut one, remote, 5);
    two.poll_heads();
    assert!(is_it(two.poll(), 5) && two.suppresses_rings());
    two.poll_heads();
    assert_eq!(two.poll(), None, "nothing is new");
}

//= SHM-075 test
//= SHM-035 test
#[test]
fn what_came_without_a_ring_is_reported_before_the_end_of_its_writer() {
    for ends in [false, true] {
        let (mut one, mut two) = joined();
        let (_, remote) = attached(&mut one, &mut two);
        let (lost, to_one) = attached(&mut two, &mut one);
        two.suppress_rings();
        send(&mut one, remote, 9);
        if ends {
            drop(one);
        } else {
            one.unregister_dmb(lost).unwrap();
        }
        two.note_readable();
        let first = next(&mut two);
        assert!(matches!(first, IsmReport::Signalled { cdc, .. } if cdc[10] == 9));
        let second = next(&mut two);
        match ends {
            true => assert!(matches!(second, IsmReport::Event(_)), "{second:?}"),
            false => assert_eq!(second, IsmReport::Withdrawn { remote: to_one }),
        }
    }
}
