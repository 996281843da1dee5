//! Events, and devices that go away.

use smc_transport_ism::device::{
    DeviceEvent, EventKind, Gid128, IsmDevice, IsmError, IsmReport, VlanId,
};

use crate::lab::{Lab, bytes, cdc, joined, next, number, quiet};

fn software(from: Gid128, code: u32, info: u64) -> IsmReport {
    let kind = EventKind::Software;
    IsmReport::Event(DeviceEvent {
        kind,
        token: from.gid,
        peer: Some(from),
        code,
        info,
    })
}

fn vanished(from: Gid128) -> IsmReport {
    let kind = EventKind::Gid;
    IsmReport::Event(DeviceEvent {
        kind,
        token: from.gid,
        peer: Some(from),
        code: 0,
        info: 0,
    })
}

pub(crate) fn events_arrive_in_order<L: Lab>() {
    let [mut one, mut two, mut three] = L::devices();
    let [a, b, c] = [one.facts().gid, two.facts().gid, three.facts().gid];
    for (code, info) in [
        (0x80, 0x0102_0304_0007_0001),
        (0x83, u64::MAX),
        (0, 0),
        (u32::MAX, 1),
    ] {
        one.signal_event(b, None, code, info).unwrap();
        assert_eq!(next(&mut two), software(a, code, info));
    }
    for info in 0..5 {
        one.signal_event(b, Some(VlanId::V2), 0x83, info).unwrap();
    }
    for info in 0..5 {
        assert_eq!(next(&mut two), software(a, 0x83, info));
    }
    three.signal_event(b, None, 1, 1).unwrap();
    assert_eq!(next(&mut two), software(c, 1, 1), "each names its sender");
    quiet(&mut one);
    quiet(&mut two);
    quiet(&mut three);
}

pub(crate) fn a_flood_of_events_is_refused_not_lost<L: Lab>() {
    let [mut one, mut two] = L::devices();
    let [a, b] = [one.facts().gid, two.facts().gid];
    let mut sent = 0;
    loop {
        match one.signal_event(b, None, 1, sent) {
            Ok(()) => sent += 1,
            Err(IsmError::Busy) => break,
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 100_000, "bounded");
    }
    assert!(sent >= 8, "{sent}");
    for info in 0..sent {
        assert_eq!(next(&mut two), software(a, 1, info));
        // What waited at the sender leaves it when it polls.
        let _ = one.poll();
    }
    quiet(&mut two);
    quiet(&mut one);
    one.signal_event(b, None, 2, 0).expect("room again");
    assert_eq!(next(&mut two), software(a, 2, 0));
}

pub(crate) fn cve_2026_74690_exit_is_reported_after_all_before_it<L: Lab>() {
    //= CASE-C17 test
    let [mut leaving, mut two, mut three] = L::devices();
    let (gid, to) = (leaving.facts().gid, two.facts().gid);
    let (dmb, _, remote) = joined(&mut leaving, &mut two, 16384);
    let (_, _, towards) = joined(&mut two, &mut leaving, 16384);
    for info in 0..5 {
        leaving.signal_event(to, None, 1, info).unwrap();
    }
    leaving.move_data(remote, 0, 32, b"last words").unwrap();
    leaving.move_cdc(remote, 0, 0, &cdc(77), true).unwrap();
    drop(leaving);

    let mut reports: Vec<_> =
        core::iter::from_fn(|| (0..20_000).find_map(|_| two.poll())).collect();
    assert_eq!(reports.pop(), Some(vanished(gid)), "at last, and once");
    let events: Vec<_> = reports
        .iter()
        .filter(|at| matches!(at, IsmReport::Event(_)))
        .copied()
        .collect();
    assert_eq!(
        events,
        (0..5)
            .map(|info| software(gid, 1, info))
            .collect::<Vec<_>>()
    );
    assert!(
        reports
            .iter()
            .any(|at| matches!(at, IsmReport::Signalled { .. }))
    );
    assert_eq!(number(&two.read_cdc(dmb, 0).unwrap()), 77);
    assert_eq!(&bytes(&two, dmb, 16384)[32..42], b"last words");

    assert_eq!(
        two.move_data(towards, 0, 0, &[1]),
        Err(IsmError::Unreachable)
    );
    assert_eq!(two.detach_dmb(towards), Ok(()));
    assert_eq!(two.unregister_dmb(dmb), Ok(()));
    assert!(!two.query_reach(gid, None));
    assert_eq!(
        next(&mut three),
        vanished(gid),
        "the other peer gets it too"
    );
    quiet(&mut three);
}

pub(crate) fn exit_with_moves_in_flight<L: Lab>() {
    let [mut staying, mut leaving] = L::devices();
    let gid = leaving.facts().gid;
    let (_, _, remote) = joined(&mut staying, &mut leaving, 16384);
    let (mine, _, _) = joined(&mut leaving, &mut staying, 16384);
    staying.move_data(remote, 0, 0, &[1; 4096]).unwrap();
    drop(leaving);
    // Not reported yet: moves may still be taken, and go nowhere.
    for _ in 0..10 {
        let moved = staying.move_cdc(remote, 0, 0, &cdc(1), true);
        assert!(
            matches!(moved, Ok(()) | Err(IsmError::Unreachable)),
            "{moved:?}"
        );
    }
    let _ = staying.signal_event(gid, None, 1, 1);
    assert_eq!(next(&mut staying), vanished(gid));
    assert_eq!(
        staying.move_cdc(remote, 0, 0, &cdc(1), true),
        Err(IsmError::Unreachable)
    );
    assert_eq!(
        staying.signal_event(gid, None, 1, 1),
        Err(IsmError::Unreachable)
    );
    assert_eq!(
        staying.register_dmb(4096, gid, None),
        Err(IsmError::Unreachable)
    );
    assert_eq!(bytes(&staying, mine, 16384), vec![0; 16384]);
    staying.unregister_dmb(mine).unwrap();
    quiet(&mut staying);
}

pub(crate) fn a_peer_that_does_not_exist_is_unreachable<L: Lab>() {
    let [mut one] = L::devices();
    let unknown = Gid128 {
        gid: 0x5555,
        ext: 0x5555,
    };
    assert!(!one.query_reach(unknown, None));
    assert_eq!(
        one.register_dmb(4096, unknown, None),
        Err(IsmError::Unreachable)
    );
    assert_eq!(
        one.signal_event(unknown, None, 0, 0),
        Err(IsmError::Unreachable)
    );
    quiet(&mut one);
}
