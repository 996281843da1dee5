//! What a link and a group are (RFC 7609 2, 2.2, 2.2.3, A.3.1), and RMB elements
//! whose end was not agreed on (4.4).

use conformance::check;
use conformance::script::{Peer, Script, rnic};
use smc_proto::completion::RdmaCompletion;
use smc_proto::endpoint::TcpEvent;
use smc_proto::event::{CloseReason, Event};
use smc_proto::time::Duration;

#[test]
fn user_ids_of_links_differ_within_a_group_and_between_groups() {
    //= LINK-028 test
    //= LINK-029 test
    let mut s = Script::with(|config| {
        config.max_links = 3;
        config.connections_per_group = 1;
    })
    .rnics(3);
    let mut ids = Vec::new();
    for group in 0..4 {
        let (conn, accept) = s.server_accepts();
        check!(s, accept.first_contact, true);
        s.confirm(conn, s.peer.accept(1 + group));
        let request = s.expect_confirm_link();
        ids.push(request.user_id.0);
        s.over(1)
            .send(Peer::confirms_with(1, 1, |m| m.max_links = 3));
        for link in [2, 3] {
            s.over(1).expect_add_link();
            s.over(1).send(Peer::takes(link, link));
            s.peer_answers_continuations(1, link, &[1 + group]);
            ids.push(s.over(link).expect_confirm_link().user_id.0);
            s.over(link).send(Peer::confirms(link, link));
        }
        s.expect_established(conn);
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    check!(s, ids.len(), count);
    s.end();
}

#[test]
fn reversed_roles_are_another_group() {
    //= LINK-023 test
    let (mut s, _, _) = Script::two_link_server();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.accept(9));
    check!(s, s.expect_confirm(conn).first_contact, true);
    check!(s, s.endpoint.usage().groups, 2);
    s.end();
}

#[test]
fn a_link_is_one_queue_pair_between_one_port_here_and_one_there() {
    //= LINK-001 test
    let (s, _, _) = Script::many_link_server(3);
    let ends: Vec<_> = s.adapter.connected.iter().map(|(peer, _)| peer).collect();
    check!(s, ends.len(), 3);
    for (number, end) in (1..).zip(ends) {
        check!(s, (end.gid, end.mac), Peer::port(number));
        check!(s, end.qpn, Peer::qpn_of(number));
    }
    check!(s, rnic(1).lan == rnic(2).lan, true);
    s.end();
}

#[test]
fn at_the_limit_a_clients_add_link_is_ignored() {
    //= LINK-044 test
    let (mut s, _, _) = Script::two_link_server();
    s.port_up(3);
    for _ in 0..3 {
        s.over(1).send(Peer::hint(3));
        s.over(2).send(Peer::hint(4));
    }
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn a_damaged_eye_catcher_resets_its_connection_and_no_other() {
    //= RMB-018 test
    //= RMB-019 test
    let mut s = Script::with(|config| config.eye_catcher = true);
    let (bad, _) = s.server_first_contact();
    let (good, _) = s.server_joins(2);
    s.complete(RdmaCompletion::EyeCatcherDamaged { conn: bad });
    s.wait(Duration::from_secs(10));
    let events = s.take_events();
    let closed = Event::Closed {
        conn: bad,
        reason: CloseReason::EyeCatcherDamaged,
    };
    check!(s, events.contains(&closed), true);
    check!(s, s.endpoint.conn(good).is_some(), true);
    s.end();
}

#[test]
fn an_element_is_written_by_the_engine_only_before_it_is_given_away() {
    //= RMB-015 test
    //= RMB-017 test
    let mut s = Script::with(|config| config.eye_catcher = true);
    let (conn, token) = s.server_first_contact();
    s.expect_transcript(&["command Alloc with eye catcher", "-> CLC Accept"]);
    let link = s.link();
    s.send_cdc(link, Peer::cdc(token, 1, 104, 4));
    s.on(conn, |c, now| c.consume(now, 100).unwrap());
    // Clearing is the only command that writes into an RMB, and none was given.
    check!(s, s.transcript().contains("command Clear"), false);
    s.end();
}

#[test]
fn an_element_is_free_again_when_both_are_done_with_it_or_the_wait_is_over() {
    //= CASE-H04 test
    //= RMB-021 test
    //= RMB-022 test
    let mut s = Script::server();
    let (conn, accept) = s.server_adds_link();
    s.send(s.peer.add_link_rejection());
    s.expect_established(conn);
    s.on(conn, |c, now| c.abort(now));
    s.tcp(conn, TcpEvent::PeerReset);
    s.skip();
    // The peer sent nothing of the end: it may still write there.
    let (second, other) = s.server_accepts();
    check!(s, other.rtoken == accept.rtoken, false);
    s.confirm(second, s.peer.subsequent(2));
    s.wait(Duration::from_secs(5));
    s.expect_transcript(&["PeerReset", "command Clear"]);
    s.skip();
    let (_, third) = s.server_accepts();
    check!(s, third.rtoken, accept.rtoken);
    s.end();
}

#[test]
fn one_link_at_most_is_less_than_a_peer_of_version_1_can_ask_for() {
    //= LINK-012 test
    //= LINK-016 test
    for limit in [1, 0, 2] {
        let mut s = Script::server().rnics(2);
        let (conn, _) = s.server_asks_to_confirm();
        s.send(Peer::confirms_with(1, 1, |m| m.max_links = limit));
        s.expect_add_link();
        s.peer_joins(1, 2, 2, &[1]);
        s.expect_established(conn);
        s.end();
    }
}
