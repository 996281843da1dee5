//! DELETE LINK for one of several links (RFC 7609 3.5.5.1.3, 3.5.5.1.4, A.3.4).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::event::{CloseReason, Event};
use smc_proto::time::Duration;
use smc_proto::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};
use smc_proto::wire::types::DeleteLinkReason;

fn agree(s: &mut Script, over: u8, own: DeleteLink) {
    s.over(over)
        .send(LlcMessage::DeleteLink(DeleteLink { reply: true, ..own }));
}

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
    // Until the client agrees the link works on.
    s.write(conn, 10);
    s.over(1).expect_cdc();
    check!(s, s.adapter.queue_pairs(), 2);
    s.expect_no_link_event();
    agree(&mut s, 2, own);
    s.expect_link_down(1);
    let validation = s.over(2).expect_cdc();
    check!(s, validation.sequence, 2);
    s.write(conn, 10);
    check!(s, s.over(2).expect_cdc().producer.count, 30);
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
    agree(&mut s, 1, own);
    s.expect_link_down(2);
    s.over(1).expect_add_link();
    s.write(conn, 5);
    s.over(1).expect_cdc();
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
    agree(&mut s, 2, own);
    s.expect_link_down(1);
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
    agree(&mut s, 1, own);
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
    agree(&mut s, 1, own);
    s.expect_link_down(2);
    s.end();
}

#[test]
fn links_go_one_by_one_and_with_the_last_one_the_group() {
    //= LLC-050 test
    //= LINK-036 test
    let (mut s, conn, _) = Script::many_link_client(4);
    for link in [1, 3, 2] {
        s.over(4).send(Peer::delete_link(link));
        s.skip_hints();
        s.over(4).expect_delete_link_reply();
        s.expect_link_down(link);
    }
    s.skip();
    s.write(conn, 5);
    s.over(4).expect_cdc();
    s.over(4).send(Peer::delete_link(4));
    s.over(4).expect_delete_link_reply();
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn delete_all_takes_every_link() {
    //= LINK-032 test
    //= LINK-033 test
    //= LLC-043 test
    let (mut s, conn, _) = Script::many_link_server(4);
    let group = s.group.expect("a group");
    s.endpoint.delete_group(s.now, group);
    s.pump();
    let own = s.expect_delete_link();
    check!(s, own.flags.contains(DeleteLinkFlags::ALL), true);
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().links, 0);
    s.end();

    let (mut s, conn, _) = Script::many_link_client(4);
    s.over(3).send(Peer::delete_all());
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().links, 0);
    for link in 1..=4 {
        s.expect_link_down(link);
    }
    s.end();
}

#[test]
fn a_link_whose_client_lost_interest_before_it_was_complete_goes_after_it_is() {
    //= LLCSER-009 test
    let (mut s, conn, _) = Script::server_offers_second();
    s.over(1).send(Peer::takes(2, 2));
    s.over(1).send(Peer::delete_link(2));
    s.peer_answers_continuations(1, 2, &[1]);
    s.over(2).expect_confirm_link();
    s.over(2).send(Peer::confirms(2, 2));
    let own = s.expect_delete_link();
    check!(s, own.link.0, 2);
    s.expect_silence();
    agree(&mut s, 1, own);
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 1);
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

#[test]
fn both_sides_deleting_different_links_keep_the_last_one() {
    // The client asks for link 1 while the server deletes link 2: the last link
    // of the group stays, because the server judges the request after its own.
    //= LLCSER-014 test
    let (mut s, conn, _) = Script::two_link_server();
    s.break_link(2);
    let own = s.over(1).expect_delete_link();
    s.over(1).send(Peer::delete_link(1));
    let events = s.take_events();
    let end = Event::Closed {
        conn,
        reason: CloseReason::LinksLost,
    };
    check!(s, events.contains(&end), false);
    agree(&mut s, 1, own);
    s.skip();
    s.run_out();
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}
