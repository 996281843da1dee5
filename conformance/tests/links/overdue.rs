//! DELETE LINK that is not answered in time though the link that carried it works
//! (RFC 7609 C.7.1): a Linux server answers only after its own writes have failed on the
//! link that is to go.

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::time::Duration;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage};
use smc_proto::wire::types::DeleteLinkReason;

const SECOND: Duration = Duration::from_secs(1);

/// The link that carries an overdue request is tested, and the peer answers.
fn tested_and_answered(s: &mut Script, link: u8) {
    s.wait_exactly(2 * SECOND);
    let test = LlcMessage::TestLink(s.over(link).expect_test_link());
    s.over(link).send(Peer::reply_to(&test));
}

#[test]
fn a_client_keeps_the_link_that_works_though_the_server_is_late() {
    //= TIMER-023 test
    let (mut s, conn, _) = Script::two_link_client();
    s.break_link(2);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    tested_and_answered(&mut s, 1);
    s.expect_link_down(2);
    s.skip_hints();
    check!(s, s.endpoint.usage().links, 1);
    s.write(conn, 5);
    s.over(1).expect_cdc();
    // What the server sends at last changes nothing.
    s.pass(10 * SECOND, &[1]);
    s.over(1).send(Peer::delete_link(2));
    let reply = s.over(1).expect_delete_link_reply();
    check!(
        s,
        (reply.link.0, reply.reason),
        (2, DeleteLinkReason::UNKNOWN_LINK)
    );
    s.skip_hints();
    s.pass(60 * SECOND, &[1]);
    s.skip_hints();
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 1);
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();
}

#[test]
fn a_server_keeps_the_link_that_works_though_the_client_is_late() {
    //= TIMER-027 test
    let (mut s, conn, _) = Script::two_link_server();
    s.break_link(2);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 2);
    tested_and_answered(&mut s, 1);
    s.expect_link_down(2);
    // Its exchange is over, and the next one may start.
    s.over(1).expect_add_link();
    s.agree(1, own);
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 2);
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();
}

#[test]
fn an_answer_that_comes_before_that_of_the_test_is_taken() {
    //= TIMER-023 test
    //= TIMER-027 test
    let (mut s, _, _) = Script::two_link_client();
    s.break_link(2);
    s.over(1).expect_delete_link();
    s.wait_exactly(2 * SECOND);
    let test = LlcMessage::TestLink(s.over(1).expect_test_link());
    let answer = Peer::delete_link_with(DeleteLinkFlags::empty(), 2, false);
    s.over(1).send(answer);
    let reply = s.over(1).expect_delete_link_reply();
    check!(s, reply.reason == DeleteLinkReason::UNKNOWN_LINK, false);
    s.expect_link_down(2);
    s.over(1).send(Peer::reply_to(&test));
    s.skip_hints();
    s.pass(29 * SECOND, &[1]);
    s.skip_hints();
    s.expect_silence();
    s.end();

    let (mut s, _, _) = Script::two_link_server();
    s.break_link(2);
    let own = s.over(1).expect_delete_link();
    s.wait_exactly(2 * SECOND);
    let test = LlcMessage::TestLink(s.over(1).expect_test_link());
    s.agree(1, own);
    s.expect_link_down(2);
    s.over(1).expect_add_link();
    s.over(1).send(Peer::reply_to(&test));
    s.expect_silence();
    s.end();
}

#[test]
fn a_link_that_is_deleted_in_order_goes_without_an_answer_too() {
    //= TIMER-023 test
    //= TIMER-027 test
    for client in [true, false] {
        let (mut s, conn, _) = match client {
            true => Script::two_link_client(),
            false => Script::two_link_server(),
        };
        let link = s.link_no(1);
        s.endpoint.delete_link(s.now, link);
        s.pump();
        check!(s, s.over(2).expect_delete_link().link.0, 1);
        tested_and_answered(&mut s, 2);
        s.expect_link_down(1);
        s.write(conn, 5);
        s.over(2).expect_cdc();
        check!(s, s.endpoint.usage().links, 1);
        s.end();
    }
}

#[test]
fn a_peer_that_never_answers_delete_link_costs_no_link_that_works() {
    //= TIMER-023 test
    //= TIMER-027 test
    for client in [true, false] {
        let (mut s, conn, _) = match client {
            true => Script::many_link_client(4),
            false => Script::many_link_server(4),
        };
        for (failed, via) in [(1, 2), (2, 3), (4, 3)] {
            s.break_link(failed);
            while s.poll_cdc_over(via).is_some() {}
            check!(s, s.over(via).expect_delete_link().link.0, failed);
            s.wait_exactly(2 * SECOND);
            let test = LlcMessage::TestLink(s.over(via).expect_test_link());
            s.over(via).send(Peer::reply_to(&test));
            s.expect_link_down(failed);
            // A server offers another link, which this peer does not want.
            while let Some(LlcMessage::AddLink(offer)) = s.next_llc().cloned() {
                s.expect_llc();
                if !client {
                    s.over(via).send(Peer::rejects(offer.link.0));
                }
            }
        }
        check!(s, s.endpoint.usage().links, 1);
        s.skip();
        s.write(conn, 5);
        s.over(3).expect_cdc();
        s.end();
    }
}

#[test]
fn a_request_is_repeated_if_its_carrier_breaks_while_it_is_tested() {
    //= TIMER-023 test
    //= LLC-080 test
    let (mut s, conn, _) = Script::many_link_client(3);
    s.break_link(3);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    s.wait_exactly(2 * SECOND);
    s.over(1).expect_test_link();
    s.break_link(1);
    s.over(2).expect_cdc();
    let gone = [(); 2].map(|()| s.over(2).expect_delete_link().link.0);
    check!(s, gone.contains(&1) && gone.contains(&3), true);
    tested_and_answered(&mut s, 2);
    s.expect_link_down(1);
    s.expect_link_down(3);
    check!(s, s.endpoint.usage().links, 1);
    s.write(conn, 5);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn a_test_that_is_under_way_serves() {
    //= TIMER-023 test
    let (mut s, conn, _) = Script::two_link_client();
    s.pass(29 * SECOND, &[2]);
    s.wait_exactly(SECOND);
    let test = LlcMessage::TestLink(s.over(1).expect_test_link());
    s.break_link(2);
    s.over(1).expect_delete_link();
    s.wait(2 * SECOND - Duration::from_millis(1));
    s.expect_silence();
    s.over(1).send(Peer::reply_to(&test));
    // It was answered before the request was overdue: the link is asked again.
    s.wait_exactly(Duration::from_millis(1));
    let test = LlcMessage::TestLink(s.over(1).expect_test_link());
    s.over(1).send(Peer::reply_to(&test));
    s.expect_link_down(2);
    s.skip_hints();
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();
}

#[test]
fn a_server_that_knows_no_such_link_any_more_answers_so_at_once() {
    //= LLC-056 test
    let (mut s, conn, _) = Script::two_link_client();
    s.break_link(2);
    s.over(1).expect_delete_link();
    let unknown = Peer::delete_link_with(DeleteLinkFlags::empty(), 2, true);
    s.over(1).send(unknown);
    s.expect_link_down(2);
    s.skip_hints();
    s.pass(29 * SECOND, &[1]);
    s.skip_hints();
    s.expect_silence();
    // An unsolicited answer about a link is dropped.
    s.over(1)
        .send(Peer::delete_link_with(DeleteLinkFlags::empty(), 1, true));
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.end();
}

#[test]
fn a_carrier_that_leaves_while_it_is_tested_is_lost_without_an_answer() {
    //= TIMER-027 test
    //= LLC-080 test
    let (mut s, conn, _) = Script::many_link_server(3);
    s.break_link(3);
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    s.wait_exactly(2 * SECOND);
    s.over(1).expect_test_link();
    // The client wants link 1 gone, too, in order: nothing watches it any more.
    let reason = DeleteLinkReason::PROGRAM;
    s.over(2).send(Peer::delete_because(1, reason));
    s.skip();
    s.pass(9 * SECOND, &[2]);
    s.expect_silence();
    s.pass(SECOND, &[2]);
    let gone = s.over(2).expect_delete_link();
    s.agree(2, gone);
    let other = s.over(2).expect_delete_link();
    check!(s, gone.link.0 + other.link.0, 4);
    s.agree(2, other);
    s.skip();
    s.write(conn, 5);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn a_link_that_both_sides_gave_up_is_cut_off_if_it_does_not_become_idle() {
    //= LLC-049 test
    for client in [true, false] {
        let (mut s, conn, _) = match client {
            true => Script::two_link_client(),
            false => Script::two_link_server(),
        };
        // An answer on link 1 is in flight for ever.
        s.adapter.hold = Some(Kind::Send);
        s.adapter.hold_link = Some(s.link_no(1));
        s.over(1).send(Peer::test_link(7, false));
        s.over(1).expect_test_link_reply();
        let link = s.link_no(1);
        s.endpoint.delete_link(s.now, link);
        s.pump();
        let own = s.over(2).expect_delete_link();
        match client {
            true => {
                s.over(2).send(Peer::delete_link(1));
                s.over(2).expect_delete_link_reply();
            }
            false => s.agree(2, own),
        }
        s.skip();
        s.wait_exactly(2 * SECOND);
        s.expect_link_down(1);
        s.write(conn, 5);
        s.over(2).expect_cdc();
        s.end();
    }
}
