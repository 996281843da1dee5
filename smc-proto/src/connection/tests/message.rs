//! What a CDC message carries, and what each of its parts does on arrival.

use super::harness::Pair;
use crate::connection::*;
use crate::wire::cdc::{ConnectionFlags, ProducerFlags};
use crate::wire::types::AlertToken;

const D: ConnectionFlags = ConnectionFlags::SENDING_DONE;
const C: ConnectionFlags = ConnectionFlags::PEER_CONNECTION_CLOSED;
const A: ConnectionFlags = ConnectionFlags::ABNORMAL_CLOSE;

#[test]
fn every_message_carries_token_and_both_cursors() {
    //= CDC-004 test
    //= CDC-020 test
    //= CDC-028 test
    //= FLOW-008 test
    //= FLOW-015 test
    //= FLOW-019 test
    let mut pair = Pair::of(100);
    pair.send(0, 30, false);
    pair.run();
    pair.recv(1, 20);
    pair.run();
    assert_eq!(pair.conn(1).rx.gain(), 20);
    pair.send(1, 7, false);
    pair.run();
    let cdc = pair.sides[1].last_cdc();
    assert_eq!(cdc.alert_token, AlertToken(7));
    assert_eq!((cdc.consumer.count, cdc.producer.count), (20, 7));
    assert_eq!(pair.conn(1).rx.gain(), 0);
    // The next update counts from there: 10 of 100 bytes more.
    pair.send(0, 70, false);
    pair.run();
    pair.recv(1, 9);
    assert_eq!(pair.poll(1), 0);
    pair.recv(1, 1);
    assert_eq!(pair.poll(1), 1);
    assert!(pair.sides[1].last_cdc().producer_flags.is_empty());
}

#[test]
fn data_is_readable_only_up_to_the_published_cursor_and_before_a_close() {
    //= CDC-027 test
    //= CDC-029 test
    //= CDC-036 test
    //= CLOSE-037 test
    let mut pair = Pair::of(16);
    pair.send(0, 5, false);
    pair.poll(0);
    assert!(pair.deliver(0));
    assert!(pair.conn(1).readable().is_empty());
    let (now, cfg) = (pair.now, pair.cfg);
    let mut cdc = pair.sides[0].last_cdc();
    cdc.connection_flags = D | C;
    assert_eq!(pair.conn(1).on_cdc(now, &cfg, &cdc), CdcOutcome::Applied);
    assert_eq!(pair.conn(1).state(), CloseState::AppCloseWait1);
    assert!(!pair.conn(1).is_end_of_stream());
    assert_eq!(pair.recv(1, 16), 5);
    assert!(pair.conn(1).is_end_of_stream());
}

#[test]
fn flags_of_the_producer_replace_the_earlier_ones() {
    //= CDC-030 test
    //= CDC-034 test
    let mut pair = Pair::of(16);
    let (now, cfg) = (pair.now, pair.cfg);
    pair.send(0, 1, false);
    pair.run();
    let mut cdc = pair.sides[0].last_cdc();
    for (sequence, bits) in [(2, 0x80), (3, 0x50), (4, 0x00)] {
        cdc.sequence = sequence;
        cdc.producer_flags = ProducerFlags::from_bits_retain(bits);
        assert_eq!(pair.conn(1).on_cdc(now, &cfg, &cdc), CdcOutcome::Applied);
        assert_eq!(pair.conn(1).rx.peer_flags.bits(), bits);
    }
    cdc.producer_flags = ProducerFlags::FAILOVER_VALIDATION | ProducerFlags::WRITER_BLOCKED;
    assert_eq!(pair.conn(1).on_cdc(now, &cfg, &cdc), CdcOutcome::Validated);
    assert_eq!(pair.conn(1).rx.peer_flags.bits(), 0);
}

#[test]
fn data_after_the_peer_was_done_is_counted_and_not_delivered() {
    //= CLOSE-023 test
    let mut pair = Pair::of(16);
    pair.shutdown(0, Shutdown::Write);
    pair.run();
    let (now, cfg) = (pair.now, pair.cfg);
    let mut cdc = pair.sides[0].last_cdc();
    cdc.sequence = 2;
    cdc.producer.count = 3;
    assert_eq!(pair.conn(1).on_cdc(now, &cfg, &cdc), CdcOutcome::Applied);
    assert_eq!(pair.conn(1).state(), CloseState::AppCloseWait1);
    assert!(pair.conn(1).readable().is_empty());
    assert_eq!(pair.conn(1).stats().late_data, 1);
}

#[test]
fn an_update_cancels_the_lag_timer() {
    //= FLOW-013 test
    let mut pair = Pair::of(100);
    pair.send(0, 20, false);
    pair.run();
    pair.recv(1, 5);
    let mut cdc = pair.sides[0].last_cdc();
    cdc.producer_flags = ProducerFlags::CURSOR_UPDATE_REQUESTED;
    cdc.sequence = 2;
    let (now, cfg) = (pair.now, pair.cfg);
    assert_eq!(pair.conn(1).on_cdc(now, &cfg, &cdc), CdcOutcome::Applied);
    pair.recv(1, 1);
    assert_eq!(pair.poll(1), 1);
    assert_eq!(pair.conn(1).next_timeout(), None);
}

#[test]
fn a_reader_that_never_rests_does_not_put_off_its_own_done() {
    //= CLOSE-005 test
    //= CLOSE-007 test
    let mut pair = Pair::of(8);
    pair.send(1, 8, false);
    pair.run();
    pair.recv(0, 1);
    assert_eq!(pair.poll(0), 1);
    pair.shutdown(0, Shutdown::Write);
    assert_eq!(pair.states()[0], CloseState::Active);
    // The writer is blocked, so each byte would make a message; D comes first.
    for _ in 0..3 {
        pair.recv(0, 1);
        assert_eq!(pair.poll(0), 0);
    }
    pair.deliver(0);
    pair.complete(0);
    assert_eq!(pair.poll(0), 1);
    let cdc = pair.sides[0].last_cdc();
    assert_eq!((cdc.connection_flags, cdc.consumer.count), (D, 4));
}

#[test]
fn an_abort_takes_no_data_along_even_over_a_new_link() {
    //= ABORT-018 test
    //= ABORT-019 test
    let mut pair = Pair::of(8);
    pair.send(0, 6, false);
    pair.poll(0);
    pair.send(0, 8, true);
    pair.abort(0);
    assert!(pair.conn(0).tx.is_published(), "nothing waits any more");
    assert_eq!(pair.poll(0), 1);
    assert!(pair.sides[0].last_cdc().producer_flags.is_empty());
    pair.change_link(0);
    // A validation and the abort again, no writes (the harness asserts it).
    assert_eq!(pair.poll(0), 2);
    assert_eq!(pair.sides[0].last_cdc().connection_flags, A);
    pair.run();
    assert_eq!(pair.states(), [CloseState::Closed; 2]);
}

#[test]
fn an_abort_replaces_a_close_that_is_not_out_and_follows_none_that_is() {
    //= ABORT-012 test
    //= ABORT-013 test
    //= ABORT-014 test
    //= CLOSE-001 test
    //= CLOSE-002 test
    //= CLOSE-013 test
    let mut pair = Pair::of(8);
    assert_eq!(pair.states(), [CloseState::Active; 2]);
    pair.shutdown(0, Shutdown::Both);
    pair.abort(0);
    assert_eq!(pair.poll(0), 1);
    assert_eq!(pair.sides[0].last_cdc().connection_flags, A);

    let mut pair = Pair::of(8);
    pair.shutdown(0, Shutdown::Read);
    assert_eq!(pair.poll(0), 0);
    pair.shutdown(0, Shutdown::Write);
    pair.poll(0);
    pair.shutdown(0, Shutdown::Both);
    assert_eq!(pair.poll(0), 1);
    assert_eq!(pair.sides[0].last_cdc().connection_flags, D | C);
    pair.abort(1);
    pair.poll(1);
    pair.deliver(1);
    assert_eq!(pair.states()[0], CloseState::Closed);
    assert_eq!(pair.poll(0), 0);
    assert_eq!(pair.conn(0).cause(), Some(CloseCause::PeerAborted));
}

#[test]
fn a_closed_connection_ignores_everything() {
    //= CASE-C14 test
    //= CASE-C06 test
    //= CLOSE-027 test
    let mut pair = Pair::of(8);
    let (now, cfg) = (pair.now, pair.cfg);
    pair.conn(0).on_fatal(now, &cfg, FatalCause::LinkLost);
    pair.send(1, 3, false);
    pair.poll(1);
    while pair.deliver(1) {}
    let closed = CdcOutcome::Ignored(CloseState::Closed);
    assert_eq!(pair.sides[0].outcomes, [closed]);
    pair.abort(0);
    pair.shutdown(0, Shutdown::Both);
    pair.conn(0).on_link_changed(now, &cfg);
    pair.conn(0).on_timeout(crate::time::Instant::MAX, &cfg);
    assert!(pair.conn(0).is_finished());
    assert_eq!(
        pair.conn(0).cause(),
        Some(CloseCause::Fatal(FatalCause::LinkLost))
    );
}

#[test]
fn rings_of_different_sizes_run_at_full_rate_both_ways() {
    //= CASE-C05 test
    //= FLOW-001 test
    let small = Ring::new(0, 16 << 10).unwrap();
    let large = Ring::new(0, 512 << 10).unwrap();
    for (a, b) in [(small, large), (large, small)] {
        let mut pair = Pair::new(a, b, 512 << 10);
        for (from, ring) in [(0, b), (1, a)] {
            for _ in 0..40 {
                assert!(pair.send(from, ring.usable(), false) >= ring.usable() / 2);
                pair.run();
                assert_eq!(pair.recv(1 - from, ring.usable()), ring.usable());
                pair.run();
            }
        }
    }
}

#[test]
fn data_held_when_the_window_opens_is_bounded_by_the_timer() {
    //= FLOW-022 test
    let ring = Ring::new(0, 100).unwrap();
    let mut pair = Pair::new(ring, ring, 200);
    pair.send(0, 100, false);
    pair.poll(0);
    pair.send(0, 10, false);
    while pair.deliver(0) {}
    pair.recv(1, 100);
    pair.poll(1);
    while pair.deliver(1) {}
    assert_eq!(pair.poll(0), 0);
    let deadline = pair.now.after(pair.cfg.coalesce);
    assert_eq!(pair.conn(0).next_timeout(), Some(deadline));
}

/// Hasher that keeps everything, so that equal means equal.
#[derive(Default, PartialEq, Debug)]
struct Tape(std::vec::Vec<u8>);

impl core::hash::Hasher for Tape {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

#[test]
fn a_fingerprint_forgets_laps_numbers_and_the_time_of_day() {
    let print = |pair: &Pair, side: usize| {
        let mut tape = Tape::default();
        pair.sides[side].conn.fingerprint(pair.now, &mut tape);
        tape
    };
    let lap = |pair: &mut Pair| {
        pair.send(0, 8, false);
        pair.run();
        pair.recv(1, 8);
        pair.run();
        pair.send(0, 1, true);
        pair.run();
        pair.recv(1, 7);
        pair.run();
        pair.send(0, 7, false);
        pair.run();
        pair.recv(1, 7);
        pair.run();
        pair.now = pair.now.after(crate::time::Duration::from_secs(1));
    };
    let mut pair = Pair::of(8);
    lap(&mut pair);
    let before = [print(&pair, 0), print(&pair, 1)];
    lap(&mut pair);
    assert_eq!([print(&pair, 0), print(&pair, 1)], before);
    pair.send(0, 1, false);
    assert_ne!(print(&pair, 0), before[0]);
}
