//! TEST LINK (RFC 7609 4.5.3, A.3.8).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::llc::{LlcMessage, TestLink};

const IDLE: Duration = Duration::from_secs(30);

#[test]
fn a_silent_link_is_tested_and_an_answer_keeps_it() {
    //= KEEPALIVE-001 test
    //= KEEPALIVE-003 test
    //= LLC-074 test
    let mut s = Script::client();
    s.client_first_contact();
    let mut seen = Vec::new();
    for _ in 0..5 {
        s.wait(IDLE - Duration::from_millis(1));
        s.expect_silence();
        s.wait(Duration::from_millis(1));
        let request = s.expect_test_link();
        check!(s, seen.contains(&request.user_data), false);
        seen.push(request.user_data);
        s.send(Peer::reply_to(&LlcMessage::TestLink(request)));
        s.expect_silence();
    }
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn an_unanswered_test_ends_the_link_and_its_connections() {
    //= CLOSE-041 test
    //= CASE-H18 test
    //= KEEPALIVE-004 test
    //= KEEPALIVE-005 test
    //= TIMER-029 test
    let mut s = Script::server();
    let (a, _) = s.server_first_contact();
    s.wait(IDLE);
    s.expect_test_link();
    s.wait(Duration::from_secs(2));
    s.expect_reset(a, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn anything_received_puts_the_test_off() {
    //= KEEPALIVE-002 test
    //= KEEPALIVE-006 test
    let mut s = Script::client();
    let (_, token) = s.client_first_contact();
    let link = s.link();
    for sequence in 1..10 {
        s.wait(IDLE - Duration::from_secs(1));
        s.send_cdc(link, Peer::cdc(token, sequence, 0, 0));
        s.expect_silence();
    }
    s.wait(IDLE);
    s.expect_test_link();
    s.end();
}

#[test]
fn data_does_not_stand_for_the_answer() {
    //= KEEPALIVE-004 test
    let mut s = Script::client();
    let (_, token) = s.client_first_contact();
    let link = s.link();
    s.wait(IDLE);
    s.expect_test_link();
    s.send_cdc(link, Peer::cdc(token, 1, 0, 0));
    s.wait(Duration::from_secs(2));
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn an_answer_with_other_data_is_link_down() {
    //= CASE-H18 test
    //= CASE-G11 test
    //= LLC-076 test
    let mut s = Script::client();
    let (conn, _) = s.client_first_contact();
    s.wait(IDLE);
    let request = s.expect_test_link();
    let mut user_data = request.user_data;
    user_data[15] ^= 1;
    let reply = true;
    s.send(LlcMessage::TestLink(TestLink { reply, user_data }));
    s.expect_transcript(&["Closed"]);
    s.expect_reset(conn, CloseReason::LinksLost);
    s.end();
}

#[test]
fn an_unsolicited_answer_is_dropped() {
    let mut s = Script::client();
    s.client_first_contact();
    s.send(Peer::test_link(7, true));
    s.expect_silence();
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn a_test_of_the_peer_is_echoed_at_once_in_every_state() {
    //= LLC-075 test
    //= LLCSER-001 test
    //= LLCSER-006 test
    //= KEEPALIVE-007 test
    let probe = |s: &mut Script, byte| {
        s.send(Peer::test_link(byte, false));
        check!(s, s.expect_test_link_reply().user_data, [byte; 16]);
    };
    let mut s = Script::server();
    let (conn, _) = s.server_asks_to_confirm();
    probe(&mut s, 1);
    s.send(s.peer.confirm_link_reply());
    s.expect_add_link();
    probe(&mut s, 2);
    s.send(s.peer.add_link_rejection());
    s.expect_established(conn);
    probe(&mut s, 3);
    let second = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(second, &proposal);
    s.take_proposal(second);
    let request = s.expect_confirm_rkey();
    probe(&mut s, 4);
    s.send(Peer::reply_to(&LlcMessage::ConfirmRkey(request)));
    s.expect_accept(second);
    s.end();
}

#[test]
fn a_link_without_connections_is_tested_too() {
    //= KEEPALIVE-001 test
    let mut s = Script::client();
    let (conn, _) = s.client_first_contact();
    s.on(conn, |c, now| c.abort(now));
    s.wait(Duration::from_secs(20));
    s.skip();
    s.wait(Duration::from_secs(20));
    s.expect_test_link();
    s.end();
}
