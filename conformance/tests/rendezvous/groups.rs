//! The group a server chooses for a connection, or founds (RFC 7609 3.5.2).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::connection::Shutdown;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::types::{DiagnosisCode, PeerId};

#[test]
fn a_full_group_gets_a_parallel_one() {
    //= RENDEZVOUS-002 test
    //= RENDEZVOUS-053 test
    //= RENDEZVOUS-054 test
    //= RMB-001 test
    let mut s = Script::with(|config| config.connections_per_group = 2);
    s.server_first_contact();
    s.server_joins(2);
    let (conn, accept) = s.server_accepts();
    check!(s, accept.first_contact, true);
    let link = s.adapter.links().nth(1).expect("a second queue pair");
    s.confirm(conn, s.peer.accept(3));
    s.expect_confirm_link();
    s.send_on(link, s.peer.confirm_link_reply());
    s.expect_add_link();
    s.send_on(link, s.peer.add_link_rejection());
    s.expect_established(conn);
    check!(s, s.endpoint.usage().groups, 2);
    let (_, accept) = s.server_accepts();
    check!(s, accept.first_contact, false);
    s.end();
}

#[test]
fn another_client_or_vlan_is_another_group() {
    //= V2-210 test
    //= SEC-002 test
    //= RENDEZVOUS-001 test
    //= LINK-004 test
    let mut s = Script::server();
    s.server_first_contact();
    let me = s.peer.id;
    s.peer.id = PeerId::new(10, s.peer.mac);
    check!(s, s.server_accepts().1.first_contact, true);
    s.peer.id = me;
    let mut options = smc_proto::endpoint::ConnOptions::new(Default::default());
    options.vlan = Some(7);
    let conn = s.listen_with(options);
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.take_proposal(conn);
    check!(s, s.expect_accept(conn).first_contact, true);
    s.end();
}

#[test]
fn a_proposal_waits_for_the_group_that_is_being_formed() {
    //= CASE-A14 test
    //= RENDEZVOUS-057 test
    let mut s = Script::server();
    let (first, _) = s.server_adds_link();
    let second = s.server_wants_rmb();
    let third = s.server_wants_rmb();
    s.expect_silence();
    s.send(s.peer.add_link_rejection());
    s.expect_established(first);
    for conn in [second, third] {
        s.agree_to_rmb();
        check!(s, s.expect_accept(conn).first_contact, false);
    }
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn a_queued_proposal_founds_a_group_if_the_other_fails() {
    //= RENDEZVOUS-057 test
    //= CLC-066 test
    let mut s = Script::server();
    let (first, _) = s.server_asks_to_confirm();
    let second = s.server_wants_rmb();
    s.expect_silence();
    let decline = s.peer.decline();
    let _ = s.clc(first, &decline);
    s.expect_fallback(first, DiagnosisCode::PEER_DECLINED);
    check!(s, s.expect_accept(second).first_contact, true);
    s.end();
}

#[test]
fn a_queued_proposal_founds_a_group_if_the_other_takes_too_long() {
    //= RENDEZVOUS-057 test
    let mut s = Script::server();
    s.server_accepts();
    let second = s.server_wants_rmb();
    s.wait(Duration::from_secs(3));
    check!(s, s.expect_accept(second).first_contact, true);
    check!(s, s.endpoint.usage().groups, 2);
    s.end();
}

#[test]
fn a_proposal_that_waited_in_the_queue_gets_no_more_time_than_another_one() {
    //= RENDEZVOUS-057 test
    //= CLC-067 test
    let mut s = Script::server();
    s.server_accepts();
    s.adapter.hold = Some(Kind::CreateQp);
    let second = s.server_wants_rmb();
    s.wait(Duration::from_secs(3));
    check!(s, s.endpoint.usage().groups, 2);
    s.wait(Duration::from_millis(1_900));
    s.expect_silence();
    // The client waits 6 s for an Accept: it gets a Decline before that.
    s.wait(Duration::from_millis(200));
    s.expect_decline(second, DiagnosisCode::REGISTER_BUFFER);
    s.release();
    s.end();
}

#[test]
fn a_freed_element_is_cleared_and_used_again_without_asking() {
    //= CASE-D20 test
    //= RMB-016 test
    //= SEC-008 test
    //= RENDEZVOUS-008 test
    let mut s = Script::server();
    s.server_first_contact();
    let (conn, token) = s.server_joins(2);
    let link = s.link();
    let closed = ConnectionFlags::PEER_CONNECTION_CLOSED;
    s.send_cdc(link, Peer::cdc_flags(token, 1, closed));
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Both));
    s.skip();
    let conn = s.server_wants_rmb();
    s.expect_accept(conn);
    s.expect_transcript(&["command Clear", "<- CLC Proposal", "-> CLC Accept"]);
    s.end();
}

/// The client proposes with its port of this number: whether the server founds a group.
fn founds_for_port(s: &mut Script, port: u8) -> bool {
    let peer = s.peer;
    (s.peer.gid, s.peer.mac) = Peer::port(port);
    let (_, accept) = s.server_accepts();
    s.peer = peer;
    accept.first_contact
}

#[test]
fn a_client_is_known_by_each_port_that_a_link_leads_to() {
    //= RENDEZVOUS-001 test
    //= RENDEZVOUS-037 test
    let (mut s, _, _) = Script::two_link_server();
    check!(s, founds_for_port(&mut s, 2), false);
    // Also if only the other RNIC of this side is in the client's subnet.
    s.paths.truncate(1);
    check!(s, founds_for_port(&mut s, 2), false);
    check!(s, founds_for_port(&mut s, 1), false);
    s.end();
}

#[test]
fn a_client_is_known_by_a_port_that_it_announced() {
    //= RENDEZVOUS-001 test
    //= LINK-041 test
    let mut s = Script::server();
    s.server_first_contact();
    s.over(1).send(Peer::hint(2));
    s.over(1).expect_add_link();
    s.over(1).send(Peer::rejects(3));
    check!(s, founds_for_port(&mut s, 2), false);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn a_client_is_known_by_the_port_of_a_link_that_was_lost() {
    //= RENDEZVOUS-001 test
    for (lost, left) in [(1, 2), (2, 1)] {
        let (mut s, _, _) = Script::two_link_server();
        s.break_link(lost);
        let own = s.over(left).expect_delete_link();
        s.agree(left, own);
        let offer = s.over(left).expect_add_link();
        s.over(left).send(Peer::rejects(offer.link.0));
        check!(s, founds_for_port(&mut s, lost), false);
        check!(s, s.endpoint.usage().groups, 1);
        s.end();
    }
}

#[test]
fn a_stranger_with_the_same_peer_id_gets_a_group_of_its_own() {
    //= RENDEZVOUS-001 test
    //= CLC-046 test
    let (mut s, first, _) = Script::two_link_server();
    let peer = s.peer;
    (s.peer.gid, s.peer.mac) = Peer::port(3);
    let (conn, accept) = s.server_accepts();
    check!(s, accept.first_contact, true);
    let decline = s.peer.decline_with(true);
    let _ = s.clc(conn, &decline);
    s.peer = peer;
    s.skip();
    check!(s, s.endpoint.usage().groups, 1);
    check!(s, s.endpoint.conn(first).is_some(), true);
    s.end();
}

#[test]
fn a_group_on_another_lan_is_another_group() {
    //= RENDEZVOUS-001 test
    //= LINK-037 test
    let mut s = Script::server();
    s.server_first_contact();
    s.paths[0] = conformance::script::rnic(2);
    s.paths[0].lan.0 = 7;
    check!(s, founds_for_port(&mut s, 1), true);
    s.end();
}
