//! Waits of an established group of several links (RFC 7609 C.7, C.7.1).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage};

const SECOND: Duration = Duration::from_secs(1);

// ---- DELETE LINK ----------------------------------------------------------------

#[test]
fn a_clients_request_without_an_answer_is_repeated_on_a_survivor() {
    //= TIMER-023 test
    let (mut s, _, _) = Script::many_link_client(3);
    s.break_link(3);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    // The link that carried it is asked first, see `links_overdue`.
    s.wait_exactly(2 * SECOND);
    s.over(1).expect_test_link();
    s.wait_exactly(2 * SECOND);
    let gone = [(); 2].map(|()| s.over(2).expect_delete_link().link.0);
    check!(s, gone.contains(&1) && gone.contains(&3), true);
    for link in gone {
        s.over(2).send(Peer::delete_link(link));
        s.over(2).expect_delete_link_reply();
        s.skip_hints();
    }
    s.skip();
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}

#[test]
fn a_clients_request_without_an_answer_on_the_last_link_resets_everything() {
    //= TIMER-024 test
    let (mut s, conn, _) = Script::two_link_client();
    s.break_link(2);
    s.over(1).expect_delete_link();
    s.wait_exactly(2 * SECOND);
    s.over(1).expect_test_link();
    s.wait_exactly(2 * SECOND);
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_clients_delete_all_without_an_answer_tries_every_link() {
    //= TIMER-025 test
    let (mut s, conn, _) = Script::many_link_client(3);
    let group = s.group.expect("a group");
    s.endpoint.delete_group(s.now, group);
    s.pump();
    for link in [1, 2, 3] {
        let ask = s.over(link).expect_delete_link();
        check!(s, ask.flags.contains(DeleteLinkFlags::ALL), true);
        s.wait(2 * SECOND);
        // Links that carried it in vain are reported, too; that is not waited for.
        s.skip_delete_requests();
    }
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_servers_deletion_without_an_answer_is_repeated_on_a_survivor() {
    //= CASE-G06 test
    //= TIMER-027 test
    let (mut s, _, _) = Script::many_link_server(3);
    s.break_link(3);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    s.wait_exactly(2 * SECOND);
    s.over(1).expect_test_link();
    s.wait_exactly(2 * SECOND);
    let first = s.over(2).expect_delete_link();
    s.agree(2, first);
    let second = s.over(2).expect_delete_link();
    let gone = [first.link.0, second.link.0];
    check!(s, gone.contains(&1) && gone.contains(&3), true);
    s.agree(2, second);
    s.end();
}

#[test]
fn a_servers_deletion_without_an_answer_on_the_last_link_resets_everything() {
    //= CASE-G06 test
    //= TIMER-027 test
    let (mut s, conn, _) = Script::two_link_server();
    s.break_link(2);
    s.over(1).expect_delete_link();
    s.wait_exactly(2 * SECOND);
    s.over(1).expect_test_link();
    s.wait_exactly(2 * SECOND);
    s.expect_reset(conn, CloseReason::LinksLost);
    s.end();
}

#[test]
fn a_servers_delete_all_that_does_not_leave_ends_all_the_same() {
    //= TIMER-026 test
    let (mut s, conn, _) = Script::many_link_server(3);
    s.adapter.hold = Some(conformance::script::Kind::Send);
    let group = s.group.expect("a group");
    s.endpoint.delete_group(s.now, group);
    s.pump();
    for _ in 0..3 {
        s.wait(2 * SECOND);
    }
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 0);
    s.skip();
    s.end();
}

// ---- CONFIRM RKEY, DELETE RKEY, TEST LINK ----------------------------------------

#[test]
fn confirm_rkey_without_an_answer_fails_its_link_and_starts_again_on_another() {
    //= CASE-D19 test
    //= TIMER-028 test
    //= LLC-080 test
    let (mut s, _, _) = Script::two_link_client();
    s.over(1).send(Peer::confirm_rkey_on(1, 2, &[2]));
    s.over(1).expect_confirm_rkey_reply();
    let conn = s.client_wants_rmb(2);
    s.over(1).expect_confirm_rkey();
    s.wait_exactly(2 * SECOND);
    check!(s, s.over(2).expect_delete_link().link.0, 1);
    let again = s.over(2).expect_confirm_rkey();
    check!(s, again.other_links, 0);
    s.over(2)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
    s.expect_confirm(conn);
    s.end();
}

#[test]
fn a_continuation_without_an_answer_fails_its_link_too() {
    //= TIMER-028 test
    let (mut s, _, _) = Script::many_link_client(4);
    s.over(1).send(Peer::confirm_rkey_on(1, 2, &[2, 3, 4]));
    s.over(1).expect_confirm_rkey_reply();
    s.over(1).send(Peer::rkey_continuation(2, &[4]));
    s.over(1).expect_rkey_continuation_reply();
    let conn = s.client_wants_rmb(2);
    let request = LlcMessage::ConfirmRkey(s.over(1).expect_confirm_rkey());
    s.over(1).send(Peer::reply_to(&request));
    s.over(1).expect_rkey_continuation();
    s.wait_exactly(2 * SECOND);
    s.over(2).expect_delete_link();
    let again = LlcMessage::ConfirmRkey(s.over(2).expect_confirm_rkey());
    s.over(2).send(Peer::reply_to(&again));
    s.expect_confirm(conn);
    s.end();
}

#[test]
fn test_link_without_an_answer_fails_its_link_only() {
    //= TIMER-029 test
    //= KEEPALIVE-004 test
    //= KEEPALIVE-003 test
    let (mut s, conn, _) = Script::two_link_server();
    s.wait(30 * SECOND);
    let one = LlcMessage::TestLink(s.over(1).expect_test_link());
    s.over(2).expect_test_link();
    s.over(1).send(Peer::reply_to(&one));
    s.wait_exactly(2 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();
}

#[test]
fn waits_of_an_established_group_may_be_shorter_than_those_of_the_first_contact() {
    //= TIMER-006 test
    let s = Script::client();
    let t = s.endpoint.config().timeouts;
    check!(s, t.llc_reply < t.confirm_link_request, true);
}
