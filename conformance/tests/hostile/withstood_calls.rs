//! An application, or an embedder, that calls anything at any time (docs/regressions.md).

use std::hash::{DefaultHasher, Hasher};

use conformance::check;
use conformance::script::{Peer, Script, Waiting};
use core::time::Duration;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ClcProgress, TcpEvent};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::ConnId;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::types::DiagnosisCode;

const C: ConnectionFlags = ConnectionFlags::PEER_CONNECTION_CLOSED;
const A: ConnectionFlags = ConnectionFlags::ABNORMAL_CLOSE;

fn fingerprint(s: &mut Script) -> u64 {
    let mut hasher = DefaultHasher::new();
    s.endpoint.fingerprint(s.now, &mut hasher);
    hasher.finish()
}

/// Asks everything that can be asked of a connection.
fn ask(s: &mut Script, conn: ConnId) {
    let _ = s.endpoint.proposal(conn);
    if let Some(c) = s.endpoint.conn(conn) {
        let _ = (c.send_space(), c.readable(), c.urgent(), c.state());
        let _ = c.is_end_of_stream();
    }
    let links: Vec<_> = s.adapter.links().collect();
    for link in links {
        if let Some(status) = s.endpoint.link(link) {
            let _ = s.endpoint.terms(status.group);
        }
    }
    let _ = (s.endpoint.usage(), s.endpoint.poll_timeout());
}

#[test]
fn any_question_in_any_state_is_answered_and_changes_nothing() {
    //= CASE-B06 test
    //= CASE-D22 test
    for waiting in Waiting::ALL {
        let (mut s, conn) = waiting.reach();
        let before = fingerprint(&mut s);
        ask(&mut s, conn);
        check!(s, fingerprint(&mut s), before);
        s.expect_silence();
        // And when all is over.
        s.tcp(conn, TcpEvent::PeerReset);
        ask(&mut s, conn);
        s.end();
    }
}

#[test]
fn close_and_abort_in_any_state_of_a_rendezvous_leave_nothing() {
    //= CASE-B02 test
    //= CASE-E03 test
    //= CASE-D14 test
    type Way = fn(&mut Script, ConnId);
    let ways: [Way; 4] = [
        |s, conn| s.on(conn, |c, now| c.shutdown(now, Shutdown::Both)),
        |s, conn| s.on(conn, |c, now| c.abort(now)),
        // Both in one moment, before anything is polled.
        |s, conn| {
            s.on(conn, |c, now| {
                c.shutdown(now, Shutdown::Both);
                c.abort(now);
            });
        },
        |s, conn| {
            s.on(conn, |c, now| {
                c.abort(now);
                c.shutdown(now, Shutdown::Both);
                c.abort(now);
            });
        },
    ];
    for waiting in Waiting::ALL {
        for end in ways {
            let (mut s, conn) = waiting.reach();
            end(&mut s, conn);
            check!(s, s.poll_clc(), None);
            s.expect_reset(conn, CloseReason::LocalAbort);
            check!(s, s.endpoint.usage().handshakes, 0);
            // What comes for it afterwards is dropped.
            let bytes = Peer::octets(&s.peer.decline());
            check!(s, s.octets(conn, &bytes), Ok(ClcProgress::NotClc));
            s.tcp(conn, TcpEvent::PeerFin);
            s.expect_silence();
            s.end();
        }
    }
}

#[test]
fn what_comes_for_a_connection_that_is_gone_is_ignored() {
    //= CASE-B01 test
    let mut s = Script::server();
    let conn = s.listen();
    s.on(conn, |c, now| c.abort(now));
    s.expect_reset(conn, CloseReason::LocalAbort);
    let bytes = Peer::octets(&s.peer.proposal());
    check!(s, s.octets(conn, &bytes), Ok(ClcProgress::NotClc));
    let paths = s.paths.clone();
    let answered = s.endpoint.accept(s.now, conn, &paths);
    check!(s, answered.is_err(), true);
    let code = DiagnosisCode::NO_DEVICE;
    check!(s, s.endpoint.decline(s.now, conn, code).is_err(), true);
    s.expect_silence();
    s.end();
}

#[test]
fn an_application_may_close_at_the_first_moment() {
    //= CASE-B03 test
    //= CASE-C10 test
    // Before anything was written, in the moment of the event.
    type Way = (fn(&mut Script, ConnId), ConnectionFlags);
    let ways: [Way; 2] = [
        (
            |s, conn| s.on(conn, |c, now| c.shutdown(now, Shutdown::Both)),
            C,
        ),
        (|s, conn| s.on(conn, |c, now| c.abort(now)), A),
    ];
    for (end, flag) in ways {
        for client in [true, false] {
            let mut s = Script::with(|_| {});
            let (conn, token) = match client {
                true => s.client_first_contact(),
                false => s.server_first_contact(),
            };
            end(&mut s, conn);
            let (link, cdc) = s.expect_cdc();
            check!(s, cdc.connection_flags.contains(flag), true);
            check!(s, (cdc.sequence, cdc.producer.count), (1, 0));
            s.send_cdc(link, Peer::cdc_flags(token, 1, flag));
            let closed =
                |event: &Event| matches!(event, Event::Closed { conn: c, .. } if *c == conn);
            check!(s, s.take_events().iter().filter(|e| closed(e)).count(), 1);
            s.end();
        }
    }
}

#[test]
fn bytes_are_consumed_once_and_not_after_the_end() {
    //= CASE-C15 test
    let mut s = Script::client();
    let (conn, token) = s.client_first_contact();
    let link = s.link();
    s.send_cdc(link, Peer::cdc(token, 1, 10, 0));
    check!(s, s.on(conn, |c, now| c.consume(now, 10)), Ok(()));
    let beyond = |s: &mut Script, len| s.on(conn, move |c, now| c.consume(now, len).is_err());
    check!(s, beyond(&mut s, 1), true);
    s.send_cdc(link, Peer::cdc(token, 2, 15, 0));
    check!(s, beyond(&mut s, 6), true);
    check!(s, s.readable(conn), 5);
    s.send_cdc(link, Peer::cdc_flags(token, 3, A));
    check!(s, s.readable(conn), 0);
    if let Some(mut c) = s.endpoint.conn(conn) {
        let refused = c.consume(s.now, 1).is_err();
        check!(s, refused, true);
    }
    s.end();
}

#[test]
fn shutdowns_in_every_order_end_closed() {
    //= CASE-E05 test
    //= CASE-E02 test
    //= CASE-E08 test
    let hows = [Shutdown::Read, Shutdown::Write, Shutdown::Both];
    // Three of them, with repetitions, and the peer's close before each and at the end.
    for number in 0..27 {
        for peer_closes_at in 0..4 {
            let mut s = Script::client();
            let (conn, token) = s.client_first_contact();
            let link = s.link();
            let order = [number / 9, number / 3 % 3, number % 3];
            for (turn, how) in order.into_iter().enumerate() {
                if turn == peer_closes_at {
                    s.send_cdc(link, Peer::cdc_flags(token, 1, C));
                }
                if let Some(mut c) = s.endpoint.conn(conn) {
                    c.shutdown(s.now, hows[how]);
                }
                s.pump();
            }
            if let Some(mut c) = s.endpoint.conn(conn) {
                c.shutdown(s.now, Shutdown::Both);
            }
            s.pump();
            if peer_closes_at == 3 {
                s.send_cdc(link, Peer::cdc_flags(token, 1, C));
            }
            let closed =
                |event: &Event| matches!(event, Event::Closed { conn: c, .. } if *c == conn);
            check!(s, s.take_events().iter().filter(|e| closed(e)).count(), 1);
            check!(s, s.endpoint.usage().connections, 0);
            // Nothing is left that would ring before the link is tested.
            let next = s.endpoint.poll_timeout().map(|at| at.since(s.now));
            check!(s, next >= Some(Duration::from_secs(29)), true);
            s.end();
        }
    }
}
