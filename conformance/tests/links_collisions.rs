//! Exchanges that meet: every cell of the table of RFC 7609 3.5.5.3.
//!
//! The columns are the exchange under way (adding a link, deleting a link,
//! CONFIRM RKEY), the rows what arrives meanwhile.

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::llc::{ConfirmRkey, DeleteLink, LlcMessage, RkeyFlags};

const LATER: RkeyFlags = RkeyFlags::NEGATIVE.union(RkeyFlags::RETRY);

/// A server of an established group of two links that offers a third one.
fn adding() -> (Script, ConnId) {
    let mut s = Script::with(|config| config.max_links = 3).rnics(2);
    let (conn, _) = s.server_asks_to_confirm();
    s.send(Peer::confirms_with(1, 1, |m| m.max_links = 3));
    s.expect_add_link();
    s.peer_joins(1, 2, 2, &[1]);
    s.expect_established(conn);
    s.port_up(3);
    check!(s, s.over(1).expect_add_link().link.0, 3);
    (s, conn)
}

/// A server that deletes link 3 of three; its exchange is over link 1.
fn deleting() -> (Script, DeleteLink) {
    let (mut s, _, _) = Script::many_link_server(3);
    s.break_link(3);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 3);
    (s, own)
}

fn agree(s: &mut Script, own: DeleteLink) {
    s.over(1)
        .send(LlcMessage::DeleteLink(DeleteLink { reply: true, ..own }));
}

/// A server whose CONFIRM RKEY is out over link 1 of two, for a connection.
fn announcing() -> (Script, ConnId, ConfirmRkey) {
    let mut s = Script::with(|config| config.max_links = 3).rnics(2);
    let (first, _) = s.server_asks_to_confirm();
    s.send(Peer::confirms_with(1, 1, |m| m.max_links = 3));
    s.expect_add_link();
    s.peer_joins(1, 2, 2, &[1]);
    s.expect_established(first);
    s.write(first, 1);
    s.expect_cdc();
    let conn = s.server_wants_rmb();
    let own = s.over(2).expect_confirm_rkey();
    (s, conn, own)
}

fn agreed(s: &mut Script, conn: ConnId, own: ConfirmRkey) {
    s.over(2)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own)));
    s.expect_accept(conn);
}

// ---- TEST LINK: answered at once -------------------------------------------

#[test]
fn test_link_while_a_link_is_added() {
    //= LLCSER-001 test
    //= LLCSER-006 test
    let (mut s, _) = adding();
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
    let (mut s, own) = deleting();
    s.over(1).send(Peer::test_link(1, false));
    s.over(1).expect_test_link_reply();
    agree(&mut s, own);
    s.end();
}

#[test]
fn test_link_while_confirm_rkey_is_out() {
    //= LLCSER-006 test
    let (mut s, conn, own) = announcing();
    s.over(2).send(Peer::test_link(1, false));
    s.over(2).expect_test_link_reply();
    agreed(&mut s, conn, own);
    s.end();
}

// ---- ADD LINK of the client -----------------------------------------------

#[test]
fn a_clients_add_link_while_a_link_is_added_is_ignored() {
    //= LLCSER-007 test
    let (mut s, _) = adding();
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
    let (mut s, own) = deleting();
    s.over(1).send(Peer::hint(4));
    s.expect_silence();
    agree(&mut s, own);
    check!(s, s.over(1).expect_add_link().link.0, 4);
    s.end();
}

#[test]
fn a_clients_add_link_while_confirm_rkey_is_out_waits_for_the_end() {
    //= LLCSER-016 test
    //= LLCSER-021 test
    let (mut s, conn, own) = announcing();
    s.port_up(3);
    s.over(1).send(Peer::hint(3));
    s.expect_silence();
    agreed(&mut s, conn, own);
    check!(s, s.over(1).expect_add_link().link.0, 3);
    s.end();
}

// ---- DELETE LINK of the client, one link ----------------------------------

#[test]
fn a_clients_delete_link_while_a_link_is_added_waits_for_the_end() {
    //= LLCSER-009 test
    //= LLCSER-021 test
    let (mut s, _) = adding();
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
    let (mut s, _) = adding();
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
    let (mut s, own) = deleting();
    s.over(1).send(Peer::delete_link(2));
    s.expect_silence();
    agree(&mut s, own);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.end();
}

#[test]
fn a_clients_delete_link_while_confirm_rkey_is_out_waits_for_the_end() {
    //= LLCSER-018 test
    //= LLCSER-021 test
    let (mut s, conn, own) = announcing();
    s.over(1).send(Peer::delete_link(1));
    s.expect_silence();
    agreed(&mut s, conn, own);
    check!(s, s.over(2).expect_delete_link().link.0, 1);
    s.end();
}

#[test]
fn a_disorderly_delete_link_for_the_carrier_fails_the_exchange_it_carries() {
    //= LLCSER-010 test
    //= LLC-080 test
    let (mut s, conn, own) = announcing();
    let at_once = smc_proto::wire::llc::DeleteLinkFlags::empty();
    s.over(1).send(Peer::delete_link_with(at_once, 2, false));
    // It starts again on the other link, once links do not change any more.
    let request = s.over(1).expect_delete_link();
    check!(s, request.link.0, 2);
    agree(&mut s, request);
    check!(s, s.over(1).expect_add_link().link.0, 3);
    s.over(1).send(Peer::rejects(3));
    let again = s.over(1).expect_confirm_rkey();
    check!(s, again.other_links, 0);
    check!(s, again.rtoken == own.rtoken, false);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
    s.expect_accept(conn);
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
    let (mut s, conn) = adding();
    s.over(1).send(Peer::delete_all());
    check!(s, s.over(1).expect_delete_link().link.0, 0);
    s.expect_reset(conn, CloseReason::LinksLost);
    expect_group_gone(s);
}

#[test]
fn delete_all_of_the_client_while_a_link_is_deleted() {
    //= LLCSER-011 test
    let (mut s, _) = deleting();
    s.over(1).send(Peer::delete_all());
    check!(s, s.over(1).expect_delete_link().link.0, 0);
    expect_group_gone(s);
}

#[test]
fn delete_all_of_the_client_while_confirm_rkey_is_out() {
    //= LLCSER-011 test
    let (mut s, _, _) = announcing();
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

// ---- CONFIRM RKEY of the client ---------------------------------------------

#[test]
fn a_clients_confirm_rkey_while_a_link_is_added_is_refused_for_now() {
    //= LLCSER-012 test
    //= LLCSER-023 test
    //= LLCSER-004 test
    let (mut s, _) = adding();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1]));
    check!(s, s.over(2).expect_confirm_rkey_reply().flags, LATER);
    s.peer_joins(1, 3, 3, &[1]);
    // Recomputed with the new link it is welcome.
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1, 3]));
    check!(
        s,
        s.over(2).expect_confirm_rkey_reply().flags.is_empty(),
        true
    );
    check!(s, s.endpoint.usage().links, 3);
    s.end();
}

#[test]
fn a_clients_confirm_rkey_while_a_link_is_deleted_is_refused_for_now() {
    //= LLCSER-015 test
    //= LLCSER-023 test
    let (mut s, own) = deleting();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1, 3]));
    check!(s, s.over(2).expect_confirm_rkey_reply().flags, LATER);
    agree(&mut s, own);
    s.skip();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1]));
    let reply = s.over(2).expect_confirm_rkey_reply();
    check!(s, reply.flags, LATER);
    s.end();
}

#[test]
fn confirm_rkeys_of_both_sides_do_not_collide() {
    //= LLCSER-005 test
    let (mut s, conn, own) = announcing();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1]));
    check!(
        s,
        s.over(2).expect_confirm_rkey_reply().flags.is_empty(),
        true
    );
    s.expect_silence();
    agreed(&mut s, conn, own);
    s.end();
}

#[test]
fn delete_rkey_of_the_peer_while_confirm_rkey_is_out() {
    //= LLCSER-005 test
    let (mut s, conn, own) = announcing();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1]));
    s.over(2).expect_confirm_rkey_reply();
    s.over(1).send(Peer::delete_rkey_on(1, &[7]));
    check!(
        s,
        s.over(1).expect_delete_rkey_reply().flags.is_empty(),
        true
    );
    agreed(&mut s, conn, own);
    s.end();
}

// ---- The client, whose CONFIRM RKEY is out ----------------------------------

#[test]
fn a_servers_add_link_while_the_clients_confirm_rkey_is_out() {
    //= LLCSER-017 test
    //= LLC-066 test
    //= LLC-064 test
    let mut s = Script::client().rnics(2);
    let (first, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer_with(2, 2, |m| m.link.0 = 0));
    s.over(1).expect_add_link_rejection();
    s.expect_established(first);
    let conn = s.client_wants_rmb(2);
    let own = LlcMessage::ConfirmRkey(s.over(1).expect_confirm_rkey());
    s.over(1).send(Peer::offer(3, 2));
    s.over(1).expect_add_link_reply();
    s.over(1).send(Peer::rkey_reply(&own, LATER));
    s.peer_asks_continuations(1, 3, &[1]);
    s.wait(Duration::from_millis(100));
    s.expect_silence();
    s.over(3).send(Peer::asks(3, 2));
    s.over(3).expect_confirm_link_reply();
    s.wait(Duration::from_millis(100));
    let again = s.over(1).expect_confirm_rkey();
    check!(s, again.other_links, 1);
    check!(s, again.others[0].link.0, 3);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
    s.expect_confirm(conn);
    s.end();
}

#[test]
fn a_servers_delete_link_while_the_clients_confirm_rkey_is_out() {
    //= LLCSER-019 test
    //= LLC-066 test
    let (mut s, _, _) = Script::two_link_client();
    let conn = s.client_wants_rmb(2);
    let own = s.over(1).expect_confirm_rkey();
    check!(s, own.other_links, 1);
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.over(1)
        .send(Peer::rkey_reply(&LlcMessage::ConfirmRkey(own), LATER));
    s.skip_hints();
    s.wait(Duration::from_millis(50));
    let again = s.over(1).expect_confirm_rkey();
    check!(s, again.other_links, 0);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
    s.expect_confirm(conn);
    s.end();
}

#[test]
fn delete_links_for_one_link_that_cross_are_one_deletion() {
    //= LLCSER-020 test
    //= LLC-056 test
    let (mut s, own) = deleting();
    check!(s, own.link.0, 3);
    s.over(1).send(Peer::delete_link(3));
    s.expect_silence();
    agree(&mut s, own);
    s.over(1).expect_add_link();
    check!(s, s.endpoint.usage().links, 3);
    s.end();

    let (mut s, _, _) = Script::two_link_client();
    s.break_link(2);
    s.over(1).expect_delete_link();
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.skip_hints();
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}

#[test]
fn an_own_exchange_waits_until_the_link_is_added() {
    //= LLCSER-002 test
    //= LLCSER-003 test
    //= LLCSER-022 test
    let (mut s, _) = adding();
    let conn = s.server_wants_rmb();
    s.expect_silence();
    s.peer_joins(1, 3, 3, &[1]);
    let own = s.expect_confirm_rkey();
    check!(s, own.other_links, 2);
    check!(s, s.endpoint.conn(conn).is_some(), true);
    s.end();
}
