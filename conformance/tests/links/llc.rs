//! LLC messages and their order (RFC 7609 3.3, 3.5.5, A.3, C.7.1).

use conformance::check;
use conformance::script::{Peer, Script, Waiting};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{ConfirmLink, ConfirmLinkFlags, LlcMessage, RkeyFlags};
use smc_proto::wire::types::{AddLinkRejectReason, DiagnosisCode, Qpn};

#[test]
fn wrong_link_information_in_confirm_link_is_declined() {
    //= LLC-017 test
    //= LLC-077 test
    //= LINK-013 test
    type Spoil = fn(&mut ConfirmLink);
    let spoils: [Spoil; 6] = [
        |m| m.qpn = Qpn::new(1),
        |m| m.gid.0[15] ^= 1,
        |m| m.mac.0[5] ^= 1,
        |m| m.link.0 = 0,
        |m| m.max_links = 0,
        |m| m.max_links = 1,
    ];
    for spoil in spoils {
        let (mut s, conn) = Waiting::ConfirmLink.reach();
        s.send(s.peer.confirm_link_with(spoil));
        s.expect_clc();
        s.expect_fallback(conn, DiagnosisCode::INTERNAL);
        check!(s, s.endpoint.usage().groups, 0);
        s.end();
    }
}

#[test]
fn wrong_link_information_in_the_reply_is_declined() {
    //= LLC-015 test
    //= LLC-016 test
    type Spoil = fn(&mut ConfirmLink);
    let spoils: [Spoil; 4] = [
        |m| m.qpn = Qpn::new(1),
        |m| m.gid.0[15] ^= 1,
        |m| m.mac.0[5] ^= 1,
        |m| m.link.0 = 2,
    ];
    for spoil in spoils {
        let (mut s, conn) = Waiting::ConfirmLinkReply.reach();
        s.send(Peer::reply_to(&s.peer.confirm_link_with(spoil)));
        s.expect_clc();
        s.expect_fallback(conn, DiagnosisCode::INTERNAL);
        s.end();
    }
}

#[test]
fn a_client_may_leave_its_link_limit_out() {
    //= LINK-014 test
    let (mut s, _) = Waiting::ConfirmLinkReply.reach();
    s.send(Peer::reply_to(
        &s.peer.confirm_link_with(|m| m.max_links = 0),
    ));
    s.expect_add_link();
    s.end();
}

#[test]
fn the_server_numbers_the_link_and_the_client_takes_any_number() {
    //= LINK-025 test
    //= LINK-026 test
    let (mut s, _) = Waiting::ConfirmLink.reach();
    s.send(s.peer.confirm_link_with(|m| m.link.0 = 200));
    check!(s, s.expect_confirm_link_reply().link.0, 200);
    s.end();
}

#[test]
fn data_starts_at_the_eye_catcher_unless_both_sides_have_none() {
    //= RMB-014 test
    //= RMB-020 test
    for (mine, theirs, base) in [
        (false, false, 0),
        (true, false, 4),
        (false, true, 4),
        (true, true, 4),
    ] {
        let mut s = Script::with(|config| config.eye_catcher = mine);
        let (conn, _) = s.client_confirms();
        let flags = match theirs {
            true => ConfirmLinkFlags::empty(),
            false => ConfirmLinkFlags::all(),
        };
        s.send(s.peer.confirm_link_with(|m| m.flags = flags));
        s.expect_confirm_link_reply();
        s.send(s.peer.add_link());
        s.expect_add_link_rejection();
        s.expect_established(conn);
        s.write(conn, 10);
        let (_, cdc) = s.expect_cdc();
        check!(
            s,
            (cdc.producer.count, cdc.consumer.count),
            (base + 10, base)
        );
        if mine {
            s.expect_transcript(&["command Alloc with eye catcher", "-> CLC Confirm"]);
        }
        let rtoken = Peer::rtoken(1);
        check!(s, s.writes[0].1, rtoken.address + u64::from(base));
        s.end();
    }
}

#[test]
fn an_undefined_mtu_in_add_link_is_rejected_as_such() {
    //= LLC-024 test
    //= LLC-025 test
    for code in [0, 6, 15] {
        let (mut s, conn) = Waiting::AddLink.reach();
        s.send(s.peer.add_link_mtu(code));
        let reply = s.expect_add_link_reply();
        check!(s, reply.rejection, Some(AddLinkRejectReason::INVALID_MTU));
        s.expect_established(conn);
        s.end();
    }
}

#[test]
fn a_client_with_one_rnic_rejects_every_further_link() {
    //= LLC-020 test
    //= LINK-039 test
    let mut s = Script::client();
    let (conn, _) = s.client_first_contact();
    for _ in 0..3 {
        s.send(s.peer.add_link());
        check!(s, s.expect_add_link_rejection().link.0, 2);
    }
    s.write(conn, 5);
    s.expect_cdc();
    s.end();
}

#[test]
fn a_clients_add_link_changes_nothing_while_a_link_is_being_added() {
    //= LLC-030 test
    //= LLCSER-007 test
    let (mut s, _) = Waiting::AddLinkReply.reach();
    s.send(s.peer.add_link());
    s.expect_silence();
    s.end();
}

#[test]
fn a_clients_add_link_is_answered_by_a_servers_offer_if_redundancy_is_missing() {
    //= LLC-030 test
    //= LINK-042 test
    //= LINK-024 test
    let (mut s, _) = Waiting::SubsequentConfirm.reach();
    s.send(s.peer.add_link_elsewhere());
    check!(s, s.expect_add_link().link.0, 3);
    s.expect_silence();
    s.end();
}

#[test]
fn only_the_server_confirms_links() {
    //= LLC-014 test
    //= LLC-079 test
    let mut s = Script::server();
    let (conn, _) = s.server_first_contact();
    s.send(s.peer.confirm_link());
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.statistics().violations, 1);
    s.end();
}

#[test]
fn confirm_link_sent_twice_is_answered_once() {
    let (mut s, conn) = Waiting::AddLink.reach();
    s.send(s.peer.confirm_link());
    s.expect_silence();
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    s.expect_established(conn);
    s.end();
}

#[test]
fn every_type_is_handled_ignored_or_an_error() {
    //= CASE-H19 test
    //= CASE-G14 test
    //= LLC-004 test
    //= LLC-005 test
    //= LLC-006 test
    //= LLC-007 test
    //= LLC-008 test
    //= LLC-079 test
    for kind in 0..=255u8 {
        for reply in [0, 0x80] {
            let mut s = Script::client();
            s.client_first_contact();
            let mut bytes = [0; 44];
            (bytes[0], bytes[1], bytes[3]) = (kind, 44, reply);
            // One entry where a message counts its entries.
            if matches!(kind, 8 | 9) {
                bytes[4] = 1;
            }
            let link = s.link();
            s.send_raw(link, &bytes);
            let alive = s.endpoint.usage().groups == 1 && s.endpoint.statistics().violations == 0;
            let stray_reply = reply != 0;
            let expected = match kind {
                0x80..=0xbf | 0xfe => true,
                // Out of turn: CONFIRM LINK and a continuation of nothing.
                1 | 3 => stray_reply,
                2 | 4 | 6..=9 => true,
                _ => false,
            };
            check!(s, (kind, reply, alive), (kind, reply, expected));
            if (0x80..=0xbf).contains(&kind) {
                s.expect_silence();
            }
            s.end();
        }
    }
}

#[test]
fn every_type_at_every_length_costs_its_link_at_most() {
    //= CASE-H19 test
    //= CASE-H10 test
    let (start, [flooded, other]) = Script::two_groups();
    for kind in 0..=255u8 {
        for have in 0..=64usize {
            let mut s = start.clone();
            let mut bytes = [0; 64];
            (bytes[0], bytes[1]) = (kind, 44);
            s.send_raw(flooded.0, &bytes[..have]);
            if s.endpoint.last_steps() > 2_100 {
                s.fail(format_args!("type {kind}, {have} octets"));
            }
            let groups = s.endpoint.usage().groups;
            // What is too short for its type is never taken for a message.
            let is_known = matches!(kind, 1..=4 | 6..=9 | 0xfe);
            let is_optional = have > 0 && (0x80..=0xbf).contains(&kind);
            if is_optional {
                check!(s, (kind, have, groups), (kind, have, 2));
            } else if !is_known || have < 44 {
                check!(s, (kind, have, groups), (kind, have, 1));
            }
            s.skip();
            s.send_cdc(other.0, Peer::cdc(other.2, 1, 9, 0));
            check!(s, s.readable(other.1), 9);
        }
    }
}

#[test]
fn a_wrong_length_byte_is_link_down() {
    //= LLC-001 test
    for length in [0, 43, 45, 255] {
        let mut s = Script::client();
        let (conn, _) = s.client_first_contact();
        let mut bytes = Peer::test_link(1, false)
            .emit_short(SmcVersion::V1)
            .unwrap();
        bytes[1] = length;
        let link = s.link();
        s.send_raw(link, &bytes);
        s.expect_reset(conn, CloseReason::LinksLost);
        s.end();
    }
}

#[test]
fn short_messages_are_link_down() {
    //= LLC-001 test
    for length in [0, 1, 43] {
        for kind in [7, 0xfe] {
            let mut s = Script::client();
            let (conn, _) = s.client_first_contact();
            let mut bytes = [0; 44];
            (bytes[0], bytes[1]) = (kind, 44);
            let link = s.link();
            s.send_raw(link, &bytes[..length]);
            s.expect_reset(conn, CloseReason::LinksLost);
            s.end();
        }
    }
}

#[test]
fn crossing_confirm_rkeys_do_not_collide() {
    //= LLCSER-005 test
    //= LLC-063 test
    let mut s = Script::server();
    s.server_first_contact();
    let conn = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.take_proposal(conn);
    let own = s.expect_confirm_rkey();
    let theirs = Peer::confirm_rkey(5);
    s.send(theirs.clone());
    let reply = s.expect_confirm_rkey_reply();
    check!(s, LlcMessage::ConfirmRkey(reply), Peer::reply_to(&theirs));
    s.expect_silence();
    s.send(Peer::reply_to(&LlcMessage::ConfirmRkey(own)));
    s.expect_accept(conn);
    s.end();
}

#[test]
fn a_refusal_for_now_is_asked_again_a_refusal_is_not() {
    //= LLC-064 test
    //= LLC-067 test
    //= LLC-068 test
    let (mut s, conn) = Waiting::SubsequentAccept.reach();
    s.accept(conn, s.peer.subsequent(2));
    for _ in 0..3 {
        let request = LlcMessage::ConfirmRkey(s.expect_confirm_rkey());
        let later = RkeyFlags::NEGATIVE | RkeyFlags::RETRY;
        s.send(Peer::rkey_reply(&request, later));
        s.expect_silence();
        s.wait(Duration::from_millis(50));
    }
    let request = LlcMessage::ConfirmRkey(s.expect_confirm_rkey());
    s.send(Peer::rkey_reply(&request, RkeyFlags::NEGATIVE));
    s.expect_decline(conn, DiagnosisCode::REGISTER_BUFFER);
    s.wait(Duration::from_secs(1));
    s.expect_silence();
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn an_exchange_waits_for_the_one_before_it() {
    //= LLCSER-002 test
    //= LLCSER-003 test
    //= LLCSER-021 test
    let mut s = Script::client();
    s.client_first_contact();
    let conns = [s.connect(), s.connect()];
    for (conn, rmb) in conns.iter().zip([2, 3]) {
        s.expect_proposal(*conn);
        s.accept(*conn, s.peer.subsequent(rmb));
    }
    let first = LlcMessage::ConfirmRkey(s.expect_confirm_rkey());
    s.expect_silence();
    s.send(Peer::reply_to(&first));
    s.expect_confirm(conns[0]);
    let second = LlcMessage::ConfirmRkey(s.expect_confirm_rkey());
    s.send(Peer::reply_to(&second));
    s.expect_confirm(conns[1]);
    s.end();
}
