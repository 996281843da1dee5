//! A group with as many RMBs as there may be: 255 at each end (RFC 7609 2.1,
//! 3.5.2.1, 3.5.5.2.2).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::{LlcMessage, RkeyFlags};
use smc_proto::wire::types::{AlertToken, BufferSize, DiagnosisCode};

type Members = Vec<(ConnId, AlertToken)>;

/// A group of 255 connections with an RMB each at either end.
fn full_server() -> (Script, Members) {
    let mut s = Script::server();
    let mut members = vec![s.server_first_contact()];
    for rmb in 2..=255 {
        members.push(s.server_joins(rmb));
    }
    s.skip();
    (s, members)
}

fn full_client() -> (Script, Members) {
    let mut s = Script::client();
    let mut members = vec![s.client_first_contact()];
    for rmb in 2..=255 {
        members.push(s.client_joins(rmb));
    }
    s.skip();
    (s, members)
}

/// Both sides close a connection: its RMBs are spare.
fn close(s: &mut Script, (conn, token): (ConnId, AlertToken)) {
    let link = s.link();
    let closed = ConnectionFlags::PEER_CONNECTION_CLOSED;
    s.send_cdc(link, Peer::cdc_flags(token, 1, closed));
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Both));
    s.skip();
}

fn large() -> ConnOptions {
    let mut options = ConnOptions::new(Default::default());
    options.receive_buffer = Some(BufferSize::K512);
    options
}

/// A connection of a server that wants a large RMB.
fn server_wants_large(s: &mut Script) -> ConnId {
    let conn = s.listen_with(large());
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.take_proposal(conn);
    conn
}

fn answer_delete_rkey(s: &mut Script) {
    let request = LlcMessage::DeleteRkey(s.expect_delete_rkey());
    s.send(Peer::reply_to(&request));
}

/// Whether RMB and send buffer of a connection were there before, once it has both.
fn reused(s: &mut Script, conn: ConnId) -> Option<(bool, bool)> {
    s.endpoint.conn(conn)?.reused_buffers()
}

#[track_caller]
fn accepts_large(s: &mut Script, conn: ConnId) -> AcceptConfirm {
    let request = LlcMessage::ConfirmRkey(s.expect_confirm_rkey());
    s.send(Peer::reply_to(&request));
    let accept = s.expect_accept(conn);
    check!(
        s,
        (accept.first_contact, accept.buffer_size),
        (false, BufferSize::K512)
    );
    accept
}

#[test]
fn a_group_with_a_spare_rmb_among_255_takes_a_connection_again() {
    //= RMB-001 test
    //= RENDEZVOUS-001 test
    //= RENDEZVOUS-008 test
    let (mut s, members) = full_server();
    close(&mut s, members[99]);
    // The spare RMB is known: nothing is to be agreed on, on either side.
    let conn = s.server_wants_rmb();
    let accept = s.expect_accept(conn);
    check!(s, accept.first_contact, false);
    s.confirm(conn, s.peer.subsequent(100));
    s.expect_established(conn);
    s.expect_silence();
    check!(s, reused(&mut s, conn), Some((true, true)));
    check!(s, reused(&mut s, members[0].0), Some((false, false)));
    // Full of connections it takes no more.
    check!(s, s.server_accepts().1.first_contact, true);
    check!(s, s.endpoint.usage().groups, 2);
    s.end();
}

#[test]
fn the_peer_may_replace_a_spare_rmb_of_its_255_but_have_no_more() {
    //= RMB-001 test
    //= LLC-071 test
    let (mut s, members) = full_server();
    close(&mut s, members[99]);
    s.send(Peer::confirm_rkey(0x900));
    check!(s, s.expect_confirm_rkey_reply().flags, RkeyFlags::NEGATIVE);
    s.send(Peer::delete_rkey(&[100]));
    s.expect_delete_rkey_reply();
    let conn = s.server_wants_rmb();
    s.expect_accept(conn);
    s.send(Peer::confirm_rkey(0x900));
    check!(s, s.expect_confirm_rkey_reply().flags.is_empty(), true);
    s.confirm(conn, s.peer.subsequent(0x900));
    s.expect_established(conn);
    s.end();
}

#[test]
fn a_spare_rmb_of_another_size_is_withdrawn_to_make_room() {
    //= RMB-001 test
    //= RMB-028 test
    //= RMB-030 test
    //= LLC-070 test
    let (mut s, members) = full_server();
    close(&mut s, members[7]);
    let conn = server_wants_large(&mut s);
    s.expect_transcript(&["command Clear", "DELETE RKEY request"]);
    let request = s.expect_delete_rkey();
    s.expect_silence();
    check!(s, reused(&mut s, conn), None);
    s.send(Peer::reply_to(&LlcMessage::DeleteRkey(request)));
    s.expect_transcript(&["DELETE RKEY reply", "command Free", "command Alloc"]);
    accepts_large(&mut s, conn);
    check!(s, reused(&mut s, conn), Some((false, true)));
    s.confirm(conn, s.peer.subsequent(8));
    s.expect_established(conn);
    s.end();
}

#[test]
fn a_client_makes_room_before_its_confirm() {
    //= RMB-001 test
    //= RENDEZVOUS-019 test
    //= RENDEZVOUS-039 test
    let (mut s, members) = full_client();
    close(&mut s, members[7]);
    let conn = s.connect_with(large());
    s.expect_proposal(conn);
    s.accept(conn, s.peer.subsequent(8));
    answer_delete_rkey(&mut s);
    let request = LlcMessage::ConfirmRkey(s.expect_confirm_rkey());
    s.expect_silence();
    s.send(Peer::reply_to(&request));
    check!(s, s.expect_confirm(conn).buffer_size, BufferSize::K512);
    s.expect_established(conn);
    s.end();
}

#[test]
fn an_rmb_that_is_being_cleared_is_waited_for_not_withdrawn() {
    //= RMB-016 test
    //= RENDEZVOUS-008 test
    let (mut s, members) = full_server();
    s.adapter.hold = Some(Kind::Clear);
    close(&mut s, members[7]);
    let conn = s.server_wants_rmb();
    s.expect_silence();
    s.release();
    check!(s, s.expect_accept(conn).first_contact, false);
    s.expect_silence();
    s.end();
}

#[test]
fn those_who_wait_for_room_get_it_one_after_the_other() {
    //= RMB-001 test
    let (mut s, members) = full_server();
    for member in &members[..4] {
        close(&mut s, *member);
    }
    let conns = [(); 4].map(|()| server_wants_large(&mut s));
    // One leaves while it waits, and holds up no other.
    s.tcp(conns[1], smc_proto::endpoint::TcpEvent::PeerReset);
    s.take_events();
    let mut withdrawn = 0;
    while let Some(request) = s.poll_llc() {
        withdrawn += usize::from(matches!(request, LlcMessage::DeleteRkey(_)));
        s.send(Peer::reply_to(&request));
        check!(s, s.endpoint.last_steps() < 2_100, true);
    }
    check!(s, withdrawn, 3);
    for conn in [conns[0], conns[2], conns[3]] {
        check!(s, s.expect_accept(conn).buffer_size, BufferSize::K512);
    }
    s.expect_silence();
    s.end();
}

#[test]
fn a_link_that_fails_among_spare_rmbs_wakes_waiters_once() {
    //= RMB-001 test
    let mut s = Script::server().rnics(2);
    let mut members = vec![s.server_with_links(2)];
    for rmb in 2..=255 {
        members.push(s.server_joins(rmb));
    }
    s.skip();
    for member in &members[..128] {
        close(&mut s, *member);
    }
    server_wants_large(&mut s);
    let failed = RdmaCompletion::LinkFailed {
        link: s.link_no(2),
        cause: LinkFailure::RetriesExhausted,
        conn: None,
    };
    s.endpoint.handle_rdma(s.now, failed);
    let steps = s.endpoint.last_steps();
    check!(s, (steps, steps < 2_500), (steps, true));
    s.pump();
    s.skip();
    s.end();
}

#[test]
fn the_first_in_the_line_may_leave_it() {
    //= RMB-001 test
    let (mut s, members) = full_server();
    for member in &members[..2] {
        close(&mut s, *member);
    }
    let conns = [(); 2].map(|()| server_wants_large(&mut s));
    s.tcp(conns[0], smc_proto::endpoint::TcpEvent::PeerReset);
    s.take_events();
    answer_delete_rkey(&mut s);
    accepts_large(&mut s, conns[1]);
    s.end();
}

#[test]
fn room_that_is_never_made_ends_in_a_decline() {
    //= CLC-054 test
    //= CLC-067 test
    let (mut s, members) = full_server();
    s.adapter.hold = Some(Kind::Free);
    close(&mut s, members[7]);
    let conn = server_wants_large(&mut s);
    answer_delete_rkey(&mut s);
    s.wait(Duration::from_secs(5));
    s.expect_decline(conn, DiagnosisCode::REGISTER_BUFFER);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}
