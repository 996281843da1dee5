//! Links, ports and TCP connections that fail, at each phase; peers that end too early.

use conformance::check;
use conformance::script::{DEVICE, Peer, Script, Waiting};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::connection::{ApiMisuse, CloseState};
use smc_proto::endpoint::TcpEvent;
use smc_proto::event::{CloseReason, Event};
use smc_proto::path::PathEvent;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags};
use smc_proto::wire::types::DiagnosisCode;

#[test]
fn a_port_that_goes_down_is_declined_before_the_point_of_no_return() {
    //= CASE-A12 test
    //= CLC-052 test
    //= CLC-059 test
    //= CLC-060 test
    //= CLC-063 test
    //= TIMER-007 test
    //= TIMER-009 test
    for waiting in Waiting::FOR_LLC {
        let (mut s, conn) = waiting.reach();
        s.path(PathEvent::PortDown {
            device: DEVICE,
            port: 1,
        });
        if matches!(waiting, Waiting::AddLink | Waiting::AddLinkReply) {
            s.expect_reset(conn, CloseReason::LinksLost);
        } else {
            s.expect_clc();
            check!(s, s.expect_fallback(conn, DiagnosisCode::LINK_READY), true);
        }
        check!(
            s,
            (s.endpoint.usage().groups, s.endpoint.usage().links),
            (0, 0)
        );
        s.end();
    }
}

#[test]
fn a_founder_that_is_reset_takes_no_other_along() {
    // The server counts the group as formed and lets others join, while the client
    // still waits for an ADD LINK that does not come.
    //= CLC-065 test
    //= RMB-021 test
    let mut s = Script::with(|config| config.elements_per_rmb = 3);
    let (first, _) = s.client_confirms_link();
    let joins = |s: &mut Script, rmb| {
        let conn = s.connect();
        s.expect_proposal(conn);
        let accept = s.peer.subsequent(rmb);
        s.accept(conn, accept);
        let confirm = s.expect_confirm(conn);
        s.expect_established(conn);
        (conn, confirm.rmbe_index.0)
    };
    let (second, element) = joins(&mut s, 2);
    check!(s, element, 2);
    s.tcp(first, TcpEvent::PeerReset);
    s.expect_closed(first, CloseReason::TcpReset);
    s.expect_silence();
    s.write(second, 5);
    s.expect_cdc();
    // The server may still write to the first element: it is not given out again.
    check!(s, joins(&mut s, 3).1, 3);
    s.wait(Duration::from_secs(3));
    check!(
        s,
        (s.endpoint.usage().groups, s.endpoint.usage().links),
        (1, 1)
    );
    s.end();
}

#[test]
fn a_broken_queue_pair_is_declined_before_the_point_of_no_return() {
    //= CASE-G01 test
    //= CLC-063 test
    //= TIMER-004 test
    for waiting in Waiting::FOR_LLC {
        let (mut s, conn) = waiting.reach();
        let link = s.link();
        s.complete(RdmaCompletion::LinkFailed {
            link,
            cause: LinkFailure::RetriesExhausted,
            conn: None,
        });
        if matches!(waiting, Waiting::AddLink | Waiting::AddLinkReply) {
            s.expect_reset(conn, CloseReason::LinksLost);
        } else {
            s.expect_clc();
            check!(s, s.expect_fallback(conn, DiagnosisCode::LINK_READY), true);
        }
        s.end();
    }
}

#[test]
fn a_link_that_fails_after_a_subsequent_accept_breaks_the_connection() {
    //= CLC-055 test
    //= CLC-057 test
    let (mut s, conn) = Waiting::SubsequentConfirm.reach();
    s.path(PathEvent::DeviceRemoved { device: DEVICE });
    s.expect_transcript(&["-> CLC Accept", &format!("{conn} TCP Reset")]);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_failed_link_resets_its_connections_and_notifies_the_applications() {
    //= RENDEZVOUS-058 test
    //= LINK-036 test
    //= KEEPALIVE-005 test
    let mut s = Script::client();
    let (a, _) = s.client_first_contact();
    let (b, _) = s.client_joins(2);
    s.write(a, 100);
    s.skip();
    s.path(PathEvent::PortDown {
        device: DEVICE,
        port: 2,
    });
    s.expect_silence();
    s.path(PathEvent::PortDown {
        device: DEVICE,
        port: 1,
    });
    let events = s.take_events();
    for conn in [a, b] {
        let reason = CloseReason::LinksLost;
        check!(s, events.contains(&Event::Closed { conn, reason }), true);
    }
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn an_abort_that_waits_for_its_answer_outlives_the_link() {
    let mut s = Script::client();
    let (conn, _) = s.client_first_contact();
    s.on(conn, |c, now| c.abort(now));
    s.path(PathEvent::DeviceRemoved { device: DEVICE });
    s.skip();
    for round in 0..40 {
        // The freed slots are used again while the old connection lingers.
        s.client_first_contact();
        s.path(PathEvent::DeviceRemoved { device: DEVICE });
        s.skip();
        check!(s, s.endpoint.usage().links, 0);
        s.note(format_args!("round {round}"));
    }
    s.end();
}

#[test]
fn tcp_that_ends_ends_a_rendezvous_in_any_state() {
    for waiting in Waiting::ALL {
        for event in [TcpEvent::PeerReset, TcpEvent::Failed] {
            let (mut s, conn) = waiting.reach();
            s.tcp(conn, event);
            s.expect_closed(conn, CloseReason::TcpReset);
            s.end();
        }
    }
}

#[test]
fn a_fin_where_a_clc_message_is_due_ends_the_tcp_connection_too() {
    //= CLC-072 test
    for waiting in Waiting::FOR_CLC {
        let (mut s, conn) = waiting.reach();
        s.tcp(conn, TcpEvent::PeerFin);
        s.expect_reset(conn, CloseReason::TcpReset);
        s.end();
    }
}

#[test]
fn a_fin_may_overtake_the_last_answers_of_a_first_contact() {
    // A peer that has formed the group may have written and closed already.
    //= CLOSE-034 test
    let (mut s, conn) = Waiting::AddLinkReply.reach();
    s.tcp(conn, TcpEvent::PeerFin);
    s.expect_silence();
    s.send(s.peer.add_link_rejection());
    s.expect_established(conn);
    s.end();
}

#[test]
fn a_reset_before_the_servers_first_message_means_that_it_did_not_take_the_confirm() {
    // Its wait was over when the Confirm came, or its application had gone. The RMB is one
    // that the server goes on using for others, so that nothing else would show it.
    //= ABORT-016 test
    //= CLC-069 test
    for event in [TcpEvent::PeerReset, TcpEvent::Failed] {
        for has_received in [false, true] {
            let mut s = Script::client();
            let (first, _) = s.client_first_contact();
            let (conn, token) = s.client_joins(2);
            s.skip();
            if has_received {
                // An element was freed, and nothing else happened.
                let link = s.link();
                s.send_cdc(link, Peer::cdc(token, 1, 0, 0));
            }
            s.tcp(conn, event);
            if has_received {
                s.expect_silence();
            } else {
                // The server would answer if it knew the connection after all.
                s.expect_cdc();
                s.wait(Duration::from_secs(5));
                s.expect_closed(conn, CloseReason::TcpReset);
            }
            s.skip();
            // No other connection is concerned.
            s.write(first, 5);
            s.expect_cdc();
            s.end();
        }
    }
}

#[test]
fn a_waiting_writer_is_notified_of_a_close_when_writes_begin_to_fail() {
    // The peer closes before it has received the bytes, and answers nothing after that.
    //= CLOSE-015 test
    //= ABORT-004 test
    let mut s = Script::server();
    let (conn, token) = s.server_first_contact();
    let space = |s: &mut Script| s.on(conn, |c, _| c.send_space().map_or(0, |at| at.len()));
    loop {
        let room = space(&mut s);
        if room == 0 {
            break;
        }
        s.write(conn, room);
    }
    s.skip();
    let link = s.link();
    // That there is room is reported to the writer, and nothing to the reader.
    s.send_cdc(link, Peer::cdc(token, 1, 0, 100));
    s.expect_cdc();
    s.expect_event(Event::Writable { conn });
    s.expect_silence();
    s.write(conn, 100);
    s.skip();
    let closed = Cdc {
        connection_flags: ConnectionFlags::PEER_CONNECTION_CLOSED,
        ..Peer::cdc(token, 2, 0, 100)
    };
    s.send_cdc(link, closed);
    s.expect_event(Event::Readable { conn });
    s.expect_event(Event::Writable { conn });
    let refused = s.on(conn, |c, now| (c.state(), c.write(now, |_| 0)));
    check!(
        s,
        refused,
        (Some(CloseState::PeerAbortWait), Err(ApiMisuse::Reset))
    );
    // Its end is reported when the wait for the peer is over.
    s.skip();
    s.wait(Duration::from_secs(5));
    s.expect_closed(conn, CloseReason::LocalAbort);
    s.end();
}
