//! Timers of the rendezvous and of LLC (RFC 7609 C.5, C.7, C.7.1).

use conformance::check;
use conformance::script::{Peer, Script, Waiting};
use smc_proto::config::OnSilence;
use smc_proto::endpoint::ClcProgress;
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::DiagnosisCode;

#[test]
fn a_clc_message_that_does_not_come_ends_the_tcp_connection() {
    //= CLC-067 test
    //= CLC-069 test
    for waiting in Waiting::FOR_CLC {
        let (mut s, conn) = waiting.reach();
        let time = s.endpoint.config().timeouts.clc_message;
        s.wait_exactly(time);
        s.expect_reset(conn, CloseReason::RendezvousFailed);
        check!(
            s,
            s.endpoint.usage().groups,
            u32::from(waiting.is_subsequent())
        );
        s.end();
    }
}

#[test]
fn a_slow_loris_does_not_put_off_the_end() {
    //= CASE-H09 test
    //= CASE-A04 test
    //= V2-083 test
    //= CLC-067 test
    //= CLC-068 test
    for waiting in Waiting::FOR_CLC {
        let (mut s, conn) = waiting.reach();
        let message = match waiting {
            Waiting::Proposal => Peer::octets(&s.peer.proposal()),
            _ => Peer::octets(&smc_proto::wire::clc::ClcMessage::Accept(s.peer.accept(1))),
        };
        let mut shown = 0;
        while s.endpoint.usage().handshakes > 0 && shown < message.len() {
            shown += 1;
            let _ = s.octets(conn, &message[..shown]);
            s.wait(Duration::from_secs(1));
        }
        check!(s, shown, 6);
        s.expect_reset(conn, CloseReason::RendezvousFailed);
        s.end();
    }
}

#[test]
fn an_embedder_that_never_answers_a_proposal_is_bounded_too() {
    //= CLC-067 test
    let mut s = Script::server();
    let conn = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.next_event();
    let time = s.endpoint.config().timeouts.rendezvous;
    s.wait_exactly(time);
    s.expect_reset(conn, CloseReason::RendezvousFailed);
    s.end();
}

#[test]
fn without_confirm_link_the_client_falls_back() {
    //= CASE-G02 test
    //= V2-083 test
    //= V2-180 test
    //= RENDEZVOUS-017 test
    //= TIMER-002 test
    let (mut s, conn) = Waiting::ConfirmLink.reach();
    s.wait_exactly(Duration::from_secs(5));
    s.expect_clc();
    s.expect_fallback(conn, DiagnosisCode::TIMEOUT_CONFIRM_LINK);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn without_the_confirm_link_reply_the_server_falls_back() {
    //= TIMER-001 test
    //= TIMER-003 test
    let (mut s, conn) = Waiting::ConfirmLinkReply.reach();
    s.wait_exactly(Duration::from_secs(3));
    s.expect_clc();
    s.expect_fallback(conn, DiagnosisCode::TIMEOUT_CONFIRM_LINK);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn by_the_rfc_silence_on_confirm_link_breaks_tcp() {
    //= CASE-G02 test
    //= TIMER-008 test
    //= TIMER-010 test
    for waiting in [Waiting::ConfirmLink, Waiting::ConfirmLinkReply] {
        let (mut s, conn) =
            waiting.reach_with(|config| config.confirm_link_timeout = OnSilence::Reset);
        s.wait(Duration::from_secs(6));
        s.expect_reset(conn, CloseReason::RendezvousFailed);
        s.expect_silence();
        s.end();
    }
}

#[test]
fn the_client_waits_longer_for_confirm_link_than_the_server_for_its_reply() {
    // Otherwise both give up at the same time, and Declines cross (A6).
    //= TIMER-005 test
    let s = Script::client();
    let t = s.endpoint.config().timeouts;
    let server = t.llc_reply + t.decline;
    check!(s, t.confirm_link_request + t.decline > server, true);
    check!(s, t.confirm_link_request >= 2 * t.llc_reply, true);
    check!(
        s,
        t.rendezvous > t.confirm_link_request + t.decline + t.add_link_request,
        true
    );
}

#[test]
fn without_add_link_the_group_lives_with_one_link() {
    //= CASE-G21 test
    //= LINK-048 test
    //= LLC-027 test
    //= TIMER-002 test
    for (waiting, seconds) in [(Waiting::AddLink, 3), (Waiting::AddLinkReply, 2)] {
        let (mut s, conn) = waiting.reach();
        s.wait_exactly(Duration::from_secs(seconds));
        check!(s, s.expect_established(conn), true);
        check!(s, s.adapter.queue_pairs(), 1);
        s.end();
    }
}

#[test]
fn by_the_rfc_silence_on_add_link_breaks_tcp() {
    //= TIMER-013 test
    //= TIMER-014 test
    //= CLC-063 test
    for waiting in [Waiting::AddLink, Waiting::AddLinkReply] {
        let (mut s, conn) = waiting.reach_with(|config| config.add_link_timeout = OnSilence::Reset);
        s.wait(Duration::from_secs(4));
        s.expect_reset(conn, CloseReason::RendezvousFailed);
        check!(s, s.endpoint.usage().groups, 0);
        s.end();
    }
}

#[test]
fn an_add_link_that_comes_too_late_is_rejected_without_harm() {
    let (mut s, conn) = Waiting::AddLink.reach();
    s.wait(Duration::from_secs(3));
    s.expect_established(conn);
    s.send(s.peer.add_link());
    s.expect_add_link_rejection();
    s.expect_silence();
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn replies_that_come_too_late_are_dropped() {
    //= V2-190 test
    let (mut s, conn) = Waiting::AddLinkReply.reach();
    s.wait(Duration::from_secs(2));
    s.expect_established(conn);
    s.send(s.peer.add_link_acceptance());
    s.send(s.peer.confirm_link_reply());
    s.expect_silence();
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn an_answer_about_another_rmb_is_dropped() {
    //= V2-190 test
    let mut s = Script::client();
    s.client_first_contact();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.subsequent(2));
    let own = s.expect_confirm_rkey();
    let mut other = own.clone();
    other.rtoken.address ^= 0x1000;
    s.send(Peer::reply_to(&LlcMessage::ConfirmRkey(other)));
    s.expect_silence();
    s.send(Peer::reply_to(&LlcMessage::ConfirmRkey(own)));
    s.expect_confirm(conn);
    s.expect_established(conn);
    s.end();
}

#[test]
fn a_second_link_that_is_not_given_up_breaks_tcp() {
    //= RENDEZVOUS-030 test
    //= TIMER-011 test
    //= TIMER-027 test
    let (mut s, conn) = Waiting::AddLinkReply.reach();
    s.over(1).send(Peer::takes(2, 2));
    s.peer_answers_continuations(1, 2, &[1]);
    s.over(2).expect_confirm_link();
    s.wait_exactly(Duration::from_secs(5));
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.wait_exactly(Duration::from_secs(2));
    s.expect_reset(conn, CloseReason::LinksLost);
    s.end();
}

#[test]
fn confirm_rkey_without_an_answer_fails_the_link() {
    //= TIMER-028 test
    let mut s = Script::client();
    let (old, _) = s.client_first_contact();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.subsequent(2));
    s.expect_confirm_rkey();
    s.wait_exactly(Duration::from_secs(2));
    s.expect_reset(old, CloseReason::LinksLost);
    s.expect_decline(conn, DiagnosisCode::LINK_READY);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_server_whose_confirm_rkey_is_not_answered_declines_in_place_of_the_accept() {
    //= TIMER-028 test
    //= CLC-047 test
    let mut s = Script::server();
    s.server_first_contact();
    let conn = s.listen();
    let proposal = s.peer.proposal();
    let _ = s.clc(conn, &proposal);
    s.take_proposal(conn);
    s.expect_confirm_rkey();
    s.wait(Duration::from_secs(2));
    let (of, _) = s.expect_clc();
    check!(s, of, conn);
    s.expect_transcript(&["FellBack"]);
    s.end();
}

#[test]
fn the_rendezvous_as_a_whole_has_an_end() {
    //= CASE-G16 test
    //= V2-084 test
    //= CLC-067 test
    let (mut s, conn) = Waiting::AddLinkReply.reach_with(|config| {
        config.timeouts.llc_reply = Duration::from_secs(3600);
    });
    let time = s.endpoint.config().timeouts.rendezvous;
    s.wait(time);
    s.expect_reset(conn, CloseReason::RendezvousFailed);
    check!(s, s.octets(conn, b"x"), Ok(ClcProgress::NotClc));
    s.end();
}
