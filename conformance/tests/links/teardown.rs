//! The end of link groups (RFC 7609 3.5.4, 3.5.5.1.3, A.3.4).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::connection::Shutdown;
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{ConnId, GroupId};
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};
use smc_proto::wire::types::{AlertToken, DeleteLinkReason, LinkNumber};

const ALL: DeleteLinkFlags = DeleteLinkFlags::ALL;

/// Closes a connection in order from both sides.
fn close(s: &mut Script, (conn, token): (ConnId, AlertToken)) {
    let link = s.link();
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Both));
    let closed = ConnectionFlags::PEER_CONNECTION_CLOSED;
    s.send_cdc(link, Peer::cdc_flags(token, 1, closed));
    s.expect_closed(conn, CloseReason::Normal);
    s.skip();
}

/// Keeps the link alive for `seconds` by messages of the peer.
fn idle(s: &mut Script, seconds: u64) {
    for _ in 0..seconds / 10 {
        s.wait(Duration::from_secs(10));
        s.send(Peer::test_link(1, false));
        while let Some(LlcMessage::DeleteRkey(m)) = s.poll_llc() {
            s.send(Peer::reply_to(&LlcMessage::DeleteRkey(m)));
        }
    }
}

fn group_of(s: &Script) -> GroupId {
    s.group.expect("a group that is up")
}

/// A server whose group has no connection left, and whose application deletes it;
/// something may be done to it in between.
fn deleting(first: impl FnOnce(&mut Script)) -> (Script, GroupId) {
    let mut s = Script::server();
    let conn = s.server_first_contact();
    close(&mut s, conn);
    let group = group_of(&s);
    first(&mut s);
    s.endpoint.delete_group(s.now, group);
    s.pump();
    (s, group)
}

#[test]
fn an_idle_server_deletes_the_group_and_needs_no_answer() {
    //= LINK-030 test
    //= LINK-031 test
    //= LINK-032 test
    //= LLC-043 test
    //= LLC-057 test
    //= TIMER-030 test
    let mut s = Script::server();
    let conn = s.server_first_contact();
    close(&mut s, conn);
    idle(&mut s, 590);
    check!(s, s.endpoint.usage().groups, 1);
    s.wait(Duration::from_secs(10));
    let request = s.expect_delete_link();
    check!(
        s,
        (request.flags, request.link.0),
        (ALL | DeleteLinkFlags::ORDERLY, 0)
    );
    check!(s, request.reason, DeleteLinkReason::PROGRAM);
    // A client may have something left to send, and an RNIC that repeats it for ever.
    s.wait(Duration::from_millis(299));
    check!(s, s.endpoint.usage().groups, 1);
    s.wait(Duration::from_millis(1));
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_client_that_announces_it_too_ends_the_servers_wait() {
    //= LINK-032 test
    for reply in [false, true] {
        let (mut s, group) = deleting(|_| {});
        let request = s.expect_delete_link();
        check!(s, s.endpoint.usage().links, 1);
        // No connection joins meanwhile, and a second call puts nothing off.
        s.endpoint.delete_group(s.now, group);
        s.pump();
        match reply {
            true => s.send(Peer::reply_to(&LlcMessage::DeleteLink(request))),
            false => s.send(Peer::delete_all()),
        }
        check!(s, s.endpoint.usage().groups, 0);
        s.end();
    }
}

#[test]
fn a_client_that_answers_before_the_completion_is_not_waited_for() {
    //= LINK-032 test
    let (mut s, _) = deleting(|s| s.adapter.hold = Some(Kind::Send));
    s.send(Peer::delete_all());
    check!(s, s.endpoint.usage().groups, 1);
    s.release();
    s.expect_delete_link();
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_link_that_breaks_while_the_client_drains_ends_the_group() {
    let (mut s, _) = deleting(|_| {});
    s.expect_delete_link();
    s.break_link(1);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn the_clients_answer_to_the_end_of_its_group_ends_it_at_once() {
    //= LLC-046 test
    let (mut s, _) = deleting(|_| {});
    let own = s.expect_delete_link();
    check!(s, s.endpoint.usage().groups, 1);
    s.send(LlcMessage::DeleteLink(DeleteLink { reply: true, ..own }));
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_group_with_one_connection_left_is_not_idle() {
    //= LINK-030 test
    let mut s = Script::server();
    let first = s.server_first_contact();
    s.server_joins(2);
    close(&mut s, first);
    idle(&mut s, 1200);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn a_new_connection_keeps_the_group() {
    //= LINK-030 test
    let mut s = Script::server();
    let first = s.server_first_contact();
    close(&mut s, first);
    idle(&mut s, 550);
    s.server_joins(2);
    idle(&mut s, 200);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn an_idle_client_asks_later_and_ends_with_the_servers_answer() {
    //= LINK-033 test
    //= LINK-034 test
    let mut s = Script::client();
    let conn = s.client_first_contact();
    close(&mut s, conn);
    idle(&mut s, 600);
    check!(s, s.endpoint.usage().groups, 1);
    s.wait(Duration::from_secs(10));
    let request = s.expect_delete_link();
    check!(s, request.flags.contains(ALL), true);
    check!(s, s.endpoint.usage().groups, 1);
    s.send(Peer::delete_all());
    s.expect_event(Event::GroupDown {
        group: group_of(&s),
    });
    s.expect_silence();
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn an_idle_client_that_gets_no_answer_tears_down() {
    //= TIMER-025 test
    let mut s = Script::client();
    let conn = s.client_first_contact();
    close(&mut s, conn);
    idle(&mut s, 600);
    s.skip();
    s.wait(Duration::from_secs(10));
    s.expect_delete_link();
    s.wait(Duration::from_secs(2));
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn delete_all_from_the_server_ends_everything_at_once() {
    //= LINK-033 test
    //= LINK-036 test
    //= LLC-057 test
    //= LLCSER-011 test
    let mut s = Script::client();
    let (a, _) = s.client_first_contact();
    let (b, _) = s.client_joins(2);
    let pending = s.connect();
    s.expect_proposal(pending);
    s.accept(pending, s.peer.subsequent(3));
    s.expect_confirm_rkey();
    s.send(Peer::delete_all());
    let events = s.take_events();
    for conn in [a, b] {
        let reason = CloseReason::LinksLost;
        check!(s, events.contains(&Event::Closed { conn, reason }), true);
    }
    let (declined, _) = s.expect_clc();
    check!(s, declined, pending);
    check!(s, s.poll_llc(), None);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn delete_all_from_the_client_makes_the_server_say_it_first() {
    //= LINK-035 test
    //= LINK-036 test
    let mut s = Script::server();
    let (conn, _) = s.server_first_contact();
    s.send(Peer::delete_all());
    let request = s.expect_delete_link();
    check!(s, (request.flags.contains(ALL), request.link.0), (true, 0));
    s.expect_reset(conn, CloseReason::LinksLost);
    s.end();
}

#[test]
fn the_server_sends_delete_all_even_if_another_request_just_left() {
    //= LINK-032 test
    let mut s = Script::server();
    s.server_first_contact();
    s.adapter.hold = Some(Kind::Send);
    let conn = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.take_proposal(conn);
    s.expect_confirm_rkey();
    let group = group_of(&s);
    s.endpoint.delete_group(s.now, group);
    // CONFIRM RKEY completes before DELETE LINK is fetched.
    s.release();
    s.expect_delete_link();
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn no_connection_joins_a_group_that_is_being_deleted() {
    //= RENDEZVOUS-001 test
    let mut s = Script::server();
    let (first, _) = s.server_first_contact();
    let (second, _) = s.server_accepts();
    s.adapter.hold = Some(Kind::Send);
    let group = group_of(&s);
    s.endpoint.delete_group(s.now, group);
    s.pump();
    // A connection that leaves makes no room in it.
    s.tcp(second, smc_proto::endpoint::TcpEvent::PeerReset);
    s.expect_delete_link();
    s.skip();
    let (_, accept) = s.server_accepts();
    check!(s, accept.first_contact, true);
    check!(s, s.endpoint.conn(first).is_some(), true);
    s.end();
}

#[test]
fn a_client_answers_the_deletion_of_its_last_link_before_it_ends() {
    //= LLC-046 test
    //= LLC-047 test
    //= LLC-048 test
    //= LLC-049 test
    let mut s = Script::client();
    let (conn, _) = s.client_first_contact();
    s.send(Peer::delete_link(1));
    let reply = s.expect_delete_link_reply();
    check!(
        s,
        (reply.link.0, reply.reason),
        (1, DeleteLinkReason::PROGRAM)
    );
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn an_answer_sent_before_is_no_proof_that_the_deletion_was_answered() {
    //= LLC-049 test
    let mut s = Script::client();
    s.client_first_contact();
    s.adapter.hold = Some(Kind::Send);
    s.send(Peer::test_link(1, false));
    s.send(Peer::delete_link(1));
    s.expect_test_link_reply();
    s.expect_delete_link_reply();
    s.release_one();
    check!(s, s.endpoint.usage().links, 1);
    s.release();
    check!(s, s.endpoint.usage().links, 0);
    s.end();
}

#[test]
fn an_unknown_link_is_answered_as_such_from_either_side() {
    //= CASE-G08 test
    //= LLC-055 test
    //= LLC-056 test
    let mut client = Script::client();
    client.client_first_contact();
    let mut server = Script::server();
    server.server_first_contact();
    for mut s in [client, server] {
        for number in [0, 2, 3, 255] {
            s.send(Peer::delete_link(number));
            let reply = s.expect_delete_link_reply();
            check!(
                s,
                (reply.link, reply.reason),
                (LinkNumber(number), DeleteLinkReason::UNKNOWN_LINK)
            );
        }
        check!(s, s.endpoint.usage().groups, 1);
        s.end();
    }
}

#[test]
fn a_clients_request_for_the_last_link_is_answered_by_the_servers_own() {
    //= V2-193 test
    //= LLC-051 test
    //= LLC-052 test
    //= LLC-053 test
    //= LLCSER-020 test
    for flags in [DeleteLinkFlags::ORDERLY, DeleteLinkFlags::empty()] {
        let mut s = Script::server();
        let (conn, _) = s.server_first_contact();
        let ask = Peer::delete_link_with(flags, 1, false);
        s.send(ask.clone());
        let own = s.expect_delete_link();
        check!(s, own.link.0, 1);
        // Asking again puts nothing off.
        for _ in 0..3 {
            s.wait(Duration::from_millis(600));
            s.send(ask.clone());
            s.expect_silence();
        }
        s.send(LlcMessage::DeleteLink(DeleteLink { reply: true, ..own }));
        s.expect_reset(conn, CloseReason::LinksLost);
        s.end();
    }
}

#[test]
fn a_servers_deletion_without_an_answer_ends_all_the_same() {
    //= TIMER-027 test
    let mut s = Script::server();
    let (conn, _) = s.server_first_contact();
    s.send(Peer::delete_link(1));
    s.expect_delete_link();
    s.wait(Duration::from_secs(2));
    s.expect_reset(conn, CloseReason::LinksLost);
    s.end();
}

#[test]
fn deleting_a_group_resets_its_connections_with_tcp_reset() {
    //= CLOSE-038 test
    //= LINK-036 test
    //= TIMER-026 test
    let mut s = Script::server();
    let (conn, _) = s.server_first_contact();
    let group = group_of(&s);
    s.endpoint.delete_group(s.now, group);
    s.pump();
    s.expect_delete_link();
    s.expect_reset(conn, CloseReason::LinksLost);
    // A stale handle of a group does nothing.
    s.endpoint.delete_group(s.now, group);
    s.pump();
    s.end();
}
