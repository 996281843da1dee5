//! Links that fail, for whatever reason, and what becomes of their group
//! (RFC 7609 2.3, 4.6).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::command::TcpCommand;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::event::{CloseReason, Event};
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};

const F: ProducerFlags = ProducerFlags::FAILOVER_VALIDATION;

#[test]
fn whatever_takes_a_link_its_connections_go_on() {
    //= FAILOVER-002 test
    //= FAILOVER-025 test
    //= CASE-H24 test
    type Fail = fn(&mut Script);
    let fails: [Fail; 6] = [
        |s| s.break_link(1),
        |s| s.port_down(1),
        |s| s.remove_rnic(1),
        |s| {
            let link = s.link_no(1);
            s.send_raw(link, &[0; 44]);
        },
        |s| {
            let link = s.link_no(1);
            s.complete(RdmaCompletion::LinkFailed {
                link,
                cause: LinkFailure::PortDown,
                conn: None,
            });
        },
        // The peer posts no receives, until the RNIC gives up.
        |s| {
            let link = s.link_no(1);
            s.complete(RdmaCompletion::LinkFailed {
                link,
                cause: LinkFailure::ReceiverNotReady,
                conn: None,
            });
        },
    ];
    for fail in fails {
        for (mut s, conn, token) in [Script::two_link_server(), Script::two_link_client()] {
            fail(&mut s);
            check!(s, s.over(2).expect_delete_link().link.0, 1);
            s.over(2).expect_cdc();
            s.write(conn, 7);
            check!(s, s.over(2).expect_cdc().producer.count, 7);
            s.over(2).send_cdc(Peer::cdc(token, 1, 9, 7));
            check!(s, s.readable(conn), 9);
            check!(s, s.endpoint.statistics().failovers, 1);
            s.end();
        }
    }
}

#[test]
fn without_another_link_every_connection_is_reset() {
    //= FAILOVER-025 test
    //= KEEPALIVE-005 test
    for links in [1, 2] {
        let mut s = Script::server().rnics(links);
        let first = match links {
            1 => s.server_first_contact().0,
            _ => s.server_with_links(2).0,
        };
        let others = [2, 3].map(|rmb| s.server_joins(rmb).0);
        for link in (1..=links).rev() {
            s.break_link(link);
        }
        let events = s.take_events();
        for conn in [first, others[0], others[1]] {
            let reason = CloseReason::LinksLost;
            check!(s, events.contains(&Event::Closed { conn, reason }), true);
        }
        check!(s, s.endpoint.usage().groups, 0);
        s.end();
    }
}

#[test]
fn the_client_reports_the_server_deletes() {
    //= CASE-G07 test
    //= FAILOVER-024 test
    //= LLC-054 test
    //= LLC-078 test
    let (mut s, conn, _) = Script::two_link_client();
    s.break_link(1);
    let report = s.over(2).expect_delete_link();
    check!(s, (report.reply, report.link.0), (false, 1));
    s.over(2).expect_cdc();
    // Of the dead link nothing is taken any more.
    s.over(1).send(Peer::offer(3, 3));
    s.over(1).send(Peer::delete_link(2));
    s.expect_silence();
    s.over(2).send(Peer::delete_link(1));
    s.over(2).expect_delete_link_reply();
    s.expect_link_down(1);
    s.write(conn, 1);
    s.skip_hints();
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn a_server_that_is_notified_of_a_failure_moves_its_own_side_too() {
    //= FAILOVER-003 test
    //= FAILOVER-024 test
    //= LLC-050 test
    let (mut s, conn, _) = Script::two_link_server();
    s.over(2).send(Peer::delete_because(
        1,
        smc_proto::wire::types::DeleteLinkReason::LOST_PATH,
    ));
    let own = s.expect_delete_link();
    check!(s, own.link.0, 1);
    s.over(2).send(Peer::delete_link_with(own.flags, 1, true));
    s.expect_link_down(1);
    s.over(2).expect_cdc();
    s.write(conn, 3);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn a_connection_whose_rmb_the_other_link_does_not_reach_ends_and_others_go_on() {
    //= RMB-010 test
    //= ABORT-015 test
    // The second connection's RMB was never announced for link 2.
    let (mut s, first, _) = Script::two_link_server();
    let (second, token) = s.server_joins(2);
    s.break_link(1);
    s.skip_delete_requests();
    check!(s, s.take_events(), vec![Event::Readable { conn: second }]);
    check!(s, s.expect_tcp(), (second, TcpCommand::Reset));
    s.skip();
    let link = s.link_no(2);
    s.send_cdc(
        link,
        Peer::cdc_flags(token, 1, ConnectionFlags::ABNORMAL_CLOSE),
    );
    s.expect_closed(second, CloseReason::LinksLost);
    s.write(first, 5);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn writes_that_break_a_link_end_their_connection_only() {
    //= CASE-H05 test
    //= FAILOVER-002 test
    let (mut s, good, _) = Script::two_link_client();
    s.over(1).send(Peer::confirm_rkey_on(1, 2, &[2]));
    s.skip();
    let (bad, _) = s.client_joins(2);
    let link = s.link_no(1);
    s.complete(RdmaCompletion::LinkFailed {
        link,
        cause: LinkFailure::RemoteAccess,
        conn: Some(bad),
    });
    s.over(2).expect_delete_link();
    s.over(2).send(Peer::delete_link(1));
    s.wait(Duration::from_secs(6));
    let events = s.take_events();
    let reason = CloseReason::LinksLost;
    check!(
        s,
        events.contains(&Event::Closed { conn: bad, reason }),
        true
    );
    s.skip();
    s.write(good, 5);
    s.over(2).expect_cdc();
    s.end();
}

#[test]
fn more_connections_than_send_slots_move_at_once() {
    //= CASE-D17 test
    //= FAILOVER-002 test
    //= FAILOVER-008 test
    let (mut s, first, _) = Script::two_link_client();
    let mut conns = vec![first];
    for rmb in 2..=40 {
        s.over(1).send(Peer::confirm_rkey_on(1, rmb, &[2]));
        s.skip();
        conns.push(s.client_joins(rmb).0);
    }
    for conn in &conns {
        s.write(*conn, 10);
        s.expect_cdc();
    }
    s.adapter.hold = Some(Kind::Send);
    for conn in &conns {
        s.write(*conn, 10);
    }
    s.skip();
    s.break_link(1);
    s.release();
    s.skip_delete_requests();
    let mut validated = std::collections::BTreeSet::new();
    let mut published = std::collections::BTreeSet::new();
    while let Some(cdc) = s.poll_cdc_over(2) {
        match cdc.producer_flags.contains(F) {
            true => {
                check!(s, cdc.sequence, 1);
                check!(s, validated.insert(cdc.alert_token.0), true);
            }
            false => {
                check!(s, validated.contains(&cdc.alert_token.0), true);
                check!(s, cdc.producer.count, 20);
                published.insert(cdc.alert_token.0);
            }
        }
    }
    check!(s, (validated.len(), published.len()), (40, 40));
    s.end();
}

#[test]
fn a_connection_survives_one_failure_after_another() {
    //= FAILOVER-002 test
    //= LINK-042 test
    let (mut s, conn, _) = Script::two_link_server();
    let (mut now, mut link) = (1, 2);
    for round in 0..20u8 {
        s.port_down(1 + round % 2);
        let own = s.over(link).expect_delete_link();
        check!(s, own.link.0, now);
        s.over(link)
            .send(Peer::delete_link_with(own.flags, now, true));
        s.over(link).expect_cdc();
        s.write(conn, 10);
        let cdc = s.over(link).expect_cdc();
        check!(s, cdc.producer.count, 10 * (u32::from(round) + 1));
        s.port_up(1 + round % 2);
        // The offer of the only port, made meanwhile, is not wanted.
        let next = s.refuse_offers_but(1 + round % 2, link);
        s.peer_joins(link, next, 1 + round % 2, &[1]);
        (now, link) = (link, next);
    }
    check!(s, s.endpoint.statistics().failovers, 20);
    s.end();
}

#[test]
fn a_close_that_was_under_way_is_finished_on_the_other_link() {
    //= FAILOVER-002 test
    let (mut s, conn, token) = Script::two_link_client();
    s.adapter.hold = Some(Kind::Send);
    s.write(conn, 10);
    s.on(conn, |c, now| {
        c.shutdown(now, smc_proto::connection::Shutdown::Both);
    });
    s.skip();
    s.adapter.hold = None;
    s.break_link(1);
    s.over(2).expect_delete_link();
    check!(s, s.over(2).expect_cdc().producer_flags.contains(F), true);
    let closed = smc_proto::wire::cdc::ConnectionFlags::PEER_CONNECTION_CLOSED;
    let mut last = s.over(2).expect_cdc();
    if !last.connection_flags.contains(closed) {
        last = s.over(2).expect_cdc();
    }
    check!(s, last.connection_flags.contains(closed), true);
    check!(s, last.producer.count, 10);
    s.over(2).send_cdc(Peer::cdc_flags(token, 1, closed));
    s.expect_closed(conn, CloseReason::Normal);
    s.end();
}

#[test]
fn a_rendezvous_whose_link_fails_leaves_nothing() {
    let (mut s, first, _) = Script::two_link_server();
    let (conn, accept) = s.server_accepts();
    check!(s, accept.first_contact, false);
    s.break_link(2);
    s.skip();
    let mut confirm = s.peer.subsequent(2);
    (confirm.qpn, (confirm.gid, confirm.mac)) = (Peer::qpn_of(2), Peer::port(2));
    s.confirm(conn, confirm);
    s.skip();
    s.write(first, 5);
    s.over(1).expect_cdc();
    s.end();
}
