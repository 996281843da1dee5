//! What still comes for links, RMBs and buffers that are gone or not there yet
//! (reliability D5, D8, D9, H7, H15).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::time::Duration;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage, RkeyFlags};
use smc_proto::wire::types::DiagnosisCode;

#[test]
fn a_continuation_for_a_link_the_client_just_lost_costs_no_other_link() {
    //= CASE-G07 test
    //= LLC-078 test
    let (mut s, conn) = Script::client_joining_third();
    s.port_down(3);
    check!(s, s.expect_delete_link().link.0, 3);
    s.over(1).send(Peer::continuation(1, 3, &[1], false));
    s.skip();
    check!(s, s.endpoint.usage().links, 3);
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.over(1)
        .send(Peer::delete_link_with(DeleteLinkFlags::empty(), 3, false));
    s.expect_delete_link_reply();
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn a_link_that_failed_for_the_client_is_added_no_further() {
    //= LLCSER-009 test
    //= TIMER-023 test
    // Its CONTINUATION would be waited for until the client gives up the carrying link.
    let (mut s, _) = Script::server_adding_third();
    s.over(1).send(Peer::takes(3, 3));
    s.over(1).expect_continuation();
    let failed = Peer::delete_link_with(DeleteLinkFlags::empty(), 3, false);
    s.over(1).send(failed);
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 3);
    s.agree(1, own);
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn a_continuation_of_an_rmb_that_was_withdrawn_is_refused() {
    //= LLC-063 test
    let (mut s, _, _) = Script::many_link_client(4);
    s.over(1).send(Peer::confirm_rkey_on(1, 7, &[2, 3, 4]));
    s.over(1).expect_confirm_rkey_reply();
    s.over(1).send(Peer::delete_rkey_on(1, &[7]));
    s.over(1).expect_delete_rkey_reply();
    s.over(1).send(Peer::rkey_continuation(7, &[4]));
    let reply = s.over(1).expect_rkey_continuation_reply();
    check!(s, reply.flags.contains(RkeyFlags::NEGATIVE), true);
    check!(s, s.endpoint.usage().links, 4);
    s.end();
}

#[test]
fn an_rmb_is_announced_once_it_is_registered_on_every_link() {
    //= CASE-D08 test
    //= LLC-066 test
    //= LLC-069 test
    // Left out of an announcement, the new link would count as lost.
    let (mut s, _) = Script::client_joining_third();
    s.adapter.hold = Some(Kind::Register);
    s.adapter.hold_link = Some(s.link_no(3));
    let conn = s.client_wants_rmb(2);
    s.peer_asks_continuations(1, 3, &[1]);
    s.over(3).send(Peer::asks(3, 3));
    s.over(3).expect_confirm_link_reply();
    s.expect_silence();
    s.release();
    let request = s.over(1).expect_confirm_rkey();
    check!(s, request.other_links, 2);
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(request)));
    s.expect_confirm(conn);
    s.end();
}

#[test]
fn an_rmb_is_announced_for_a_new_link_over_one_on_which_it_is_known() {
    //= LLC-059 test
    //= RMB-010 test
    // The new link is first in the group, where the lost one was.
    let (mut s, _, _) = Script::two_link_client();
    s.break_link(1);
    s.skip();
    s.over(2)
        .send(Peer::delete_link_with(DeleteLinkFlags::empty(), 1, false));
    s.skip();
    let conn = s.connect();
    s.expect_proposal(conn);
    let accept = s.subsequent_on_any_link(2);
    s.accept(conn, accept);
    let own = LlcMessage::ConfirmRkey(s.over(2).expect_confirm_rkey());
    s.over(2).send(Peer::offer(3, 1));
    s.over(2).expect_add_link_reply();
    s.peer_asks_continuations(2, 3, &[1]);
    s.over(2).send(Peer::reply_to(&own));
    s.expect_confirm(conn);
    s.over(3).send(Peer::asks(3, 1));
    s.over(3).expect_confirm_link_reply();
    s.skip_hints();
    let again = s.over(2).expect_confirm_rkey();
    check!(s, again.others[0].link.0, 3);
    s.over(2)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(again)));
    s.end();
}

#[test]
fn an_rmb_that_the_peer_announces_again_is_the_one_it_was() {
    //= LLC-080 test
    //= FAILOVER-021 test
    // The answer was lost with its link, so the peer did not announce the RMB when it
    // added the next one, but announces it once more, over that.
    let (mut s, _, _) = Script::two_link_client();
    s.over(1).send(Peer::confirm_rkey_on(1, 7, &[2]));
    s.over(1).expect_confirm_rkey_reply();
    s.break_link(1);
    s.skip();
    s.over(2)
        .send(Peer::delete_link_with(DeleteLinkFlags::empty(), 1, false));
    s.skip();
    s.peer_adds(2, 3, 1, &[1]);
    s.skip_hints();
    s.over(3).send(Peer::confirm_rkey_on(3, 7, &[2]));
    s.over(3).expect_confirm_rkey_reply();
    check!(s, s.endpoint.usage().remote_rmbs, 2);
    // A connection whose Accept names it by the older link can go to the newer one.
    let conn = s.connect();
    s.expect_proposal(conn);
    let (gid, mac) = Peer::port(2);
    let accept = AcceptConfirm {
        qpn: Peer::qpn_of(2),
        gid,
        mac,
        rtoken: Peer::rtoken_on(2, 7),
        ..s.peer.subsequent(7)
    };
    s.accept(conn, accept);
    let own = LlcMessage::ConfirmRkey(s.over(2).expect_confirm_rkey());
    s.over(2).send(Peer::reply_to(&own));
    s.expect_confirm(conn);
    s.expect_established(conn);
    s.break_link(2);
    s.skip();
    s.writes.clear();
    s.write(conn, 10);
    s.over(3).expect_cdc();
    check!(s, s.writes[0].0, Peer::rtoken_on(3, 7).rkey.0);
    s.end();
}

#[test]
fn a_connection_is_not_given_a_link_that_is_still_being_added() {
    let mut s = Script::client().rnics(2);
    let (first, _) = s.client_confirms_link();
    s.over(1).send(Peer::offer_with(2, 2, |m| m.link.0 = 0));
    s.over(1).expect_add_link_rejection();
    s.expect_established(first);
    s.skip_hints();
    s.adapter.hold = Some(Kind::CreateQp);
    s.over(1).send(Peer::offer(2, 2));
    let conn = s.connect();
    s.expect_proposal(conn);
    let (gid, mac) = Peer::port(2);
    s.accept(
        conn,
        AcceptConfirm {
            qpn: Peer::qpn_of(2),
            gid,
            mac,
            ..s.peer.subsequent(2)
        },
    );
    s.expect_decline(conn, DiagnosisCode::LINK_READY);
    s.refuse_held();
    s.skip();
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}

#[test]
fn a_registration_that_cannot_be_undone_does_not_cost_the_rmb() {
    //= RMB-030 test
    let (mut s, conn, _) = Script::two_link_client();
    s.adapter.refuse(Kind::Deregister, 1);
    s.break_link(2);
    s.skip();
    s.over(1)
        .send(Peer::delete_link_with(DeleteLinkFlags::empty(), 2, false));
    s.skip();
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.on(conn, |c, now| c.abort(now));
    s.skip();
    // What was announced to the peer is withdrawn before it is freed.
    for _ in 0..70 {
        s.wait(Duration::from_secs(1));
        while let Some(message) = s.poll_llc() {
            match message {
                LlcMessage::DeleteRkey(m) => {
                    s.send(Peer::reply_to(&LlcMessage::DeleteRkey(m)));
                    s.wait(Duration::from_secs(3));
                    s.skip();
                    check!(s, s.endpoint.usage().links, 1);
                    check!(s, s.endpoint.usage().buffers <= 1, true);
                    s.end();
                    return;
                }
                LlcMessage::TestLink(m) if !m.reply => {
                    s.send(Peer::reply_to(&LlcMessage::TestLink(m)));
                }
                _ => {}
            }
        }
    }
    s.fail("no DELETE RKEY");
}
