//! Which of its RMBs a peer means (RFC 7609 3.5.5.2, 4.4.2, A.3.5 to A.3.7): one that is
//! announced again, one of several with the same key, one that goes while a message about
//! its connection is still on its way over another link.

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::command::TcpCommand;
use smc_proto::connection::Shutdown;
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::{LlcMessage, RkeyFlags};
use smc_proto::wire::types::{AlertToken, RToken};

const CLOSED: ConnectionFlags = ConnectionFlags::PEER_CONNECTION_CLOSED;

/// Sends CONFIRM RKEY of an RMB over link 1, for others as well: the flags of the answer.
fn announce(s: &mut Script, rmb: u32, others: &[u8]) -> RkeyFlags {
    s.over(1).send(Peer::confirm_rkey_on(1, rmb, others));
    s.over(1).expect_confirm_rkey_reply().flags
}

/// Sends CONFIRM RKEY that moves an RMB on link 2: the flags of the answer.
fn announce_moved(s: &mut Script, rmb: u32) -> RkeyFlags {
    let LlcMessage::ConfirmRkey(mut message) = Peer::confirm_rkey_on(1, rmb, &[2]) else {
        unreachable!()
    };
    message.others[0].rtoken = moved(rmb);
    s.over(1).send(LlcMessage::ConfirmRkey(message));
    s.over(1).expect_confirm_rkey_reply().flags
}

/// The RToken in such a message of the RMB on link 2.
fn moved(rmb: u32) -> RToken {
    let RToken { rkey, address } = Peer::rtoken_on(2, rmb);
    let address = address + 0x8000_0000;
    RToken { rkey, address }
}

/// Writes on a connection: where the bytes go.
fn target(s: &mut Script, conn: ConnId) -> RToken {
    s.writes.clear();
    s.write(conn, 10);
    s.expect_cdc();
    let (rkey, address, _) = s.writes[0];
    RToken {
        rkey: smc_proto::wire::types::RKey(rkey),
        address,
    }
}

// ---- Announced again ---------------------------------------------------------------

#[test]
fn an_rmb_in_use_is_not_moved_by_another_announcement() {
    //= CASE-D24 test
    //= RMB-010 test
    //= FAILOVER-021 test
    for client in [true, false] {
        let (mut s, conn, _) = match client {
            true => Script::two_link_client(),
            false => Script::two_link_server(),
        };
        check!(s, announce(&mut s, 1, &[2]), RkeyFlags::empty());
        check!(s, announce_moved(&mut s, 1), RkeyFlags::NEGATIVE);
        s.break_link(1);
        s.skip();
        check!(s, target(&mut s, conn), Peer::rtoken_on(2, 1));
        s.end();
    }
}

#[test]
fn an_rmb_in_use_is_not_moved_by_a_continuation() {
    //= RMB-010 test
    //= LLC-065 test
    let (mut s, conn, _) = Script::many_link_client(4);
    check!(s, announce(&mut s, 1, &[2, 3, 4]), RkeyFlags::empty());
    let LlcMessage::ConfirmRkeyContinuation(mut more) = Peer::rkey_continuation(1, &[4]) else {
        unreachable!()
    };
    more.others[0].rtoken.address += 0x8000_0000;
    s.over(1).send(LlcMessage::ConfirmRkeyContinuation(more));
    let reply = s.over(1).expect_rkey_continuation_reply();
    check!(s, reply.flags, RkeyFlags::NEGATIVE);
    // With that all of the announcement is refused.
    s.over(1).send(Peer::rkey_continuation(1, &[4]));
    let reply = s.over(1).expect_rkey_continuation_reply();
    check!(s, reply.flags, RkeyFlags::NEGATIVE);
    for link in [1, 2, 3] {
        s.break_link(link);
        s.skip();
    }
    check!(s, target(&mut s, conn), Peer::rtoken_on(4, 1));
    s.end();
}

#[test]
fn an_rmb_that_no_connection_uses_may_be_registered_anew() {
    //= RMB-010 test
    let (mut s, _, _) = Script::two_link_client();
    check!(s, announce(&mut s, 7, &[2]), RkeyFlags::empty());
    check!(s, announce_moved(&mut s, 7), RkeyFlags::empty());
    let (conn, _) = s.client_joins(7);
    s.break_link(1);
    s.skip();
    check!(s, target(&mut s, conn), moved(7));
    s.end();
}

#[test]
fn an_rmb_whose_connection_was_aborted_may_be_registered_anew() {
    //= RMB-010 test
    //= RMB-021 test
    let (mut s, _, _) = Script::two_link_client();
    check!(s, announce(&mut s, 7, &[2]), RkeyFlags::empty());
    let (conn, token) = s.client_joins(7);
    s.over(1)
        .send_cdc(Peer::cdc_flags(token, 1, ConnectionFlags::ABNORMAL_CLOSE));
    s.expect_reset(conn, CloseReason::PeerAbort);
    s.skip();
    check!(s, announce_moved(&mut s, 7), RkeyFlags::empty());
    s.end();
}

#[test]
fn an_announcement_that_begins_ends_the_one_before() {
    //= LLC-063 test
    //= LLC-065 test
    let (mut s, _, _) = Script::many_link_client(4);
    // Link 4 came up a moment ago: it may be left out.
    for refused in [false, true] {
        check!(s, announce(&mut s, 7, &[2, 3, 4]), RkeyFlags::empty());
        if refused {
            check!(s, announce_moved(&mut s, 1), RkeyFlags::NEGATIVE);
        } else {
            check!(s, announce(&mut s, 8, &[2, 3]), RkeyFlags::empty());
        }
        s.over(1).send(Peer::rkey_continuation(7, &[4]));
        let reply = s.over(1).expect_rkey_continuation_reply();
        check!(s, reply.flags, RkeyFlags::NEGATIVE);
    }
    s.end();
}

#[test]
fn an_announcement_goes_on_until_all_links_are_named() {
    //= LLC-063 test
    for links in 2..=8 {
        let (mut s, _, _) = Script::many_link_client(links);
        let others: Vec<u8> = (2..=links).collect();
        check!(s, announce(&mut s, 7, &others), RkeyFlags::empty());
        let mut left = others.get(2..).unwrap_or_default();
        while !left.is_empty() {
            s.over(1).send(Peer::rkey_continuation(7, left));
            let reply = s.over(1).expect_rkey_continuation_reply();
            check!(s, reply.flags, RkeyFlags::empty());
            left = left.get(3..).unwrap_or_default();
        }
        s.end();
    }
}

// ---- Several RMBs with one key -----------------------------------------------------

/// The peer's RMB 4 in the same registration as its RMB 1.
fn beside_first(link: u8) -> RToken {
    RToken {
        address: Peer::rtoken_on(link, 4).address,
        ..Peer::rtoken_on(link, 1)
    }
}

/// A further connection of a client, to that RMB.
fn joins_beside(s: &mut Script) -> (ConnId, AlertToken) {
    let conn = s.connect();
    s.expect_proposal(conn);
    let accept = AcceptConfirm {
        rtoken: beside_first(1),
        ..s.peer.subsequent(4)
    };
    s.accept(conn, accept);
    s.agree_to_rmb();
    let confirm = s.expect_confirm(conn);
    s.expect_established(conn);
    (conn, confirm.alert_token)
}

#[test]
fn rmbs_with_one_key_are_distinguished_by_their_addresses() {
    //= CASE-D26 test
    //= RMB-008 test
    //= RMB-012 test
    let (mut s, first, _) = Script::two_link_client();
    let LlcMessage::ConfirmRkey(mut message) = Peer::confirm_rkey_on(1, 4, &[2]) else {
        unreachable!()
    };
    message.rtoken = beside_first(1);
    message.others[0].rtoken = beside_first(2);
    for _ in 0..2 {
        s.over(1).send(LlcMessage::ConfirmRkey(message.clone()));
        let flags = s.over(1).expect_confirm_rkey_reply().flags;
        check!(s, flags, RkeyFlags::empty());
        check!(s, s.endpoint.usage().remote_rmbs, 2);
    }
    let (second, _) = joins_beside(&mut s);
    check!(s, target(&mut s, first), Peer::rtoken_on(1, 1));
    check!(s, target(&mut s, second), beside_first(1));
    s.break_link(1);
    s.skip();
    check!(s, target(&mut s, first).rkey, Peer::rtoken_on(2, 1).rkey);
    check!(
        s,
        target(&mut s, second).address - beside_first(2).address,
        10
    );
    s.end();
}

#[test]
fn of_rmbs_with_one_key_the_one_that_no_connection_uses_is_withdrawn() {
    //= RMB-028 test
    //= LLC-071 test
    let (mut s, first, _) = Script::two_link_client();
    let (second, token) = joins_beside(&mut s);
    s.on(second, |c, now| c.shutdown(now, Shutdown::Both));
    s.expect_cdc();
    s.over(2).send_cdc(Peer::cdc_flags(token, 1, CLOSED));
    s.expect_closed(second, CloseReason::Normal);
    s.skip();
    s.over(1).send(Peer::delete_rkey_on(1, &[1]));
    let reply = s.over(1).expect_delete_rkey_reply();
    check!(s, reply.flags, RkeyFlags::empty());
    s.expect_silence();
    check!(s, target(&mut s, first), Peer::rtoken_on(1, 1));
    // Now there is but the one in use.
    s.over(1).send(Peer::delete_rkey_on(1, &[1]));
    s.over(1).expect_delete_rkey_reply();
    s.expect_reset(first, CloseReason::RmbeConflict);
    s.end();
}

#[test]
fn a_pair_that_may_be_of_two_rmbs_is_used_for_neither() {
    //= RMB-010 test
    //= FAILOVER-025 test
    let mut s = Script::client().rnics(2);
    let (first, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer_with(2, 2, |m| m.link.0 = 0));
    s.over(1).expect_add_link_rejection();
    s.expect_established(first);
    let (second, _) = joins_beside(&mut s);
    let (third, _) = s.client_joins(3);
    s.peer_adds(1, 3, 2, &[1, 3]);
    s.skip_hints();
    s.skip();
    s.break_link(1);
    for conn in [first, second] {
        check!(s, s.expect_tcp(), (conn, TcpCommand::Reset));
    }
    s.skip();
    check!(s, target(&mut s, third), Peer::rtoken_on(3, 3));
    s.end();
}

// ---- A close that comes behind what is done with the RMB ---------------------------

/// A group of two links with a second connection, which this side has closed: with its
/// token. The close of the peer is on its way over link 2.
fn closed_here(client: bool) -> (Script, ConnId, AlertToken) {
    let (mut s, _, _) = match client {
        true => Script::two_link_client(),
        false => Script::two_link_server(),
    };
    check!(s, announce(&mut s, 2, &[2]), RkeyFlags::empty());
    let (conn, token) = match client {
        true => s.client_joins(2),
        false => s.server_joins(2),
    };
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Both));
    check!(s, s.expect_cdc().1.connection_flags, CLOSED);
    (s, conn, token)
}

#[test]
fn an_rmb_may_be_withdrawn_before_the_peers_close_is_here() {
    //= CASE-D25 test
    //= RMB-028 test
    //= CLOSE-028 test
    for client in [true, false] {
        let (mut s, conn, token) = closed_here(client);
        s.over(1).send(Peer::delete_rkey_on(1, &[2]));
        let reply = s.over(1).expect_delete_rkey_reply();
        check!(s, reply.flags, RkeyFlags::empty());
        s.expect_silence();
        check!(s, s.endpoint.usage().remote_rmbs, 1);
        s.over(2).send_cdc(Peer::cdc_flags(token, 1, CLOSED));
        s.expect_closed(conn, CloseReason::Normal);
        s.end();
    }
}

#[test]
fn a_withdrawn_rmb_does_not_matter_to_a_close_that_moves() {
    //= RMB-028 test
    //= FAILOVER-002 test
    let (mut s, conn, token) = closed_here(true);
    s.over(1).send(Peer::delete_rkey_on(1, &[2]));
    s.over(1).expect_delete_rkey_reply();
    s.break_link(1);
    s.skip();
    s.over(2).send_cdc(Peer::cdc_flags(token, 1, CLOSED));
    s.expect_closed(conn, CloseReason::Normal);
    s.end();
}

#[test]
fn an_element_may_be_given_anew_before_the_peers_close_is_here() {
    //= RMB-021 test
    //= RMB-027 test
    let (mut s, old, token) = closed_here(true);
    let new = s.connect();
    s.expect_proposal(new);
    s.accept(new, s.peer.subsequent(2));
    s.agree_to_rmb();
    s.expect_confirm(new);
    s.expect_established(new);
    s.over(2).send_cdc(Peer::cdc_flags(token, 1, CLOSED));
    s.expect_closed(old, CloseReason::Normal);
    s.skip();
    check!(s, target(&mut s, new), Peer::rtoken_on(1, 2));
    // It is the new one's from here on.
    s.over(1).send(Peer::delete_rkey_on(1, &[2]));
    s.over(1).expect_delete_rkey_reply();
    s.expect_reset(new, CloseReason::RmbeConflict);
    s.end();
}

#[test]
fn an_rmb_that_this_side_still_writes_to_may_not_be_withdrawn() {
    //= RMB-028 test
    let (mut s, _, _) = Script::two_link_client();
    check!(s, announce(&mut s, 2, &[2]), RkeyFlags::empty());
    let (conn, token) = s.client_joins(2);
    // The peer has closed; this side has not.
    s.over(2).send_cdc(Peer::cdc_flags(token, 1, CLOSED));
    s.skip();
    s.over(1).send(Peer::delete_rkey_on(1, &[2]));
    s.over(1).expect_delete_rkey_reply();
    s.expect_reset(conn, CloseReason::RmbeConflict);
    s.end();
}

// ---- A link fails that alone knows an RMB which no data goes to any more -----------

/// A client with links 1 and 3 whose second connection writes to an RMB that is known on
/// link 1 only: with its token.
fn writes_over_link_1_only() -> (Script, ConnId, AlertToken) {
    let mut s = Script::client().rnics(2);
    let (first, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer_with(2, 2, |m| m.link.0 = 0));
    s.over(1).expect_add_link_rejection();
    s.expect_established(first);
    let (second, token) = s.client_joins(2);
    s.peer_adds(1, 3, 2, &[1]);
    s.skip_hints();
    s.skip();
    (s, second, token)
}

/// The next CDC message over link 3, behind a failover validation.
fn moved_message(s: &mut Script) -> Cdc {
    let validation = s.over(3).expect_cdc();
    let is_one = ProducerFlags::FAILOVER_VALIDATION;
    check!(s, validation.producer_flags.contains(is_one), true);
    s.over(3).expect_cdc()
}

/// Breaks link 1, so that connections that can move to link 3 do.
fn break_first(s: &mut Script) {
    s.adapter.hold = None;
    s.break_link(1);
    s.skip_delete_requests();
}

#[test]
fn a_close_that_was_lost_needs_no_rmb_to_be_repeated() {
    //= RMB-021 test
    //= FAILOVER-016 test
    let (mut s, conn, token) = writes_over_link_1_only();
    s.adapter.hold = Some(Kind::Send);
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Both));
    check!(s, s.over(1).expect_cdc().connection_flags, CLOSED);
    break_first(&mut s);
    check!(s, moved_message(&mut s).connection_flags, CLOSED);
    s.over(3).send_cdc(Peer::cdc_flags(token, 1, CLOSED));
    s.expect_closed(conn, CloseReason::Normal);
    s.end();
}

#[test]
fn a_close_that_is_decided_while_the_link_drains_needs_no_rmb() {
    //= RMB-021 test
    //= CLOSE-005 test
    let (mut s, conn, token) = writes_over_link_1_only();
    s.write(conn, 10);
    s.over(1).expect_cdc();
    s.adapter.hold = Some(Kind::QpToError);
    s.break_link(1);
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Both));
    s.skip_delete_requests();
    s.expect_silence();
    s.release();
    check!(s, moved_message(&mut s).connection_flags, CLOSED);
    s.over(3).send_cdc(Peer::cdc_flags(token, 1, CLOSED));
    s.expect_closed(conn, CloseReason::Normal);
    s.end();
}

#[test]
fn a_connection_that_writes_no_more_goes_on_reading() {
    //= CLOSE-008 test
    //= FAILOVER-002 test
    let (mut s, conn, token) = writes_over_link_1_only();
    s.write(conn, 10);
    s.over(1).expect_cdc();
    s.adapter.hold = Some(Kind::Send);
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Write));
    let done = ConnectionFlags::SENDING_DONE;
    check!(s, s.over(1).expect_cdc().connection_flags, done);
    break_first(&mut s);
    check!(s, moved_message(&mut s).connection_flags, done);
    s.over(3).send_cdc(Peer::cdc(token, 1, 100, 10));
    check!(s, s.readable(conn), 100);
    s.on(conn, |c, now| c.consume(now, 100).unwrap());
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Both));
    s.skip();
    s.over(3).send_cdc(Peer::cdc_flags(token, 2, CLOSED));
    s.expect_closed(conn, CloseReason::Normal);
    s.end();
}

#[test]
fn a_connection_that_still_writes_ends_with_the_last_link_that_knows_its_rmb() {
    //= ABORT-015 test
    //= FAILOVER-025 test
    let (mut s, conn, _) = writes_over_link_1_only();
    s.break_link(1);
    check!(s, s.expect_tcp(), (conn, TcpCommand::Reset));
    s.skip();
    s.end();
}

#[test]
fn an_rmb_that_no_link_reaches_is_forgotten_with_its_last_connection() {
    //= RMB-021 test
    //= RMB-028 test
    let (mut s, conn, _) = writes_over_link_1_only();
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Write));
    s.break_link(1);
    s.over(3).send(Peer::delete_link(1));
    s.skip();
    check!(s, s.endpoint.usage().links, 1);
    check!(s, s.endpoint.usage().remote_rmbs, 2);
    // The connection still reads. Then it closes, and awaits the peer's close.
    s.on(conn, |c, now| c.shutdown(now, Shutdown::Both));
    s.skip();
    // The peer withdraws the other RMB, which is in use: which ones are is searched.
    s.over(3).send(Peer::delete_rkey_on(3, &[1]));
    s.over(3).expect_delete_rkey_reply();
    check!(s, s.endpoint.usage().remote_rmbs, 0);
    s.skip();
    s.end();
}
