//! Transfers over the direct pair.

use conformance::direct::Pair;
use smc_proto::event::Event;

#[test]
fn two_connections_share_a_link_group_and_carry_bytes() {
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
        let mut bytes = [0; 16];
        assert_eq!(pair.hosts[1].read(now, to, &mut bytes), 5);
        assert_eq!(&bytes[..5], b"hello");
    }
}

#[test]
fn busy_connections_carry_the_same_in_large_groups_and_in_small_ones() {
    let mut pair = Pair::with(12, |config| config.connections_per_group = 10);
    let ends: Vec<_> = (0..12).map(|_| pair.open()).collect();
    assert_eq!(pair.hosts[0].endpoint.usage().groups, 2);
    while pair.hosts[1].endpoint.poll_event().is_some() {}
    let data = vec![0; 64 << 10];
    let mut into = data.clone();
    for (a, _) in &ends {
        pair.hosts[0].write(pair.now, *a, &data);
    }
    let mut carried = [0; 12];
    let mut transmits = 0;
    while transmits < 12 * 40 {
        transmits += pair.pump_transmits(0, 4);
        let mut read_from = Vec::new();
        while let Some(event) = pair.hosts[1].endpoint.poll_event() {
            if let Event::Readable { conn } = event {
                let index = ends.iter().position(|(_, b)| *b == conn);
                let index = index.expect("one of ours");
                carried[index] += pair.hosts[1].read(pair.now, conn, &mut into);
                read_from.push(ends[index].0);
            }
        }
        pair.pump_data(1);
        for writer in read_from {
            pair.hosts[0].write(pair.now, writer, &data);
        }
    }
    let (least, most) = (carried.iter().min(), carried.iter().max());
    let (least, most) = (least.expect("twelve"), most.expect("twelve"));
    assert!(most * 10 <= least * 11, "{carried:?}");
}
