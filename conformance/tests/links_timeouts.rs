//! Waits of an established group and of further links (RFC 7609 C.7, C.7.1).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::config::OnSilence;
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// Lets `time` pass less a millisecond, in which nothing happens, then the rest.
fn wait_exactly(s: &mut Script, time: Duration) {
    s.wait(time - MILLI);
    s.expect_silence();
    s.wait(MILLI);
}

fn agree(s: &mut Script, over: u8, own: DeleteLink) {
    s.over(over)
        .send(LlcMessage::DeleteLink(DeleteLink { reply: true, ..own }));
}

/// A server of an established group of two links that offers a third one over link 1.
fn server_adding() -> (Script, ConnId) {
    let mut s = Script::with(|config| config.max_links = 3).rnics(2);
    let (conn, _) = s.server_asks_to_confirm();
    s.send(Peer::confirms_with(1, 1, |m| m.max_links = 3));
    s.expect_add_link();
    s.peer_joins(1, 2, 2, &[1]);
    s.expect_established(conn);
    s.port_up(3);
    check!(s, s.over(1).expect_add_link().link.0, 3);
    s.link_events.clear();
    (s, conn)
}

/// A client of an established group of two links that took the offer of a third
/// one over link 1.
fn client_joining() -> (Script, ConnId) {
    let mut s = Script::with(|config| config.max_links = 3).rnics(3);
    let (conn, _) = s.client_confirms();
    let ask = s.peer.confirm_link_with(|m| m.max_links = 3);
    s.send(ask);
    s.expect_confirm_link_reply();
    s.peer_adds(1, 2, 2, &[1]);
    s.expect_established(conn);
    s.skip_hints();
    s.over(1).send(Peer::offer(3, 3));
    s.over(1).expect_add_link_reply();
    s.link_events.clear();
    (s, conn)
}

// ---- The server adds a link to an established group -------------------------

#[test]
fn without_an_answer_to_add_link_the_new_link_is_deleted_and_tried_again_later() {
    //= TIMER-015 test
    //= LINK-049 test
    let (mut s, _) = server_adding();
    wait_exactly(&mut s, 2 * SECOND);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 3);
    check!(s, s.adapter.queue_pairs(), 2);
    // The carrying link is known to work as soon as that is answered.
    agree(&mut s, 1, own);
    s.expect_silence();
    s.expect_no_link_event();
    s.pass(28 * SECOND - MILLI, &[1, 2]);
    s.expect_silence();
    s.pass(2 * SECOND + MILLI, &[1, 2]);
    s.over(1).expect_add_link();
    s.end();
}

#[test]
fn a_carrier_on_which_neither_add_link_nor_delete_link_is_answered_has_failed() {
    //= TIMER-015 test
    //= TIMER-027 test
    let (mut s, conn) = server_adding();
    s.wait(2 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    wait_exactly(&mut s, 2 * SECOND);
    // Both links are deleted over the survivor, on which data goes on.
    let first = s.over(2).expect_delete_link();
    let mut gone = vec![first.link.0];
    agree(&mut s, 2, first);
    let second = s.over(2).expect_delete_link();
    gone.push(second.link.0);
    agree(&mut s, 2, second);
    gone.sort_unstable();
    check!(s, gone, vec![1, 3]);
    s.expect_link_down(1);
    s.skip();
    s.write(conn, 5);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn without_an_answer_to_a_continuation_the_server_gives_the_new_link_up() {
    //= TIMER-020 test
    let (mut s, _) = server_adding();
    s.over(1).send(Peer::takes(3, 3));
    s.over(1).expect_continuation();
    wait_exactly(&mut s, 2 * SECOND);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 3);
    agree(&mut s, 1, own);
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn without_an_answer_to_confirm_link_the_server_gives_the_new_link_up() {
    //= TIMER-012 test
    //= LINK-049 test
    let (mut s, _) = server_adding();
    s.over(1).send(Peer::takes(3, 3));
    s.peer_answers_continuations(1, 3, &[1]);
    s.over(3).expect_confirm_link();
    wait_exactly(&mut s, 5 * SECOND);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 3);
    check!(s, s.adapter.queue_pairs(), 2);
    agree(&mut s, 1, own);
    s.pass(31 * SECOND, &[1, 2]);
    s.over(1).expect_add_link();
    s.end();
}

#[test]
fn a_confirm_link_reply_that_comes_too_late_is_dropped() {
    let (mut s, _) = server_adding();
    s.over(1).send(Peer::takes(3, 3));
    s.peer_answers_continuations(1, 3, &[1]);
    s.over(3).expect_confirm_link();
    s.wait(5 * SECOND);
    let own = s.over(1).expect_delete_link();
    s.over(3).send(Peer::confirms(3, 3));
    s.expect_silence();
    s.expect_no_link_event();
    agree(&mut s, 1, own);
    s.end();
}

// ---- The first contact --------------------------------------------------------

#[test]
fn a_first_contact_goes_on_with_one_link_if_the_client_falls_silent_in_the_exchange() {
    //= TIMER-020 test
    //= RENDEZVOUS-030 test
    let (mut s, conn, _) = Script::server_offers_second();
    s.over(1).send(Peer::takes(2, 2));
    s.over(1).expect_continuation();
    wait_exactly(&mut s, 2 * SECOND);
    let own = s.over(1).expect_delete_link();
    s.expect_silence();
    agree(&mut s, 1, own);
    s.expect_established(conn);
    s.end();
}

#[test]
fn a_client_whose_second_link_is_not_confirmed_asks_for_its_end_before_data_flows() {
    //= TIMER-017 test
    //= RENDEZVOUS-029 test
    let (mut s, conn, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.peer_asks_continuations(1, 2, &[1]);
    wait_exactly(&mut s, 5 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.expect_silence();
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}

#[test]
fn such_a_client_tells_of_its_port_after_a_pause() {
    //= TIMER-018 test
    let (mut s, conn, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.peer_asks_continuations(1, 2, &[1]);
    s.wait(5 * SECOND);
    s.over(1).expect_delete_link();
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.expect_established(conn);
    s.pass(29 * SECOND, &[1]);
    s.expect_silence();
    s.pass(SECOND, &[1]);
    s.over(1).expect_add_link();
    s.expect_silence();
    // And again, less and less often.
    s.pass(59 * SECOND, &[1]);
    s.expect_silence();
    s.pass(SECOND, &[1]);
    s.over(1).expect_add_link();
    s.end();
}

#[test]
fn such_a_client_whose_server_says_nothing_at_all_breaks_tcp() {
    //= TIMER-024 test
    let (mut s, conn, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.peer_asks_continuations(1, 2, &[1]);
    s.wait(5 * SECOND);
    s.over(1).expect_delete_link();
    wait_exactly(&mut s, 2 * SECOND);
    s.expect_reset(conn, CloseReason::LinksLost);
    s.end();
}

#[test]
fn a_client_to_which_the_server_owes_a_continuation_goes_on_with_one_link() {
    //= TIMER-016 test
    //= TIMER-021 test
    let (mut s, conn, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    wait_exactly(&mut s, 2 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.expect_established(conn);
    s.end();
}

#[test]
fn by_the_rfc_an_exchange_that_stops_in_the_first_contact_breaks_tcp() {
    //= TIMER-016 test
    //= TIMER-020 test
    //= TIMER-021 test
    let reset = |config: &mut smc_proto::config::Config| {
        config.add_link_timeout = OnSilence::Reset;
    };
    let mut s = Script::with(reset).rnics(2);
    let (conn, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    wait_exactly(&mut s, 2 * SECOND);
    s.expect_reset(conn, CloseReason::RendezvousFailed);
    s.end();

    let mut s = Script::with(reset).rnics(2);
    let (conn, _) = s.server_adds_link();
    s.over(1).send(Peer::takes(2, 2));
    s.over(1).expect_continuation();
    wait_exactly(&mut s, 2 * SECOND);
    s.expect_reset(conn, CloseReason::RendezvousFailed);
    s.end();
}

// ---- The client joins a link of an established group --------------------------

#[test]
fn a_client_that_waits_for_confirm_link_in_vain_asks_for_the_end_of_the_link() {
    //= TIMER-019 test
    let (mut s, conn) = client_joining();
    s.peer_asks_continuations(1, 3, &[1]);
    wait_exactly(&mut s, 5 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    check!(s, s.adapter.queue_pairs(), 2);
    // The carrying link is not to blame.
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.over(1).send(Peer::delete_link(3));
    s.over(1).expect_delete_link_reply();
    s.expect_silence();
    s.pass(30 * SECOND, &[1, 2]);
    s.over(1).expect_add_link();
    s.end();
}

#[test]
fn a_client_to_which_the_server_owes_a_continuation_suspects_the_carrier() {
    //= TIMER-016 test
    //= TIMER-022 test
    let (mut s, _) = client_joining();
    wait_exactly(&mut s, 2 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    // It carries no answer to that either: it has failed.
    wait_exactly(&mut s, 2 * SECOND);
    let gone = [(); 2].map(|()| s.over(2).expect_delete_link().link.0);
    check!(s, gone.contains(&1) && gone.contains(&3), true);
    s.end();
}

// ---- DELETE LINK ----------------------------------------------------------------

#[test]
fn a_clients_request_without_an_answer_is_repeated_on_a_survivor() {
    //= TIMER-023 test
    let (mut s, _, _) = Script::many_link_client(3);
    s.break_link(3);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    wait_exactly(&mut s, 2 * SECOND);
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
    wait_exactly(&mut s, 2 * SECOND);
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
        // Links that carried it in vain are reported, too; nobody waits for that.
        s.skip_delete_requests();
    }
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_servers_deletion_without_an_answer_is_repeated_on_a_survivor() {
    //= TIMER-027 test
    let (mut s, _, _) = Script::many_link_server(3);
    s.break_link(3);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    wait_exactly(&mut s, 2 * SECOND);
    let first = s.over(2).expect_delete_link();
    agree(&mut s, 2, first);
    let second = s.over(2).expect_delete_link();
    let gone = [first.link.0, second.link.0];
    check!(s, gone.contains(&1) && gone.contains(&3), true);
    agree(&mut s, 2, second);
    s.end();
}

#[test]
fn a_servers_deletion_without_an_answer_on_the_last_link_resets_everything() {
    //= TIMER-027 test
    let (mut s, conn, _) = Script::two_link_server();
    s.break_link(2);
    s.over(1).expect_delete_link();
    wait_exactly(&mut s, 2 * SECOND);
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
    //= TIMER-028 test
    //= LLC-080 test
    let (mut s, _, _) = Script::two_link_client();
    let conn = s.client_wants_rmb(2);
    s.over(1).expect_confirm_rkey();
    wait_exactly(&mut s, 2 * SECOND);
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
    let conn = s.client_wants_rmb(2);
    let request = LlcMessage::ConfirmRkey(s.over(1).expect_confirm_rkey());
    s.over(1).send(Peer::reply_to(&request));
    s.over(1).expect_rkey_continuation();
    wait_exactly(&mut s, 2 * SECOND);
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
    wait_exactly(&mut s, 2 * SECOND);
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
