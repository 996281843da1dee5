//! Where code written from the RFC fails against deployed peers: LLC, CDC and the end of
//! things. The numbers are those of docs/smc-v2.md, chapter 14.

use conformance::rig::linux::{
    QPN, add_link, bytes, confirm_link, extended, half, proposal, rejection, rmb,
};
use conformance::rig::{Rig, gid, mac};
use smc_proto::config::Offers;
use smc_proto::endpoint::TcpEvent;
use smc_proto::event::Event;
use smc_proto::path::{PathEvent, RoceVersion};
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::{
    ConfirmRkey, DeleteLink, DeleteLinkFlags, LinkRToken, LlcMessage, RTokenPair, RequestAddLink,
    RkeyFlags,
};
use smc_proto::wire::types::{
    AlertToken, Cursor, DeleteLinkReason, DiagnosisCode, LinkNumber, RKey, RToken,
};

fn established(rig: &Rig) -> bool {
    rig.happened(|event| matches!(event, Event::Established { .. }))
}

fn parse(bytes: &[u8]) -> LlcMessage<'_> {
    LlcMessage::parse(bytes, SmcVersion::V2).expect("what is emitted can be read")
}

/// CONFIRM RKEY of the peer for an RMB on one link.
fn confirm_rkey(rtoken: RToken) -> Vec<u8> {
    bytes(&LlcMessage::ConfirmRkey(ConfirmRkey {
        reply: false,
        flags: RkeyFlags::empty(),
        rtoken,
        other_links: 0,
        others: Default::default(),
    }))
}

#[test]
fn trap_01_lengths_and_counts_have_the_order_of_the_peers_machine() {
    //= CASE-D04 test
    //= V2-151 test
    //= V2-155 test
    // All messages of the peer in these tests are little-endian.
    let mut rig = Rig::new(2, |_| {});
    let (_, link, offer) = rig.server_offers();
    assert_eq!(offer[1..3], [0, 72 + 16], "big-endian, one RMB");
    assert_eq!(offer[70..72], [1, 1], "the count in both octets");
    let LlcMessage::AddLink(message) = parse(&offer) else {
        panic!("ADD LINK was due");
    };
    // The count of Linux is that of connections, and may exceed the entries.
    let known = RTokenPair {
        reference: rmb(1).rkey,
        new: RToken {
            rkey: RKey(0x999),
            address: 0x42,
        },
    };
    let mut reply = extended(add_link(true, message.link, 1), &[known]);
    reply[70] = 7;
    rig.receive(link, &reply);
    let second = rig.link(1);
    let sent = rig.sent_llc(second);
    assert!(matches!(parse(&sent), LlcMessage::ConfirmLink(_)));
}

#[test]
fn trap_12_confirm_link_comes_some_milliseconds_later_and_once() {
    //= V2-181 test
    //= V2-182 test
    let mut rig = Rig::new(1, |_| {});
    let (conn, _) = rig.server_accepts(&proposal());
    rig.receive_clc(conn, &ClcMessage::Confirm(half()));
    rig.wait(Duration::from_millis(2));
    assert!(rig.llc.is_empty(), "not at once");
    rig.wait(Duration::from_secs(10));
    assert_eq!(rig.llc.len(), 1, "and once");
    match rig.sent_clc() {
        ClcMessage::Decline(decline) => {
            assert_eq!(decline.diagnosis, DiagnosisCode::TIMEOUT_CONFIRM_LINK);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_client_waits_for_confirm_link_and_then_for_a_decline() {
    //= V2-182 test
    let mut rig = Rig::new(1, |_| {});
    let _ = rig.client_confirms(half());
    rig.clc.clear();
    rig.wait(Duration::from_millis(4_900));
    assert!(rig.clc.is_empty(), "the server may still decline");
    rig.wait(Duration::from_millis(200));
    match rig.sent_clc() {
        ClcMessage::Decline(decline) => {
            assert_eq!(decline.diagnosis, DiagnosisCode::TIMEOUT_CONFIRM_LINK);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn trap_13_a_server_with_one_link_answers_so_or_offers_another_one() {
    //= V2-183 test
    let mut rig = Rig::new(1, |_| {});
    rig.server_offers();
    assert!(!established(&rig), "it offers one with a single port, too");
    let mut rig = Rig::new(1, |config| config.max_links = 1);
    let (conn, accept) = rig.server_accepts(&proposal());
    assert_eq!(accept.v2.unwrap().extension.max_links, 1);
    let mut confirm = half();
    confirm.v2.as_mut().unwrap().extension.max_links = 1;
    rig.receive_clc(conn, &ClcMessage::Confirm(confirm));
    rig.wait(Duration::from_millis(10));
    let link = rig.link(0);
    let sent = rig.sent_llc(link);
    assert_eq!(sent[34..36], [1, 255], "CONFIRM LINK has the limits");
    let reply = confirm_link(true, LinkNumber(sent[29]));
    rig.receive(link, &bytes(&LlcMessage::ConfirmLink(reply)));
    assert!(established(&rig) && rig.llc.is_empty());
    // A client does not wait for what cannot come.
    let mut accept = half();
    accept.v2.as_mut().unwrap().extension.max_links = 1;
    let mut rig = Rig::new(2, |_| {});
    let (_, link, _) = rig.client_confirms(accept);
    let request = confirm_link(false, LinkNumber(1));
    rig.receive(link, &bytes(&LlcMessage::ConfirmLink(request)));
    assert!(established(&rig));
    // For what can, it does.
    let mut rig = Rig::new(2, |_| {});
    let (_, link, _) = rig.client_confirms(half());
    rig.receive(link, &bytes(&LlcMessage::ConfirmLink(request)));
    assert!(!established(&rig));
}

#[test]
fn trap_14_an_offer_of_the_same_port_is_rejected_at_once() {
    //= V2-154 test
    //= V2-184 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.client_answers();
    rig.receive(link, &extended(add_link(false, LinkNumber(2), 0), &[]));
    let sent = rig.sent_llc(link);
    assert_eq!((sent.len(), sent[0], sent[3]), (44, 0x22, 0xc0));
    assert!(established(&rig));
    // With a limit of one link, whatever is offered.
    let mut accept = half();
    accept.v2.as_mut().unwrap().extension.max_links = 1;
    let mut rig = Rig::new(2, |_| {});
    let (_, link, _) = rig.client_confirms(accept);
    let request = confirm_link(false, LinkNumber(1));
    rig.receive(link, &bytes(&LlcMessage::ConfirmLink(request)));
    let _ = rig.sent_llc(link);
    rig.receive(link, &extended(add_link(false, LinkNumber(2), 1), &[]));
    assert_eq!(rig.sent_llc(link)[3], 0xc0);
}

#[test]
fn trap_15_keys_are_answered_during_a_rendezvous_and_requests_for_links_always() {
    //= V2-186 test
    //= V2-188 test
    //= V2-189 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.client_up();
    rig.connect();
    rig.receive(link, &confirm_rkey(rmb(2)));
    let sent = rig.sent_llc(link);
    assert_eq!((sent[0], sent[3], sent[4]), (0x26, 0x80, 0));
    // With one port there is no link to add, which is an answer as well.
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.server_up();
    let request = |rig: &mut Rig| {
        let gids = [gid(2, 1), gid(2, 0)];
        let request = LlcMessage::RequestAddLink(RequestAddLink {
            reply: false,
            rejected: false,
            gids: gids.as_slice().into(),
        });
        let link = rig.link(0);
        rig.receive(link, &bytes(&request));
    };
    request(&mut rig);
    let sent = rig.sent_llc(link);
    match parse(&sent) {
        LlcMessage::AddLink(offer) => {
            // The port of the only link is offered again; a second request during the
            // offer has it for an answer.
            request(&mut rig);
            assert!(rig.llc.is_empty());
            // That was the answer, also if it has no effect.
            rig.receive(link, &rejection(offer));
            assert!(rig.llc.is_empty(), "{:02x?}", rig.llc);
        }
        other => panic!("{other}"),
    }
    // Without a queue pair for it there is none to offer, which is answered, too.
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.server_up();
    rig.creates = false;
    request(&mut rig);
    let sent = rig.sent_llc(link);
    assert_eq!((sent.len(), sent[0], sent[3] & 0x80), (44, 0x25, 0x80));
    // While another exchange is going on, the answer is that there is none now.
    let mut rig = Rig::new(2, |_| {});
    let (conn, link, offer) = rig.server_offers();
    let LlcMessage::AddLink(offer) = parse(&offer) else {
        panic!("ADD LINK was due");
    };
    rig.receive(link, &extended(add_link(true, offer.link, 1), &[]));
    let second = rig.link(1);
    let _ = rig.sent_llc(second);
    request(&mut rig);
    let sent = rig.sent_llc(link);
    assert_eq!((sent.len(), sent[0], sent[3] & 0x80), (44, 0x25, 0x80));
    let _ = conn;
}

#[test]
fn trap_15_our_client_asks_for_a_link_with_the_gid_it_has() {
    //= V2-158 test
    //= V2-188 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.client_up();
    let spare = Rig::new(2, |_| {}).paths[1];
    rig.paths.push(spare);
    rig.endpoint.handle_path(rig.now, PathEvent::PortUp(spare));
    rig.pump();
    let sent = rig.sent_llc(link);
    let LlcMessage::RequestAddLink(request) = parse(&sent) else {
        panic!("REQUEST ADD LINK was due: {sent:?}");
    };
    assert_eq!(request.gids.iter().collect::<Vec<_>>(), [spare.gid]);
    // It goes on whatever the answer is: a new connection is announced.
    let refused = LlcMessage::RequestAddLink(RequestAddLink {
        reply: true,
        rejected: true,
        gids: (&[][..]).into(),
    });
    rig.receive(link, &bytes(&refused));
    rig.receive(link, &confirm_rkey(rmb(3)));
    assert_eq!(rig.sent_llc(link)[0], 0x26);
}

#[test]
fn trap_16_counts_are_of_other_links_and_there_are_no_continuations() {
    //= V2-162 test
    //= V2-189 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.server_up();
    let unknown = LinkRToken {
        link: LinkNumber(9),
        rtoken: rmb(8),
    };
    let mut message = ConfirmRkey {
        reply: false,
        flags: RkeyFlags::empty(),
        rtoken: rmb(7),
        other_links: 1,
        others: Default::default(),
    };
    message.others.push(unknown).unwrap();
    rig.receive(link, &bytes(&LlcMessage::ConfirmRkey(message)));
    assert_eq!(rig.sent_llc(link)[3] & 0xa0, 0x80, "a positive answer");
    for kind in [0x23, 0x28, 0x05] {
        let mut unknown = [0; 44];
        (unknown[0], unknown[1]) = (kind, 44);
        rig.receive(link, &unknown);
        assert!(rig.llc.is_empty(), "type {kind:#x} is not answered");
    }
    assert_eq!(rig.nic.qps().count(), 1, "nor is the link given up");
    // Types of version 1 are understood.
    //= V2-165 test
    let mut old = confirm_rkey(rmb(2));
    (old[0], old[1], old[2]) = (0x06, 44, 0);
    rig.receive(link, &old);
    assert_eq!(rig.sent_llc(link)[0], 0x26);
}

#[test]
fn trap_17_elements_count_from_1_and_have_no_eye_catcher() {
    //= V2-192 test
    let mut rig = Rig::new(1, |_| {});
    let (_, accept) = rig.server_accepts(&proposal());
    assert_eq!(accept.rmbe_index.0, 1);
    let mut rig = Rig::new(1, |_| {});
    let (_, _, request) = rig.server_asks();
    assert!(request.announces_no_eye_catcher());
}

#[test]
fn trap_18_receives_are_large_and_one_large_message_is_under_way() {
    //= V2-163 test
    //= V2-164 test
    let mut rig = Rig::new(2, |_| {});
    rig.completes = false;
    let (conn, accept) = rig.server_accepts(&proposal());
    assert!(accept.first_contact);
    rig.receive_clc(conn, &ClcMessage::Confirm(half()));
    rig.wait(Duration::from_millis(10));
    let link = rig.link(0);
    assert_eq!(rig.nic.qp(link).unwrap().receive_size, 44 + 8148);
    let sent = rig.sent_llc(link);
    let reply = confirm_link(true, LinkNumber(sent[29]));
    rig.receive(link, &bytes(&LlcMessage::ConfirmLink(reply)));
    let first = rig.sent_llc(link);
    assert!(first.len() > 44);
    // It is rejected before its SEND is known to be complete; the next offer waits.
    let LlcMessage::AddLink(offer) = parse(&first) else {
        panic!("ADD LINK was due");
    };
    rig.receive(link, &rejection(offer));
    rig.endpoint
        .handle_path(rig.now, PathEvent::PortUp(rig.paths[1]));
    rig.pump();
    assert!(rig.llc.iter().all(|(_, bytes)| bytes.len() == 44));
    rig.complete();
    assert!(rig.llc.iter().any(|(_, bytes)| bytes.len() > 44));
}

#[test]
fn trap_19_the_whole_window_is_used_and_a_blocked_writer_announces_it() {
    let mut rig = Rig::new(1, |_| {});
    let (conn, link) = rig.client_up();
    let _ = link;
    let now = rig.now;
    rig.endpoint
        .conn(conn)
        .unwrap()
        .commit(now, 40_000)
        .unwrap();
    rig.pump();
    let last = rig.cdc.back().expect("a CDC message");
    let cursor = last.producer;
    assert_eq!((cursor.wrap, cursor.count), (1, 0), "all 16384 octets");
    assert!(last.producer_flags.contains(ProducerFlags::WRITER_BLOCKED));
}

fn cdc(conn_token: AlertToken, sequence: u16, count: u32) -> Cdc {
    Cdc {
        sequence,
        alert_token: conn_token,
        producer: Cursor { wrap: 0, count },
        consumer: Cursor::default(),
        producer_flags: ProducerFlags::empty(),
        connection_flags: ConnectionFlags::empty(),
    }
}

#[test]
fn trap_20_unread_data_at_close_is_an_abort_and_tcp_ends_nothing() {
    let mut rig = Rig::new(1, |_| {});
    let (conn, link, confirm) = rig.client_confirms(half());
    let request = confirm_link(false, LinkNumber(1));
    rig.receive(link, &bytes(&LlcMessage::ConfirmLink(request)));
    rig.receive(link, &extended(add_link(false, LinkNumber(2), 0), &[]));
    assert!(established(&rig));
    rig.endpoint.handle_tcp(rig.now, conn, TcpEvent::PeerFin);
    rig.receive(link, &cdc(confirm.alert_token, 1, 100).emit());
    // (Before that message of the server a reset would mean that it did not take the Confirm.)
    rig.endpoint.handle_tcp(rig.now, conn, TcpEvent::PeerReset);
    rig.pump();
    assert!(!rig.happened(|event| matches!(event, Event::Closed { .. })));
    rig.cdc.clear();
    let now = rig.now;
    rig.endpoint.conn(conn).unwrap().abort(now);
    rig.pump();
    let last = rig.cdc.back().expect("a CDC message");
    assert!(
        last.connection_flags
            .contains(ConnectionFlags::ABNORMAL_CLOSE)
    );
}

#[test]
fn trap_21_data_before_the_confirm_is_kept() {
    //= V2-215 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.server_up();
    let conn = rig.listen();
    rig.receive_clc(conn, &ClcMessage::Proposal(proposal()));
    // The RMB is announced first, then the Accept is sent.
    //= V2-108 test
    assert!(rig.clc.is_empty());
    let sent = rig.sent_llc(link);
    let LlcMessage::ConfirmRkey(mut announced) = parse(&sent) else {
        panic!("CONFIRM RKEY was due");
    };
    announced.reply = true;
    rig.receive(link, &bytes(&LlcMessage::ConfirmRkey(announced)));
    let ClcMessage::Accept(accept) = rig.sent_clc() else {
        panic!("an Accept was due");
    };
    assert!(!accept.first_contact);
    rig.receive(link, &confirm_rkey(rmb(2)));
    rig.receive(link, &cdc(accept.alert_token, 1, 64).emit());
    let mut confirm = half();
    confirm.first_contact = false;
    confirm.rtoken = rmb(2);
    rig.receive_clc(conn, &ClcMessage::Confirm(confirm));
    assert!(rig.happened(|event| *event == Event::Readable { conn }));
}

#[test]
fn trap_22_repeated_numbers_and_validations_change_nothing() {
    //= V2-217 test
    let mut rig = Rig::new(1, |_| {});
    let (conn, link, confirm) = rig.client_confirms(half());
    let request = confirm_link(false, LinkNumber(1));
    rig.receive(link, &bytes(&LlcMessage::ConfirmLink(request)));
    rig.receive(link, &extended(add_link(false, LinkNumber(2), 0), &[]));
    let readable = |rig: &mut Rig| rig.endpoint.conn(conn).unwrap().readable().unwrap().len();
    let token = confirm.alert_token;
    rig.receive(link, &cdc(token, 1, 100).emit());
    rig.receive(link, &cdc(token, 1, 100).emit());
    assert_eq!(readable(&mut rig), 100);
    let mut validation = cdc(token, 1, 0);
    validation.producer_flags = ProducerFlags::FAILOVER_VALIDATION;
    rig.receive(link, &validation.emit());
    assert_eq!(readable(&mut rig), 100);
    rig.receive(link, &cdc(token, 2, 40).emit());
    assert_eq!(readable(&mut rig), 100, "a cursor that goes back is kept");
    rig.receive(link, &cdc(token, 3, 150).emit());
    assert_eq!(readable(&mut rig), 150);
}

#[test]
fn trap_24_idle_groups_end_in_order_and_a_server_asks_back() {
    //= V2-193 test
    //= V2-216 test
    let mut rig = Rig::new(1, |_| {});
    let (conn, link) = rig.server_up();
    let now = rig.now;
    rig.endpoint.conn(conn).unwrap().abort(now);
    rig.pump();
    rig.llc.clear();
    // The peer answers what is asked meanwhile, TEST LINK above all.
    for _ in 0..700 {
        rig.wait(Duration::from_secs(1));
        while let Some((_, sent)) = rig.llc.pop_front() {
            if let LlcMessage::DeleteLink(last) = parse(&sent) {
                assert!(
                    last.flags
                        .contains(DeleteLinkFlags::ALL | DeleteLinkFlags::ORDERLY)
                );
                return;
            }
            let mut answer = sent.clone();
            answer[3] |= 0x80;
            if rig.nic.qp(link).is_some() {
                rig.receive(link, &answer);
            }
        }
    }
    panic!("the group never ends");
}

#[test]
fn trap_28_link_number_0_is_no_link_and_all_of_them_are_a_flag() {
    //= V2-161 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.client_up();
    let ask = |flags, number| {
        bytes(&LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            flags,
            link: LinkNumber(number),
            reason: DeleteLinkReason::PROGRAM,
        }))
    };
    rig.receive(link, &ask(DeleteLinkFlags::ORDERLY, 0));
    let sent = rig.sent_llc(link);
    let LlcMessage::DeleteLink(answer) = parse(&sent) else {
        panic!("an answer was due");
    };
    assert_eq!(answer.reason, DeleteLinkReason::UNKNOWN_LINK);
    rig.receive(link, &ask(DeleteLinkFlags::ALL, 0));
    assert!(rig.nic.qps().next().is_none());
}

#[test]
fn trap_30_an_acceptance_has_its_extension_even_without_rmbs() {
    //= V2-156 test
    //= V2-157 test
    let mut rig = Rig::new(2, |_| {});
    let (_, link) = rig.client_answers();
    rig.receive(link, &extended(add_link(false, LinkNumber(2), 1), &[]));
    let sent = rig.sent_llc(link);
    assert_eq!((sent[0], sent[3]), (0x22, 0x80));
    assert!(sent.len() >= 72, "{} octets", sent.len());
    // A bare acceptance of a peer is one as well.
    let mut rig = Rig::new(2, |_| {});
    let (_, link, offer) = rig.server_offers();
    let LlcMessage::AddLink(offer) = parse(&offer) else {
        panic!("ADD LINK was due");
    };
    let bare = &extended(add_link(true, offer.link, 1), &[])[..44];
    rig.receive(link, bare);
    let second = rig.link(1);
    assert_eq!(rig.sent_llc(second)[0], 0x21);
}

#[test]
fn trap_32_crossing_keys_are_both_taken() {
    //= V2-186 test
    //= V2-187 test
    let mut rig = Rig::new(1, |_| {});
    let (_, link) = rig.server_up();
    let conn = rig.listen();
    rig.receive_clc(conn, &ClcMessage::Proposal(proposal()));
    let ours = rig.sent_llc(link);
    assert_eq!((ours[0], ours[3]), (0x26, 0));
    rig.receive(link, &confirm_rkey(rmb(5)));
    assert_eq!(rig.sent_llc(link)[3], 0x80, "positive, though ours is open");
    let LlcMessage::ConfirmRkey(mut answer) = parse(&ours) else {
        panic!("CONFIRM RKEY was due");
    };
    answer.reply = true;
    rig.receive(link, &bytes(&LlcMessage::ConfirmRkey(answer)));
    assert!(matches!(rig.sent_clc(), ClcMessage::Accept(_)));
}

#[test]
fn trap_33_no_add_link_is_all_zeros() {
    //= V2-191 test
    let mut rig = Rig::new(1, |_| {});
    let (_, _, offer) = rig.server_offers();
    assert!(offer[4..44].iter().any(|byte| *byte != 0));
    // Nor is the hint of a client of version 1.
    let mut rig = Rig::new(2, |config| config.offers = Offers::SMCR_V1);
    rig.paths = rig
        .paths
        .iter()
        .map(|path| {
            let mut path = *path;
            path.roce = RoceVersion::V1;
            path
        })
        .collect();
    rig.connect();
    let ClcMessage::Proposal(ours) = rig.sent_clc() else {
        panic!("a Proposal was due");
    };
    assert_ne!((ours.gid, ours.mac), Default::default());
    let _ = (QPN, mac(0, 0));
}
