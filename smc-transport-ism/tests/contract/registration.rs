//! Who gets which DMB, and for how long.

use smc_transport_ism::device::{
    DmbToken, Gid128, IsmDevice, IsmError, IsmReport, MAX_DMB_LEN, VlanId,
};

use crate::lab::{Lab, cdc, joined, next, octets, registered};

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
        assert_eq!(octets(&owner, dmb, len).len(), len as usize);
    }
}

pub(crate) fn a_third_party_is_refused<L: Lab>() {
    let [mut mover, mut owner, mut third] = L::devices();
    let (_, token, _) = joined(&mut mover, &mut owner, 16384);
    let from = owner.facts().gid;
    assert_eq!(third.attach_dmb(from, token), Err(IsmError::Token));
    assert_eq!(
        third.attach_dmb(mover.facts().gid, token),
        Err(IsmError::Token)
    );
    assert_eq!(
        mover.attach_dmb(third.facts().gid, token),
        Err(IsmError::Token),
        "wrong owner"
    );
    // Nor does one that the owner made for itself to use leak to others.
    let (_, token) = registered(&mut owner, &third, 16384);
    assert_eq!(mover.attach_dmb(from, token), Err(IsmError::Token));
}

pub(crate) fn unknown_tokens_are_refused<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let (_, token, _) = joined(&mut mover, &mut owner, 16384);
    let from = owner.facts().gid;
    for near in [
        0,
        1,
        u64::MAX,
        token.0 ^ 1,
        token.0.wrapping_add(1),
        token.0 << 1,
    ] {
        if near != token.0 {
            assert_eq!(
                mover.attach_dmb(from, DmbToken(near)),
                Err(IsmError::Token),
                "{near:x}"
            );
        }
    }
    let nobody = Gid128 {
        gid: 0x5555,
        ext: 0x5555,
    };
    assert_eq!(mover.attach_dmb(nobody, token), Err(IsmError::Unreachable));
}

pub(crate) fn tokens_work_only_once_reported<L: Lab>() {
    let [mut mover, mut owner] = L::devices();
    let dmb = owner.register_dmb(16384, mover.facts().gid, None).unwrap();
    // Taken back before it was announced: it never is.
    owner.unregister_dmb(dmb).unwrap();
    let (later, token) = registered(&mut owner, &mover, 16384);
    assert_ne!(later, dmb);
    let remote = mover.attach_dmb(owner.facts().gid, token).unwrap();
    mover.move_cdc(remote, 0, 0, &cdc(1), true).unwrap();
    assert!(matches!(next(&mut owner), IsmReport::Signalled { dmb, .. } if dmb == later));
}

pub(crate) fn nothing_works_on_what_is_gone<L: Lab>() {
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
    assert_eq!(
        mover.attach_dmb(owner.facts().gid, token),
        Err(IsmError::Token)
    );
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
        // What the mover does not look at fills some backends' channels.
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
    let two = mover.attach_dmb(owner.facts().gid, token).unwrap();
    assert_ne!(one, two);
    mover.detach_dmb(one).unwrap();
    mover.move_data(two, 0, 100, b"still").unwrap();
    assert_eq!(&octets(&owner, dmb, 16384)[100..105], b"still");
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
        return; // A device without VLANs says so and reaches nobody on one.
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
