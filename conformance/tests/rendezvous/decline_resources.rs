//! Tables that are full: Decline, and nothing is lost.

use conformance::check;
use conformance::script::{LIMITS, Script};
use conformance::smcd::hand::{Hand, Mode};
use smc_proto::storage::Limits;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::DiagnosisCode;

#[test]
fn every_full_table_makes_a_decline() {
    //= CASE-B09 test
    //= CLC-054 test
    //= RMB-006 test
    type Shrink = fn(&mut Limits);
    let shrinks: [Shrink; 4] = [
        |l| l.groups = 0,
        |l| l.links = 0,
        |l| l.buffers = 0,
        |l| l.buffers = 1,
    ];
    for shrink in shrinks {
        let mut limits = LIMITS;
        shrink(&mut limits);
        let mut s = Script::limited(limits, |_| {});
        let conn = s.connect();
        s.expect_proposal(conn);
        s.accept(conn, s.peer.accept(1));
        s.expect_decline(conn, DiagnosisCode::MEMORY);
        let conn = s.listen();
        let proposal = s.peer.proposal();
        let _ = s.clc(conn, &proposal);
        s.take_proposal(conn);
        s.expect_decline(conn, DiagnosisCode::MEMORY);
        s.end();
    }
}

#[test]
fn full_tables_make_a_decline_of_smcd_too() {
    //= CLC-054 test
    for (mode, buffers) in Mode::ALL.into_iter().flat_map(|m| [(m, 0), (m, 1)]) {
        let mut limits = Limits::for_connections(8);
        limits.buffers = buffers;
        let mut hand = Hand::limited(mode, limits, |_| {});
        let conn = hand.connect();
        let accept = hand.half(true, 0xa);
        hand.clc(conn, &ClcMessage::SmcdAccept(accept));
        let (of, message) = hand.sent_clc.back().expect("an answer");
        assert_eq!(*of, conn);
        match message {
            ClcMessage::Decline(decline) => assert_eq!(decline.diagnosis, DiagnosisCode::MEMORY),
            other => panic!("{other}"),
        }
        hand.end();
    }
}

#[test]
fn without_room_for_the_peers_rmb_the_connection_is_declined_not_lost() {
    //= CLC-054 test
    let mut limits = LIMITS;
    limits.remote_rmbs = 0;
    let mut s = Script::limited(limits, |_| {});
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.accept(1));
    s.expect_decline(conn, DiagnosisCode::RTOKEN);
    s.end();
    let mut s = Script::limited(limits, |_| {});
    let (conn, _) = s.server_accepts();
    s.confirm(conn, s.peer.accept(1));
    s.expect_decline(conn, DiagnosisCode::RTOKEN);
    s.end();
}

#[test]
fn a_full_buffer_table_declines_a_subsequent_contact_and_spares_the_group() {
    //= CLC-054 test
    let mut limits = LIMITS;
    limits.buffers = 3;
    let mut s = Script::limited(limits, |_| {});
    s.client_first_contact();
    let conn = s.connect();
    s.expect_proposal(conn);
    s.accept(conn, s.peer.subsequent(2));
    s.expect_decline(conn, DiagnosisCode::MEMORY);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}
