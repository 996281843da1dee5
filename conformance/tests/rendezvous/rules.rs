//! Which side may send what, and when, before SMC carries a connection (RFC 7609 3.1, 3.5.1,
//! 3.5.2, C.1 to C.3).

use conformance::check;
use conformance::script::{Kind, Peer, Script, Waiting, rnic};
use core::time::Duration;
use smc_proto::command::TcpCommand;
use smc_proto::endpoint::{ConnOptions, Usage};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::ConnId;
use smc_proto::wire::clc::Subnets;
use smc_proto::wire::types::{DiagnosisCode, PeerId, Qpn};

/// The TCP connection is reset, and no CLC message was sent before.
#[track_caller]
fn expect_reset_without_a_message(s: &mut Script, conn: ConnId) {
    check!(s, s.poll_clc(), None);
    check!(s, s.expect_tcp(), (conn, TcpCommand::Reset));
}

#[test]
fn without_the_option_a_connection_is_plain_tcp_though_a_group_lives() {
    //= TCPOPT-008 test
    //= TCPOPT-010 test
    //= TCPOPT-011 test
    let mut plain = ConnOptions::new(Subnets::default());
    plain.option_negotiated = false;
    let groups: [fn(&mut Script); 2] = [
        |s| {
            s.client_first_contact();
        },
        |s| {
            s.server_first_contact();
        },
    ];
    for (group, client) in groups.into_iter().zip([true, false]) {
        let mut s = Script::with(|_| {});
        group(&mut s);
        s.skip();
        let before: Usage = s.endpoint.usage();
        let asked = Kind::CONTROL.map(|kind| s.adapter.asked(kind));
        let conn = match client {
            true => s.connect_with(plain.clone()),
            false => s.listen_with(plain.clone()),
        };
        check!(s, s.poll_clc(), None);
        check!(
            s,
            s.expect_fallback(conn, DiagnosisCode::PEER_NO_SMC),
            false
        );
        check!(s, s.endpoint.usage(), before);
        check!(s, Kind::CONTROL.map(|kind| s.adapter.asked(kind)), asked);
        s.end();
    }
}

#[test]
fn until_the_rendezvous_is_over_no_side_writes_or_reads() {
    //= CASE-B07 test
    //= TCPOPT-009 test
    for waiting in Waiting::ALL {
        let (mut s, conn) = waiting.reach();
        let writable = s.on(conn, |connection, _| connection.send_space().is_some());
        let readable = s.on(conn, |connection, _| connection.readable().is_some());
        check!(s, (writable, readable), (false, false));
        check!(s, s.take_events(), vec![]);
        s.end();
    }
}

#[test]
fn a_server_sends_nothing_before_the_proposal() {
    //= CLC-020 test
    let mut s = Script::server();
    let conn = s.listen();
    s.wait(Duration::from_secs(5));
    s.expect_silence();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    check!(s, s.poll_clc(), None);
    s.take_proposal(conn);
    s.expect_accept(conn);
    s.end();
}

#[test]
fn a_decline_over_rdma_is_no_decline() {
    //= CLC-001 test
    for waiting in Waiting::FOR_LLC {
        let (mut s, conn) = waiting.reach();
        let link = s.link();
        let mut bytes = Peer::octets(&s.peer.decline());
        bytes.resize(44, 0);
        s.send_raw(link, &bytes);
        // It is an LLC message of unknown type: the link is down.
        match s.poll_clc() {
            Some(_) => {
                s.expect_fallback(conn, DiagnosisCode::LINK_READY);
            }
            None => s.expect_reset(conn, CloseReason::PeerMisbehaved),
        }
        s.end();
    }
}

#[test]
fn two_servers_behind_one_address_are_two_peers() {
    //= CLC-030 test
    let mut s = Script::client();
    let (first, _) = s.client_first_contact();
    // The next connection to the same address ends at another host.
    let one = s.peer;
    s.peer.id = PeerId::new(77, s.peer.mac);
    s.peer.qpn = Qpn::new(0x4711);
    let (second, confirm) = s.client_confirms();
    let link = s.link_of(confirm.qpn).expect("a queue pair of its own");
    s.send_on(link, s.peer.confirm_link());
    s.expect_confirm_link_reply();
    s.send_on(link, s.peer.add_link());
    s.expect_add_link_rejection();
    s.expect_established(second);
    check!(s, s.endpoint.usage().groups, 2);
    // And the one after that at the first one again.
    s.peer = one;
    s.client_joins(2);
    check!(s, s.endpoint.usage().groups, 2);
    check!(s, s.endpoint.conn(first).is_some(), true);
    s.end();
}

#[test]
fn an_accept_names_a_port_that_is_on_the_lan_of_the_client() {
    //= CLC-033 test
    let mut s = Script::server().rnics(3);
    s.paths = vec![rnic(1), rnic(2), rnic(3)];
    s.paths[0].subnet_match = false;
    s.paths[2].subnet_match = false;
    let (_, accept) = s.server_accepts();
    check!(s, (accept.gid, accept.mac), (rnic(2).gid, rnic(2).mac));
    s.end();
}

#[test]
fn behind_its_subsequent_confirm_a_client_does_not_decline() {
    //= CASE-G01 test
    //= CLC-056 test
    let mut s = Script::client();
    s.client_first_contact();
    let (conn, _) = s.client_joins(2);
    s.skip();
    s.break_link(1);
    check!(s, s.poll_clc(), None);
    let reason = CloseReason::LinksLost;
    let events = s.take_events();
    check!(s, events.contains(&Event::Closed { conn, reason }), true);
    s.expect_transcript(&["-> CLC Confirm", &format!("{conn} TCP Reset")]);
    s.end();
}

#[test]
fn behind_its_rejection_of_the_second_link_a_client_does_not_decline() {
    //= CASE-G01 test
    //= CLC-061 test
    let mut s = Script::client();
    let (conn, _) = s.client_confirms_link();
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    s.break_link(1);
    expect_reset_without_a_message(&mut s, conn);
    s.end();
}

#[test]
fn behind_its_acceptance_of_the_second_link_a_client_does_not_decline() {
    //= CASE-G01 test
    //= CLC-062 test
    // Once before, and once behind CONFIRM LINK of the second link.
    for confirmed in [false, true] {
        let mut s = Script::client().rnics(2);
        let (conn, _) = s.client_confirms_link();
        s.over(1).send(Peer::offer(2, 2));
        s.over(1).expect_add_link_reply();
        if confirmed {
            s.adapter.hold = Some(Kind::ActivateQp);
            s.over(1).send(Peer::continuation(1, 2, &[1], false));
            s.over(1).expect_continuation_reply();
            s.over(2).send(Peer::asks(2, 2));
        }
        s.break_link(1);
        expect_reset_without_a_message(&mut s, conn);
        s.release();
        s.end();
    }
}
