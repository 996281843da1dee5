//! Exchanges that meet: the cells of the table of RFC 7609 3.5.5.3.
//!
//! The columns are the exchange in progress (adding a link, deleting a link,
//! CONFIRM RKEY), the rows what arrives meanwhile; here TEST LINK, ADD LINK and
//! DELETE LINK.

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::llc::LlcMessage;

// ---- TEST LINK: answered at once -------------------------------------------

#[test]
fn test_link_while_a_link_is_added() {
    //= LLCSER-001 test
    //= LLCSER-006 test
    let (mut s, _) = Script::server_adding_third();
    s.over(1).send(Peer::test_link(1, false));
    s.over(1).expect_test_link_reply();
    s.over(1).send(Peer::takes(3, 3));
    s.over(1).expect_continuation();
    s.over(2).send(Peer::test_link(2, false));
    s.over(2).expect_test_link_reply();
    s.over(1).send(Peer::continuation(1, 3, &[1], true));
    s.over(3).expect_confirm_link();
    s.over(1).send(Peer::test_link(3, false));
    s.over(1).expect_test_link_reply();
    s.over(3).send(Peer::confirms(3, 3));
    s.expect_silence();
    s.end();
}

#[test]
fn test_link_while_a_link_is_deleted() {
    //= LLCSER-006 test
    let (mut s, own) = Script::server_deleting_third();
    s.over(1).send(Peer::test_link(1, false));
    s.over(1).expect_test_link_reply();
    s.agree(1, own);
    s.end();
}

#[test]
fn test_link_while_confirm_rkey_is_out() {
    //= LLCSER-006 test
    let (mut s, conn, own) = Script::server_announcing();
    s.over(2).send(Peer::test_link(1, false));
    s.over(2).expect_test_link_reply();
    s.agree_to_announcement(conn, own);
    s.end();
}

// ---- ADD LINK of the client -----------------------------------------------

#[test]
fn a_clients_add_link_while_a_link_is_added_is_ignored() {
    //= LLCSER-007 test
    let (mut s, _) = Script::server_adding_third();
    s.over(1).send(Peer::hint(3));
    s.expect_silence();
    s.peer_joins(1, 3, 3, &[1]);
    s.over(1).send(Peer::hint(4));
    s.expect_silence();
    s.end();
}

#[test]
fn a_server_s_add_link_that_crosses_the_clients_is_the_answer_to_it() {
    //= LLCSER-008 test
    //= LINK-045 test
    let mut s = Script::client();
    s.client_first_contact();
    s.port_up(2);
    s.over(1).expect_add_link();
    s.peer_adds(1, 3, 2, &[1]);
    s.pass(Duration::from_secs(100), &[1, 3]);
    s.expect_silence();
    s.end();
}

#[test]
fn a_clients_add_link_while_a_link_is_deleted_waits_for_the_end() {
    //= LLCSER-013 test
    //= LLCSER-021 test
    let (mut s, own) = Script::server_deleting_third();
    s.over(1).send(Peer::hint(4));
    s.expect_silence();
    s.agree(1, own);
    check!(s, s.over(1).expect_add_link().link.0, 4);
    s.end();
}

#[test]
fn a_clients_add_link_while_confirm_rkey_is_out_waits_for_the_end() {
    //= LLCSER-016 test
    //= LLCSER-021 test
    let (mut s, conn, own) = Script::server_announcing();
    s.port_up(3);
    s.over(1).send(Peer::hint(3));
    s.expect_silence();
    s.agree_to_announcement(conn, own);
    check!(s, s.over(1).expect_add_link().link.0, 3);
    s.end();
}

// ---- DELETE LINK of the client, one link ----------------------------------

#[test]
fn a_clients_delete_link_while_a_link_is_added_waits_for_the_end() {
    //= LLCSER-009 test
    //= LLCSER-021 test
    let (mut s, _) = Script::server_adding_third();
    s.over(1).send(Peer::delete_link(2));
    s.expect_silence();
    s.peer_joins(1, 3, 3, &[1]);
    let own = s.expect_delete_link();
    check!(s, own.link.0, 2);
    s.end();
}

#[test]
fn a_clients_delete_link_for_the_link_that_is_added_waits_for_the_end() {
    //= LLCSER-009 test
    let (mut s, _) = Script::server_adding_third();
    s.over(1).send(Peer::takes(3, 3));
    s.over(1).send(Peer::delete_link(3));
    s.peer_answers_continuations(1, 3, &[1]);
    s.over(3).expect_confirm_link();
    s.over(3).send(Peer::confirms(3, 3));
    check!(s, s.expect_delete_link().link.0, 3);
    s.end();
}

#[test]
fn a_clients_delete_link_while_another_link_is_deleted_waits_for_the_end() {
    //= LLCSER-014 test
    //= LLCSER-021 test
    let (mut s, own) = Script::server_deleting_third();
    s.over(1).send(Peer::delete_link(2));
    s.expect_silence();
    s.agree(1, own);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.end();
}

#[test]
fn a_clients_delete_link_while_confirm_rkey_is_out_waits_for_the_end() {
    //= LLCSER-018 test
    //= LLCSER-021 test
    let (mut s, conn, own) = Script::server_announcing();
    s.over(1).send(Peer::delete_link(1));
    s.expect_silence();
    s.agree_to_announcement(conn, own);
    check!(s, s.over(2).expect_delete_link().link.0, 1);
    s.end();
}

#[test]
fn a_disorderly_delete_link_for_the_carrier_fails_the_exchange_it_carries() {
    //= LLCSER-010 test
    //= LLC-080 test
    let (mut s, conn, own) = Script::server_announcing();
    let at_once = smc_proto::wire::llc::DeleteLinkFlags::empty();
    s.over(1).send(Peer::delete_link_with(at_once, 2, false));
    // It starts again on the other link, once links do not change any more.
    let request = s.over(1).expect_delete_link();
    check!(s, request.link.0, 2);
    s.agree(1, request);
    let again = s.over(1).expect_confirm_rkey();
    check!(s, again.other_links, 0);
    check!(s, again.rtoken == own.rtoken, false);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
    s.expect_accept(conn);
    check!(s, s.over(1).expect_add_link().link.0, 3);
    s.end();
}

// ---- DELETE LINK of all: at once -------------------------------------------

fn expect_group_gone(mut s: Script) {
    check!(s, s.endpoint.usage().groups, 0);
    check!(s, s.endpoint.usage().links, 0);
    s.skip();
    s.end();
}

#[test]
fn delete_all_of_the_client_while_a_link_is_added() {
    //= LLCSER-011 test
    let (mut s, conn) = Script::server_adding_third();
    s.over(1).send(Peer::delete_all());
    check!(s, s.over(1).expect_delete_link().link.0, 0);
    s.expect_reset(conn, CloseReason::LinksLost);
    expect_group_gone(s);
}

#[test]
fn delete_all_of_the_client_while_a_link_is_deleted() {
    //= LLCSER-011 test
    let (mut s, _) = Script::server_deleting_third();
    s.over(1).send(Peer::delete_all());
    check!(s, s.over(1).expect_delete_link().link.0, 0);
    expect_group_gone(s);
}

#[test]
fn delete_all_of_the_client_while_confirm_rkey_is_out() {
    //= LLCSER-011 test
    let (mut s, _, _) = Script::server_announcing();
    s.over(1).send(Peer::delete_all());
    check!(s, s.expect_delete_link().link.0, 0);
    expect_group_gone(s);
}

#[test]
fn delete_all_of_the_server_while_a_link_is_added() {
    //= LLCSER-011 test
    //= LINK-033 test
    let (mut s, conn, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.over(1).send(Peer::delete_all());
    s.expect_reset(conn, CloseReason::LinksLost);
    s.expect_silence();
    expect_group_gone(s);
}

#[test]
fn delete_all_of_the_server_while_a_link_is_to_be_deleted() {
    //= LLCSER-011 test
    //= LINK-033 test
    let (mut s, conn, _) = Script::two_link_client();
    s.break_link(2);
    s.over(1).expect_delete_link();
    s.over(1).send(Peer::delete_all());
    s.expect_reset(conn, CloseReason::LinksLost);
    expect_group_gone(s);
}

#[test]
fn delete_all_of_the_server_while_confirm_rkey_is_out() {
    //= LLCSER-011 test
    //= LINK-033 test
    let (mut s, _, _) = Script::two_link_client();
    s.client_wants_rmb(2);
    s.over(1).expect_confirm_rkey();
    s.over(2).send(Peer::delete_all());
    expect_group_gone(s);
}
