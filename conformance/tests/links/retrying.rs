//! How many links a group gets, under which numbers, and when a further one is
//! tried again (RFC 7609 2.2.2, 2.2.4, 3.5.5.1.1, 3.5.5.1.2, C.8).

use conformance::check;
use conformance::script::{Peer, Script, rnic};
use smc_proto::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_server_adds_as_many_links_as_both_sides_want() {
    //= LINK-011 test
    //= LINK-012 test
    //= LINK-016 test
    //= LINK-019 test
    //= LINK-040 test
    for links in 2..=8 {
        let (mut s, _, _) = Script::many_link_server(links);
        check!(s, s.endpoint.usage().links, u32::from(links));
        // One more port changes nothing.
        s.port_up(links + 1);
        s.over(1).send(Peer::hint(links + 1));
        s.expect_silence();
        s.end();
    }
}

#[test]
fn a_client_takes_as_many_links_as_both_sides_want() {
    //= LINK-011 test
    //= LINK-012 test
    //= LINK-016 test
    //= LINK-018 test
    for links in 2..=8 {
        let (mut s, _, _) = Script::many_link_client(links);
        check!(s, s.endpoint.usage().links, u32::from(links));
        s.port_up(links + 1);
        s.expect_silence();
        s.over(1).send(Peer::offer(links + 1, links + 1));
        s.over(1).expect_add_link_rejection();
        s.end();
    }
}

#[test]
fn the_lower_limit_of_both_sides_counts() {
    //= LINK-014 test
    //= LINK-015 test
    //= LINK-016 test
    for (mine, theirs, agreed) in [(8, 3, 3), (3, 8, 3), (8, 2, 2), (4, 0, 4), (2, 255, 2)] {
        let mut s = Script::with(|config| config.max_links = mine).rnics(8);
        let (conn, _) = s.server_asks_to_confirm();
        s.send(Peer::confirms_with(1, 1, |m| m.max_links = theirs));
        for link in 2..=agreed {
            check!(s, s.expect_add_link().link.0, link);
            s.peer_joins(1, link, link, &[1]);
        }
        s.expect_established(conn);
        s.expect_silence();
        s.end();
    }
}

#[test]
fn a_clients_limit_is_never_above_the_servers() {
    //= LINK-015 test
    //= LINK-016 test
    for (mine, theirs, agreed) in [(8, 3, 3), (3, 8, 3), (2, 2, 2), (8, 255, 8)] {
        let mut s = Script::with(|config| config.max_links = mine);
        s.client_confirms();
        let ask = s.peer.confirm_link_with(|m| m.max_links = theirs);
        s.send(ask);
        check!(s, s.expect_confirm_link_reply().max_links, agreed);
        s.end();
    }
}

#[test]
fn the_limit_holds_for_the_life_of_the_group() {
    //= LINK-017 test
    let mut s = Script::with(|config| config.max_links = 3).rnics(3);
    let (conn, _) = s.server_asks_to_confirm();
    s.send(Peer::confirms_with(1, 1, |m| m.max_links = 2));
    s.expect_add_link();
    s.over(1).send(Peer::takes(2, 2));
    s.peer_answers_continuations(1, 2, &[1]);
    s.over(2).expect_confirm_link();
    // The content of CONFIRM LINK for a further link does not count.
    s.over(2)
        .send(Peer::confirms_with(2, 2, |m| m.max_links = 8));
    s.expect_established(conn);
    s.expect_silence();
    s.end();
}

#[test]
fn link_numbers_are_not_used_again_before_all_others_were() {
    //= LINK-025 test
    //= LINK-027 test
    let mut s = Script::server();
    s.server_first_contact();
    // 1 is in use, 2 was rejected in the first contact.
    for number in (3..=255).chain(2..=10) {
        s.over(1).send(Peer::hint(2));
        check!(s, s.over(1).expect_add_link().link.0, number);
        s.over(1).send(Peer::rejects(number));
    }
    s.end();
}

#[test]
fn a_port_that_returns_to_a_server_gets_a_link_again() {
    //= LINK-050 test
    //= LINK-022 test
    //= LINK-024 test
    //= FAILOVER-024 test
    let (mut s, conn, _) = Script::two_link_server();
    s.port_down(2);
    let request = s.over(1).expect_delete_link();
    check!(s, request.link.0, 2);
    s.over(1)
        .send(Peer::delete_link_with(request.flags, 2, true));
    s.expect_link_down(2);
    // Until then the port of the only link is worth a try, for a client that
    // still has two.
    check!(s, s.over(1).expect_add_link().gid, rnic(1).gid);
    s.over(1).send(Peer::rejects(3));
    s.port_up(2);
    let offer = s.over(1).expect_add_link();
    check!(s, (offer.link.0, offer.gid), (4, rnic(2).gid));
    s.peer_joins(1, 4, 2, &[1]);
    s.expect_link_up(4);
    s.write(conn, 10);
    s.expect_cdc();
    s.end();
}

#[test]
fn a_port_that_returns_to_a_client_is_offered_to_the_server() {
    //= LINK-041 test
    //= LINK-045 test
    //= LLC-030 test
    //= LLCSER-008 test
    let (mut s, _, _) = Script::two_link_client();
    s.port_down(2);
    s.over(1).expect_delete_link();
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.expect_link_down(2);
    s.expect_silence();
    s.port_up(2);
    let hint = s.over(1).expect_add_link();
    check!(s, (hint.gid, hint.mac), (rnic(2).gid, rnic(2).mac));
    check!(s, (hint.link.0, hint.qpn.value()), (0, 0));
    // No answer is waited for.
    s.pass(20 * SECOND, &[1]);
    s.expect_silence();
    s.peer_adds(1, 3, 2, &[1]);
    s.expect_link_up(3);
    s.expect_silence();
    s.end();
}

#[test]
fn a_client_with_all_links_or_no_port_to_spare_sends_nothing() {
    //= LINK-018 test
    let (mut s, _, _) = Script::two_link_client();
    s.port_up(1);
    s.port_up(2);
    s.port_up(3);
    s.expect_silence();
    let mut other_lan = rnic(4);
    other_lan.lan.0 = 7;
    s.port_down(2);
    s.over(1).expect_delete_link();
    s.over(1).send(Peer::delete_link(2));
    s.skip();
    s.port_down(3);
    s.path(smc_proto::path::PathEvent::PortUp(other_lan));
    s.expect_silence();
    s.end();
}

#[test]
fn a_port_on_another_lan_is_not_offered() {
    //= LINK-037 test
    //= LINK-006 test
    let mut s = Script::server();
    s.server_first_contact();
    let mut other_lan = rnic(2);
    other_lan.lan.0 = 7;
    s.path(smc_proto::path::PathEvent::PortUp(other_lan));
    s.expect_silence();
    s.over(1).send(Peer::hint(2));
    check!(s, s.expect_add_link().gid, rnic(1).gid);
    s.end();
}

#[test]
fn a_further_link_is_tried_again_after_pauses_that_double() {
    //= CASE-G21 test
    //= LINK-048 test
    //= LINK-049 test
    //= LINK-050 test
    let mut s = Script::server().rnics(2);
    let (conn, _) = s.server_adds_link();
    s.over(1).send(Peer::rejects(2));
    s.expect_established(conn);
    for (number, pause) in (3..).zip([30, 60, 120, 240, 480, 600, 600]) {
        s.pass(pause * SECOND - SECOND, &[1]);
        s.expect_silence();
        s.pass(SECOND, &[1]);
        let offer = s.over(1).expect_add_link();
        check!(s, (offer.link.0, offer.gid), (number, rnic(2).gid));
        s.over(1).send(Peer::rejects(number));
    }
    // A port that comes up ends the pause and starts the count anew.
    s.over(1).send(Peer::hint(2));
    s.over(1).expect_add_link();
    s.over(1).send(Peer::rejects(10));
    s.pass(30 * SECOND, &[1]);
    s.over(1).expect_add_link();
    s.over(1).send(Peer::rejects(11));
    s.port_up(3);
    s.over(1).expect_add_link();
    s.end();
}

#[test]
fn a_server_with_nothing_else_to_offer_does_not_ask_again() {
    //= LINK-048 test
    let mut s = Script::server();
    s.server_first_contact();
    s.pass(1200 * SECOND, &[1]);
    s.expect_silence();
    s.end();
}

#[test]
fn a_server_with_two_links_offers_no_port_that_has_one() {
    let mut s = Script::with(|config| config.max_links = 3).rnics(2);
    let (conn, _) = s.server_asks_to_confirm();
    s.send(Peer::confirms_with(1, 1, |m| m.max_links = 3));
    s.expect_add_link();
    s.peer_joins(1, 2, 2, &[1]);
    s.expect_established(conn);
    s.over(1).send(Peer::hint(3));
    s.expect_silence();
    s.end();
}

#[test]
fn links_that_are_lost_as_fast_as_they_are_added_are_not_added_at_once_for_ever() {
    //= LINK-049 test
    let (mut s, _, _) = Script::two_link_server();
    let mut link = 2;
    let mut added = 0;
    for _ in 0..600 {
        if let Some(message) = s.poll_llc() {
            check!(
                s,
                message.to_string().starts_with("LLC ADD LINK request"),
                true
            );
            (link, added) = (link + 1, added + 1);
            s.peer_joins(1, link, 2, &[1]);
            s.over(1).send(Peer::lost_link(link));
            let request = s.over(1).expect_delete_link();
            s.over(1)
                .send(Peer::delete_link_with(request.flags, link, true));
        } else if added == 0 {
            s.over(1).send(Peer::lost_link(2));
            let request = s.over(1).expect_delete_link();
            s.over(1)
                .send(Peer::delete_link_with(request.flags, 2, true));
        }
        s.pass(SECOND, &[1]);
    }
    check!(s, added < 8, true);
    s.end();
}

#[test]
fn more_links_may_follow_symmetric_redundancy() {
    //= LINK-043 test
    let mut s = Script::with(|config| config.max_links = 4).rnics(2);
    let (conn, _) = s.server_asks_to_confirm();
    s.send(Peer::confirms_with(1, 1, |m| m.max_links = 4));
    s.expect_add_link();
    s.peer_joins(1, 2, 2, &[1]);
    s.expect_established(conn);
    s.expect_silence();
    s.port_up(3);
    check!(s, s.expect_add_link().link.0, 3);
    s.peer_joins(1, 3, 3, &[1]);
    s.over(1).send(Peer::hint(4));
    s.expect_silence();
    s.end();
}

#[test]
fn a_link_that_is_lost_soon_is_replaced_at_once_one_time_and_then_after_a_pause() {
    //= LINK-049 test
    let (mut s, _, _) = Script::two_link_server();
    // The first one was there for long.
    s.pass(31 * SECOND, &[1, 2]);
    let loses = |s: &mut Script, link: u8| {
        s.over(1).send(Peer::lost_link(link));
        let request = s.over(1).expect_delete_link();
        s.over(1)
            .send(Peer::delete_link_with(request.flags, link, true));
    };
    for link in 2..=3 {
        loses(&mut s, link);
        check!(s, s.over(1).expect_add_link().link.0, link + 1);
        s.peer_joins(1, link + 1, 2, &[1]);
    }
    loses(&mut s, 4);
    s.expect_silence();
    s.pass(59 * SECOND, &[1]);
    s.expect_silence();
    s.pass(SECOND, &[1]);
    check!(s, s.over(1).expect_add_link().link.0, 5);
    s.end();
}
