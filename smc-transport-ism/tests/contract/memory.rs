//! Where moves may go.

use smc_transport_ism::device::{IsmDevice, IsmError};

use crate::lab::{Lab, bytes, cdc, joined};

const LEN: u32 = 16384;

pub(crate) fn moves_stay_inside_the_dmb<L: Lab>() {
    //= CASE-C16 test
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    for (offset, len) in [
        (LEN, 1),
        (LEN - 1, 2),
        (0, LEN + 1),
        (4096, LEN),
        (LEN + 1, 0),
    ] {
        let source = vec![0xff; len as usize];
        assert_eq!(
            mover.move_data(remote, 0, offset, &source),
            Err(IsmError::Bounds)
        );
        let mut into = vec![0; len as usize];
        assert_eq!(
            owner.read(dmb, offset, &mut into),
            Err(IsmError::Bounds),
            "{offset} {len}"
        );
    }
    for offset in [LEN, LEN - 8, LEN - 24] {
        assert_eq!(
            mover.move_cdc(remote, 0, offset, &cdc(1), true),
            Err(IsmError::Bounds)
        );
        assert_eq!(owner.read_cdc(dmb, offset), Err(IsmError::Bounds));
    }
    assert!(bytes(&owner, dmb, LEN).iter().all(|byte| *byte == 0));
    assert_eq!(
        mover.move_data(remote, 0, LEN, &[]),
        Ok(()),
        "nothing, at the end"
    );
    assert_eq!(
        mover.move_data(remote, 0, 0, &vec![0xff; LEN as usize]),
        Ok(()),
        "all of it"
    );
    assert_eq!(mover.move_cdc(remote, 0, LEN - 32, &cdc(1), false), Ok(()));
}

pub(crate) fn bug_dibs_lengths_are_added_in_64_bits<L: Lab>() {
    //= CASE-C16 test
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    for offset in [u32::MAX, u32::MAX - 4095, u32::MAX - 7, 1 << 31] {
        let source = [0xff; 4097];
        for len in [1, 8, 4096, 4097] {
            let wide = mover.move_data(remote, 0, offset, &source[..len]);
            assert_eq!(wide, Err(IsmError::Bounds), "{offset} {len}");
        }
        assert_eq!(
            mover.move_cdc(remote, 0, offset & !7, &cdc(1), true),
            Err(IsmError::Bounds)
        );
        assert_eq!(
            owner.read(dmb, offset, &mut [0; 4096]),
            Err(IsmError::Bounds)
        );
        assert_eq!(owner.read_cdc(dmb, offset & !7), Err(IsmError::Bounds));
    }
    assert!(bytes(&owner, dmb, LEN).iter().all(|byte| *byte == 0));
}

pub(crate) fn cursors_keep_their_alignment<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    for offset in 1..8 {
        assert_eq!(
            mover.move_cdc(remote, 0, offset, &cdc(1), true),
            Err(IsmError::Bounds)
        );
        assert_eq!(owner.read_cdc(dmb, offset), Err(IsmError::Bounds));
    }
    assert_eq!(
        mover.move_cdc(remote, 0, 4088, &cdc(1), false),
        Ok(()),
        "across a page"
    );
    assert_eq!(owner.read_cdc(dmb, 4088), Ok(cdc(1)));
}

pub(crate) fn elements_have_a_bound<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    let elements = mover.facts().elements;
    for element in [elements, elements + 1, 127, 128, u16::MAX] {
        assert_eq!(
            mover.move_data(remote, element, 0, &[1]),
            Err(IsmError::Element)
        );
        assert_eq!(
            mover.move_cdc(remote, element, 0, &cdc(1), true),
            Err(IsmError::Element)
        );
    }
    crate::lab::quiet(&mut owner);
    assert!(bytes(&owner, dmb, LEN).iter().all(|byte| *byte == 0));
}

pub(crate) fn octets_arrive_where_they_were_sent<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
    let mut model = vec![0; LEN as usize];
    // Around every boundary a backend may split at, at odd places and lengths.
    for (round, offset) in (1u8..).zip([0, 1, 7, 8, 31, 32, 4090, 4095, 4096, 8191, 12000, 16000]) {
        for len in [1, 2, 7, 8, 9, 31, 64, 100, 255] {
            let source: Vec<u8> = (0..len).map(|at| at ^ round.wrapping_mul(37)).collect();
            mover.move_data(remote, 0, offset, &source).unwrap();
            model[offset as usize..][..source.len()].copy_from_slice(&source);
            assert_eq!(bytes(&owner, dmb, LEN), model);
        }
    }
    let long: Vec<u8> = (0..9000u32).map(|at| (at * 7 % 251) as u8).collect();
    for offset in [0, 5, 4095] {
        mover.move_data(remote, 0, offset, &long).unwrap();
        model[offset as usize..][..long.len()].copy_from_slice(&long);
        assert_eq!(bytes(&owner, dmb, LEN), model);
    }
}

pub(crate) fn a_dmb_is_zero_when_announced<L: Lab>() {
    //= CASE-D20 test
    let [mut mover, mut owner] = L::devices();
    for round in 0..50 {
        let (dmb, _, remote) = joined(&mut mover, &mut owner, LEN);
        let before = bytes(&owner, dmb, LEN);
        assert!(before.iter().all(|byte| *byte == 0), "round {round}");
        mover
            .move_data(remote, 0, 0, &vec![0xff; LEN as usize])
            .unwrap();
        if round % 2 == 0 {
            mover.detach_dmb(remote).unwrap();
        }
        owner.unregister_dmb(dmb).unwrap();
    }
}
