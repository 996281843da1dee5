//! SMC-D between two hosts of one machine: from the TCP connection to the last DMB.

use conformance::smcd::{DEVICE, Setup};
use smc_proto::config::Offers;
use smc_proto::event::CloseReason;
use smc_proto::storage::Limits;
use smc_proto::time::Duration;
use smc_proto::wire::types::{BufferSize, Chid};
use smc_transport_sim::sim::Transport;

const IDLE: Duration = Duration::from_secs(601);

#[test]
fn bytes_pass_both_ways_whether_written_in_place_or_moved() {
    //= D-035 test
    //= D-045 test
    //= D-050 test
    for attaches in [[true; 2], [false; 2], [true, false], [false, true]] {
        let mut pair = Setup {
            attaches,
            ..Setup::new(true)
        }
        .build();
        let [near, far] = pair.connect();
        assert_eq!(pair.carry(near, far, b"hello"), b"hello");
        assert_eq!(pair.carry(far, near, b"and back"), b"and back");
        let large: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        assert_eq!(pair.carry(near, far, &large), large);
        assert_eq!(pair.carry(far, near, &large), large);

        pair.sim.finish(near);
        pair.sim.finish(far);
        pair.run(Duration::from_secs(1));
        for end in [near, far] {
            let closed = pair.sim.state(end).unwrap().closed;
            assert_eq!(closed, Some(CloseReason::Normal));
        }
        pair.run(IDLE);
        pair.assert_all_gone();
    }
}

#[test]
fn real_devices_speak_version_1() {
    //= D-010 test
    //= D-021 test
    for attaches in [true, false] {
        let mut pair = Setup {
            chid: Chid(0x07c1),
            offers: Offers::SMCD_V1,
            ..Setup::new(attaches)
        }
        .build();
        let [near, far] = pair.connect();
        assert_eq!(pair.carry(near, far, b"hello"), b"hello");
        let trace = pair.sim.trace().to_string();
        assert!(trace.contains("CLC Accept SMC-D v1"), "{trace}");
    }
}

#[test]
fn sizes_of_both_sides_may_differ() {
    // Reliability C5 for SMC-D.
    for size in [BufferSize::K16, BufferSize::K64, BufferSize::from_code(6)] {
        let mut pair = Setup {
            buffers: size,
            ..Setup::new(true)
        }
        .build();
        let mut policy = smc_transport_sim::sim::Policy::default();
        policy.options.receive_buffer = Some(BufferSize::from_code(1));
        pair.sim.set_policy(pair.server, policy);
        let [near, far] = pair.connect();
        let large: Vec<u8> = (0..300_000_u32).map(|n| (n % 241) as u8).collect();
        assert_eq!(pair.carry(near, far, &large), large);
        assert_eq!(pair.carry(far, near, &large), large);
    }
}

#[test]
fn a_group_carries_further_connections_in_both_directions() {
    //= D-034 test
    let mut pair = Setup::new(true).build();
    let [near, _] = pair.connect();
    assert!(pair.sim.state(near).unwrap().first_contact);
    let [again, _] = pair.connect();
    assert!(!pair.sim.state(again).unwrap().first_contact);
    // The former server is a client now; the group is the same.
    let (back, _) = pair.sim.connect(pair.server, pair.client);
    pair.run(Duration::from_millis(10));
    let state = *pair.sim.state(back).unwrap();
    assert_eq!(
        (state.transport, state.first_contact),
        (Transport::Smc, false)
    );
    for host in [pair.client, pair.server] {
        assert_eq!(pair.sim.endpoint(host).unwrap().usage().groups, 1);
        assert_eq!(pair.sim.groups(host).len(), 1);
        assert!(pair.sim.links(host).is_empty(), "a way is no link");
    }
}

#[test]
fn a_dmb_is_used_again_only_after_an_orderly_end_and_is_zero() {
    //= CASE-H04 test
    //= D-057 test
    let mut pair = Setup::new(false).build();
    let [near, far] = pair.connect();
    assert_eq!(pair.carry(near, far, &[0xaa; 9_000]), vec![0xaa; 9_000]);
    pair.sim.finish(near);
    pair.sim.finish(far);
    pair.run(Duration::from_secs(1));
    let kept = pair.sim.wires().ism_in_use(pair.server);
    assert_eq!(kept, [1, 0], "a DMB that waits for its next use");
    let [near, far] = pair.connect();
    assert_eq!(pair.sim.wires().ism_in_use(pair.server), [1, 1]);
    // Nothing of the last connection is seen by this one, its head included.
    let conn = pair.conn(far);
    let buffer = {
        let engine = pair.sim.endpoint(pair.server).unwrap();
        let spans = engine.conn(conn).unwrap().readable().unwrap();
        assert!(spans.is_empty());
        spans.buffer
    };
    let mut bytes = Vec::new();
    let whole = smc_proto::command::Segment {
        offset: 0,
        length: 16_384,
    };
    let (server, spans) = (pair.server, [whole, Default::default()]);
    let fabric = pair.sim.fabric();
    let read = fabric.read_rmb(server, conn, buffer, spans, None, &mut bytes);
    assert_eq!(read, Ok(true));
    assert_eq!(bytes, vec![0; 16_384]);

    // After an abort it is given back.
    pair.sim.abort(near);
    pair.run(Duration::from_secs(10));
    for host in [pair.client, pair.server] {
        assert_eq!(pair.sim.wires().ism_in_use(host), [0, 0]);
    }
    let _ = DEVICE;
}

/// Spare DMBs of a server after `connections` connections have ended, each of which received
/// `received` bytes in a DMB of 1 MiB.
fn spare_after(connections: usize, received: usize, limits: fn() -> Limits) -> usize {
    let mut pair = Setup {
        buffers: BufferSize::from_code(6),
        limits,
        ..Setup::new(true)
    }
    .build();
    let bytes = vec![0x5a; received];
    let ends: Vec<_> = (0..connections).map(|_| pair.connect()).collect();
    for [near, far] in &ends {
        assert_eq!(pair.carry(*near, *far, &bytes).len(), received);
    }
    for [near, far] in ends {
        pair.sim.finish(near);
        pair.sim.finish(far);
        pair.run(Duration::from_millis(1));
    }
    pair.run(Duration::from_millis(100));
    let [spare, _] = pair.sim.wires().ism_in_use(pair.server);
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.sim.wires().ism_in_use(pair.server)[0], 0, "after 1 s");
    spare
}

#[test]
fn spare_dmbs_count_by_what_was_received_in_them() {
    //= D-057 test
    let limits = || Limits::for_connections(300);
    assert_eq!(spare_after(30, 100, limits), 30, "4 KiB of each count");
    assert_eq!(spare_after(10, 1_200_000, limits), 8, "8 MiB");
    assert_eq!(spare_after(20, 600_000, limits), 13, "units of 4 KiB");
    let limits = || Limits::new(300, 300, 2, 0, 1_000, 2);
    assert_eq!(spare_after(280, 1, limits), 256);
}

#[test]
fn spare_dmbs_leave_two_buffers_for_each_further_connection() {
    //= D-057 test
    // The send buffer of a connection that ends still has its place when the DMB is cleared.
    let tables: [(fn() -> Limits, usize); 4] = [
        (|| Limits::new(4, 4, 2, 0, 8, 8), 0),
        (|| Limits::new(4, 4, 2, 0, 9, 8), 0),
        (|| Limits::new(4, 4, 2, 0, 10, 8), 1),
        (|| Limits::new(4, 4, 2, 0, 12, 8), 3),
    ];
    for (limits, spare) in tables {
        assert_eq!(spare_after(4, 100, limits), spare, "{:?}", limits());
    }
}
