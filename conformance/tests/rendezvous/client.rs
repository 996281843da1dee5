//! The client's rendezvous (RFC 7609 3.5.1, 3.5.2).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage};
use smc_proto::wire::types::{DiagnosisCode, Mtu, PeerId, Qpn, RmbeIndex};

#[test]
fn the_first_contact_of_a_client_has_this_transcript() {
    //= RENDEZVOUS-016 test
    //= RENDEZVOUS-022 test
    //= RENDEZVOUS-024 test
    //= CLC-028 test
    //= CLC-040 test
    let mut s = Script::client();
    let conn = s.connect();
    let proposal = s.expect_proposal(conn);
    check!(s, proposal.gid, s.paths[0].gid);
    check!(s, s.adapter.queue_pairs(), 0);
    let accept = AcceptConfirm {
        mtu: Mtu::M512,
        ..s.peer.accept(1)
    };
    s.accept(conn, accept);
    let confirm = s.expect_confirm(conn);
    check!(s, confirm.rmbe_index, RmbeIndex(1));
    s.expect_silence();
    s.send(s.peer.confirm_link());
    let reply = s.expect_confirm_link_reply();
    check!(s, (reply.link.0, reply.qpn), (1, confirm.qpn));
    check!(s, (reply.gid, reply.mac), (confirm.gid, confirm.mac));
    s.expect_silence();
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    check!(s, s.expect_established(conn), true);
    let (to, mtu) = s.adapter.connected[0];
    check!(
        s,
        (to.qpn, to.psn, mtu),
        (accept.qpn, accept.psn, Mtu::M512)
    );
    s.expect_transcript(&[
        "-> CLC Proposal",
        "<- CLC Accept",
        "command CreateQp",
        "command Register",
        "command ConnectQp",
        "-> CLC Confirm",
        "<- LLC CONFIRM LINK request",
        "command ActivateQp",
        "-> LLC CONFIRM LINK reply",
        "<- LLC ADD LINK request",
        "-> LLC ADD LINK reply",
        "Established",
    ]);
    s.end();
}

#[test]
fn no_byte_flows_before_the_attempt_at_a_second_link_is_over() {
    //= RENDEZVOUS-025 test
    //= RENDEZVOUS-032 test
    let mut s = Script::client();
    let (conn, _) = s.client_confirms_link();
    check!(s, s.on(conn, |c, _| c.send_space().is_none()), true);
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    s.expect_established(conn);
    s.write(conn, 10);
    check!(s, s.expect_cdc().1.producer.count, 10);
    s.end();
}

#[test]
fn a_subsequent_contact_makes_no_queue_pair() {
    //= RENDEZVOUS-011 test
    //= RENDEZVOUS-035 test
    //= RENDEZVOUS-041 test
    //= CLC-029 test
    let mut s = Script::client();
    let (first, _) = s.client_first_contact();
    let second = s.connect();
    let proposal = s.expect_proposal(second);
    check!(s, proposal.peer_id, s.endpoint.config().peer_id);
    s.accept(second, s.peer.subsequent(2));
    s.agree_to_rmb();
    let confirm = s.expect_confirm(second);
    check!(s, confirm.first_contact, false);
    check!(s, s.expect_established(second), false);
    check!(s, s.adapter.queue_pairs(), 1);
    check!(s, s.endpoint.usage().groups, 1);
    check!(s, first == second, false);
    s.expect_silence();
    s.end();
}

#[test]
fn a_new_rmb_is_agreed_on_before_the_confirm() {
    //= RENDEZVOUS-019 test
    //= RENDEZVOUS-039 test
    //= RENDEZVOUS-056 test
    //= LLC-058 test
    //= LLC-060 test
    let mut s = Script::client();
    s.client_first_contact();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.subsequent(2));
    let request = s.expect_confirm_rkey();
    check!(s, request.other_links, 0);
    s.expect_silence();
    s.send(Peer::reply_to(
        &smc_proto::wire::llc::LlcMessage::ConfirmRkey(request.clone()),
    ));
    let confirm = s.expect_confirm(conn);
    check!(s, confirm.rtoken, request.rtoken);
    s.expect_established(conn);
    s.end();
}

#[test]
fn a_free_element_is_used_again_without_asking() {
    //= RENDEZVOUS-019 test
    //= RMB-016 test
    let mut s = Script::client();
    s.client_first_contact();
    let (second, token) = s.client_joins(2);
    s.on(second, |c, now| {
        c.shutdown(now, smc_proto::connection::Shutdown::Both)
    });
    let closed = ConnectionFlags::PEER_CONNECTION_CLOSED;
    let link = s.link();
    s.send_cdc(link, Peer::cdc_flags(token, 1, closed));
    s.expect_closed(second, smc_proto::event::CloseReason::Normal);
    s.skip();
    let third = s.connect();
    s.expect_proposal(third);
    s.accept(third, s.peer.subsequent(2));
    s.expect_confirm(third);
    s.expect_transcript(&["command Clear", "<- CLC Accept", "-> CLC Confirm"]);
    s.end();
}

#[test]
fn an_element_in_a_known_rmb_of_the_server_is_no_first_contact() {
    //= RENDEZVOUS-013 test
    let mut s = Script::client();
    s.client_first_contact();
    // The server never announced RMB 77 by CONFIRM RKEY.
    s.client_joins(77);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn an_unknown_link_on_subsequent_contact_is_declined_as_out_of_sync() {
    //= CASE-H13 test
    //= RENDEZVOUS-010 test
    //= RENDEZVOUS-014 test
    //= CLC-045 test
    let mut s = Script::client();
    s.client_first_contact();
    let strange = |change: fn(&mut AcceptConfirm), peer: &Peer| {
        let mut accept = peer.subsequent(2);
        change(&mut accept);
        accept
    };
    let changes: [fn(&mut AcceptConfirm); 4] = [
        |a| a.qpn = Qpn::new(1),
        |a| a.gid.0[15] ^= 1,
        |a| a.mac.0[5] ^= 1,
        |a| a.peer_id.0[0] ^= 1,
    ];
    for change in changes {
        let conn = s.connect();
        s.expect_proposal(conn);
        s.accept(conn, strange(change, &s.peer));
        let decline = s.expect_decline(conn, DiagnosisCode::OUT_OF_SYNC);
        check!(s, decline.out_of_sync, true);
    }
    s.end();
}

#[test]
fn first_contact_on_a_known_queue_pair_ends_the_stale_group() {
    //= CASE-H25 test
    //= CASE-H13 test
    //= RENDEZVOUS-012 test
    //= RENDEZVOUS-057 test
    let mut s = Script::client();
    let (old, _) = s.client_first_contact();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.accept(9));
    s.expect_confirm(conn);
    s.expect_reset(old, smc_proto::event::CloseReason::LinksLost);
    s.send(s.peer.confirm_link());
    s.expect_confirm_link_reply();
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    s.end();
}

#[test]
fn a_new_queue_pair_of_the_same_server_is_a_parallel_group() {
    //= RENDEZVOUS-012 test
    //= RENDEZVOUS-054 test
    //= RENDEZVOUS-055 test
    let mut s = Script::client();
    s.client_first_contact();
    s.peer.qpn = Qpn::new(0x4800);
    let (conn, confirm) = s.client_confirms();
    check!(s, confirm.first_contact, true);
    let link = s.adapter.links().nth(1).expect("a second queue pair");
    s.send_on(link, s.peer.confirm_link());
    s.expect_confirm_link_reply();
    s.send_on(link, s.peer.add_link());
    s.expect_add_link_rejection();
    s.expect_established(conn);
    check!(s, s.endpoint.usage().groups, 2);
    s.end();
}

#[test]
fn two_first_contacts_at_once_are_two_groups() {
    //= RENDEZVOUS-057 test
    let mut s = Script::client();
    let (a, b) = (s.connect(), s.connect());
    s.expect_proposal(a);
    s.expect_proposal(b);
    for (conn, qpn) in [(a, 0x100), (b, 0x200)] {
        s.peer.qpn = Qpn::new(qpn);
        s.accept(conn, s.peer.accept(1));
        s.expect_confirm(conn);
    }
    let links: Vec<_> = s.adapter.links().collect();
    for (link, (conn, qpn)) in links.into_iter().zip([(a, 0x100), (b, 0x200)]) {
        s.peer.qpn = Qpn::new(qpn);
        s.send_on(link, s.peer.confirm_link());
        s.expect_confirm_link_reply();
        s.send_on(link, s.peer.add_link());
        s.expect_add_link_rejection();
        s.expect_established(conn);
    }
    check!(s, s.endpoint.usage().groups, 2);
    s.end();
}

#[test]
fn a_connection_may_join_a_group_that_only_the_server_holds_for_formed() {
    //= CASE-A14 test
    // The server gave up waiting for the answer to ADD LINK a little before the
    // client gave up waiting for ADD LINK.
    //= RENDEZVOUS-039 test
    //= RENDEZVOUS-056 test
    let mut s = Script::client();
    let (first, _) = s.client_confirms_link();
    let second = s.connect();
    s.expect_proposal(second);
    s.accept(second, s.peer.subsequent(2));
    s.expect_silence();
    s.wait(core::time::Duration::from_secs(3));
    s.expect_established(first);
    s.agree_to_rmb();
    s.expect_confirm(second);
    s.expect_transcript(&["CONFIRM RKEY request", "Established", "-> CLC Confirm"]);
    s.end();
}

#[test]
fn data_that_overtakes_add_link_is_held() {
    //= RENDEZVOUS-033 test
    //= CDC-033 test
    let mut s = Script::client();
    let (conn, confirm) = s.client_confirms_link();
    let link = s.link();
    s.send_cdc(link, Peer::cdc(confirm.alert_token, 1, 20, 0));
    s.send_cdc(link, Peer::cdc(confirm.alert_token, 2, 50, 0));
    s.expect_silence();
    check!(s, s.readable(conn), 0);
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    check!(s, s.readable(conn), 50);
    s.expect_transcript(&["ADD LINK reply", "Established", "Readable"]);
    s.end();
}

#[test]
fn an_urgent_byte_that_overtakes_add_link_is_urgent_whatever_follows() {
    //= CDC-033 test
    let mut s = Script::client();
    let (conn, confirm) = s.client_confirms_link();
    let link = s.link();
    let urgent = Cdc {
        producer_flags: ProducerFlags::URGENT_PENDING | ProducerFlags::URGENT_PRESENT,
        ..Peer::cdc(confirm.alert_token, 1, 20, 0)
    };
    s.send_cdc(link, urgent);
    s.send_cdc(link, Peer::cdc(confirm.alert_token, 2, 50, 0));
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    // 19 bytes are before it.
    let ahead = s.on(conn, |c, _| c.urgent().map(|(ahead, _)| ahead));
    check!(s, ahead, Some(19));
    s.expect_transcript(&["ADD LINK reply", "Established", "Urgent"]);
    s.end();
}

#[test]
fn an_older_message_that_overtakes_add_link_does_not_replace_a_newer_one() {
    //= CDC-033 test
    let mut s = Script::client();
    let (conn, confirm) = s.client_confirms_link();
    let link = s.link();
    s.send_cdc(link, Peer::cdc(confirm.alert_token, 2, 50, 0));
    s.send_cdc(link, Peer::cdc(confirm.alert_token, 1, 20, 0));
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    check!(s, s.readable(conn), 50);
    s.expect_transcript(&["ADD LINK reply", "Established", "Readable"]);
    s.end();
}

#[test]
fn a_confirm_has_the_layout_of_an_accept_and_the_clients_values() {
    //= CLC-043 test
    let mut s = Script::client();
    let (_, confirm) = s.client_confirms();
    check!(s, confirm.gid, s.paths[0].gid);
    check!(s, confirm.mac, s.paths[0].mac);
    check!(s, confirm.peer_id == s.peer.id, false);
    let bytes = Peer::octets(&ClcMessage::Confirm(confirm));
    let mut accept = Peer::octets(&ClcMessage::Accept(confirm));
    check!(s, (accept[4], bytes[4], bytes.len()), (2, 3, 68));
    accept[4] = 3;
    check!(s, bytes.clone(), accept);
    // RFC 7609 figure 12, from the queue pair on.
    let rtoken = confirm.rtoken;
    let expected = [
        &confirm.gid.0[..],
        &confirm.mac.0,
        &confirm.qpn.octets(),
        &rtoken.rkey.0.to_be_bytes(),
        &[confirm.rmbe_index.0],
        &confirm.alert_token.0.to_be_bytes(),
    ];
    check!(s, bytes[16..50].to_vec(), expected.concat());
    check!(
        s,
        bytes[52..60].to_vec(),
        rtoken.address.to_be_bytes().to_vec()
    );
    check!(s, bytes[61..64].to_vec(), confirm.psn.octets().to_vec());
    s.give_up();
}

#[test]
fn the_client_may_write_as_soon_as_its_confirm_is_out() {
    //= RENDEZVOUS-047 test
    //= RENDEZVOUS-048 test
    //= RENDEZVOUS-052 test
    let mut s = Script::client();
    s.client_first_contact();
    let (conn, _) = s.client_joins(2);
    s.write(conn, 7);
    let (_, cdc) = s.expect_cdc();
    check!(
        s,
        cdc,
        Cdc {
            producer_flags: cdc.producer_flags,
            ..Peer::cdc(s.peer.accept(2).alert_token, 1, 7, 0)
        },
    );
    let rtoken = Peer::rtoken(2);
    check!(
        s,
        s.writes.clone(),
        vec![(rtoken.rkey.0, rtoken.address, 7)]
    );
    s.expect_transcript(&["-> CLC Confirm", "WRITE 7"]);
    s.end();
}

#[test]
fn a_client_of_a_full_table_gets_an_error() {
    //= CASE-B09 test
    let mut s = Script::client();
    for _ in 0..300 {
        s.connect();
    }
    let options = smc_proto::endpoint::ConnOptions::new(Default::default());
    let full = s.endpoint.connect(s.now, options, &s.paths);
    check!(s, full, Err(smc_proto::endpoint::OpenError::Full));
    s.end();
}

#[test]
fn data_that_comes_early_over_a_link_of_another_group_is_not_held() {
    //= RENDEZVOUS-033 test
    let mut s = Script::client();
    s.client_first_contact();
    let foreign = s.link();
    s.peer.id = PeerId::new(7, s.peer.mac);
    s.peer.qpn = Qpn::new(0x700);
    let (conn, confirm) = s.client_confirms();
    let link = s.adapter.links().last().unwrap();
    s.send_cdc(foreign, Peer::cdc(confirm.alert_token, 1, 12, 0));
    check!(s, s.endpoint.statistics().cdc_unknown, 1);
    s.send_on(link, s.peer.confirm_link());
    s.expect_confirm_link_reply();
    s.send_on(link, s.peer.add_link());
    s.expect_add_link_rejection();
    s.expect_established(conn);
    check!(s, s.readable(conn), 0);
    s.end();
}
