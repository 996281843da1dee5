//! Decline and fallback (RFC 7609 3.5.1.6.4, A.2.5, Appendix C.1 to C.4, C.6).

use conformance::check;
use conformance::script::{Kind, Peer, Script, Waiting};
use smc_proto::command::TcpCommand;
use smc_proto::endpoint::{ClcProgress, Next};
use smc_proto::event::{CloseReason, Event};
use smc_proto::time::Duration;
use smc_proto::wire::clc::{AcceptConfirm, ClcKind};
use smc_proto::wire::types::{DiagnosisCode, Mtu, RmbeIndex};

const SECOND: Duration = Duration::from_secs(1);
/// What Linux sends first over a plain connection in these tests.
const GET: &[u8] = b"GET / HTTP/1.0\r\n\r\nand a little more";

#[test]
fn a_client_without_a_device_declines_in_place_of_the_proposal() {
    //= CLC-047 test
    //= CLC-054 test
    let mut s = Script::client();
    s.paths.clear();
    let conn = s.connect();
    let decline = s.expect_decline(conn, DiagnosisCode::NO_SMCR_DEVICE);
    check!(s, decline.out_of_sync, false);
    check!(s, decline.peer_id, s.endpoint.config().peer_id);
    s.end();
}

#[test]
fn a_server_takes_a_decline_in_place_of_the_proposal() {
    //= CLC-047 test
    //= CLC-050 test
    let (mut s, conn) = Waiting::Proposal.reach();
    let mut bytes = Peer::octets(&s.peer.decline());
    bytes.extend_from_slice(GET);
    let (len, next) = (28, Next::Stop);
    check!(
        s,
        s.octets(conn, &bytes),
        Ok(ClcProgress::Consumed { len, next })
    );
    check!(
        s,
        s.expect_fallback(conn, DiagnosisCode::PEER_DECLINED),
        false
    );
    s.end();
}

#[test]
fn a_server_without_a_device_or_in_another_subnet_declines() {
    //= RENDEZVOUS-003 test
    //= RENDEZVOUS-006 test
    //= CLC-019 test
    //= CLC-054 test
    for (paths, code) in [
        (0, DiagnosisCode::NO_SMCR_DEVICE),
        (1, DiagnosisCode::PREFIX_MISMATCH),
    ] {
        let mut s = Script::server();
        s.paths.truncate(paths);
        s.paths
            .iter_mut()
            .for_each(|path| path.subnet_match = false);
        let conn = s.listen();
        let proposal = s.peer.proposal();
        let _ = s.clc(conn, &proposal);
        s.take_proposal(conn);
        let decline = s.expect_decline(conn, code);
        check!(s, decline.peer_id, s.endpoint.config().peer_id);
        check!(s, s.adapter.queue_pairs(), 0);
        s.end();
    }
}

#[test]
fn a_reserved_mtu_is_declined_on_first_contact_only() {
    //= CASE-G12 test
    //= CLC-039 test
    //= CLC-041 test
    //= CLC-074 test
    //= CLC-075 test
    //= CLC-076 test
    for code in [0, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
        let reserved = |message: AcceptConfirm| AcceptConfirm {
            mtu: Mtu::from_code(code),
            ..message
        };
        let (mut s, conn) = Waiting::Accept.reach();
        s.accept(conn, reserved(s.peer.accept(1)));
        s.expect_decline(conn, DiagnosisCode::INTERNAL);
        s.end();
        let (mut s, conn) = Waiting::Confirm.reach();
        s.confirm(conn, reserved(s.peer.accept(1)));
        s.expect_decline(conn, DiagnosisCode::INTERNAL);
        s.end();
        let (mut s, conn) = Waiting::SubsequentAccept.reach();
        s.accept(conn, reserved(s.peer.subsequent(2)));
        s.agree_to_rmb();
        s.expect_confirm(conn);
        s.end();
        let (mut s, conn) = Waiting::SubsequentConfirm.reach();
        s.confirm(conn, reserved(s.peer.subsequent(2)));
        s.expect_established(conn);
        s.end();
    }
}

#[test]
fn an_element_index_of_zero_is_declined() {
    //= CLC-035 test
    //= SEC-009 test
    let zero = |message: AcceptConfirm| AcceptConfirm {
        rmbe_index: RmbeIndex(0),
        ..message
    };
    let (mut s, conn) = Waiting::Accept.reach();
    s.accept(conn, zero(s.peer.accept(1)));
    s.expect_decline(conn, DiagnosisCode::RTOKEN);
    s.end();
    let (mut s, conn) = Waiting::Confirm.reach();
    s.confirm(conn, zero(s.peer.accept(1)));
    s.expect_decline(conn, DiagnosisCode::INTERNAL);
    s.end();
}

#[test]
fn a_decline_in_any_state_means_plain_tcp_and_leaves_nothing() {
    //= CASE-B05 test
    //= CLC-044 test
    //= CLC-050 test
    //= CLC-051 test
    //= CLC-058 test
    //= CLC-064 test
    //= CLC-065 test
    for waiting in Waiting::ALL {
        let (mut s, conn) = waiting.reach();
        let before = s.endpoint.usage().groups;
        let mut bytes = Peer::octets(&s.peer.decline());
        bytes.extend_from_slice(GET);
        let (len, next) = (28, Next::Stop);
        check!(
            s,
            s.octets(conn, &bytes),
            Ok(ClcProgress::Consumed { len, next })
        );
        s.expect_fallback(conn, DiagnosisCode::PEER_DECLINED);
        s.expect_silence();
        check!(s, s.octets(conn, GET), Ok(ClcProgress::NotClc));
        let left = if waiting.is_subsequent() { 1 } else { 0 };
        check!(
            s,
            (before.max(left), s.endpoint.usage().groups),
            (before.max(left), left)
        );
        s.end();
    }
}

#[test]
fn a_client_that_loses_patience_and_declines_is_on_plain_tcp() {
    //= CLC-047 test
    //= CLC-051 test
    // While the application decides, and while a registration takes its time.
    for held in [None, Some(Kind::Register)] {
        let mut s = Script::server();
        let conn = s.listen();
        let proposal = s.peer.proposal();
        let _ = s.clc(conn, &proposal);
        if held.is_some() {
            s.adapter.hold = held;
            s.take_proposal(conn);
        } else {
            s.expect_event(Event::Proposed { conn });
        }
        let mut bytes = Peer::octets(&s.peer.decline());
        bytes.extend_from_slice(GET);
        let (len, next) = (28, Next::Stop);
        check!(
            s,
            s.octets(conn, &bytes),
            Ok(ClcProgress::Consumed { len, next })
        );
        s.expect_fallback(conn, DiagnosisCode::PEER_DECLINED);
        s.release();
        s.expect_silence();
        s.end();
    }
}

#[test]
fn out_of_sync_in_a_decline_ends_the_group_of_the_connection() {
    //= CASE-A07 test
    //= CLC-045 test
    //= CLC-046 test
    for waiting in Waiting::ALL {
        let (mut s, conn) = waiting.reach();
        let decline = s.peer.decline_with(true);
        check!(s, s.clc(conn, &decline), Next::Stop);
        if waiting == Waiting::SubsequentConfirm {
            let (other, command) = s.expect_tcp();
            check!(s, command, TcpCommand::Reset);
            s.expect_closed(other, CloseReason::LinksLost);
        }
        s.expect_fallback(conn, DiagnosisCode::PEER_DECLINED);
        // A client that was offered nothing yet has no group to discard.
        let left = u32::from(waiting == Waiting::SubsequentAccept);
        check!(s, s.endpoint.usage().groups, left);
        s.end();
    }
}

#[test]
fn a_client_never_chases_its_proposal_with_a_decline() {
    //= CLC-048 test
    //= CLC-049 test
    //= RENDEZVOUS-015 test
    let (mut s, conn) = Waiting::Accept.reach();
    s.path(smc_proto::path::PathEvent::PortDown {
        device: conformance::script::DEVICE,
        port: 1,
    });
    s.expect_silence();
    s.accept(conn, s.peer.accept(1));
    s.expect_decline(conn, DiagnosisCode::NO_SMCR_DEVICE);
    check!(s, s.adapter.queue_pairs(), 0);
    s.end();
}

#[test]
fn a_server_that_lost_its_link_waits_for_the_confirm_to_decline() {
    //= CLC-052 test
    //= CLC-053 test
    let (mut s, conn) = Waiting::Confirm.reach();
    s.path(smc_proto::path::PathEvent::PortDown {
        device: conformance::script::DEVICE,
        port: 1,
    });
    s.expect_silence();
    s.confirm(conn, s.peer.accept(1));
    s.expect_decline(conn, DiagnosisCode::LINK_READY);
    s.end();
}

#[test]
fn a_server_that_declines_a_confirm_watches_for_a_crossing_decline() {
    // The client may give up waiting for CONFIRM LINK at the same time (A6).
    //= CLC-052 test
    let (mut s, conn) = Waiting::Confirm.reach();
    s.confirm(
        conn,
        AcceptConfirm {
            mtu: Mtu::from_code(0),
            ..s.peer.accept(1)
        },
    );
    let (_, message) = s.expect_clc();
    check!(s, message.kind(), ClcKind::Decline);
    check!(s, s.expect_fallback(conn, DiagnosisCode::INTERNAL), true);
    let decline = s.peer.decline();
    check!(s, s.clc(conn, &decline), Next::Stop);
    check!(s, s.octets(conn, GET), Ok(ClcProgress::NotClc));
    s.end();
}

#[test]
fn a_first_contact_that_fell_back_is_tried_anew() {
    //= CASE-A11 test
    //= CLC-066 test
    let (mut s, conn) = Waiting::ConfirmLink.reach();
    let decline = s.peer.decline();
    let _ = s.clc(conn, &decline);
    s.skip();
    s.client_first_contact();
    s.wait(SECOND);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}
