//! Adapters that refuse or dawdle, at each phase.

use conformance::check;
use conformance::script::{DEVICE, Kind, Peer, Script, Waiting};
use smc_proto::path::PathEvent;
use smc_proto::time::Duration;
use smc_proto::wire::clc::ClcKind;

/// Kinds of commands that bring something up.
const UP: [Kind; 5] = [
    Kind::CreateQp,
    Kind::ConnectQp,
    Kind::ActivateQp,
    Kind::Alloc,
    Kind::Register,
];
/// Kinds of commands that take something down.
const DOWN: [Kind; 4] = [
    Kind::QpToError,
    Kind::DestroyQp,
    Kind::Deregister,
    Kind::Free,
];

/// Plays a first contact as client as long as the engine takes part.
fn try_as_client(s: &mut Script) -> bool {
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.accept(1));
    if !s.has_sent(ClcKind::Accept) && !s.has_sent(ClcKind::Confirm) {
        return false;
    }
    s.send(s.peer.confirm_link());
    if s.endpoint.conn(conn).is_none() || s.endpoint.usage().handshakes == 0 {
        return false;
    }
    s.send(s.peer.add_link());
    true
}

/// Tries as server.
fn try_as_server(s: &mut Script) -> bool {
    let conn = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.take_proposal(conn);
    if !s.has_sent(ClcKind::Accept) && !s.has_sent(ClcKind::Confirm) {
        return false;
    }
    s.confirm(conn, s.peer.accept(1));
    if s.endpoint.usage().handshakes == 0 {
        return false;
    }
    s.send(s.peer.confirm_link_reply());
    s.send(s.peer.add_link_rejection());
    true
}

#[test]
fn a_refused_command_of_the_first_contact_makes_a_decline() {
    //= CASE-A11 test
    //= CLC-054 test
    //= CLC-065 test
    //= RENDEZVOUS-018 test
    for kind in UP {
        for number in 1..=2 {
            for play in [try_as_client, try_as_server] {
                let mut s = Script::client();
                s.adapter.refuse(kind, number);
                if !play(&mut s) {
                    s.expect_transcript(&["refused", "-> CLC Decline", "FellBack"]);
                    check!(s, s.endpoint.usage().groups, 0);
                }
                s.end();
            }
        }
    }
}

#[test]
fn a_second_queue_pair_that_is_refused_leaves_a_group_of_one_link() {
    //= LINK-048 test
    let mut s = Script::server();
    s.adapter.refuse(Kind::CreateQp, 2);
    let (conn, _) = s.server_asks_to_confirm();
    s.send(s.peer.confirm_link_reply());
    s.expect_established(conn);
    s.expect_silence();
    s.end();
}

#[test]
fn a_refused_command_of_a_subsequent_contact_spares_the_group() {
    //= CLC-054 test
    for kind in [Kind::Alloc, Kind::Register] {
        for number in 1..=2 {
            let (mut s, conn) = Waiting::SubsequentAccept.reach();
            s.adapter.refuse(kind, number);
            s.accept(conn, s.peer.subsequent(2));
            s.agree_to_rmb();
            let (_, message) = s.expect_clc();
            check!(s, message.kind(), ClcKind::Decline);
            check!(s, s.endpoint.usage().groups, 1);
            s.skip();
            s.client_joins(3);
            s.end();
        }
    }
}

#[test]
fn what_cannot_be_taken_back_counts_as_gone() {
    for kind in DOWN {
        for number in 1..=3 {
            for play in [try_as_client, try_as_server] {
                let mut s = Script::client();
                play(&mut s);
                s.adapter.refuse(kind, number);
                s.path(PathEvent::DeviceRemoved { device: DEVICE });
                check!(s, s.endpoint.usage().links, 0);
                check!(s, s.endpoint.usage().buffers, 0);
                s.end();
            }
        }
    }
}

#[test]
fn an_element_that_cannot_be_cleared_is_never_used_again() {
    //= SEC-008 test
    //= RMB-016 test
    let mut s = Script::client();
    s.client_first_contact();
    let (conn, _) = s.client_joins(2);
    s.adapter.refuse(Kind::Clear, 1);
    s.on(conn, |c, now| c.abort(now));
    s.wait(Duration::from_secs(6));
    // Its RMB is withdrawn.
    while let Some(message) = s.poll_llc() {
        s.send(Peer::reply_to(&message));
    }
    s.skip();
    s.client_joins(3);
    s.expect_transcript(&["refused: Clear", "command Alloc", "-> CLC Confirm"]);
    s.end();
}

#[test]
fn an_answer_that_never_comes_ends_the_rendezvous_and_nothing_is_lost() {
    //= CLC-067 test
    for kind in UP {
        for play in [try_as_client, try_as_server] {
            let mut s = Script::client();
            s.adapter.hold = Some(kind);
            // The conversation stops where the engine waits for its adapter.
            play(&mut s);
            s.wait(Duration::from_secs(30));
            check!(s, s.endpoint.usage().handshakes, 0);
            s.release();
            s.end();
        }
    }
}

#[test]
fn an_answer_after_the_end_frees_what_it_brings() {
    //= CASE-C08 test
    for kind in UP {
        for waiting in [Waiting::Accept, Waiting::SubsequentAccept] {
            let (mut s, conn) = waiting.reach();
            s.adapter.hold = Some(kind);
            let accept = match waiting {
                Waiting::Accept => s.peer.accept(1),
                _ => s.peer.subsequent(2),
            };
            s.accept(conn, accept);
            s.path(PathEvent::DeviceRemoved { device: DEVICE });
            s.release();
            check!(
                s,
                (s.endpoint.usage().links, s.endpoint.usage().buffers),
                (0, 0)
            );
            s.end();
        }
    }
}

#[test]
fn a_refusal_after_the_end_leaves_nothing_either() {
    //= CASE-C08 test
    for kind in Kind::CONTROL {
        for waiting in [Waiting::Accept, Waiting::SubsequentAccept] {
            let (mut s, conn) = waiting.reach();
            if UP.contains(&kind) {
                s.adapter.hold = Some(kind);
            }
            let accept = match waiting {
                Waiting::Accept => s.peer.accept(1),
                _ => s.peer.subsequent(2),
            };
            s.accept(conn, accept);
            s.adapter.hold = Some(kind);
            s.path(PathEvent::DeviceRemoved { device: DEVICE });
            s.refuse_held();
            s.note(kind);
            let usage = s.endpoint.usage();
            check!(s, (usage.links, usage.buffers), (0, 0));
            s.end();
        }
    }
}
