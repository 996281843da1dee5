//! Owners of DMBs, and how long they keep them.

use smc_transport_ism::device::{
    DmbToken, Gid128, IsmDevice, IsmError, IsmReport, MAX_DMB_LEN, VlanId,
};

use crate::lab::{Lab, bytes, cdc, joined, next, quiet, registered};

pub(crate) fn lengths_a_dmb_can_have<L: Lab>() {
    let [mut owner, peer] = L::devices();
    let most = owner.facts().max_dmb_len;
    assert!(most <= MAX_DMB_LEN);
    for len in [
        0,
        1,
        4095,
        4097,
        16385,
        most + 4096,
        u32::MAX,
        u32::MAX - 4095,
    ] {
        let refused = owner.register_dmb(len, peer.facts().gid, None);
        assert_eq!(refused, Err(IsmError::Length), "{len}");
    }
    for len in [4096, 16384, 3 * 4096, most] {
        let (dmb, _) = registered(&mut owner, &peer, len);
        assert_eq!(bytes(&owner, dmb, len).len(), len as usize);
    }
}

/// Nothing comes of this token: neither attaching nor, where that is not known,
/// moving.
#[track_caller]
fn refused(device: &mut impl IsmDevice, owner: &impl IsmDevice, token: DmbToken) {
    match device.attach_dmb(owner.facts().gid, token, 16384) {
        Ok(remote) => {
            let refusals = [Err(IsmError::Token), Err(IsmError::Stale)];
            assert!(refusals.contains(&device.move_data(remote, 0, 0, &[1])));
            assert!(refusals.contains(&device.move_cdc(remote, 0, 0, &cdc(1), true)));
            device.detach_dmb(remote).unwrap();
        }
        Err(error) => assert_eq!(error, IsmError::Token),
    }
}

pub(crate) fn a_third_party_is_refused<L: Lab>() {
    let [mut mover, mut owner, mut third] = L::devices();
    let (dmb, token, _) = joined(&mut mover, &mut owner, 16384);
    refused(&mut third, &owner, token);
    refused(&mut third, &mover, token);
    // Nor does one that the owner made for itself to use leak to others.
    let (other, token) = registered(&mut owner, &third, 16384);
    refused(&mut mover, &owner, token);
    for dmb in [dmb, other] {
        assert_eq!(bytes(&owner, dmb, 16384), vec![0; 16384]);
    }
    quiet(&mut owner);
}

pub(crate) fn unknown_tokens_are_refused<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, token, _) = joined(&mut mover, &mut owner, 16384);
    for near in [
        0,
        1,
        u64::MAX,
        token.0 ^ 1,
        token.0.wrapping_add(1 << 32),
        token.0 << 1,
    ] {
        if near != token.0 {
            refused(&mut mover, &owner, DmbToken(near));
        }
    }
    let unknown = Gid128 {
        gid: 0x5555,
        ext: 0x5555,
    };
    assert_eq!(
        mover.attach_dmb(unknown, token, 16384),
        Err(IsmError::Unreachable)
    );
    assert_eq!(bytes(&owner, dmb, 16384), vec![0; 16384]);
}

/// A DMB of 16384 bytes is not attached as one of more; where attaching is not known, a
/// move beyond its end is refused.
#[track_caller]
fn longer_than_it_is(mover: &mut impl IsmDevice, owner: Gid128, token: DmbToken) {
    // Devices that know no attaching take a token that is nowhere, too.
    let nowhere = mover.attach_dmb(owner, DmbToken(token.0 ^ 1 << 63), 16384);
    if let Ok(remote) = nowhere {
        mover.detach_dmb(remote).unwrap();
    }
    for len in [16384 + 4096, 32768, MAX_DMB_LEN] {
        match mover.attach_dmb(owner, token, len) {
            Ok(remote) if nowhere.is_ok() => {
                assert!(mover.move_data(remote, 0, 16380, &[1; 8]).is_err(), "{len}");
                assert!(mover.move_cdc(remote, 0, 16384, &cdc(1), true).is_err());
                mover.detach_dmb(remote).unwrap();
            }
            refused => assert_eq!(refused, Err(IsmError::Length), "{len}"),
        }
    }
}

pub(crate) fn lengths_are_as_the_peer_announces_or_less<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, token) = registered(&mut owner, &mover, 16384);
    let from = owner.facts().gid;
    for len in [0, 1, 4095, MAX_DMB_LEN + 4096, u32::MAX] {
        let attached = mover.attach_dmb(from, token, len);
        assert_eq!(attached, Err(IsmError::Length), "{len}");
    }
    longer_than_it_is(&mut mover, from, token);
    let remote = mover.attach_dmb(from, token, 8192).unwrap();
    // Nor once it is attached, and known.
    longer_than_it_is(&mut mover, from, token);
    assert_eq!(
        mover.move_data(remote, 0, 8190, &[1; 3]),
        Err(IsmError::Bounds)
    );
    assert_eq!(
        mover.move_cdc(remote, 0, 8192, &cdc(1), true),
        Err(IsmError::Bounds)
    );
    assert_eq!(mover.move_data(remote, 0, 8190, &[1; 2]), Ok(()));
    assert_eq!(bytes(&owner, dmb, 16384)[8190..8193], [1, 1, 0]);
}

pub(crate) fn tokens_work_only_once_reported<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let dmb = owner.register_dmb(16384, mover.facts().gid, None).unwrap();
    // Taken back before it was announced: it never is.
    owner.unregister_dmb(dmb).unwrap();
    let (later, token) = registered(&mut owner, &mover, 16384);
    assert_ne!(later, dmb);
    let remote = mover.attach_dmb(owner.facts().gid, token, 16384).unwrap();
    mover.move_cdc(remote, 0, 0, &cdc(1), true).unwrap();
    assert!(matches!(next(&mut owner), IsmReport::Signalled { dmb, .. } if dmb == later));
}

pub(crate) fn a_dmb_taken_back_is_reported_behind_what_was_done_before<L: Lab>() {
    //= SHM-035 test
    //= D-059 test
    let [mut mover, mut owner] = L::devices();
    // Both write to each other; the owner sends its last message and takes its DMB back.
    let (dmb, _, remote) = joined(&mut mover, &mut owner, 16384);
    let (back, _, other) = joined(&mut owner, &mut mover, 16384);
    owner.move_cdc(other, 0, 0, &cdc(9), true).unwrap();
    owner.unregister_dmb(dmb).unwrap();
    assert!(matches!(next(&mut mover), IsmReport::Signalled { dmb, .. } if dmb == back));
    // A device without that report finds out when it writes.
    let report = (0..20_000).find_map(|_| mover.poll());
    assert!([None, Some(IsmReport::Withdrawn { remote })].contains(&report));
    assert!(report.is_some() || !L::REPORTS_WITHDRAWALS);
    crate::lab::quiet(&mut mover);
    assert!(mover.move_cdc(remote, 0, 0, &cdc(1), true).is_err());
    mover.detach_dmb(remote).unwrap();
    // What was given up first is not reported any more.
    let (dmb, _, remote) = joined(&mut mover, &mut owner, 16384);
    owner.unregister_dmb(dmb).unwrap();
    mover.detach_dmb(remote).unwrap();
    crate::lab::quiet(&mut mover);
    assert_eq!(bytes(&mover, back, 16384)[..32], cdc(9));
}

pub(crate) fn nothing_works_on_what_is_gone<L: Lab>() {
    //= CASE-C18 test
    let [mut mover, mut owner] = L::devices();
    let (dmb, token, remote) = joined(&mut mover, &mut owner, 16384);
    mover.detach_dmb(remote).unwrap();
    assert_eq!(mover.detach_dmb(remote), Err(IsmError::Stale));
    assert_eq!(mover.move_data(remote, 0, 0, &[1]), Err(IsmError::Stale));
    assert_eq!(
        mover.move_cdc(remote, 0, 0, &cdc(1), true),
        Err(IsmError::Stale)
    );
    owner.unregister_dmb(dmb).unwrap();
    assert_eq!(owner.unregister_dmb(dmb), Err(IsmError::Stale));
    assert_eq!(owner.read(dmb, 0, &mut [0]), Err(IsmError::Stale));
    assert_eq!(owner.read_cdc(dmb, 0), Err(IsmError::Stale));
    // The mover may need a while to learn that the token is dead.
    let _ = mover.poll();
    crate::lab::quiet(&mut mover);
    refused(&mut mover, &owner, token);
    // Later objects in the same places are others.
    let (again, _, other) = joined(&mut mover, &mut owner, 16384);
    assert_eq!(owner.read(dmb, 0, &mut [0]), Err(IsmError::Stale));
    assert_eq!(mover.move_data(remote, 0, 0, &[1]), Err(IsmError::Stale));
    assert!(again != dmb && other != remote);
}

pub(crate) fn dmbs_run_out_and_come_back<L: Lab>() {
    let [mut owner, mut mover] = L::devices();
    let most = owner.facts().max_dmbs;
    let mut all = Vec::new();
    for _ in 0..most {
        all.push(registered(&mut owner, &mover, 4096));
        // What the mover does not poll fills some backends' channels.
        for _ in 0..10 {
            assert_eq!(mover.poll(), None);
        }
    }
    let more = owner.register_dmb(4096, mover.facts().gid, None);
    assert_eq!(more, Err(IsmError::Exhausted));
    let mut tokens: Vec<_> = all.iter().map(|(_, token)| token).collect();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), most as usize, "every token another");
    owner.unregister_dmb(all[5].0).unwrap();
    joined(&mut mover, &mut owner, 4096);
    let more = owner.register_dmb(4096, mover.facts().gid, None);
    assert_eq!(more, Err(IsmError::Exhausted));
}

pub(crate) fn attaching_twice_is_two_attachments<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (dmb, token, one) = joined(&mut mover, &mut owner, 16384);
    let two = mover.attach_dmb(owner.facts().gid, token, 16384).unwrap();
    assert_ne!(one, two);
    mover.detach_dmb(one).unwrap();
    mover.move_data(two, 0, 100, b"still").unwrap();
    assert_eq!(&bytes(&owner, dmb, 16384)[100..105], b"still");
}

pub(crate) fn vlans_are_joined_and_left<L: Lab>() {
    let [mut one, mut two] = L::devices();
    let (gid, vlan) = (two.facts().gid, VlanId::new(7).unwrap());
    assert!(one.query_reach(gid, None));
    assert_eq!(
        one.query_reach(gid, Some(VlanId::V2)),
        one.facts().version_2
    );
    assert_eq!(one.del_vlan(vlan), Err(IsmError::Vlan), "not joined");
    assert!(!one.query_reach(gid, Some(vlan)));
    if one.add_vlan(vlan).is_err() {
        return; // A device without VLANs reports that and reaches no peer on one.
    }
    assert!(
        !one.query_reach(gid, Some(vlan)),
        "only one of them is on it"
    );
    two.add_vlan(vlan).unwrap();
    assert!(one.query_reach(gid, Some(vlan)));
    assert!(!one.query_reach(gid, VlanId::new(8)));
    one.register_dmb(4096, gid, Some(vlan)).unwrap();
    assert_eq!(
        one.register_dmb(4096, gid, VlanId::new(8)),
        Err(IsmError::Vlan)
    );
    two.del_vlan(vlan).unwrap();
    assert!(!one.query_reach(gid, Some(vlan)));
}
