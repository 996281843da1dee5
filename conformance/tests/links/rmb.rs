//! RMBs, their elements and their keys (RFC 7609 2.1, 4.4, 3.5.5.2, A.3.5, A.3.7).

use conformance::check;
use conformance::script::{DEVICE, Peer, Script};
use smc_proto::command::{BufferKind, RdmaCommand};
use smc_proto::endpoint::TcpEvent;
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage};
use smc_proto::wire::llc::{LlcMessage, RkeyFlags};
use smc_proto::wire::types::{BufferSize, RKey, RToken, RmbeIndex};

#[test]
fn an_element_given_twice_ends_the_older_connection_without_a_write() {
    //= CASE-G15 test
    //= RMB-023 test
    //= RMB-024 test
    //= RMB-025 test
    //= RMB-026 test
    //= RMB-027 test
    //= RENDEZVOUS-040 test
    let mut s = Script::client();
    s.client_first_contact();
    let (old, token) = s.client_joins(2);
    let link = s.link();
    s.send_cdc(link, Peer::cdc(token, 1, 10, 0));
    s.skip();
    let before = s.writes.len();
    let new = s.connect();
    s.expect_proposal(new);
    s.accept(new, s.peer.subsequent(2));
    s.agree_to_rmb();
    s.expect_confirm(new);
    s.expect_reset(old, CloseReason::RmbeConflict);
    check!(s, s.writes.len(), before);
    s.skip();
    s.write(new, 5);
    check!(s, s.writes.last().map(|w| w.2), Some(5));
    s.end();
}

#[test]
fn the_server_checks_the_clients_element_the_same_way() {
    //= CASE-G15 test
    //= RENDEZVOUS-042 test
    //= RMB-023 test
    let mut s = Script::server();
    let (old, _) = s.server_first_contact();
    let (new, _) = s.server_accepts();
    s.confirm(new, s.peer.subsequent(1));
    s.expect_reset(old, CloseReason::RmbeConflict);
    s.expect_established(new);
    s.end();
}

#[test]
fn elements_of_one_rmb_stand_one_behind_the_other() {
    //= RMB-012 test
    //= RMB-010 test
    let mut s = Script::client();
    s.client_first_contact();
    for index in [1, 2, 255] {
        let conn = s.connect();
        s.expect_proposal(conn);
        let accept = AcceptConfirm {
            rmbe_index: RmbeIndex(index),
            buffer_size: BufferSize::K16,
            ..s.peer.subsequent(2)
        };
        s.accept(conn, accept);
        s.agree_to_rmb();
        s.expect_confirm(conn);
        s.expect_established(conn);
        s.write(conn, 1);
        let at = Peer::rtoken(2).address + (u64::from(index) - 1) * (16 << 10);
        check!(s, s.writes.last().map(|w| w.1), Some(at));
        s.skip();
    }
    s.end();
}

#[test]
fn several_connections_share_one_rmb_if_it_has_elements() {
    //= RMB-002 test
    //= RMB-004 test
    //= RMB-011 test
    //= RENDEZVOUS-008 test
    let mut s = Script::with(|config| config.elements_per_rmb = 3);
    let (first, _) = s.server_first_contact();
    let mut seen = Vec::new();
    for rmb in 2..=3 {
        let (_, accept) = s.server_accepts();
        seen.push((accept.rtoken, accept.rmbe_index.0));
        check!(s, accept.rmbe_index.0, u8::try_from(rmb).unwrap());
    }
    check!(s, seen[0].0, seen[1].0);
    // Full: the next one brings a new RMB, which the peer is asked about.
    let (_, accept) = s.server_accepts();
    check!(s, accept.rmbe_index.0, 1);
    check!(s, accept.rtoken == seen[0].0, false);
    s.expect_transcript(&["CONFIRM RKEY request"]);
    check!(s, s.endpoint.conn(first).is_some(), true);
    s.end();
}

#[test]
fn an_rmb_of_another_size_is_another_rmb() {
    //= API-003 test
    //= RMB-003 test
    //= RMB-005 test
    //= RMB-013 test
    //= RMB-032 test
    let mut s = Script::client();
    s.client_first_contact();
    let mut options = smc_proto::endpoint::ConnOptions::new(Default::default());
    options.receive_buffer = Some(BufferSize::K512);
    let conn = s.connect_with(options);
    s.expect_proposal(conn);
    s.accept(conn, s.peer.subsequent(2));
    s.agree_to_rmb();
    let confirm = s.expect_confirm(conn);
    check!(s, confirm.buffer_size, BufferSize::K512);
    s.end();
}

#[test]
fn an_unused_rmb_is_withdrawn_after_a_while_and_freed_after_the_answer() {
    //= RMB-028 test
    //= RMB-029 test
    //= RMB-030 test
    //= LLC-070 test
    let mut s = Script::client();
    s.client_first_contact();
    let (conn, token) = s.client_joins(2);
    let link = s.link();
    s.on(conn, |c, now| {
        c.shutdown(now, smc_proto::connection::Shutdown::Both)
    });
    let closed = ConnectionFlags::PEER_CONNECTION_CLOSED;
    s.send_cdc(link, Peer::cdc_flags(token, 1, closed));
    s.skip();
    let before = s.endpoint.usage().buffers;
    for _ in 0..2 {
        s.wait(Duration::from_secs(29));
        s.send(Peer::test_link(1, false));
        s.skip();
    }
    s.wait(Duration::from_secs(3));
    let request = s.expect_delete_rkey();
    check!(s, request.rkeys.len(), 1);
    check!(s, s.endpoint.usage().buffers, before - 1);
    s.send(Peer::reply_to(&LlcMessage::DeleteRkey(request)));
    check!(s, s.endpoint.usage().buffers, before - 2);
    s.end();
}

#[test]
fn a_refused_delete_rkey_is_only_noted() {
    //= LLC-072 test
    let mut s = Script::with(|config| config.timeouts.rmb_idle = Duration::from_secs(10));
    s.client_first_contact();
    let (conn, _) = s.client_joins(2);
    s.on(conn, |c, now| c.abort(now));
    s.wait(Duration::from_secs(16));
    s.expect_transcript(&["DELETE RKEY request"]);
    let request = loop {
        match s.expect_llc() {
            request @ LlcMessage::DeleteRkey(_) => break request,
            _ => continue,
        }
    };
    s.skip();
    s.send(Peer::rkey_reply(&request, RkeyFlags::NEGATIVE));
    check!(
        s,
        (s.endpoint.usage().groups, s.endpoint.usage().buffers),
        (1, 2)
    );
    s.end();
}

#[test]
fn known_keys_are_deleted_and_unknown_ones_marked() {
    //= CASE-G10 test
    //= LLC-071 test
    //= LLC-073 test
    let mut s = Script::client();
    s.client_first_contact();
    for rmb in 20..24 {
        s.send(Peer::confirm_rkey(rmb));
        check!(s, s.expect_confirm_rkey_reply().flags, RkeyFlags::empty());
    }
    check!(s, s.endpoint.usage().remote_rmbs, 5);
    s.send(Peer::delete_rkey(&[20, 99, 21, 98]));
    let reply = s.expect_delete_rkey_reply();
    check!(s, (reply.flags, reply.unknown), (RkeyFlags::NEGATIVE, 0x50));
    check!(s, s.endpoint.usage().remote_rmbs, 3);
    s.send(Peer::delete_rkey(&[22, 23]));
    let reply = s.expect_delete_rkey_reply();
    check!(s, (reply.flags, reply.unknown), (RkeyFlags::empty(), 0));
    check!(s, s.endpoint.usage().remote_rmbs, 1);
    s.end();
}

#[test]
fn a_key_deleted_while_in_use_ends_its_connections() {
    //= CASE-H15 test
    let mut s = Script::client();
    let (kept, _) = s.client_first_contact();
    let (cut, _) = s.client_joins(2);
    let before = s.writes.len();
    s.send(Peer::delete_rkey(&[2]));
    check!(s, s.expect_delete_rkey_reply().unknown, 0);
    s.expect_reset(cut, CloseReason::RmbeConflict);
    check!(s, s.writes.len(), before);
    s.write(kept, 3);
    s.expect_cdc();
    s.end();
}

#[test]
fn a_key_announced_again_is_the_same_rmb_and_at_another_address_another_one() {
    //= RMB-008 test
    //= RMB-010 test
    let mut s = Script::client();
    s.client_first_contact();
    for _ in 0..3 {
        s.send(Peer::confirm_rkey(4));
        check!(s, s.expect_confirm_rkey_reply().flags, RkeyFlags::empty());
    }
    check!(s, s.endpoint.usage().remote_rmbs, 2);
    let LlcMessage::ConfirmRkey(mut other) = Peer::confirm_rkey(4) else {
        unreachable!()
    };
    other.rtoken.address += 0x1000;
    for _ in 0..3 {
        s.send(LlcMessage::ConfirmRkey(other.clone()));
        check!(s, s.expect_confirm_rkey_reply().flags, RkeyFlags::empty());
        check!(s, s.endpoint.usage().remote_rmbs, 3);
    }
    s.end();
}

#[test]
fn a_peer_has_at_most_255_rmbs() {
    //= RMB-001 test
    //= SEC-009 test
    let mut s = Script::client();
    s.client_first_contact();
    for rmb in 2..=255 {
        s.send(Peer::confirm_rkey(rmb));
        check!(s, s.expect_confirm_rkey_reply().flags, RkeyFlags::empty());
    }
    s.send(Peer::confirm_rkey(256));
    check!(s, s.expect_confirm_rkey_reply().flags, RkeyFlags::NEGATIVE);
    check!(s, s.endpoint.usage().remote_rmbs, 255);
    // A connection on one more is declined, one on a known RMB is not.
    let conn = s.connect();
    s.expect_proposal(conn);
    let rtoken = RToken {
        rkey: RKey(0xffff),
        address: 0,
    };
    let accept = AcceptConfirm {
        rtoken,
        ..s.peer.subsequent(2)
    };
    s.accept(conn, accept);
    s.expect_decline(conn, smc_proto::wire::types::DiagnosisCode::RTOKEN);
    s.client_joins(200);
    s.end();
}

#[test]
fn a_peer_may_announce_an_rmb_before_a_connection_needs_it() {
    //= RMB-031 test
    //= RMB-010 test
    let mut s = Script::server();
    s.server_first_contact();
    for rmb in [7, 8] {
        s.send(Peer::confirm_rkey(rmb));
        check!(s, s.expect_confirm_rkey_reply().flags.is_empty(), true);
    }
    check!(s, s.endpoint.usage().remote_rmbs, 3);
    let (conn, _) = s.server_joins(8);
    check!(s, s.endpoint.usage().remote_rmbs, 3);
    s.write(conn, 3);
    check!(
        s,
        s.writes.last().map(|w| w.0),
        Some(Peer::rtoken(8).rkey.0)
    );
    // This side asks for no RMB that is not needed (MAY, not used).
    check!(s, s.adapter.registrations().count(), 4);
    s.end();
}

#[test]
fn an_element_that_an_accept_named_waits_for_its_rmb_without_a_confirm() {
    //= RMB-021 test
    let mut s = Script::with(|config| {
        config.elements_per_rmb = 3;
        config.timeouts.rmb_idle = Duration::from_secs(10);
    });
    s.server_first_contact();
    // One that declined will not write.
    let (declined, accept) = s.server_accepts();
    check!(s, accept.rmbe_index.0, 2);
    let no = s.peer.decline();
    let _ = s.clc(declined, &no);
    s.skip();
    // A Confirm may have crossed the reset, and data may follow it.
    let (gone, accept) = s.server_accepts();
    check!(s, accept.rmbe_index.0, 2);
    s.tcp(gone, TcpEvent::PeerReset);
    s.expect_closed(gone, CloseReason::TcpReset);
    let (_, accept) = s.server_accepts();
    check!(s, accept.rmbe_index.0, 3);
    s.end();
}

#[test]
fn rmbs_are_marked_if_that_is_wanted_and_send_buffers_never() {
    //= RMB-014 test
    //= RMB-015 test
    for wanted in [false, true] {
        let mut s = Script::with(|config| config.eye_catcher = wanted);
        let conn = s.connect();
        s.expect_proposal(conn);
        let accept = Peer::octets(&ClcMessage::Accept(s.peer.accept(1)));
        let _ = s.endpoint.handle_clc(s.now, conn, &accept);
        let mut kinds = Vec::new();
        while let Some(command) = s.endpoint.poll_rdma(s.now, DEVICE) {
            if let RdmaCommand::AllocBuffer {
                kind, eye_catcher, ..
            } = command
            {
                assert_eq!(eye_catcher, wanted && kind == BufferKind::Rmb);
                kinds.push(kind);
            }
        }
        assert_eq!(kinds.len(), 2, "{kinds:?}");
    }
}

#[test]
fn an_rmb_whose_announcement_is_answered_late_serves_the_next_connection() {
    //= RMB-028 test
    let mut s = Script::with(|config| config.timeouts.rmb_idle = Duration::from_secs(1));
    s.client_first_contact();
    let gone = s.client_wants_rmb(2);
    let own = s.expect_confirm_rkey();
    s.on(gone, |c, now| c.abort(now));
    s.skip();
    // Unused for long enough, but it cannot be withdrawn before the answer.
    s.wait(Duration::from_millis(1500));
    s.send(Peer::reply_to(&LlcMessage::ConfirmRkey(own.clone())));
    s.expect_silence();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.subsequent(3));
    check!(s, s.expect_confirm(conn).rtoken, own.rtoken);
    s.end();
}
