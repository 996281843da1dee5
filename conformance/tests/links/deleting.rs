//! DELETE LINK for one of several links (RFC 7609 3.5.5.1.3, 3.5.5.1.4, A.3.4).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::time::Duration;
use smc_proto::wire::llc::DeleteLinkFlags;
use smc_proto::wire::types::DeleteLinkReason;

#[test]
fn a_server_deletes_a_link_in_order_and_keeps_it_until_the_answer() {
    //= LLC-045 test
    //= LLC-046 test
    //= LLC-044 test
    //= LLC-050 test
    //= FAILOVER-022 test
    let (mut s, conn, _) = Script::two_link_server();
    s.write(conn, 10);
    s.over(1).expect_cdc();
    let link = s.link_no(1);
    s.endpoint.delete_link(s.now, link);
    s.pump();
    let own = s.expect_delete_link();
    check!(s, (own.link.0, own.reason), (1, DeleteLinkReason::OPERATOR));
    check!(s, own.flags, DeleteLinkFlags::ORDERLY);
    // Until the client agrees the link stays, but nothing new goes over it.
    s.write(conn, 10);
    check!(s, s.adapter.queue_pairs(), 2);
    s.expect_silence();
    s.expect_no_link_event();
    s.agree(2, own);
    s.expect_link_down(1);
    let validation = s.over(2).expect_cdc();
    check!(s, validation.sequence, 1);
    check!(s, s.over(2).expect_cdc().producer.count, 20);
    // What an operator deleted does not come back at once.
    s.expect_silence();
    s.end();
}

#[test]
fn a_client_asks_for_the_end_of_a_link_and_the_server_ends_it() {
    //= LLC-051 test
    //= LINK-047 test
    //= LLC-047 test
    //= LLC-048 test
    let (mut s, conn, _) = Script::two_link_client();
    let link = s.link_no(1);
    s.endpoint.delete_link(s.now, link);
    s.pump();
    let ask = s.expect_delete_link();
    check!(s, (ask.link.0, ask.flags), (1, DeleteLinkFlags::ORDERLY));
    s.write(conn, 10);
    s.over(1).expect_cdc();
    s.over(2).send(Peer::delete_because(1, ask.reason));
    let reply = s.over(2).expect_delete_link_reply();
    check!(s, (reply.link.0, reply.reason), (1, ask.reason));
    s.expect_link_down(1);
    s.over(2).expect_cdc();
    s.expect_silence();
    s.end();
}

#[test]
fn a_client_answers_on_the_link_that_is_deleted_and_only_then_lets_go() {
    //= LLC-011 test
    //= LLC-045 test
    //= LLC-049 test
    let (mut s, conn, _) = Script::two_link_client();
    s.adapter.hold = Some(Kind::Send);
    s.over(2).send(Peer::delete_link(2));
    s.skip_hints();
    s.over(2).expect_delete_link_reply();
    check!(s, s.adapter.links().count(), 2);
    s.release();
    s.expect_link_down(2);
    s.skip_hints();
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();
}

#[test]
fn a_client_whose_answer_does_not_leave_lets_go_after_a_while() {
    //= LLC-049 test
    let (mut s, _, _) = Script::two_link_client();
    s.adapter.hold = Some(Kind::Send);
    s.over(2).send(Peer::delete_link(2));
    s.skip_hints();
    s.over(2).expect_delete_link_reply();
    s.wait(Duration::from_secs(2));
    s.expect_link_down(2);
    s.adapter.hold = None;
    s.end();
}

#[test]
fn an_orderly_request_of_the_client_is_followed() {
    //= LLC-051 test
    //= LLC-052 test
    //= LLC-012 test
    let (mut s, conn, _) = Script::two_link_server();
    s.over(2).send(Peer::delete_link(2));
    let own = s.expect_delete_link();
    check!(s, (own.reply, own.link.0), (false, 2));
    check!(s, own.reason, DeleteLinkReason::PROGRAM);
    s.agree(1, own);
    s.expect_link_down(2);
    s.over(1).expect_add_link();
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();
}

#[test]
fn an_orderly_request_of_the_client_waits_for_data_under_way() {
    //= LLC-052 test
    let (mut s, conn, _) = Script::two_link_server();
    s.adapter.hold = Some(Kind::Send);
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.over(2).send(Peer::delete_link(1));
    s.expect_silence();
    s.release();
    let own = s.expect_delete_link();
    check!(s, own.link.0, 1);
    s.agree(2, own);
    s.end();
}

#[test]
fn a_disorderly_request_of_the_client_is_followed_at_once() {
    //= LLC-053 test
    let (mut s, conn, _) = Script::two_link_server();
    let at_once = DeleteLinkFlags::empty();
    s.over(2).send(Peer::delete_link_with(at_once, 1, false));
    check!(s, s.adapter.links().count(), 1);
    let own = s.over(2).expect_delete_link();
    check!(s, (own.link.0, own.flags), (1, at_once));
    s.write(conn, 5);
    s.over(2).expect_cdc();
    s.agree(2, own);
    s.expect_link_down(1);
    s.end();
}

#[test]
fn a_link_that_is_deleted_in_order_goes_at_once_if_the_client_asks_for_that() {
    //= LLC-053 test
    let (mut s, _, _) = Script::two_link_server();
    s.over(1).send(Peer::delete_link(2));
    let own = s.over(1).expect_delete_link();
    s.over(1).send(Peer::delete_link(2));
    s.expect_silence();
    check!(s, s.adapter.links().count(), 2);
    let at_once = DeleteLinkFlags::empty();
    s.over(1).send(Peer::delete_link_with(at_once, 2, false));
    s.expect_silence();
    check!(s, s.adapter.links().count(), 1);
    s.agree(1, own);
    s.expect_link_down(2);
    s.end();
}

#[test]
fn a_disorderly_deletion_by_the_server_takes_the_link_at_once() {
    //= LLC-047 test
    let (mut s, conn, _) = Script::two_link_client();
    let at_once = DeleteLinkFlags::empty();
    s.over(2).send(Peer::delete_link_with(at_once, 1, false));
    s.over(2).expect_delete_link_reply();
    s.expect_link_down(1);
    s.write(conn, 5);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn a_link_that_was_deleted_is_unknown() {
    //= LLC-055 test
    //= LLC-056 test
    let (mut s, _, _) = Script::two_link_client();
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.skip_hints();
    s.over(1).send(Peer::delete_link(2));
    let reply = s.over(1).expect_delete_link_reply();
    check!(s, reply.reason, DeleteLinkReason::UNKNOWN_LINK);
    s.end();

    let (mut s, _, _) = Script::two_link_server();
    s.over(1).send(Peer::delete_link(2));
    let own = s.expect_delete_link();
    // While it is being cleaned up, asking again is no error.
    s.over(1).send(Peer::delete_link(2));
    s.expect_silence();
    s.agree(1, own);
    s.over(1).expect_add_link();
    s.over(1).send(Peer::delete_link(2));
    let reply = s.over(1).expect_delete_link_reply();
    check!(s, reply.reason, DeleteLinkReason::UNKNOWN_LINK);
    s.end();
}

#[test]
fn a_reply_of_delete_link_for_another_link_is_dropped() {
    //= LLC-046 test
    let (mut s, _, _) = Script::two_link_server();
    s.over(1).send(Peer::delete_link(2));
    let own = s.expect_delete_link();
    s.over(1).send(Peer::delete_link_with(own.flags, 1, true));
    s.over(1).send(Peer::delete_link_with(own.flags, 7, true));
    s.expect_no_link_event();
    s.agree(1, own);
    s.expect_link_down(2);
    s.end();
}

#[test]
fn an_idle_link_of_a_group_is_not_deleted_for_inactivity() {
    //= LINK-046 test
    //= TIMER-031 test
    let (mut s, _, _) = Script::two_link_server();
    s.pass(Duration::from_secs(1800), &[1, 2]);
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}
