//! Exchanges that meet (RFC 7609 3.5.5.3): CONFIRM RKEY and DELETE RKEY while
//! links change, and links that change while CONFIRM RKEY is out.

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::time::Duration;
use smc_proto::wire::llc::{LlcMessage, RkeyFlags};

const LATER: RkeyFlags = RkeyFlags::NEGATIVE.union(RkeyFlags::RETRY);

// ---- CONFIRM RKEY of the client ---------------------------------------------

#[test]
fn a_clients_confirm_rkey_while_a_link_is_added_is_refused_for_now() {
    //= LLCSER-012 test
    //= LLCSER-023 test
    //= LLCSER-004 test
    let (mut s, _) = Script::server_adding_third();
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
    let (mut s, own) = Script::server_deleting_third();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1, 3]));
    check!(s, s.over(2).expect_confirm_rkey_reply().flags, LATER);
    s.agree(1, own);
    s.skip();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1]));
    let reply = s.over(2).expect_confirm_rkey_reply();
    check!(s, reply.flags, LATER);
    s.end();
}

#[test]
fn confirm_rkeys_of_both_sides_do_not_collide() {
    //= LLCSER-005 test
    let (mut s, conn, own) = Script::server_announcing();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1]));
    check!(
        s,
        s.over(2).expect_confirm_rkey_reply().flags.is_empty(),
        true
    );
    s.expect_silence();
    s.agree_to_announcement(conn, own);
    s.end();
}

#[test]
fn delete_rkey_of_the_peer_while_confirm_rkey_is_out() {
    //= LLCSER-005 test
    let (mut s, conn, own) = Script::server_announcing();
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1]));
    s.over(2).expect_confirm_rkey_reply();
    s.over(1).send(Peer::delete_rkey_on(1, &[7]));
    check!(
        s,
        s.over(1).expect_delete_rkey_reply().flags.is_empty(),
        true
    );
    s.agree_to_announcement(conn, own);
    s.end();
}

#[test]
fn a_confirm_rkey_that_was_written_before_a_link_came_up_costs_it_nothing() {
    // It takes its time on link 2, while link 3 is agreed on over link 1.
    //= LLC-066 test
    //= LLC-069 test
    //= RMB-010 test
    let (mut s, _) = Script::server_adding_third();
    s.peer_joins(1, 3, 3, &[1]);
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1]));
    let flags = s.over(2).expect_confirm_rkey_reply().flags;
    check!(s, flags.is_empty(), true);
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 3);
    // Once the client has received the new link it announces the RMB on it.
    s.over(2).send(Peer::confirm_rkey_on(2, 7, &[1, 3]));
    let flags = s.over(2).expect_confirm_rkey_reply().flags;
    check!(s, flags.is_empty(), true);
    check!(s, s.endpoint.usage().remote_rmbs, 2);
    // Nothing is in flight as long as that: now it announces that link 3 is gone.
    s.wait(Duration::from_secs(2));
    s.over(2).send(Peer::confirm_rkey_on(2, 8, &[1]));
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    s.over(2).expect_confirm_rkey_reply();
    s.end();
}

#[test]
fn a_servers_confirm_rkey_that_was_written_before_a_link_came_up_costs_it_nothing() {
    //= LLC-066 test
    //= LLC-069 test
    let (mut s, _) = Script::client_joining_third();
    s.peer_asks_continuations(1, 3, &[1]);
    s.over(3).send(Peer::asks(3, 3));
    s.over(3).expect_confirm_link_reply();
    s.skip_hints();
    // The server has not seen that answer yet.
    s.over(1).send(Peer::confirm_rkey_on(1, 7, &[2]));
    let flags = s.over(1).expect_confirm_rkey_reply().flags;
    check!(s, flags.is_empty(), true);
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 3);
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
    //= CASE-H17 test
    //= LLCSER-020 test
    //= LLC-056 test
    let (mut s, own) = Script::server_deleting_third();
    check!(s, own.link.0, 3);
    s.over(1).send(Peer::delete_link(3));
    s.expect_silence();
    s.agree(1, own);
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
    let (mut s, _) = Script::server_adding_third();
    let conn = s.server_wants_rmb();
    s.expect_silence();
    s.peer_joins(1, 3, 3, &[1]);
    let own = s.expect_confirm_rkey();
    check!(s, own.other_links, 2);
    check!(s, s.endpoint.conn(conn).is_some(), true);
    s.end();
}

#[test]
fn a_deletion_that_the_client_asks_for_waits_until_the_keys_are_agreed_on() {
    //= LLCSER-002 test
    //= LLCSER-022 test
    let (mut s, conn, keys) = Script::server_announcing();
    s.over(1).send(Peer::delete_link(1));
    s.expect_silence();
    s.agree_to_announcement(conn, keys);
    let own = s.over(2).expect_delete_link();
    check!(s, (own.reply, own.link.0), (false, 1));
    s.agree(2, own);
    s.expect_link_down(1);
    s.end();
}
