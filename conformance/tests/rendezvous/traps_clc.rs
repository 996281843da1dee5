//! Where code written from the RFC fails against deployed peers: CLC. The numbers are
//! those of docs/smc-v2.md, chapter 14.

use conformance::rig::linux::{half, proposal};
use conformance::rig::{Rig, gid, mac};
use conformance::versions::eid;
use smc_proto::command::TcpCommand;
use smc_proto::config::Offers;
use smc_proto::event::Event;
use smc_proto::path::{RoceVersion, Route};
use smc_proto::time::Duration;
use smc_proto::wire::clc::{
    ClcMessage, ClcVersion, Decline, PeerOs, SmcdAcceptConfirm, SmcdAcceptConfirmV2,
};
use smc_proto::wire::types::{
    BufferSize, DiagnosisCode, DmbToken, Eid, Mac, PeerId, Qpn, Release, RmbeIndex,
};

/// Our Proposal as bytes, with these offers.
fn our_proposal(offers: Offers) -> Vec<u8> {
    let mut rig = Rig::new(1, |config| config.offers = offers);
    let mut v1 = rig.paths[0];
    v1.roce = RoceVersion::V1;
    rig.paths.push(v1);
    rig.connect();
    rig.clc.pop_front().expect("a Proposal")
}

/// What our server declines with.
#[track_caller]
fn declined(rig: &mut Rig) -> Decline {
    match rig.sent_clc() {
        ClcMessage::Decline(decline) => decline,
        other => panic!("{other}"),
    }
}

fn decline(code: DiagnosisCode) -> ClcMessage {
    ClcMessage::Decline(Decline {
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id: PeerId::default(),
        diagnosis: code,
        os: PeerOs::UNKNOWN,
    })
}

#[test]
fn trap_02_smcr_is_zero_and_nothing_is_two() {
    //= V2-001 test
    //= V2-002 test
    for (offers, byte) in [
        (Offers::SMCR_V2, 0x22),
        (Offers::SMCR, 0x20),
        (Offers::SMCR_V1, 0x28),
    ] {
        assert_eq!(our_proposal(offers)[7], byte, "{offers:?}");
    }
}

#[test]
fn trap_03_the_ism_area_is_always_there_and_its_byte_47_is_no_count() {
    //= V2-020 test
    //= V2-021 test
    //= V2-022 test
    for offers in [Offers::SMCR_V2, Offers::SMCR] {
        let bytes = our_proposal(offers);
        let skip = u16::from_be_bytes([bytes[38], bytes[39]]);
        let prefixes = bytes[40 + usize::from(skip) + 7];
        assert_eq!(skip, if offers == Offers::SMCR { 40 } else { 0 });
        assert_eq!(prefixes, 0);
        assert_eq!(bytes[40..50], [0; 10]);
    }
}

#[test]
fn trap_04_the_length_is_the_sum_of_the_parts() {
    //= V2-029 test
    //= V2-024 test
    for (offers, length) in [
        (Offers::SMCR_V2, 156),
        (Offers::SMCR, 164),
        (Offers::SMCR_V1, 92),
    ] {
        assert_eq!(our_proposal(offers).len(), length, "{offers:?}");
    }
}

#[test]
fn trap_05_the_clients_address_is_that_of_its_proposal() {
    //= V2-230 test
    //= V2-030 test
    //= V2-110 test
    // Ours names the same port in both.
    let mut rig = Rig::new(2, |_| {});
    let conn = rig.connect();
    let ClcMessage::Proposal(ours) = rig.sent_clc() else {
        panic!("a Proposal was due");
    };
    assert_eq!(
        (ours.peer_id, ours.mac),
        (PeerId::new(1, mac(1, 0)), mac(1, 0))
    );
    rig.receive_clc(conn, &ClcMessage::Accept(half()));
    let ClcMessage::Confirm(confirm) = rig.sent_clc() else {
        panic!("a Confirm was due");
    };
    let offered = ours.v2_offer.unwrap().gid;
    assert_eq!((confirm.gid, confirm.mac), (offered, ours.mac));
    // A peer's Confirm does not move its port.
    let mut rig = Rig::new(1, |_| {});
    let mut named = proposal();
    named.mac = mac(2, 0);
    let (conn, _) = rig.server_accepts(&named);
    let mut confirm = half();
    (confirm.gid, confirm.mac) = (gid(3, 3), mac(3, 3));
    rig.receive_clc(conn, &ClcMessage::Confirm(confirm));
    let peer = rig.nic.qp(rig.link(0)).unwrap().bound.unwrap().peer;
    assert_eq!((peer.gid, peer.mac), (gid(2, 0), mac(2, 0)));
}

#[test]
fn trap_06_a_client_without_identity_is_served_and_not_taken_for_another_one() {
    //= V2-107 test
    //= V2-210 test
    //= V2-023 test
    let mut rig = Rig::new(1, |_| {});
    rig.server_up();
    let (conn, again) = rig.server_accepts(&proposal());
    assert!(!again.first_contact, "the same GID");
    // Whatever MAC its Confirm has: the GID alone identifies the port.
    let mut confirm = half();
    (confirm.first_contact, confirm.mac) = (false, mac(9, 9));
    confirm.rmbe_index = RmbeIndex(2);
    rig.receive_clc(conn, &ClcMessage::Confirm(confirm));
    assert!(
        rig.happened(|event| matches!(event, Event::Established { conn: c, .. } if *c == conn))
    );
    let mut stranger = proposal();
    stranger.v2_offer.as_mut().unwrap().gid = gid(9, 0);
    let (_, accept) = rig.server_accepts(&stranger);
    assert!(accept.first_contact, "another GID");
    // Its Confirm has the MAC that its Proposal lacks.
    let peer = rig.nic.qp(rig.link(0)).unwrap().bound.unwrap().peer;
    assert_eq!(peer.mac, mac(2, 0));
    assert_ne!(peer.mac, Mac::default());
}

#[test]
fn trap_07_a_decline_may_come_in_place_of_anything() {
    //= V2-074 test
    //= V2-270 test
    let fell_back = |rig: &Rig| {
        rig.happened(|event| {
            matches!(event, Event::FellBack { why, .. }
            if why.peer_diagnosis == Some(DiagnosisCode::NO_DEVICE))
        })
    };
    let message = decline(DiagnosisCode::NO_DEVICE);
    let mut rig = Rig::new(1, |_| {});
    let conn = rig.listen();
    rig.receive_clc(conn, &message);
    assert!(fell_back(&rig), "in place of the Proposal");
    let mut rig = Rig::new(1, |_| {});
    let (conn, _) = rig.server_accepts(&proposal());
    rig.receive_clc(conn, &message);
    assert!(fell_back(&rig), "in place of the Confirm");
    let mut rig = Rig::new(1, |_| {});
    let conn = rig.connect();
    rig.receive_clc(conn, &message);
    assert!(fell_back(&rig), "in place of the Accept");
    let mut rig = Rig::new(1, |_| {});
    let (conn, ..) = rig.server_asks();
    rig.receive_clc(conn, &message);
    assert!(fell_back(&rig), "in place of CONFIRM LINK");
}

#[test]
fn trap_08_malformed_bytes_end_the_connection_without_a_message() {
    //= V2-081 test
    //= V2-271 test
    let bytes = our_proposal(Offers::SMCR_V2);
    for (at, value) in [
        (0, 0),
        (4, 9),
        (6, 155),
        (7, 0x02),
        (51, 29),
        (80, 9),
        (155, 0),
    ] {
        let mut rig = Rig::new(1, |_| {});
        let conn = rig.listen();
        let mut wrong = bytes.clone();
        wrong[at] = value;
        assert!(rig.receive_clc_bytes(conn, &wrong).is_err(), "octet {at}");
        assert_eq!(rig.tcp, [TcpCommand::Reset]);
        assert!(rig.clc.is_empty());
    }
}

#[test]
fn trap_09_first_contact_has_its_bit_and_extension_in_both_messages() {
    //= V2-006 test
    //= V2-052 test
    //= V2-053 test
    for release in [0, 1] {
        let release = Release::new(release);
        let mut rig = Rig::new(1, |config| config.v2.release = release);
        let conn = rig.listen();
        rig.receive_clc(conn, &ClcMessage::Proposal(proposal()));
        let accept = rig.clc.pop_front().unwrap();
        assert_eq!((accept.len(), accept[7]), (160, 0x28));
        let mut rig = Rig::new(1, |config| config.v2.release = release);
        let conn = rig.connect();
        rig.clc.clear();
        let mut half = half();
        half.v2.as_mut().unwrap().extension.release = release;
        rig.receive_clc(conn, &ClcMessage::Accept(half));
        let confirm = rig.clc.pop_front().unwrap();
        assert_eq!((confirm.len(), confirm[7]), (180, 0x28));
        assert_eq!(confirm[105] & 0x0f, release.number());
        assert_eq!(confirm[156], 1, "one GID");
    }
}

#[test]
fn trap_09_and_31_out_of_sync_is_sent_for_an_unknown_group_only() {
    //= V2-072 test
    //= V2-133 test
    //= V2-135 test
    let mut rig = Rig::new(1, |_| {});
    let conn = rig.connect();
    rig.clc.clear();
    let mut known = half();
    known.first_contact = false;
    rig.receive_clc(conn, &ClcMessage::Accept(known));
    let message = declined(&mut rig);
    assert!(message.out_of_sync);
    assert_eq!(message.diagnosis, DiagnosisCode::OUT_OF_SYNC);
    assert_eq!(message.version, ClcVersion::V2);
    // Of one that it has, it sends nothing of that kind.
    let mut rig = Rig::new(1, |_| {});
    rig.client_up();
    let conn = rig.connect();
    rig.clc.clear();
    known.rtoken = conformance::rig::linux::rmb(2);
    rig.receive_clc(conn, &ClcMessage::Accept(known));
    assert!(rig.clc.iter().all(|bytes| bytes[4] != 4));
}

#[test]
fn trap_10_release_and_limits_are_echoed() {
    //= V2-056 test
    //= V2-057 test
    //= V2-132 test
    let mut rig = Rig::new(1, |_| {});
    let mut accept = half();
    let extension = &mut accept.v2.as_mut().unwrap().extension;
    (extension.max_connections, extension.max_links) = (16, 1);
    let (_, _, confirm) = rig.client_confirms(accept);
    let echoed = confirm.v2.unwrap().extension;
    assert_eq!(echoed.release, Release::V2_1);
    assert_eq!((echoed.max_connections, echoed.max_links), (16, 1));
    // Our server wants the same.
    for (connections, links, code) in [
        (254, 2, DiagnosisCode::MAX_CONNECTIONS),
        (255, 1, DiagnosisCode::MAX_LINKS),
    ] {
        let mut rig = Rig::new(1, |_| {});
        let (conn, _) = rig.server_accepts(&proposal());
        let mut confirm = half();
        let extension = &mut confirm.v2.as_mut().unwrap().extension;
        (extension.max_connections, extension.max_links) = (connections, links);
        rig.receive_clc(conn, &ClcMessage::Confirm(confirm));
        assert_eq!(declined(&mut rig).diagnosis, code);
    }
    let mut rig = Rig::new(1, |_| {});
    let (conn, _) = rig.server_accepts(&proposal());
    let mut confirm = half();
    confirm.v2.as_mut().unwrap().extension.release = Release::V2_0;
    rig.receive_clc(conn, &ClcMessage::Confirm(confirm));
    assert_eq!(
        declined(&mut rig).diagnosis,
        DiagnosisCode::RELEASE_MISMATCH
    );
}

#[test]
fn trap_23_a_direct_link_has_hop_limit_1_and_one_over_a_gateway_64() {
    //= V2-131 test
    //= V2-231 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link, _) = rig.client_confirms(half());
    assert_eq!(rig.nic.qp(link).unwrap().bound.unwrap().hop_limit, 1);
    let mut far = half();
    far.v2.as_mut().unwrap().extension.direct = false;
    let mut rig = Rig::new(1, |_| {});
    rig.paths[0].route = Route::Gateway;
    let (_, link, _) = rig.client_confirms(far);
    assert_eq!(rig.nic.qp(link).unwrap().bound.unwrap().hop_limit, 64);
    for (route, code) in [
        (Route::Direct, DiagnosisCode::INDIRECT_MISMATCH),
        (Route::None, DiagnosisCode::NO_ROUTE),
    ] {
        let mut rig = Rig::new(1, |_| {});
        rig.paths[0].route = route;
        let conn = rig.connect();
        rig.clc.clear();
        rig.receive_clc(conn, &ClcMessage::Accept(far));
        assert_eq!(declined(&mut rig).diagnosis, code);
    }
}

#[test]
fn trap_25_eids_are_compared_in_all_32_bytes() {
    //= V2-104 test
    //= V2-250 test
    //= V2-252 test
    let mut zeros = eid("COMMON");
    zeros
        .0
        .iter_mut()
        .filter(|o| **o == b' ')
        .for_each(|o| *o = 0);
    for (theirs, common) in [
        (eid("COMMON"), true),
        (zeros, false),
        (Eid([0xff; 32]), false),
    ] {
        let mut rig = Rig::new(1, |_| {});
        let conn = rig.listen();
        let mut offer = proposal();
        offer.v2_offer.as_mut().unwrap().eids[0] = theirs;
        rig.receive_clc(conn, &ClcMessage::Proposal(offer));
        match rig.sent_clc() {
            ClcMessage::Accept(accept) => {
                assert!(common);
                assert_eq!(accept.v2.unwrap().eid, theirs);
            }
            other => assert!(!common, "{other}"),
        }
    }
}

#[test]
fn trap_26_versions_do_not_share_a_group() {
    //= V2-211 test
    let mut rig = Rig::new(1, |_| {});
    let mut v1 = rig.paths[0];
    v1.roce = RoceVersion::V1;
    rig.paths.push(v1);
    let (_, link) = rig.server_up();
    let mut old = proposal();
    old.v2_offer = None;
    old.v1 = smc_proto::wire::clc::OfferedPath::SmcR;
    (old.gid, old.mac) = (gid(2, 0), mac(2, 0));
    let (_, accept) = rig.server_accepts(&old);
    assert!(accept.first_contact && accept.v2.is_none());
    let sizes: Vec<_> = rig.nic.qps().map(|qp| qp.receive_size).collect();
    assert_eq!(
        (rig.nic.qp(link).unwrap().receive_size, sizes.len()),
        (8192, 2)
    );
    assert!(sizes.contains(&44), "version 1 has small receives");
}

#[test]
fn trap_29_any_size_of_element_is_taken() {
    let mut rig = Rig::new(1, |_| {});
    let mut accept = half();
    accept.buffer_size = BufferSize::from_code(15);
    let (..) = rig.client_confirms(accept);
}

#[test]
fn an_accept_of_what_was_not_offered_is_declined() {
    //= V2-130 test
    let mut rig = Rig::new(1, |_| {});
    let conn = rig.connect();
    rig.clc.clear();
    let mut accept = half();
    accept.v2 = None;
    rig.receive_clc(conn, &ClcMessage::Accept(accept));
    let message = declined(&mut rig);
    assert_eq!(message.diagnosis, DiagnosisCode::MODE_MISMATCH);
    assert_eq!(message.version, ClcVersion::V1);
    // One of SMC-D, in its own version.
    //= V2-071 test
    let v2 = SmcdAcceptConfirmV2 {
        eid: eid("LAB"),
        ..SmcdAcceptConfirmV2::default()
    };
    for (v2, version) in [(None, ClcVersion::V1), (Some(v2), ClcVersion::V2)] {
        let mut rig = Rig::new(1, |_| {});
        let conn = rig.connect();
        rig.clc.clear();
        let accept = SmcdAcceptConfirm {
            first_contact: true,
            gid: 2,
            token: DmbToken(7),
            dmbe_index: 1,
            buffer_size: BufferSize::K16,
            link_id: [0; 4],
            v2,
        };
        rig.receive_clc(conn, &ClcMessage::SmcdAccept(accept));
        let message = declined(&mut rig);
        assert_eq!(message.diagnosis, DiagnosisCode::MODE_MISMATCH);
        assert_eq!(message.version, version);
    }
    // Without anything to offer the first message is a Decline, in the form of version 1.
    //= V2-071 test
    let mut rig = Rig::new(0, |_| {});
    rig.connect();
    assert_eq!(rig.clc[0].len(), 28);
    // Our server's has the form of the Proposal.
    //= V2-070 test
    let mut rig = Rig::new(1, |config| config.v2.ueids = Default::default());
    let conn = rig.listen();
    rig.receive_clc(conn, &ClcMessage::Proposal(proposal()));
    assert_eq!(rig.clc[0].len(), 44);
    rig.wait(Duration::from_secs(1));
    let _ = Qpn::new(0);
}
