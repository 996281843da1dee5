//! Links that fail or are deleted while a rendezvous is about to name them, or has
//! named them (RFC 7609 3.5.2, 3.5.5, C.1, C.4).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::command::TcpCommand;
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::DiagnosisCode;

/// Whether a message names this side's link with this number.
fn names(s: &Script, message: &AcceptConfirm, number: u8) -> bool {
    s.link_of(message.qpn) == Some(s.link_no(number))
}

/// A server with two links whose Accept waits for TCP to take it.
fn server_about_to_accept() -> (Script, ConnId) {
    let (mut s, _, _) = Script::two_link_server();
    s.hold_clc = true;
    let conn = s.server_wants_rmb();
    s.agree_to_rmb();
    (s, conn)
}

/// A client with two links whose Confirm waits for TCP to take it.
fn client_about_to_confirm() -> (Script, ConnId) {
    let (mut s, _, _) = Script::two_link_client();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.over(1).send(Peer::confirm_rkey_on(1, 2, &[2]));
    s.over(1).expect_confirm_rkey_reply();
    s.hold_clc = true;
    s.accept(conn, s.peer.subsequent(2));
    s.agree_to_rmb();
    (s, conn)
}

#[test]
fn an_accept_does_not_name_a_link_that_failed() {
    //= CLC-057 test
    //= LLC-054 test
    for (gone, left) in [(1, 2), (2, 1)] {
        let (mut s, conn) = server_about_to_accept();
        // Its queue pair may take a while to drain.
        s.adapter.hold = Some(Kind::QpToError);
        s.break_link(gone);
        s.hold_clc = false;
        s.pump();
        let accept = s.expect_accept(conn);
        check!(
            s,
            (accept.first_contact, names(&s, &accept, left)),
            (false, true)
        );
        s.end();
    }
}

#[test]
fn an_accept_does_not_name_a_link_that_is_being_deleted() {
    //= LINK-046 test
    //= CLC-057 test
    for (gone, left) in [(1, 2), (2, 1)] {
        let (mut s, conn) = server_about_to_accept();
        let link = s.link_no(gone);
        s.endpoint.delete_link(s.now, link);
        s.pump();
        s.hold_clc = false;
        s.pump();
        let accept = s.expect_accept(conn);
        check!(s, names(&s, &accept, left), true);
        s.end();
    }
}

#[test]
fn a_confirm_does_not_name_a_link_that_failed() {
    //= RENDEZVOUS-046 test
    let (mut s, conn) = client_about_to_confirm();
    s.adapter.hold = Some(Kind::QpToError);
    s.break_link(1);
    s.hold_clc = false;
    s.pump();
    let confirm = s.expect_confirm(conn);
    check!(s, names(&s, &confirm, 2), true);
    s.expect_established(conn);
    s.end();
}

#[test]
fn a_confirm_becomes_a_decline_at_once_if_the_peers_rmb_cannot_be_reached_any_more() {
    //= CLC-047 test
    //= CLC-054 test
    //= RENDEZVOUS-018 test
    for agreed_first in [true, false] {
        let (mut s, _, _) = Script::two_link_client();
        let conn = s.connect();
        s.expect_proposal(conn);
        // The server did not announce this RMB: it is known on the Accept's link only.
        s.hold_clc = true;
        s.accept(conn, s.peer.subsequent(3));
        if agreed_first {
            s.agree_to_rmb();
            s.break_link(1);
        } else {
            s.break_link(1);
            s.skip_delete_requests();
            s.over(1).expect_confirm_rkey();
            let again = s.over(2).expect_confirm_rkey();
            s.over(2)
                .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
        }
        s.skip();
        s.hold_clc = false;
        s.pump();
        s.expect_decline(conn, DiagnosisCode::LINK_READY);
        check!(s, s.endpoint.usage().groups, 1);
        s.end();
    }
}

#[test]
fn a_server_that_withdraws_the_rmb_it_gave_gets_a_decline() {
    //= CLC-054 test
    //= LLC-071 test
    let mut s = Script::client();
    s.client_first_contact();
    let conn = s.client_wants_rmb(2);
    let own = LlcMessage::ConfirmRkey(s.expect_confirm_rkey());
    s.send(Peer::delete_rkey(&[2]));
    s.expect_delete_rkey_reply();
    s.send(Peer::reply_to(&own));
    s.expect_decline(conn, DiagnosisCode::RTOKEN);
    s.end();
}

#[test]
fn a_rendezvous_whose_group_ends_reports_it_at_once() {
    //= CASE-D19 test
    //= CLC-054 test
    //= CLC-047 test
    for start in [server_about_to_accept, client_about_to_confirm] {
        let (mut s, conn) = start();
        s.skip();
        s.break_link(1);
        s.break_link(2);
        s.skip();
        s.hold_clc = false;
        s.pump();
        s.expect_decline(conn, DiagnosisCode::LINK_READY);
        s.end();
    }
}

// ---- A Confirm that was written before the DELETE LINK was read ------------------

/// A Confirm over a link of the peer with this number, for its RMB of this number.
fn confirm_over(s: &Script, link: u8, rmb: u32) -> AcceptConfirm {
    let (gid, mac) = Peer::port(link);
    AcceptConfirm {
        qpn: Peer::qpn_of(link),
        gid,
        mac,
        rtoken: Peer::rtoken_on(link, rmb),
        ..s.peer.subsequent(rmb)
    }
}

/// A server that waits for a Confirm while a link is deleted; the client announced
/// its RMB 2 on both links. `first`: whether the Accept came before the end of
/// the link.
fn server_loses_link(gone: u8, first: bool) -> (Script, ConnId) {
    let (mut s, _, _) = Script::two_link_server();
    s.over(1).send(Peer::confirm_rkey_on(1, 2, &[2]));
    s.over(1).expect_confirm_rkey_reply();
    let early = first.then(|| s.server_accepts().0);
    let over = 3 - gone;
    s.break_link(gone);
    let own = s.over(over).expect_delete_link();
    check!(s, own.link.0, gone);
    s.agree(over, own);
    // The next link is offered at once, and does not take its place.
    let offer = s.over(over).expect_add_link();
    s.over(over).send(Peer::rejects(offer.link.0));
    let conn = early.unwrap_or_else(|| s.server_accepts().0);
    (s, conn)
}

#[test]
fn a_confirm_that_names_a_link_deleted_meanwhile_goes_on_over_another() {
    //= RENDEZVOUS-043 test
    //= RENDEZVOUS-045 test
    //= RMB-010 test
    for (gone, left) in [(1, 2), (2, 1)] {
        let (mut s, conn) = server_loses_link(gone, true);
        let confirm = confirm_over(&s, gone, 2);
        s.confirm(conn, confirm);
        s.expect_established(conn);
        s.writes.clear();
        s.write(conn, 10);
        s.over(left).expect_cdc();
        check!(s, s.writes[0].0, Peer::rtoken_on(left, 2).rkey.0);
        check!(s, s.endpoint.statistics().violations, 0);
        s.end();
    }
}

#[test]
fn such_a_confirm_of_an_rmb_that_no_link_reaches_breaks_the_connection_alone() {
    //= RENDEZVOUS-044 test
    //= CLC-055 test
    let (mut s, conn) = server_loses_link(2, true);
    let confirm = confirm_over(&s, 2, 3);
    s.confirm(conn, confirm);
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 1);
    check!(s, s.endpoint.statistics().violations, 0);
    s.end();
}

#[test]
fn a_link_deleted_before_the_accept_cannot_be_named() {
    //= RENDEZVOUS-044 test
    let (mut s, conn) = server_loses_link(2, false);
    let confirm = confirm_over(&s, 2, 2);
    s.confirm(conn, confirm);
    s.expect_reset(conn, CloseReason::PeerMisbehaved);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn a_link_that_was_never_there_cannot_be_named_while_another_is_deleted() {
    //= RENDEZVOUS-044 test
    //= SEC-009 test
    let changes: [fn(&mut AcceptConfirm); 4] = [
        |c| c.qpn = Peer::qpn_of(3),
        |c| c.gid.0[15] ^= 1,
        |c| c.mac.0[5] ^= 1,
        |c| c.rmbe_index.0 = 0,
    ];
    for change in changes {
        let (mut s, conn) = server_loses_link(2, true);
        let mut confirm = confirm_over(&s, 2, 2);
        change(&mut confirm);
        s.confirm(conn, confirm);
        s.expect_reset(conn, CloseReason::PeerMisbehaved);
        s.end();
    }
}

#[test]
fn what_was_kept_of_a_link_is_not_taken_for_the_one_in_its_place() {
    //= RMB-010 test
    //= LLC-040 test
    let (mut s, conn) = server_loses_link(2, true);
    let confirm = confirm_over(&s, 2, 2);
    s.confirm(conn, confirm);
    s.expect_established(conn);
    s.over(1).send(Peer::hint(2));
    let offer = s.over(1).expect_add_link().link.0;
    // The client leaves RMB 2 out: it cannot be written over the new link.
    s.peer_joins(1, offer, 2, &[1]);
    s.writes.clear();
    s.break_link(1);
    // The other connection moves first.
    while s.expect_cdc().1.connection_flags != ConnectionFlags::ABNORMAL_CLOSE {}
    check!(s, s.expect_tcp(), (conn, TcpCommand::Reset));
    // The peer sends nothing, to it or to the group.
    s.wait(Duration::from_secs(5));
    let reason = CloseReason::LinksLost;
    check!(
        s,
        s.take_events().contains(&Event::Closed { conn, reason }),
        true
    );
    check!(s, s.writes.is_empty(), true);
    s.end();
}

#[test]
fn a_confirm_may_overtake_the_answer_that_makes_its_link_usable() {
    //= RENDEZVOUS-043 test
    //= LLC-013 test
    let (mut s, _) = Script::server_with_two_of_three();
    s.over(1).send(Peer::confirm_rkey_on(1, 2, &[2]));
    s.over(1).expect_confirm_rkey_reply();
    let conn = s.server_accepts().0;
    s.port_up(3);
    s.over(1).expect_add_link();
    s.over(1).send(Peer::takes(3, 3));
    s.peer_answers_continuations(1, 3, &[1, 2]);
    s.over(3).expect_confirm_link();
    let confirm = confirm_over(&s, 3, 2);
    s.confirm(conn, confirm);
    s.expect_established(conn);
    s.write(conn, 10);
    check!(s, s.expect_cdc().0 != s.link_no(3), true);
    s.over(3).send(Peer::confirms(3, 3));
    s.expect_silence();
    check!(s, s.endpoint.statistics().violations, 0);
    s.end();
}

#[test]
fn such_a_confirm_goes_on_over_a_link_that_reaches_its_rmb() {
    //= RENDEZVOUS-042 test
    //= RENDEZVOUS-043 test
    let mut s = Script::with(|config| config.max_links = 3);
    let (first, _) = s.server_asks_to_confirm();
    s.send(Peer::confirms_with(1, 1, |m| m.max_links = 3));
    s.expect_add_link();
    s.over(1).send(Peer::rejects(2));
    s.expect_established(first);
    s.over(1).send(Peer::confirm_rkey(2));
    s.over(1).expect_confirm_rkey_reply();
    // The client omits RMB 2 for link 3, which the server's Accept names.
    s.port_up(2);
    s.over(1).expect_add_link();
    s.peer_joins(1, 3, 2, &[1]);
    let (conn, accept) = s.server_accepts();
    check!(s, names(&s, &accept, 3), true);
    s.port_up(3);
    s.over(1).expect_add_link();
    s.over(1).send(Peer::takes(4, 4));
    s.peer_answers_continuations(1, 4, &[1, 2]);
    s.over(4).expect_confirm_link();
    let confirm = confirm_over(&s, 4, 2);
    s.confirm(conn, confirm);
    s.expect_established(conn);
    s.writes.clear();
    s.write(conn, 10);
    s.over(1).expect_cdc();
    check!(s, s.writes[0].0, Peer::rtoken_on(1, 2).rkey.0);
    s.end();
}
