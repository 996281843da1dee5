//! Version 2, where it differs from RFC 7609 by a number or a message (docs/smc-v2.md).

use conformance::rig::linux::{QPN, add_link, bytes, confirm_link, extended, half, proposal, rmb};
use conformance::rig::{Rig, gid};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage};
use smc_proto::wire::llc::{
    ConfirmLink, ConfirmRkey, DeleteLink, DeleteLinkFlags, LlcMessage, RTokenPair, RkeyFlags,
};
use smc_proto::wire::types::{DeleteLinkReason, DiagnosisCode, Eid, LinkNumber, Mtu, Qpn};

/// Our next message on a connection that got this Accept.
fn answer(rig: &mut Rig, accept: AcceptConfirm) -> (ConnId, ClcMessage) {
    let conn = rig.connect();
    let _ = rig.sent_clc();
    rig.receive_clc(conn, &ClcMessage::Accept(accept));
    // A further RMB is announced first.
    while rig.clc.is_empty()
        && let Some((link, mut sent)) = rig.llc.pop_front()
    {
        sent[3] |= 0x80;
        rig.receive(link, &sent);
    }
    (conn, rig.sent_clc())
}

#[test]
fn the_confirm_repeats_the_eid_whatever_it_is() {
    //= V2-051 test
    for eid in [Eid([0; 32]), Eid([0xff; 32]), Eid::user("ANOTHER").unwrap()] {
        let mut rig = Rig::new(1, |_| {});
        let mut accept = half();
        accept.v2.as_mut().unwrap().eid = eid;
        let (_, _, confirm) = rig.client_confirms(accept);
        assert_eq!(confirm.v2.unwrap().eid, eid);
    }
}

#[test]
fn the_accept_has_the_servers_mtu_and_the_confirm_the_lower_one() {
    //= V2-058 test
    let mtu = |code| Mtu::from_code(code);
    for own in 1..=5 {
        let mut rig = Rig::new(1, |_| {});
        rig.paths[0].mtu = mtu(own);
        let (_, accept) = rig.server_accepts(&proposal());
        assert_eq!(accept.mtu, mtu(own));
        for theirs in 1..=5 {
            let mut rig = Rig::new(1, |_| {});
            rig.paths[0].mtu = mtu(own);
            let mut accept = half();
            accept.mtu = mtu(theirs);
            let (_, _, confirm) = rig.client_confirms(accept);
            assert_eq!(confirm.mtu, mtu(own.min(theirs)), "{own} and {theirs}");
        }
    }
}

#[test]
fn the_confirm_names_the_gid_of_another_rnic_for_a_second_link_if_it_is_another_gid() {
    //= V2-053 test
    for (second, named) in [
        (gid(1, 1), &[gid(1, 0), gid(1, 1)][..]),
        (gid(1, 0), &[gid(1, 0)]),
    ] {
        let mut rig = Rig::new(2, |_| {});
        rig.paths[1].gid = second;
        let (_, _, confirm) = rig.client_confirms(half());
        assert_eq!(confirm.v2.unwrap().gids.as_slice(), named);
    }
}

#[test]
fn a_first_contact_is_a_new_group_and_a_lost_link_is_no_reason_to_give_one_up() {
    //= V2-134 test
    let mut rig = Rig::new(2, |_| {});
    // Two links, of which the first one is lost.
    let (_, link) = rig.client_answers();
    rig.receive(link, &extended(add_link(false, LinkNumber(2), 1), &[]));
    let _ = rig.sent_llc(link);
    let second = rig.link(1);
    let request = ConfirmLink {
        qpn: Qpn::new(0x12),
        mac: conformance::rig::mac(2, 1),
        gid: conformance::rig::gid(2, 1),
        ..confirm_link(false, LinkNumber(2))
    };
    rig.receive(second, &bytes(&LlcMessage::ConfirmLink(request)));
    assert!(rig.happened(|event| matches!(event, Event::Established { .. })));
    rig.llc.clear();
    rig.endpoint.handle_rdma(
        rig.now,
        RdmaCompletion::LinkFailed {
            link,
            cause: LinkFailure::RetriesExhausted,
            conn: None,
        },
    );
    rig.pump();
    // It notifies the server, which deletes the link.
    assert_eq!(rig.sent_llc(second)[0], 0x24);
    let deletes = LlcMessage::DeleteLink(DeleteLink {
        reply: false,
        flags: DeleteLinkFlags::empty(),
        link: LinkNumber(1),
        reason: DeleteLinkReason::LOST_PATH,
    });
    rig.receive(second, &bytes(&deletes));
    assert_eq!(rig.sent_llc(second)[3] & 0x80, 0x80);
    assert!(rig.nic.qp(link).is_none());

    // An Accept that it sent before names the lost link.
    let mut named = half();
    (named.first_contact, named.rtoken) = (false, rmb(2));
    match answer(&mut rig, named) {
        (_, ClcMessage::Decline(decline)) => {
            assert_eq!(decline.diagnosis, DiagnosisCode::SERVER_LINK_UNKNOWN);
            assert!(!decline.out_of_sync);
        }
        (_, other) => panic!("{other}"),
    }
    assert_eq!(rig.endpoint.usage().groups, 1);
    // And then it founds a group: there are two.
    let mut founds = half();
    founds.qpn = Qpn::new(0x77);
    assert!(matches!(
        answer(&mut rig, founds),
        (_, ClcMessage::Confirm(_))
    ));
    assert_eq!(rig.endpoint.usage().groups, 2);
    assert_ne!(founds.qpn, QPN);

    // A side that has lost no link does not take a stranger's for one.
    let mut rig = Rig::new(1, |_| {});
    let _ = rig.client_up();
    named.qpn = Qpn::new(0x77);
    match answer(&mut rig, named) {
        (_, ClcMessage::Decline(decline)) => {
            assert_eq!(decline.diagnosis, DiagnosisCode::OUT_OF_SYNC);
            assert!(decline.out_of_sync);
        }
        (_, other) => panic!("{other}"),
    }
}

#[test]
fn zeros_in_place_of_the_keys_withdraw_an_rmb_all_the_same() {
    //= V2-166 test
    let mut rig = Rig::new(1, |_| {});
    let (first, link) = rig.client_up();
    let mut joins = half();
    (joins.first_contact, joins.rtoken) = (false, rmb(2));
    let (second, message) = answer(&mut rig, joins);
    assert!(matches!(message, ClcMessage::Confirm(_)));
    let held = rig.endpoint.usage().buffers;
    let now = rig.now;
    rig.endpoint.conn(second).expect("it lives").abort(now);
    rig.pump();
    let mut withdrawn = 0;
    for _ in 0..300 {
        rig.wait(Duration::from_secs(1));
        while let Some((on, sent)) = rig.llc.pop_front() {
            let mut answer = vec![0; 44];
            if sent[0] == 0x29 {
                withdrawn += 1;
                (answer[0], answer[1], answer[4]) = (0x29, 44, sent[4]);
            } else {
                answer.copy_from_slice(&sent);
            }
            answer[3] |= 0x80;
            rig.receive(on, &answer);
        }
    }
    assert_eq!(withdrawn, 1, "once is enough");
    assert_eq!(
        rig.endpoint.usage().buffers,
        held - 2,
        "RMB and send buffer"
    );
    assert!(rig.endpoint.conn(first).is_some());
    assert!(rig.nic.qp(link).is_some());
}

#[test]
fn keys_are_not_refused_while_links_change() {
    //= V2-186 test
    //= V2-187 test
    // ADD LINK is out when the client announces an RMB.
    let mut rig = Rig::new(2, |_| {});
    let (_, link, offer) = rig.server_offers();
    let Ok(LlcMessage::AddLink(offer)) = LlcMessage::parse(&offer, SmcVersion::V2) else {
        panic!("ADD LINK was due");
    };
    let announces = |over: u32| {
        bytes(&LlcMessage::ConfirmRkey(ConfirmRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            rtoken: rmb(over),
            other_links: 0,
            others: Default::default(),
        }))
    };
    let refused = RkeyFlags::NEGATIVE.bits();
    rig.receive(link, &announces(2));
    let sent = rig.sent_llc(link);
    assert_eq!((sent[0], sent[3] & refused), (0x26, 0), "taken");

    // It takes the link, and announces that RMB there as well; while CONFIRM LINK is
    // out it announces one more.
    let known = [1, 2].map(|number| RTokenPair {
        reference: rmb(number).rkey,
        new: rmb(number + 0x80),
    });
    rig.receive(link, &extended(add_link(true, offer.link, 1), &known));
    let second = rig.link(1);
    let asked = rig.sent_llc(second);
    rig.receive(link, &announces(3));
    let sent = rig.sent_llc(link);
    assert_eq!((sent[0], sent[3] & refused), (0x26, 0), "taken");
    let reply = ConfirmLink {
        qpn: Qpn::new(0x12),
        mac: conformance::rig::mac(2, 1),
        gid: conformance::rig::gid(2, 1),
        ..confirm_link(true, LinkNumber(asked[29]))
    };
    rig.receive(second, &bytes(&LlcMessage::ConfirmLink(reply)));
    assert!(rig.happened(|event| matches!(event, Event::Established { .. })));
    assert_eq!(rig.endpoint.usage().remote_rmbs, 3);
    assert_eq!(rig.nic.qps().count(), 2, "nothing was lost by it");
}

#[test]
fn a_confirm_of_version_1_behind_an_accept_of_version_2_ends_the_connection() {
    //= CLC-008 test
    let reason = CloseReason::PeerMisbehaved;
    for first in [true, false] {
        let mut rig = Rig::new(1, |_| {});
        if !first {
            let _ = rig.server_up();
        }
        let (conn, accept) = rig.server_accepts(&proposal());
        assert_eq!((accept.first_contact, accept.v2.is_some()), (first, true));
        let rtoken = if first { half().rtoken } else { rmb(2) };
        let confirm = AcceptConfirm {
            first_contact: first,
            rtoken,
            v2: None,
            ..half()
        };
        rig.receive_clc(conn, &ClcMessage::Confirm(confirm));
        assert!(rig.happened(|event| *event == Event::Closed { conn, reason }));
        assert!(
            !rig.happened(
                |event| matches!(event, Event::Established { conn: of, .. } if *of == conn)
            )
        );
    }
}
