//! Transfers over the direct pair.

use conformance::direct::Pair;
use smc_proto::event::Event;

#[test]
fn two_connections_share_a_link_group_and_carry_octets() {
    let mut pair = Pair::new(4);
    let (a, b) = pair.open();
    assert!(
        pair.hosts[0].events.iter().any(
            |e| matches!(e, Event::Established { conn, first_contact: true, .. } if *conn == a)
        ),
        "{:?} / {:?}",
        pair.hosts[0].events,
        pair.hosts[1].events
    );
    let (c, d) = pair.open();
    assert!(
        pair.hosts[1].events.iter().any(
            |e| matches!(e, Event::Established { conn, first_contact: false, .. } if *conn == d)
        ),
        "{:?} / {:?}",
        pair.hosts[0].events,
        pair.hosts[1].events
    );
    for (from, to) in [(a, b), (c, d)] {
        let now = pair.now;
        assert_eq!(pair.hosts[0].write(now, from, b"hello"), 5);
        pair.pump();
        let mut octets = [0; 16];
        assert_eq!(pair.hosts[1].read(now, to, &mut octets), 5);
        assert_eq!(&octets[..5], b"hello");
    }
}
