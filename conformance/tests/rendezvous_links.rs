//! Links that fail or are deleted while a rendezvous is about to name them, or has
//! named them (RFC 7609 3.5.2, 3.5.5, C.1, C.4).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::id::ConnId;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::DiagnosisCode;

/// This side's link with this number, as Accept and Confirm name it.
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
fn a_rendezvous_whose_group_ends_says_so_at_once() {
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
