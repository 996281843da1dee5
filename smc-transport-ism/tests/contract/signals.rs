//! What a signal promises.

use smc_transport_ism::device::{CDC_LEN, IsmDevice, IsmReport};

use crate::lab::{Lab, bytes, cdc, joined, next, number, quiet, registered};

const LEN: u32 = 16384;

pub(crate) fn a_signalled_peer_sees_what_was_moved<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    for round in 1..=200u64 {
        let byte = round as u8;
        mover.move_data(remote, 0, 32, &[byte; 5000]).unwrap();
        mover.move_data(remote, 0, 5032, &[byte; 100]).unwrap();
        mover.move_cdc(remote, 0, 0, &cdc(round), true).unwrap();
        let IsmReport::Signalled { dmb: of, mask, cdc } = next(&mut owner) else {
            panic!()
        };
        assert_eq!((of, mask, number(&cdc)), (dmb, 0x8000, round));
        assert_eq!(owner.read_cdc(dmb, 0), Ok(cdc));
        assert!(
            bytes(&owner, dmb, LEN)[32..5132]
                .iter()
                .all(|at| *at == byte)
        );
    }
    quiet(&mut owner);
}

pub(crate) fn signals_are_reported_once_or_more<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    for burst in [1, 2, 3, 100] {
        for round in 1..=burst {
            mover.move_cdc(remote, 0, 0, &cdc(round), true).unwrap();
        }
        let mut last = 0;
        let mut reported = 0;
        while let Some(IsmReport::Signalled { cdc, .. }) = (0..20_000).find_map(|_| owner.poll()) {
            (last, reported) = (number(&cdc), reported + 1);
        }
        assert!(reported >= 1 && reported <= burst, "{reported} of {burst}");
        assert_eq!(last, burst, "the last one is reported last");
        assert_eq!(number(&owner.read_cdc(dmb, 0).unwrap()), burst);
    }
}

pub(crate) fn no_signal_without_asking<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    mover.move_cdc(remote, 0, 0, &cdc(9), false).unwrap();
    mover.move_data(remote, 0, 32, &[1; 64]).unwrap();
    quiet(&mut owner);
    assert_eq!(number(&owner.read_cdc(dmb, 0).unwrap()), 9);
}

pub(crate) fn elements_are_distinct<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (_, _, remote) = joined(&mut mover, &mut owner, LEN);
    for element in 0..mover.facts().elements {
        let at = u32::from(element) * 1024;
        mover.move_cdc(remote, element, at, &cdc(1), true).unwrap();
        let IsmReport::Signalled { mask, .. } = next(&mut owner) else {
            panic!()
        };
        assert_eq!(mask, 0x8000 >> element);
    }
    quiet(&mut owner);
}

pub(crate) fn bug_smcd_a_dmb_taken_away_is_silent<L: Lab>() {
    //= CASE-C18 test
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    let (other, _, kept) = joined(&mut mover, &mut owner, LEN);
    mover.move_cdc(remote, 0, 0, &cdc(1), true).unwrap();
    owner.unregister_dmb(dmb).unwrap();
    quiet(&mut owner);
    mover.move_cdc(kept, 0, 0, &cdc(2), true).unwrap();
    assert!(matches!(next(&mut owner), IsmReport::Signalled { dmb, .. } if dmb == other));
    quiet(&mut owner);
}

pub(crate) fn cve_2026_74513_moves_in_flight_harm_no_later_dmb<L: Lab>() {
    //= CASE-C17 test
    let [mut mover, mut owner] = L::devices();
    for _ in 0..40 {
        let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
        mover.move_data(remote, 0, 0, &[0xff; 512]).unwrap();
        owner.unregister_dmb(dmb).unwrap();
        let (later, token) = registered(&mut owner, &mover, LEN);
        // The mover has not polled since: some backends let it write on, into nothing.
        for _ in 0..3 {
            let _ = mover.move_data(remote, 0, 0, &[0xff; LEN as usize]);
            let _ = mover.move_cdc(remote, 0, 0, &cdc(7), true);
        }
        assert!(bytes(&owner, later, LEN).iter().all(|byte| *byte == 0));
        quiet(&mut owner);
        let fresh = mover.attach_dmb(owner.facts().gid, token, LEN).unwrap();
        mover.move_cdc(fresh, 0, 0, &cdc(8), true).unwrap();
        let IsmReport::Signalled { dmb: of, cdc, .. } = next(&mut owner) else {
            panic!()
        };
        assert_eq!((of, number(&cdc)), (later, 8));
        mover.detach_dmb(remote).unwrap();
        mover.detach_dmb(fresh).unwrap();
        owner.unregister_dmb(later).unwrap();
    }
}

pub(crate) fn many_dmbs_are_all_reported<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let count = owner.facts().max_dmbs.min(600) as usize;
    let all: Vec<_> = (0..count)
        .map(|_| joined(&mut mover, &mut owner, 4096))
        .collect();
    for stride in [1, 7, 64, 599] {
        let mut expected: Vec<_> = all.iter().step_by(stride).map(|(dmb, ..)| *dmb).collect();
        for (_, _, remote) in all.iter().step_by(stride) {
            mover.move_cdc(*remote, 0, 0, &cdc(1), true).unwrap();
        }
        while !expected.is_empty() {
            let IsmReport::Signalled { dmb, .. } = next(&mut owner) else {
                panic!()
            };
            let at = expected
                .iter()
                .position(|at| *at == dmb)
                .expect("signalled, and once");
            expected.swap_remove(at);
        }
        quiet(&mut owner);
    }
}

pub(crate) fn a_head_is_new_only_once<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    for round in 1..=3 {
        mover.move_cdc(remote, 0, 0, &cdc(round), true).unwrap();
        let mut head = [0xff; CDC_LEN];
        // Some backends only report.
        if owner.poll_head(dmb, &mut head) {
            assert_eq!(head, cdc(round));
        }
        assert!(!owner.poll_head(dmb, &mut head), "nothing was moved since");
        assert!(matches!(next(&mut owner), IsmReport::Signalled { .. }));
    }
}
