//! Connections move to another link when theirs fails: what is sent on the new
//! one, and what is made of it (RFC 7609 2.3, 4.6).

use conformance::check;
use conformance::script::{Kind, Peer, Script, rnic};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{Cdc, ProducerFlags};
use smc_proto::wire::types::AlertToken;

const F: ProducerFlags = ProducerFlags::FAILOVER_VALIDATION;

/// A failover validation of the peer.
fn validation(token: AlertToken, sequence: u16) -> Cdc {
    Cdc {
        producer_flags: F,
        ..Peer::cdc(token, sequence, 0, 0)
    }
}

#[test]
fn a_connection_moves_once_its_old_link_is_drained_and_not_before() {
    //= FAILOVER-002 test
    //= FAILOVER-004 test
    //= FAILOVER-003 test
    let (mut s, conn, _) = Script::two_link_server();
    s.write(conn, 10);
    s.over(1).expect_cdc();
    s.adapter.hold = Some(Kind::QpToError);
    s.break_link(1);
    check!(s, s.over(2).expect_delete_link().link.0, 1);
    s.write(conn, 10);
    s.expect_silence();
    s.release();
    check!(s, s.over(2).expect_cdc().producer_flags.contains(F), true);
    check!(s, s.over(2).expect_cdc().producer.count, 20);
    s.end();
}

#[test]
fn first_goes_a_validation_with_the_last_completed_number_then_what_was_lost() {
    //= FAILOVER-006 test
    //= FAILOVER-008 test
    //= FAILOVER-009 test
    //= FAILOVER-016 test
    //= FAILOVER-019 test
    //= FAILOVER-020 test
    let (mut s, conn, _) = Script::two_link_client();
    s.write(conn, 10);
    check!(s, s.over(1).expect_cdc().sequence, 1);
    s.adapter.hold = Some(Kind::Send);
    s.write(conn, 20);
    s.write(conn, 30);
    check!(s, s.over(1).expect_cdc().sequence, 2);
    // What follows waits for the completion that never comes.
    s.expect_silence();
    s.writes.clear();
    s.adapter.hold = None;
    s.break_link(1);
    s.over(2).expect_delete_link();
    let first = s.over(2).expect_cdc();
    check!(
        s,
        (first.producer_flags.contains(F), first.sequence),
        (true, 1)
    );
    // In one piece, with a number that was never used.
    let base = Peer::rtoken_on(2, 1);
    check!(
        s,
        s.writes.clone(),
        vec![(base.rkey.0, base.address + 10, 50)]
    );
    let again = s.over(2).expect_cdc();
    check!(s, (again.sequence, again.producer.count), (3, 60));
    s.expect_silence();
    s.end();
}

#[test]
fn nothing_lost_is_nothing_repeated() {
    //= FAILOVER-005 test
    //= FAILOVER-010 test
    let (mut s, conn, _) = Script::two_link_client();
    s.write(conn, 10);
    s.over(1).expect_cdc();
    s.writes.clear();
    s.break_link(1);
    s.over(2).expect_delete_link();
    let first = s.over(2).expect_cdc();
    check!(
        s,
        (first.producer_flags.contains(F), first.sequence),
        (true, 1)
    );
    check!(s, s.writes.len(), 0);
    s.expect_silence();
    s.write(conn, 5);
    let next = s.over(2).expect_cdc();
    check!(s, (next.sequence, next.producer.count), (2, 15));
    s.end();
}

#[test]
fn a_cursor_that_was_lost_is_sent_again() {
    //= FAILOVER-012 test
    let (mut s, conn, token) = Script::two_link_server();
    s.over(1).send_cdc(Peer::cdc(token, 1, 60_000, 0));
    s.skip();
    s.adapter.hold = Some(Kind::Send);
    s.on(conn, |c, now| c.consume(now, 60_000).unwrap());
    check!(s, s.over(1).expect_cdc().consumer.count, 60_000);
    s.adapter.hold = None;
    s.break_link(1);
    s.over(2).expect_delete_link();
    check!(s, s.over(2).expect_cdc().producer_flags.contains(F), true);
    check!(s, s.over(2).expect_cdc().consumer.count, 60_000);
    s.end();
}

#[test]
fn a_validation_of_what_arrived_changes_nothing_and_gets_no_answer() {
    //= FAILOVER-007 test
    //= FAILOVER-010 test
    //= FAILOVER-011 test
    //= FAILOVER-013 test
    //= FAILOVER-015 test
    let (mut s, conn, token) = Script::two_link_server();
    s.over(1).send_cdc(Peer::cdc(token, 1, 10, 0));
    s.over(1).send_cdc(Peer::cdc(token, 2, 20, 0));
    s.skip();
    for sequence in [2, 1, 0, 65_535] {
        s.over(2).send_cdc(validation(token, sequence));
        s.expect_silence();
    }
    check!(s, s.readable(conn), 20);
    // The same numbers again are old, new ones are not.
    s.over(2).send_cdc(Peer::cdc(token, 2, 20, 0));
    s.over(2).send_cdc(Peer::cdc(token, 3, 30, 0));
    check!(s, s.readable(conn), 30);
    s.end();
}

#[test]
fn a_validation_of_what_never_arrived_resets_the_connection_alone() {
    //= FAILOVER-014 test
    let (mut s, conn, token) = Script::two_link_server();
    let (other, _) = s.server_joins(2);
    s.over(1).send_cdc(Peer::cdc(token, 1, 10, 0));
    s.skip();
    s.over(2).send_cdc(validation(token, 2));
    let (of, command) = s.expect_tcp();
    check!(
        s,
        (of, command),
        (conn, smc_proto::command::TcpCommand::Reset)
    );
    s.wait(Duration::from_secs(6));
    s.expect_closed(conn, CloseReason::DataLost);
    check!(s, s.endpoint.conn(other).is_some(), true);
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn each_side_picks_its_own_link() {
    //= CDC-032 test
    //= FAILOVER-001 test
    //= FAILOVER-023 test
    let (mut s, conn, token) = Script::two_link_server();
    s.over(2).send_cdc(Peer::cdc(token, 1, 10, 0));
    check!(s, s.readable(conn), 10);
    s.write(conn, 5);
    s.over(1).expect_cdc();
    s.over(1).send_cdc(Peer::cdc(token, 2, 15, 5));
    check!(s, s.readable(conn), 15);
    // Further connections go where there are fewer.
    s.skip();
    let (_, accept) = s.server_accepts();
    check!(s, accept.gid, rnic(2).gid);
    s.end();
}
