//! The server's rendezvous (RFC 7609 3.5.1, 3.5.2, 3.5.3).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::connection::Shutdown;
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::types::{DiagnosisCode, Mtu, Qpn};

/// Up to `Event::Proposed`, answered with all ports.
fn propose(s: &mut Script) -> ConnId {
    let conn = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.take_proposal(conn);
    conn
}

#[test]
fn a_confirm_is_taken_with_and_without_the_bit_that_is_reserved_in_it() {
    //= CLC-043 test
    for first_contact in [true, false] {
        let mut s = Script::server();
        let (conn, _) = s.server_accepts();
        let confirm = AcceptConfirm {
            first_contact,
            ..s.peer.accept(1)
        };
        s.confirm(conn, confirm);
        s.expect_confirm_link();
        s.send(s.peer.confirm_link_reply());
        s.expect_add_link();
        s.send(s.peer.add_link_rejection());
        check!(s, s.expect_established(conn), true);
        let (to, _) = s.adapter.connected[0];
        check!(s, (to.qpn, to.gid), (confirm.qpn, confirm.gid));
        s.end();
    }
}

#[test]
fn the_first_contact_of_a_server_has_this_transcript() {
    //= RENDEZVOUS-009 test
    //= RENDEZVOUS-020 test
    //= RENDEZVOUS-021 test
    //= RENDEZVOUS-023 test
    //= RENDEZVOUS-026 test
    //= RENDEZVOUS-028 test
    let mut s = Script::server();
    let conn = propose(&mut s);
    let accept = s.expect_accept(conn);
    check!(s, (accept.first_contact, accept.rmbe_index.0), (true, 1));
    s.expect_silence();
    let confirm = AcceptConfirm {
        mtu: Mtu::M4096,
        ..s.peer.accept(1)
    };
    s.confirm(conn, confirm);
    let request = s.expect_confirm_link();
    check!(s, (request.qpn, request.gid), (accept.qpn, accept.gid));
    check!(s, (request.mac, request.link.0), (accept.mac, 1));
    check!(s, request.max_links, 2);
    s.expect_silence();
    s.send(s.peer.confirm_link_reply());
    let offer = s.expect_add_link();
    check!(s, offer.link.0, 2);
    check!(s, offer.qpn == accept.qpn, false);
    s.expect_silence();
    s.send(s.peer.add_link_rejection());
    check!(s, s.expect_established(conn), true);
    let (to, mtu) = s.adapter.connected[0];
    check!(
        s,
        (to.qpn, to.psn, mtu),
        (confirm.qpn, confirm.psn, Mtu::M1024)
    );
    check!(s, s.adapter.queue_pairs(), 1);
    s.expect_transcript(&[
        "<- CLC Proposal",
        "command CreateQp",
        "command Register",
        "-> CLC Accept",
        "<- CLC Confirm",
        "command ConnectQp",
        "command ActivateQp",
        "-> LLC CONFIRM LINK request",
        "<- LLC CONFIRM LINK reply",
        "command CreateQp",
        "-> LLC ADD LINK request",
        "<- LLC ADD LINK reply",
        "command DestroyQp",
        "Established",
    ]);
    s.end();
}

#[test]
fn a_proposal_reserves_nothing_before_the_answer() {
    //= RENDEZVOUS-007 test
    let mut s = Script::server();
    let conn = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.expect_event(Event::Proposed { conn });
    check!(
        s,
        (s.endpoint.usage().groups, s.adapter.queue_pairs()),
        (0, 0)
    );
    check!(
        s,
        s.endpoint.proposal(conn).map(|p| p.peer_id),
        Some(s.peer.id)
    );
    s.endpoint
        .decline(s.now, conn, DiagnosisCode::CONFIGURATION)
        .unwrap();
    s.pump();
    s.expect_decline(conn, DiagnosisCode::CONFIGURATION);
    s.end();
}

#[test]
fn a_second_link_is_complete_before_data_flows() {
    //= RENDEZVOUS-029 test
    //= RENDEZVOUS-032 test
    //= RENDEZVOUS-033 test
    let mut s = Script::server();
    let (conn, accept) = s.server_adds_link();
    s.over(1).send(Peer::takes(2, 2));
    s.over(1).expect_continuation();
    s.over(1).send_cdc(Peer::cdc(accept.alert_token, 1, 30, 0));
    s.over(1).send(Peer::continuation(1, 2, &[1], true));
    s.over(2).expect_confirm_link();
    s.expect_silence();
    check!(s, s.readable(conn), 0);
    s.over(2).send(Peer::confirms(2, 2));
    s.expect_established(conn);
    check!(s, s.readable(conn), 30);
    check!(s, s.adapter.queue_pairs(), 2);
    s.end();
}

#[test]
fn a_second_link_that_fails_is_given_up_before_data_flows() {
    //= CASE-G03 test
    //= RENDEZVOUS-030 test
    //= RENDEZVOUS-032 test
    //= TIMER-011 test
    let mut s = Script::server();
    let (conn, accept) = s.server_adds_link();
    s.over(1).send(Peer::takes(2, 2));
    s.peer_answers_continuations(1, 2, &[1]);
    s.over(2).expect_confirm_link();
    s.wait(Duration::from_secs(5));
    let request = s.over(1).expect_delete_link();
    check!(s, request.link.0, 2);
    s.over(1).send_cdc(Peer::cdc(accept.alert_token, 1, 30, 0));
    s.expect_silence();
    check!(s, s.readable(conn), 0);
    s.over(1)
        .send(Peer::delete_link_with(request.flags, 2, true));
    s.expect_established(conn);
    check!(s, s.readable(conn), 30);
    check!(s, s.adapter.queue_pairs(), 1);
    s.end();
}

#[test]
fn a_subsequent_contact_announces_its_rmb_before_the_accept() {
    //= RENDEZVOUS-036 test
    //= RENDEZVOUS-038 test
    //= RENDEZVOUS-045 test
    //= RENDEZVOUS-049 test
    //= LLC-059 test
    let mut s = Script::server();
    let (_, first) = s.server_first_contact();
    let conn = propose(&mut s);
    let request = s.expect_confirm_rkey();
    s.expect_silence();
    let request = smc_proto::wire::llc::LlcMessage::ConfirmRkey(request);
    s.send(Peer::reply_to(&request));
    let accept = s.expect_accept(conn);
    check!(s, accept.first_contact, false);
    check!(s, accept.alert_token == first, false);
    s.confirm(conn, s.peer.subsequent(2));
    check!(s, s.expect_established(conn), false);
    s.expect_silence();
    s.end();
}

#[test]
fn data_that_overtakes_the_confirm_is_held() {
    //= RENDEZVOUS-050 test
    //= RENDEZVOUS-051 test
    let mut s = Script::server();
    s.server_first_contact();
    let (conn, accept) = s.server_accepts();
    let link = s.link();
    s.send_cdc(link, Peer::cdc(accept.alert_token, 1, 12, 0));
    s.expect_silence();
    check!(s, s.readable(conn), 0);
    s.confirm(conn, s.peer.subsequent(2));
    s.expect_established(conn);
    check!(s, s.readable(conn), 12);
    s.end();
}

#[test]
fn even_the_close_may_overtake_the_confirm() {
    //= RENDEZVOUS-050 test
    let mut s = Script::server();
    s.server_first_contact();
    let (conn, accept) = s.server_accepts();
    let link = s.link();
    let mut cdc = Peer::cdc(accept.alert_token, 4, 12, 0);
    cdc.connection_flags = ConnectionFlags::PEER_CONNECTION_CLOSED;
    s.send_cdc(link, cdc);
    s.confirm(conn, s.peer.subsequent(2));
    check!(s, s.readable(conn), 12);
    s.on(conn, |c, now| {
        c.consume(now, 12).unwrap();
        c.shutdown(now, Shutdown::Both);
    });
    let events = s.take_events();
    let reason = CloseReason::Normal;
    check!(s, events.contains(&Event::Closed { conn, reason }), true);
    s.end();
}

#[test]
fn a_subsequent_confirm_of_no_active_link_breaks_the_connection() {
    //= RENDEZVOUS-043 test
    //= RENDEZVOUS-044 test
    //= CLC-055 test
    let changes: [fn(&mut AcceptConfirm); 4] = [
        |c| c.qpn = Qpn::new(1),
        |c| c.gid.0[15] ^= 1,
        |c| c.mac.0[5] ^= 1,
        |c| c.rmbe_index.0 = 0,
    ];
    for change in changes {
        let mut s = Script::server();
        s.server_first_contact();
        let (conn, _) = s.server_accepts();
        let mut confirm = s.peer.subsequent(2);
        change(&mut confirm);
        s.confirm(conn, confirm);
        s.expect_reset(conn, CloseReason::PeerMisbehaved);
        check!(s, s.endpoint.usage().groups, 1);
        s.end();
    }
}

#[test]
fn data_does_not_wait_for_an_exchange_that_is_slow() {
    //= CDC-003 test
    let mut s = Script::server();
    let (conn, token) = s.server_first_contact();
    // CONFIRM RKEY for the next connection, and no answer to it.
    s.server_wants_rmb();
    s.expect_confirm_rkey();
    for sequence in 1..=5 {
        s.write(conn, 10);
        let (link, cdc) = s.expect_cdc();
        check!(
            s,
            (cdc.sequence, cdc.producer.count),
            (sequence, 10 * u32::from(sequence))
        );
        s.send_cdc(link, Peer::cdc(token, sequence, 7 * u32::from(sequence), 0));
        check!(s, s.readable(conn), 7 * u32::from(sequence));
        s.skip();
    }
    check!(s, s.poll_clc(), None);
    s.end();
}
