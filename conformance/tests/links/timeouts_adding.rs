//! Waits while a link is added (RFC 7609 C.7.1).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::config::OnSilence;
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

const MILLI: Duration = Duration::from_millis(1);

// ---- The server adds a link to an established group -------------------------

#[test]
fn without_an_answer_to_add_link_the_new_link_is_deleted_and_tried_again_later() {
    //= CASE-G04 test
    //= TIMER-015 test
    //= LINK-049 test
    let (mut s, _) = Script::server_adding_third();
    s.wait_exactly(2 * SECOND);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 3);
    check!(s, s.adapter.queue_pairs(), 2);
    // The carrying link is known to work as soon as that is answered.
    s.agree(1, own);
    s.expect_silence();
    s.expect_no_link_event();
    s.pass(28 * SECOND - MILLI, &[1, 2]);
    s.expect_silence();
    s.pass(2 * SECOND + MILLI, &[1, 2]);
    s.over(1).expect_add_link();
    s.end();
}

#[test]
fn a_carrier_on_which_nothing_at_all_is_answered_has_failed() {
    //= CASE-G04 test
    //= TIMER-015 test
    //= TIMER-027 test
    let (mut s, conn) = Script::server_adding_third();
    s.wait(2 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    s.wait_exactly(2 * SECOND);
    s.over(1).expect_test_link();
    s.wait_exactly(2 * SECOND);
    // Both links are deleted over the survivor, on which data goes on.
    let first = s.over(2).expect_delete_link();
    let mut gone = vec![first.link.0];
    s.agree(2, first);
    let second = s.over(2).expect_delete_link();
    gone.push(second.link.0);
    s.agree(2, second);
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
    let (mut s, _) = Script::server_adding_third();
    s.over(1).send(Peer::takes(3, 3));
    s.over(1).expect_continuation();
    s.wait_exactly(2 * SECOND);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 3);
    s.agree(1, own);
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn without_an_answer_to_confirm_link_the_server_gives_the_new_link_up() {
    //= TIMER-012 test
    //= LINK-049 test
    let (mut s, _) = Script::server_adding_third();
    s.over(1).send(Peer::takes(3, 3));
    s.peer_answers_continuations(1, 3, &[1]);
    s.over(3).expect_confirm_link();
    s.wait_exactly(5 * SECOND);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 3);
    check!(s, s.adapter.queue_pairs(), 2);
    s.agree(1, own);
    s.pass(31 * SECOND, &[1, 2]);
    s.over(1).expect_add_link();
    s.end();
}

#[test]
fn a_confirm_link_reply_that_comes_too_late_is_dropped() {
    let (mut s, _) = Script::server_adding_third();
    s.over(1).send(Peer::takes(3, 3));
    s.peer_answers_continuations(1, 3, &[1]);
    s.over(3).expect_confirm_link();
    s.wait(5 * SECOND);
    let own = s.over(1).expect_delete_link();
    s.over(3).send(Peer::confirms(3, 3));
    s.expect_silence();
    s.expect_no_link_event();
    s.agree(1, own);
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
    s.wait_exactly(2 * SECOND);
    let own = s.over(1).expect_delete_link();
    s.expect_silence();
    s.agree(1, own);
    s.expect_established(conn);
    s.end();
}

#[test]
fn a_client_whose_second_link_is_not_confirmed_asks_for_its_end_before_data_flows() {
    //= CASE-G03 test
    //= TIMER-017 test
    //= RENDEZVOUS-029 test
    let (mut s, conn, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.peer_asks_continuations(1, 2, &[1]);
    s.wait_exactly(5 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.expect_silence();
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}

#[test]
fn such_a_client_announces_its_port_after_a_pause() {
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
fn such_a_client_whose_server_sends_nothing_at_all_breaks_tcp() {
    //= TIMER-024 test
    let (mut s, conn, _) = Script::client_awaits_second();
    s.over(1).send(Peer::offer(2, 2));
    s.over(1).expect_add_link_reply();
    s.peer_asks_continuations(1, 2, &[1]);
    s.wait(5 * SECOND);
    s.over(1).expect_delete_link();
    s.wait_exactly(2 * SECOND);
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
    s.wait_exactly(2 * SECOND);
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
    s.wait_exactly(2 * SECOND);
    s.expect_reset(conn, CloseReason::RendezvousFailed);
    s.end();

    let mut s = Script::with(reset).rnics(2);
    let (conn, _) = s.server_adds_link();
    s.over(1).send(Peer::takes(2, 2));
    s.over(1).expect_continuation();
    s.wait_exactly(2 * SECOND);
    s.expect_reset(conn, CloseReason::RendezvousFailed);
    s.end();
}

// ---- The client joins a link of an established group --------------------------

#[test]
fn a_client_that_waits_for_confirm_link_in_vain_asks_for_the_end_of_the_link() {
    //= TIMER-019 test
    let (mut s, conn) = Script::client_joining_third();
    s.peer_asks_continuations(1, 3, &[1]);
    s.wait_exactly(5 * SECOND);
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
    let (mut s, _) = Script::client_joining_third();
    s.wait_exactly(2 * SECOND);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    // It carries no answer to that either, nor to TEST LINK: it has failed.
    s.wait_exactly(2 * SECOND);
    s.over(1).expect_test_link();
    s.wait_exactly(2 * SECOND);
    let gone = [(); 2].map(|()| s.over(2).expect_delete_link().link.0);
    check!(s, gone.contains(&1) && gone.contains(&3), true);
    s.end();
}
