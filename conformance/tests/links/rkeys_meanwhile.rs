//! RMBs that are agreed on, or withdrawn, while a link is added (RFC 7609 3.5.5.2,
//! 3.5.5.3): the exchange of one side crosses the ADD LINK of the other, and a Linux
//! server answers it in the middle.

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::command::TcpCommand;
use smc_proto::connection::Shutdown;
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::llc::{ConfirmRkey, LlcMessage, RkeyFlags};
use smc_proto::wire::types::{AlertToken, DeleteLinkReason, DiagnosisCode};

/// A client with one link and one connection, whose second connection has its CONFIRM
/// RKEY out when it takes the offer of link 3.
fn client_announcing_while_a_link_is_added() -> (Script, [ConnId; 2], ConfirmRkey) {
    let mut s = Script::client().rnics(2);
    let (first, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer_with(2, 2, |m| m.link.0 = 0));
    s.over(1).expect_add_link_rejection();
    s.expect_established(first);
    let second = s.client_wants_rmb(2);
    let own = s.over(1).expect_confirm_rkey();
    s.over(1).send(Peer::offer(3, 2));
    s.over(1).expect_add_link_reply();
    (s, [first, second], own)
}

/// The server confirms link 3.
fn confirm_third(s: &mut Script) {
    s.over(3).send(Peer::asks(3, 2));
    s.over(3).expect_confirm_link_reply();
    s.skip_hints();
}

/// Such a client, to which the server answers behind the CONTINUATIONs, so that link 3
/// comes up without the RMB: it is announced once more, over link 1 with the key of link 3.
/// With it come the first connection, and the second one with its token.
fn client_with_an_rmb_on_one_link() -> (Script, ConnId, (ConnId, AlertToken), LlcMessage<'static>) {
    let (mut s, [first, second], own) = client_announcing_while_a_link_is_added();
    check!(s, s.peer_asks_continuations(1, 3, &[1, 2]).len(), 1);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own.clone())));
    let token = s.expect_confirm(second).alert_token;
    s.expect_established(second);
    let again = confirm_third_without(&mut s, &own);
    (s, first, (second, token), again)
}

/// The server confirms link 3, which lacks this RMB: it is announced once more.
fn confirm_third_without(s: &mut Script, own: &ConfirmRkey) -> LlcMessage<'static> {
    s.over(3).send(Peer::asks(3, 2));
    let again = s.over(1).expect_confirm_rkey();
    check!(s, again.rtoken, own.rtoken);
    let others: Vec<u8> = again.others.iter().map(|entry| entry.link.0).collect();
    check!(s, others, vec![3]);
    s.over(3).expect_confirm_link_reply();
    LlcMessage::ConfirmRkey(again)
}

// ---- The link fails that alone knows an RMB ---------------------------------------

#[test]
fn a_connection_whose_rmb_the_peer_knows_on_no_link_any_more_ends() {
    //= CASE-D23 test
    //= RMB-010 test
    //= FAILOVER-025 test
    //= ABORT-015 test
    let (mut s, first, (second, token), _) = client_with_an_rmb_on_one_link();
    s.break_link(1);
    check!(s, s.over(3).expect_delete_link().link.0, 1);
    let mut aborts = 0;
    while let Some(cdc) = s.poll_cdc_over(3) {
        let validation = cdc.producer_flags == ProducerFlags::FAILOVER_VALIDATION;
        let abort = cdc.connection_flags == ConnectionFlags::ABNORMAL_CLOSE;
        aborts += u32::from(abort && !validation);
    }
    check!(s, aborts, 1);
    check!(s, s.expect_tcp(), (second, TcpCommand::Reset));
    // The RMB of the first one is known on both links.
    s.write(first, 5);
    s.over(3).expect_cdc();
    // For other connections the RMB is announced as a new one.
    s.skip_hints();
    let anew = s.over(3).expect_confirm_rkey();
    check!(s, anew.others.len(), 0);
    s.over(3)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(anew)));
    let aborted = ConnectionFlags::ABNORMAL_CLOSE;
    s.over(3).send_cdc(Peer::cdc_flags(token, 1, aborted));
    s.expect_closed(second, CloseReason::LinksLost);
    s.end();
}

#[test]
fn a_connection_whose_rmb_is_known_on_a_link_that_is_deleted_in_order_ends() {
    //= FAILOVER-025 test
    //= LLCSER-004 test
    let (mut s, first, (second, _), again) = client_with_an_rmb_on_one_link();
    // The server refuses RKeys while it deletes a link.
    let operator = DeleteLinkReason::OPERATOR;
    s.over(1).send(Peer::delete_because(1, operator));
    s.over(1).send(Peer::rkey_reply(
        &again,
        RkeyFlags::NEGATIVE | RkeyFlags::RETRY,
    ));
    check!(s, s.expect_tcp(), (second, TcpCommand::Reset));
    s.skip();
    s.write(first, 5);
    s.over(3).expect_cdc();
    s.end();
}

#[test]
fn a_connection_that_has_closed_awaits_only_the_close_of_the_peer() {
    //= RMB-010 test
    //= CLOSE-028 test
    let (mut s, _, (second, token), _) = client_with_an_rmb_on_one_link();
    s.on(second, |c, now| c.shutdown(now, Shutdown::Both));
    s.expect_cdc();
    s.break_link(1);
    s.skip();
    let closed = ConnectionFlags::PEER_CONNECTION_CLOSED;
    s.over(3).send_cdc(Peer::cdc_flags(token, 1, closed));
    s.expect_closed(second, CloseReason::Normal);
    s.end();
}

#[test]
fn a_close_that_waits_for_the_link_to_drain_does_not_become_an_abort() {
    //= RMB-010 test
    //= CLOSE-005 test
    for lingers in [false, true] {
        let (mut s, _, (second, token), _) = client_with_an_rmb_on_one_link();
        s.adapter.hold = Some(Kind::QpToError);
        s.break_link(1);
        if lingers {
            s.write(second, 5);
        }
        s.on(second, |c, now| c.shutdown(now, Shutdown::Both));
        s.release();
        let peers = s.peer.subsequent(2).alert_token;
        let mut last = None;
        while let Some(cdc) = s.poll_cdc_over(3) {
            if cdc.alert_token == peers {
                last = Some((cdc.producer.count, cdc.connection_flags));
            }
        }
        let closed = ConnectionFlags::PEER_CONNECTION_CLOSED;
        check!(s, last, Some((u32::from(lingers) * 5, closed)));
        s.skip();
        s.over(3).send_cdc(Peer::cdc_flags(token, 1, closed));
        s.expect_closed(second, CloseReason::Normal);
        s.end();
    }
}

#[test]
fn a_connection_goes_on_once_all_links_know_its_rmb() {
    //= RMB-010 test
    //= FAILOVER-002 test
    let (mut s, _, (second, _), again) = client_with_an_rmb_on_one_link();
    s.over(1).send(Peer::reply_to(&again));
    s.break_link(1);
    s.skip();
    s.write(second, 5);
    s.over(3).expect_cdc();
    s.end();
}

#[test]
fn a_link_that_comes_up_before_the_answer_is_not_announced_by_it() {
    //= RMB-010 test
    //= RENDEZVOUS-056 test
    let (mut s, [_, second], own) = client_announcing_while_a_link_is_added();
    s.peer_asks_continuations(1, 3, &[1, 2]);
    confirm_third(&mut s);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own.clone())));
    let again = s.over(1).expect_confirm_rkey();
    let others: Vec<u8> = again.others.iter().map(|entry| entry.link.0).collect();
    check!(s, (again.rtoken, others), (own.rtoken, vec![3]));
    s.expect_silence();
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
    s.expect_confirm(second);
    s.expect_established(second);
    s.end();
}

// ---- Accept and Confirm wait until all links know the RMB -------------------------

/// Such a client, whose Confirm waits for TCP until link 3 is up: the RMB is announced
/// once more.
fn client_whose_confirm_waits() -> (Script, [ConnId; 2], LlcMessage<'static>) {
    let (mut s, conns, own) = client_announcing_while_a_link_is_added();
    s.peer_asks_continuations(1, 3, &[1, 2]);
    s.hold_clc = true;
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own.clone())));
    let again = confirm_third_without(&mut s, &own);
    s.hold_clc = false;
    s.pump();
    s.expect_silence();
    (s, conns, again)
}

#[test]
fn a_confirm_that_did_not_leave_waits_for_a_link_that_came_up() {
    //= RENDEZVOUS-056 test
    let (mut s, [_, second], again) = client_whose_confirm_waits();
    s.over(1).send(Peer::reply_to(&again));
    s.expect_confirm(second);
    s.expect_established(second);
    s.end();
}

#[test]
fn a_confirm_that_is_taken_back_gets_no_more_time_than_before() {
    //= RENDEZVOUS-056 test
    //= CLC-067 test
    let (mut s, [_, second], own) = client_announcing_while_a_link_is_added();
    s.peer_asks_continuations(1, 3, &[1, 2]);
    s.hold_clc = true;
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own.clone())));
    s.wait(Duration::from_secs(4));
    confirm_third_without(&mut s, &own);
    s.hold_clc = false;
    s.wait(Duration::from_millis(900));
    s.expect_silence();
    // The server waits 6 s for a Confirm: it gets a Decline before that.
    s.wait(Duration::from_millis(200));
    s.expect_decline(second, DiagnosisCode::REGISTER_BUFFER);
    s.end();
}

#[test]
fn an_rmb_that_is_refused_on_a_new_link_serves_no_new_connection() {
    //= RENDEZVOUS-056 test
    //= LLC-068 test
    let (mut s, [first, second], again) = client_whose_confirm_waits();
    s.over(1)
        .send(Peer::rkey_reply(&again, RkeyFlags::NEGATIVE));
    s.expect_decline(second, DiagnosisCode::REGISTER_BUFFER);
    s.write(first, 5);
    s.expect_cdc();
    // The next connection gets another one, for all links.
    let third = s.client_wants_rmb(3);
    let own = s.over(1).expect_confirm_rkey();
    check!(s, own.others.len(), 1);
    let LlcMessage::ConfirmRkey(refused) = again else {
        unreachable!()
    };
    check!(s, own.rtoken == refused.rtoken, false);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own)));
    s.expect_confirm(third);
    s.end();
}

#[test]
fn a_confirm_that_waits_for_a_link_goes_if_the_link_goes() {
    //= RENDEZVOUS-056 test
    let (mut s, [_, second], again) = client_whose_confirm_waits();
    s.break_link(3);
    s.expect_confirm(second);
    s.expect_established(second);
    s.over(1).expect_delete_link();
    s.over(1).send(Peer::reply_to(&again));
    s.expect_silence();
    s.end();
}

#[test]
fn a_confirm_that_did_not_leave_waits_if_the_link_fails_that_knows_its_rmb() {
    //= RENDEZVOUS-056 test
    //= RENDEZVOUS-039 test
    let (mut s, [_, second], _) = client_whose_confirm_waits();
    s.break_link(1);
    s.over(3).expect_delete_link();
    while s.poll_cdc_over(3).is_some() {}
    s.skip_hints();
    let anew = s.over(3).expect_confirm_rkey();
    s.expect_silence();
    s.over(3)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(anew.clone())));
    let confirm = s.expect_confirm(second);
    check!(s, confirm.rtoken, anew.rtoken);
    s.expect_established(second);
    s.end();
}

// ---- CONTINUATIONs announce the RMBs that there are -------------------------------

/// A client with one link of two that both want, whose second RMB is idle long enough:
/// its DELETE RKEY is out when it takes the offer of link 3.
fn client_withdrawing_while_a_link_is_added() -> (Script, ConnId, LlcMessage<'static>) {
    let mut s = Script::client().rnics(2);
    let (first, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer_with(2, 2, |m| m.link.0 = 0));
    s.over(1).expect_add_link_rejection();
    s.expect_established(first);
    let (second, _) = s.client_joins(2);
    s.on(second, |c, now| c.abort(now));
    s.skip();
    s.wait(Duration::from_secs(5));
    s.skip();
    s.pass(Duration::from_secs(60), &[1]);
    let own = LlcMessage::DeleteRkey(s.over(1).expect_delete_rkey());
    s.over(1).send(Peer::offer(3, 2));
    s.over(1).expect_add_link_reply();
    (s, first, own)
}

/// The client announces its one RMB, and nothing else.
fn expect_one_pair(s: &mut Script) {
    s.over(1).send(Peer::continuation(1, 3, &[1], false));
    let announced = s.over(1).expect_continuation_reply();
    check!(s, (announced.remaining, announced.pairs.len()), (1, 1));
}

#[test]
fn an_rmb_that_is_withdrawn_is_not_counted_before_the_answer() {
    //= CASE-D27 test
    //= LLC-036 test
    //= LLC-040 test
    let (mut s, first, own) = client_withdrawing_while_a_link_is_added();
    expect_one_pair(&mut s);
    s.over(1).send(Peer::reply_to(&own));
    confirm_third(&mut s);
    s.write(first, 5);
    s.expect_cdc();
    s.end();
}

#[test]
fn an_rmb_that_is_withdrawn_is_not_counted_behind_the_answer() {
    //= LLC-036 test
    //= LLC-040 test
    let (mut s, first, own) = client_withdrawing_while_a_link_is_added();
    s.over(1).send(Peer::reply_to(&own));
    expect_one_pair(&mut s);
    confirm_third(&mut s);
    s.write(first, 5);
    s.expect_cdc();
    s.end();
}

#[test]
fn an_rmb_that_is_agreed_on_before_the_continuations_is_in_them() {
    //= LLC-040 test
    //= RMB-009 test
    let (mut s, [_, second], own) = client_announcing_while_a_link_is_added();
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own.clone())));
    s.expect_confirm(second);
    s.expect_established(second);
    let announced = s.peer_asks_continuations(1, 3, &[1, 2]);
    check!(s, announced.len(), 2);
    check!(s, announced[1].reference, own.rtoken.rkey);
    confirm_third(&mut s);
    s.expect_silence();
    s.break_link(1);
    s.skip();
    s.write(second, 5);
    s.over(3).expect_cdc();
    s.end();
}

#[test]
fn an_rmb_that_was_withdrawn_is_unknown_on_a_link_in_the_place_of_another() {
    //= RMB-010 test
    //= LLC-070 test
    let (mut s, _, _) = Script::two_link_client();
    let (second, _) = s.client_joins(2);
    s.on(second, |c, now| c.abort(now));
    s.skip();
    s.wait(Duration::from_secs(5));
    s.break_link(2);
    s.skip();
    s.over(1).send(Peer::delete_link(2));
    s.over(1).expect_delete_link_reply();
    s.skip_hints();
    s.pass(Duration::from_secs(60), &[1]);
    s.skip_hints();
    s.over(1).expect_delete_rkey();
    // Link 3 takes the place of link 2, on which the RMB was known.
    s.over(1).send(Peer::offer(3, 3));
    s.over(1).expect_add_link_reply();
    expect_one_pair(&mut s);
    s.over(3).send(Peer::asks(3, 3));
    s.over(3).expect_confirm_link_reply();
    s.skip_hints();
    // No link knows it any more: nothing is left to withdraw.
    s.break_link(1);
    check!(s, s.over(3).expect_delete_link().link.0, 1);
    while s.poll_cdc_over(3).is_some() {}
    s.skip_hints();
    s.expect_silence();
    s.end();
}
