//! Closing and aborting, both sides together.

use super::harness::Pair;
use crate::connection::CloseState::*;
use crate::connection::*;
use crate::time::Duration;
use crate::wire::cdc::ConnectionFlags;

const D: ConnectionFlags = ConnectionFlags::SENDING_DONE;
const C: ConnectionFlags = ConnectionFlags::PEER_CONNECTION_CLOSED;
const A: ConnectionFlags = ConnectionFlags::ABNORMAL_CLOSE;

fn exchange(pair: &mut Pair, len: u32) {
    assert_eq!(pair.send(0, len, false), len);
    pair.run();
    assert_eq!(pair.recv(1, len), len);
    pair.run();
}

#[test]
fn a_half_closed_connection_carries_data_the_other_way() {
    //= CLOSE-009 test
    //= CLOSE-011 test
    //= CLOSE-016 test
    //= CLOSE-024 test
    //= CLOSE-026 test
    //= CLOSE-030 test
    let mut pair = Pair::of(16);
    exchange(&mut pair, 5);
    pair.shutdown(0, Shutdown::Write);
    pair.run();
    assert_eq!(pair.states(), [PeerCloseWait1, AppCloseWait1]);
    assert!(pair.sides[1].conn.is_end_of_stream());
    let (now, cfg) = (pair.now, pair.cfg);
    assert_eq!(
        pair.conn(0).commit(now, &cfg, 0),
        Err(ApiMisuse::SendClosed)
    );
    for _ in 0..8 {
        assert_eq!(pair.send(1, 16, false), 16);
        pair.run();
        assert_eq!(pair.recv(0, 16), 16);
        pair.run();
    }
    // The reader's CDC messages keep D.
    assert_eq!(pair.sides[0].last_cdc().connection_flags, D);
    assert_eq!(pair.conn(0).next_timeout(), None);
    pair.shutdown(1, Shutdown::Both);
    pair.run();
    assert_eq!(pair.states(), [AppFinCloseWait, PeerFinCloseWait]);
    pair.shutdown(0, Shutdown::Both);
    pair.run();
    assert_eq!(pair.states(), [Closed, Closed]);
    assert_eq!(pair.sides[0].last_cdc().connection_flags, D | C);
    assert!(pair.sides.iter().all(|s| s.conn.is_finished()));

    // It carries nothing any more once the peer has closed the other half, too.
    let mut pair = Pair::of(16);
    pair.shutdown(0, Shutdown::Write);
    pair.run();
    pair.shutdown(0, Shutdown::Both);
    pair.run();
    assert_eq!(pair.states(), [PeerCloseWait1, AppCloseWait1]);
    assert_eq!(
        pair.conn(1).commit(now, &cfg, 1),
        Err(ApiMisuse::SendClosed)
    );
}

#[test]
fn data_and_close_in_order_then_both_sides_may_finish_tcp() {
    //= CLOSE-010 test
    //= CLOSE-014 test
    //= CLOSE-021 test
    //= CLOSE-032 test
    //= CLOSE-033 test
    //= CLOSE-037 test
    let mut pair = Pair::of(16);
    pair.send(0, 7, false);
    pair.poll(0);
    pair.shutdown(0, Shutdown::Both);
    assert_eq!(pair.states()[0], Active);
    pair.run();
    assert_eq!(pair.states(), [PeerCloseWait1, AppCloseWait1]);
    assert!(!pair.sides[1].conn.is_end_of_stream());
    assert!(pair.sides[1].notices.contains(Notices::END_OF_STREAM));
    assert_eq!(pair.recv(1, 16), 7);
    assert!(pair.sides[1].conn.is_end_of_stream());
    assert!(!pair.sides[0].notices.contains(Notices::RMBE_RELEASED));
    pair.shutdown(1, Shutdown::Both);
    // C waits for a transmit slot on the link, and the FIN waits for C.
    assert_eq!(pair.states()[1], Closed);
    assert!(!pair.sides[1].notices.contains(Notices::TCP_CLOSE));
    pair.run();
    assert_eq!(pair.states(), [Closed, Closed]);
    for s in &pair.sides {
        assert!(
            s.notices
                .contains(Notices::TCP_CLOSE | Notices::RMBE_RELEASED | Notices::CLOSED)
        );
        assert!(!s.notices.intersects(Notices::RESET | Notices::TCP_RESET));
    }
}

/// TIME-WAIT is where it is over TCP.
#[cfg(feature = "smc-d")]
#[test]
fn over_smcd_the_side_that_ends_first_finishes_tcp_first() {
    for how in [Shutdown::Write, Shutdown::Both] {
        let mut pair = Pair::of(16).over_smcd();
        pair.send(0, 7, false);
        pair.shutdown(0, how);
        // FIN does not outrun the end of the stream, which waits for data.
        assert!(!pair.sides[0].notices.contains(Notices::TCP_CLOSE));
        pair.run();
        assert_eq!(pair.states(), [PeerCloseWait1, AppCloseWait1], "{how:?}");
        let finished =
            |pair: &Pair| [0, 1].map(|side| pair.sides[side].notices.contains(Notices::TCP_CLOSE));
        assert_eq!(finished(&pair), [true, false], "{how:?}");
        pair.sides[0].notices = Notices::empty();
        assert_eq!(pair.recv(1, 16), 7);
        for side in [1, 0] {
            pair.shutdown(side, Shutdown::Both);
            pair.run();
        }
        assert_eq!(pair.states(), [Closed, Closed], "{how:?}");
        assert_eq!(finished(&pair), [false, true], "{how:?}: once each");
    }
}

#[test]
fn close_waits_for_data_and_turns_into_an_abort_after_the_linger_time() {
    //= CASE-H20 test
    //= CASE-E04 test
    //= CLOSE-004 test
    //= CLOSE-005 test
    //= CLOSE-019 test
    //= ABORT-001 test
    //= ABORT-002 test
    let mut pair = Pair::of(8);
    pair.send(0, 8, false);
    pair.run();
    pair.send(0, 8, false);
    pair.run();
    pair.shutdown(0, Shutdown::Both);
    assert_eq!(pair.states()[0], Active);
    let deadline = pair.now.after(pair.cfg.linger);
    assert_eq!(pair.conn(0).next_timeout(), Some(deadline));
    assert!(pair.fire());
    assert_eq!(pair.states()[0], PeerAbortWait);
    assert_eq!(pair.conn(0).cause(), Some(CloseCause::LingerExpired));
    pair.run();
    assert_eq!(pair.sides[0].last_cdc().connection_flags, A);
    assert_eq!(pair.states(), [Closed, Closed]);
    assert_eq!(pair.conn(1).cause(), Some(CloseCause::PeerAborted));
}

#[test]
fn close_with_unread_data_is_an_abort_and_shutdown_of_writing_is_not() {
    //= CASE-G18 test
    //= CLOSE-003 test
    //= CLOSE-008 test
    //= ABORT-005 test
    //= ABORT-008 test
    //= ABORT-009 test
    //= ABORT-018 test
    let mut pair = Pair::of(16);
    pair.send(1, 3, false);
    pair.send(0, 3, false);
    pair.run();
    pair.shutdown(0, Shutdown::Write);
    assert_eq!(pair.states()[0], PeerCloseWait1);
    pair.shutdown(0, Shutdown::Both);
    assert_eq!(pair.states()[0], PeerAbortWait);
    pair.poll(0);
    assert!(pair.deliver(0));
    assert_eq!(pair.states()[1], ProcessAbort);
    assert!(pair.sides[1].conn.readable().is_empty());
    assert!(pair.sides[1].notices.contains(Notices::RESET));
    let (now, cfg) = (pair.now, pair.cfg);
    //= ABORT-004 test
    assert_eq!(pair.conn(1).commit(now, &cfg, 1), Err(ApiMisuse::Reset));
    assert_eq!(pair.conn(1).consume(1), Err(ApiMisuse::Reset));
    pair.run();
    assert_eq!(pair.states(), [Closed, Closed]);
}

#[test]
fn the_peers_close_before_everything_was_delivered_is_an_abort() {
    //= CASE-G17 test
    //= CLOSE-015 test
    //= CLOSE-022 test
    let mut pair = Pair::of(8);
    pair.send(0, 8, false);
    pair.run();
    pair.shutdown(1, Shutdown::Write);
    pair.run();
    assert_eq!(pair.states(), [AppCloseWait1, PeerCloseWait1]);
    assert_eq!(pair.recv(1, 8), 8);
    pair.shutdown(1, Shutdown::Both);
    pair.send(0, 1, false);
    pair.run();
    assert_eq!(pair.conn(0).cause(), Some(CloseCause::PeerClosedEarly));
    assert_eq!(pair.conn(1).cause(), Some(CloseCause::PeerAborted));
}

#[test]
fn who_waits_for_room_learns_of_a_close_that_crossed_the_data() {
    //= CLOSE-015 test
    //= ABORT-004 test
    let mut pair = Pair::of(8);
    pair.send(0, 8, false);
    pair.poll(0);
    // The peer has not received the bytes when it closes, so it closes gracefully.
    pair.shutdown(1, Shutdown::Both);
    pair.poll(1);
    assert_eq!(pair.states(), [Active, PeerCloseWait1]);
    assert!(!pair.sides[0].notices.contains(Notices::WRITABLE));
    assert!(pair.deliver(1));
    // The abort is not answered: the end is far, and writes fail now.
    assert_eq!(pair.states()[0], PeerAbortWait);
    assert_eq!(pair.conn(0).cause(), Some(CloseCause::PeerClosedEarly));
    assert!(pair.sides[0].notices.contains(Notices::WRITABLE));
    pair.run();
    assert_eq!(pair.states(), [PeerAbortWait, Closed]);
    assert!(pair.fire());
    assert_eq!(pair.states(), [Closed, Closed]);
}

#[test]
fn who_waits_for_room_learns_of_a_close_behind_the_last_octet() {
    //= CLOSE-014 test
    //= CLOSE-022 test
    for half_first in [false, true] {
        let mut pair = Pair::of(8);
        pair.send(0, 8, false);
        pair.poll(0);
        while pair.deliver(0) {}
        if half_first {
            pair.shutdown(1, Shutdown::Write);
            pair.poll(1);
            while pair.deliver(1) {}
            // Writing may go on.
            assert!(!pair.sides[0].notices.contains(Notices::WRITABLE));
        }
        assert_eq!(pair.recv(1, 8), 8);
        pair.shutdown(1, Shutdown::Both);
        pair.poll(1);
        while pair.deliver(1) {}
        // All of it was read, so this is no reset; no completion has reported room yet.
        assert_eq!(pair.states()[0], AppCloseWait1);
        assert!(pair.sides[0].notices.contains(Notices::WRITABLE));
        let (now, cfg) = (pair.now, pair.cfg);
        let refused = pair.conn(0).commit(now, &cfg, 0);
        assert_eq!(refused, Err(ApiMisuse::SendClosed));
    }
}

#[test]
fn who_ends_writing_itself_waits_for_no_room() {
    for end in [Some(Shutdown::Write), Some(Shutdown::Both), None] {
        let mut pair = Pair::of(8);
        pair.send(0, 8, false);
        match end {
            Some(how) => pair.shutdown(0, how),
            None => pair.abort(0),
        }
        pair.run();
        assert!(!pair.sides[0].notices.contains(Notices::WRITABLE));
    }
}

#[test]
fn a_completion_reported_after_the_answer_to_it_is_no_pending_data() {
    //= CLOSE-015 test
    let mut pair = Pair::of(8);
    pair.send(0, 4, false);
    pair.poll(0);
    while pair.deliver(0) {}
    pair.recv(1, 4);
    pair.shutdown(1, Shutdown::Both);
    pair.poll(1);
    assert!(pair.deliver(1));
    assert_eq!(pair.states()[0], AppCloseWait1);
    pair.shutdown(0, Shutdown::Both);
    pair.run();
    assert_eq!(pair.states(), [Closed, Closed]);
    assert_eq!(pair.conn(0).cause(), Some(CloseCause::Orderly));
}

#[test]
fn waits_on_the_peer_are_bounded_only_after_the_full_close() {
    //= CASE-H23 test
    //= CASE-G19 test
    //= CLOSE-025 test
    //= CLOSE-031 test
    //= CLOSE-039 test
    //= ABORT-006 test
    //= ABORT-007 test
    let mut pair = Pair::of(8);
    pair.shutdown(0, Shutdown::Write);
    pair.run();
    assert_eq!(pair.conn(0).next_timeout(), None);
    pair.shutdown(0, Shutdown::Both);
    pair.run();
    let deadline = pair.now.after(pair.cfg.close_wait);
    assert_eq!(pair.conn(0).next_timeout(), Some(deadline));
    // Whatever the peer still does, the deadline stays.
    pair.now = pair.now.after(Duration::from_secs(30));
    pair.shutdown(1, Shutdown::Write);
    pair.run();
    assert_eq!(pair.conn(0).next_timeout(), Some(deadline));
    assert!(pair.fire());
    assert_eq!(pair.states(), [Closed, AppCloseWait2]);
    assert!(pair.sides[0].notices.contains(Notices::TCP_RESET));
    assert_eq!(pair.poll(0), 0);
    assert_eq!(pair.conn(0).cause(), Some(CloseCause::CloseWaitExpired));
}

#[test]
fn stranded_close_of_a_peer_without_echo_ends_by_our_timer() {
    //= CASE-E06 test
    //= ABORT-003 test
    //= ABORT-017 test
    // One side writes a byte; the other shuts down writing and closes with it
    // unread, so it aborts; the first has shut down writing meanwhile.
    let mut pair = Pair::of(8);
    pair.send(0, 1, false);
    pair.run();
    pair.shutdown(1, Shutdown::Write);
    pair.poll(1);
    pair.deliver(1);
    pair.shutdown(1, Shutdown::Both);
    assert_eq!(pair.states(), [AppCloseWait1, PeerAbortWait]);
    pair.shutdown(0, Shutdown::Write);
    pair.poll(0);
    assert_eq!(pair.states()[0], AppCloseWait2);
    while pair.deliver(0) {}
    pair.complete(0);
    assert_eq!(
        pair.sides[1].outcomes.last(),
        Some(&CdcOutcome::Ignored(PeerAbortWait))
    );
    pair.poll(1);
    // A peer like ours answers A with A.
    let mut ours = Pair::of(8);
    core::mem::swap(&mut ours, &mut pair);
    while ours.deliver(1) {}
    assert_eq!(ours.states()[0], ProcessAbort);
    ours.poll(0);
    assert_eq!(ours.states()[0], Closed);
    // A peer that forgets to is survived: its message never comes.
    ours.sides[0].link.clear();
    let deadline = ours.now.after(ours.cfg.abort_wait);
    assert_eq!(ours.conn(1).next_timeout(), Some(deadline));
    assert!(ours.fire());
    assert_eq!(ours.states(), [Closed, Closed]);
    assert_eq!(ours.poll(1), 0);
}

#[test]
fn tcp_reset_and_lost_links_end_every_state() {
    //= ABORT-010 test
    //= ABORT-015 test
    //= ABORT-016 test
    //= CLOSE-034 test
    //= CLOSE-040 test
    let mut pair = Pair::of(8);
    let (now, cfg) = (pair.now, pair.cfg);
    pair.conn(0).on_tcp_reset(now, &cfg);
    pair.check();
    assert_eq!(pair.states()[0], PeerAbortWait);
    assert!(!pair.sides[0].notices.contains(Notices::TCP_RESET));
    pair.run();
    assert_eq!(pair.states(), [Closed, Closed]);

    for cause in [FatalCause::LinkLost, FatalCause::RmbeConflict] {
        let mut pair = Pair::of(8);
        pair.send(0, 3, false);
        pair.conn(0).on_fatal(now, &cfg, cause);
        pair.check();
        assert_eq!(pair.states()[0], Closed);
        assert_eq!(pair.poll(0), 0);
        assert!(pair.sides[0].notices.contains(Notices::TCP_RESET));
    }
    let mut pair = Pair::of(8);
    pair.conn(0)
        .on_fatal(now, &cfg, FatalCause::EyeCatcherDamaged);
    pair.run();
    assert_eq!(pair.sides[0].last_cdc().connection_flags, A);
}

#[test]
fn late_data_after_a_full_close_is_dropped_but_does_not_block_the_drain() {
    let mut pair = Pair::of(8);
    pair.send(0, 8, false);
    pair.run();
    pair.send(0, 4, false);
    pair.shutdown(0, Shutdown::Both);
    assert_eq!(pair.states()[0], Active);
    for _ in 0..5 {
        assert!(pair.send(1, 8, false) > 0);
        pair.run();
    }
    while pair.recv(1, 8) > 0 {
        pair.run();
    }
    assert_eq!(pair.sides[1].read, 12);
    assert_eq!(pair.states(), [PeerCloseWait1, AppCloseWait1]);
}
