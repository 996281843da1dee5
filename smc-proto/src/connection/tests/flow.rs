//! Window, consumer updates and coalescing, with the figures of RFC 7609 4.5, 4.7.

use std::vec::Vec;

use super::harness::{Pair, octet, take_transmit};
use crate::connection::window::update_due;
use crate::connection::*;
use crate::time::{Duration, Instant};
use crate::wire::cdc::ProducerFlags;
use crate::wire::types::Cursor;

const B: ProducerFlags = ProducerFlags::WRITER_BLOCKED;

fn at(wrap: u16, count: u32) -> Cursor {
    Cursor { wrap, count }
}

/// The element of 10,000 bytes of RFC 7609 4.7, with its eye catcher.
fn rfc_pair(send_buffer: u32) -> Pair {
    let ring = Ring::new(4, 10_000).unwrap();
    Pair::new(ring, ring, send_buffer)
}

#[test]
fn the_examples_for_a_buffer_of_64k() {
    //= CASE-G20 test
    //= FLOW-004 test
    //= FLOW-005 test
    //= FLOW-006 test
    //= FLOW-007 test
    const K: u32 = 1 << 10;
    assert!(!update_due(64 * K, 50 * K, 14 * K, false));
    assert!(!update_due(64 * K, 30 * K, K, false));
    assert!(update_due(64 * K, 30 * K, 34 * K, false));
    // The borders: below one half, at least one tenth.
    assert!(!update_due(1_000, 500, 100, false));
    assert!(update_due(1_000, 499, 100, false));
    assert!(!update_due(1_000, 499, 99, false));
    assert!(update_due(Ring::MAX, 0, Ring::MAX, false));
}

#[test]
fn a_blocked_or_asking_writer_gets_every_octet_reported() {
    //= CASE-G20 test
    //= FLOW-011 test
    //= FLOW-012 test
    assert!(update_due(1_000, 999, 1, true));
    assert!(!update_due(1_000, 0, 0, true));
    let mut pair = Pair::of(100);
    pair.send(0, 100, false);
    pair.run();
    assert_eq!(pair.sides[0].last_cdc().producer_flags, B);
    for n in 1..=5u32 {
        assert_eq!(pair.recv(1, 1), 1);
        assert_eq!(pair.poll(1), 1, "update {n}");
    }
    pair.run();
    // B=0 arrives with the next data: single bytes are silent again.
    pair.recv(1, 60);
    pair.run();
    pair.send(0, 10, false);
    pair.run();
    assert_eq!(
        pair.sides[0].last_cdc().producer_flags,
        ProducerFlags::empty()
    );
    pair.recv(1, 1);
    assert_eq!(pair.poll(1), 0);
}

#[test]
fn an_unconstrained_window_makes_no_updates() {
    //= FLOW-003 test
    //= FLOW-020 test
    //= CDC-012 test
    //= CDC-013 test
    let mut pair = rfc_pair(10_000);
    pair.send(0, 1_000, false);
    pair.run();
    let cdc = pair.sides[0].last_cdc();
    assert_eq!((cdc.sequence, cdc.producer), (1, at(0, 1_004)));
    assert_eq!(cdc.consumer, at(0, 4));
    assert!(cdc.producer_flags.is_empty());
    assert_eq!(pair.recv(1, 1_000), 1_000);
    pair.run();
    assert!(pair.sides[1].cdcs.is_empty());
    // Data the other way takes the cursor along.
    pair.send(1, 10, false);
    pair.run();
    assert_eq!(pair.sides[1].last_cdc().consumer, at(0, 1_004));
    assert_eq!(pair.conn(1).rx.gain(), 0);
}

#[test]
fn a_write_across_the_end_is_two_writes_and_one_message() {
    //= CDC-025 test
    //= CDC-017 test
    let mut pair = rfc_pair(10_000);
    pair.send(0, 9_000, false);
    pair.run();
    pair.recv(1, 9_000);
    pair.run();
    pair.send(0, 1_500, false);
    assert_eq!(pair.poll(0), 3);
    pair.run();
    // 9,004 + 1,500 is 508 beyond the end at 9,996 + 4.
    assert_eq!(pair.sides[0].last_cdc().producer, at(1, 508));
    assert_eq!(pair.recv(1, 1_500), 1_500);
}

#[test]
fn twenty_thousand_octets_through_an_element_of_ten_thousand() {
    //= FLOW-009 test
    //= FLOW-010 test
    //= FLOW-016 test
    //= FLOW-017 test
    //= FLOW-018 test
    //= CDC-022 test
    let mut pair = rfc_pair(20_000);
    pair.send(0, 1_000, false);
    pair.run();
    pair.recv(1, 1_000);
    pair.send(1, 1, false);
    pair.run();
    assert_eq!(pair.send(0, 20_000, false), 20_000);
    pair.run();
    // The whole window: the cursor ends where it began, one lap later.
    let cdc = pair.sides[0].last_cdc();
    assert_eq!((cdc.producer, cdc.producer_flags), (at(1, 1_004), B));
    assert_eq!(pair.poll(0), 0);
    assert_eq!(pair.recv(1, 20_000), 9_996);
    pair.run();
    assert_eq!(pair.sides[1].last_cdc().consumer, at(1, 1_004));
    let cdc = pair.sides[0].last_cdc();
    assert_eq!((cdc.producer, cdc.producer_flags), (at(2, 1_004), B));
    assert_eq!(pair.recv(1, 20_000), 9_996);
    pair.run();
    let cdc = pair.sides[0].last_cdc();
    assert_eq!(
        (cdc.producer, cdc.producer_flags),
        (at(2, 1_012), ProducerFlags::empty())
    );
    assert_eq!(pair.recv(1, 20_000), 8);
}

#[test]
fn a_request_for_the_cursor_is_answered_at_once_or_after_the_lag() {
    //= FLOW-013 test
    //= FLOW-014 test
    let mut pair = Pair::of(100);
    pair.send(0, 20, false);
    pair.run();
    pair.recv(1, 5);
    let mut cdc = pair.sides[0].last_cdc();
    cdc.producer_flags = ProducerFlags::CURSOR_UPDATE_REQUESTED;
    let (now, cfg) = (pair.now, pair.cfg);
    cdc.sequence = 2;
    assert_eq!(pair.conn(1).on_cdc(now, &cfg, &cdc), CdcOutcome::Applied);
    assert_eq!(pair.poll(1), 0);
    let deadline = now.after(cfg.cursor_lag);
    assert_eq!(pair.conn(1).next_timeout(), Some(deadline));
    // Asking again does not postpone it.
    cdc.sequence = 3;
    let later = now.after(Duration::from_millis(50));
    assert_eq!(pair.conn(1).on_cdc(later, &cfg, &cdc), CdcOutcome::Applied);
    assert_eq!(pair.conn(1).next_timeout(), Some(deadline));
    assert!(pair.fire());
    assert_eq!(pair.poll(1), 1);
    assert_eq!(pair.conn(1).next_timeout(), None);
    pair.recv(1, 1);
    assert_eq!(pair.poll(1), 1);
    pair.run();
    // However often it asks, nothing consumed is nothing to answer.
    for sequence in 4..1_000 {
        cdc.sequence = sequence;
        assert_eq!(pair.conn(1).on_cdc(later, &cfg, &cdc), CdcOutcome::Applied);
        assert!(!pair.conn(1).wants_work());
    }
    // Nor is reading nothing, while it still asks.
    assert_eq!(pair.conn(1).consume(0), Ok(()));
    assert!(!pair.conn(1).wants_work());
    // And any number of requests in one batch makes one answer.
    pair.recv(1, 1);
    pair.recv(1, 1);
    assert_eq!(pair.poll(1), 1);
}

#[test]
fn small_writes_wait_for_a_completion_or_the_timer() {
    //= FLOW-003 test
    //= FLOW-021 test
    //= FLOW-022 test
    let mut pair = Pair::of(1_000);
    pair.send(0, 10, false);
    assert_eq!(pair.poll(0), 2);
    // Nothing waits, though the peer advertises its cursor before this side knows that
    // everything is there.
    while pair.deliver(0) {}
    assert_eq!(pair.recv(1, 10), 10);
    pair.send(1, 10, false);
    pair.poll(1);
    while pair.deliver(1) {}
    assert_eq!(pair.conn(0).next_timeout(), None);
    // Counted from the first that waits, however many come behind it.
    let deadline = pair.now.after(pair.cfg.coalesce);
    for _ in 0..5 {
        pair.send(0, 10, false);
        assert_eq!(pair.poll(0), 0);
        pair.now = pair.now.after(pair.cfg.coalesce / 10);
    }
    assert_eq!(pair.conn(0).next_timeout(), Some(deadline));
    let mut by_timer = pair.conn(0).clone();
    by_timer.on_timeout(deadline, &pair.cfg);
    assert!(by_timer.wants_work());
    // The completion releases all of it in one message.
    while pair.deliver(0) {}
    pair.complete(0);
    assert_eq!(pair.poll(0), 2);
    assert_eq!(pair.conn(0).next_timeout(), None);
    assert_eq!(pair.sides[0].last_cdc().producer, at(0, 60));
    // Much data, a window about to fill, or a close: no waiting.
    pair.send(0, 501, false);
    assert_eq!(pair.poll(0), 2);
    pair.send(0, 449, false);
    assert_eq!(pair.poll(0), 3, "two writes, around the end");
    assert_eq!(pair.sides[0].last_cdc().producer_flags, B);
}

#[test]
fn a_cork_holds_small_writes_and_nothing_else() {
    let mut pair = Pair::of(1_000);
    pair.conn(0).set_cork(true);
    pair.send(0, 10, false);
    assert_eq!(pair.poll(0), 0);
    let deadline = pair.now.after(pair.cfg.cork);
    assert_eq!(pair.conn(0).next_timeout(), Some(deadline));
    // For so long at most,
    let mut by_timer = pair.conn(0).clone();
    by_timer.on_timeout(deadline, &pair.cfg);
    assert!(by_timer.wants_work());
    // until it is flushed,
    pair.conn(0).flush();
    assert_eq!(pair.poll(0), 2);
    pair.send(0, 10, false);
    assert_eq!(pair.poll(0), 0);
    // or draws it, though nothing has completed;
    pair.conn(0).set_cork(false);
    assert_eq!(pair.poll(0), 2);
    assert_eq!(pair.conn(0).next_timeout(), None);
    // and neither half of the buffer is held, nor a close, nor what is urgent.
    pair.conn(0).set_cork(true);
    pair.send(0, 501, false);
    assert_eq!(pair.poll(0), 2);
    // Of a long buffer no more is held than keeps the peer busy.
    let mut long = Pair::of(1 << 20);
    long.conn(0).set_cork(true);
    long.send(0, 64 << 10, false);
    assert_eq!(long.poll(0), 0);
    long.send(0, 1, false);
    assert_eq!(long.poll(0), 2);
    let mut urgent = Pair::of(1_000);
    urgent.conn(0).set_cork(true);
    urgent.send(0, 10, true);
    assert_eq!(urgent.poll(0), 2);
    let mut closing = Pair::of(1_000);
    closing.conn(0).set_cork(true);
    closing.send(0, 10, false);
    closing.shutdown(0, Shutdown::Write);
    assert_eq!(closing.poll(0), 2);
}

#[test]
fn a_close_flushes_what_is_held_and_nodelay_holds_nothing() {
    //= FLOW-023 test
    let mut pair = Pair::of(1_000);
    pair.send(0, 10, false);
    pair.poll(0);
    pair.send(0, 10, false);
    pair.shutdown(0, Shutdown::Write);
    assert_eq!(pair.poll(0), 2);

    let ring = Ring::new(0, 1_000).unwrap();
    let mut params = super::harness::params(ring, ring, 1_000);
    params.nodelay = true;
    let cfg = crate::config::ConnectionConfig::DEFAULT;
    let mut conn = Connection::new(&params, &cfg);
    for _ in 0..3 {
        conn.commit(Instant::ZERO, &cfg, 1).unwrap();
        let transmit = take_transmit(&mut conn, Instant::ZERO, &cfg).expect("a transmit");
        assert_eq!(transmit.writes.len(), 1);
    }
    assert_eq!(conn.outstanding_notifies(), 3);
    assert_eq!(conn.next_timeout(), None);
}

#[test]
fn a_peer_that_never_consumes_costs_one_send_buffer() {
    //= CASE-H20 test
    //= API-005 test
    //= CDC-014 test
    for usable in 1..12 {
        for consumed in 0..usable {
            let mut pair = Pair::of(usable);
            pair.send(0, usable, false);
            pair.run();
            pair.recv(1, consumed);
            pair.run();
            while pair.send(0, usable, false) > 0 {
                pair.run();
            }
            assert!(pair.conn(0).send_space().is_empty());
            let (now, cfg) = (pair.now, pair.cfg);
            assert_eq!(
                pair.conn(0).commit(now, &cfg, 1),
                Err(ApiMisuse::BeyondSpace { space: 0 })
            );
            assert_eq!(pair.sides[0].last_cdc().producer_flags, B);
        }
    }
}

#[test]
fn looking_and_reading_are_the_same_at_every_place_of_the_ring() {
    //= CASE-C11 test
    for base in [0, 4] {
        let ring = Ring::new(base, base + 8).expect("a ring");
        for start in 0..8 {
            for len in 1..=8 {
                for read in 0..=len {
                    let mut pair = Pair::new(ring, ring, 8);
                    pair.send(0, start, false);
                    pair.run();
                    pair.recv(1, start);
                    pair.run();
                    pair.send(0, len, false);
                    pair.run();
                    let peek = |pair: &Pair| -> Vec<u8> {
                        let side = &pair.sides[1];
                        let spans = side.conn.readable();
                        let bytes = spans.iter().flat_map(|span| {
                            let from = span.offset as usize;
                            side.rmbe[from..from + span.len as usize].to_vec()
                        });
                        bytes.collect()
                    };
                    let seen = peek(&pair);
                    assert_eq!(peek(&pair), seen, "polling changes nothing");
                    let sent = (start..start + len).map(|n| octet(n.into()));
                    assert!(seen.iter().copied().eq(sent));
                    // `recv` compares what it reads with what was sent.
                    assert_eq!(pair.recv(1, read), read);
                    assert_eq!(peek(&pair), seen[read as usize..]);
                }
            }
        }
    }
}

#[test]
fn numbers_go_on_across_the_boundary_of_the_space() {
    //= CDC-007 test
    //= CDC-010 test
    let mut pair = Pair::of(8);
    pair.sides[0].conn.tx.emitted = 65_534;
    pair.sides[0].conn.tx.completed_sequence = 65_534;
    pair.sides[1].conn.rx.sequence = 65_534;
    let mut numbers = std::vec::Vec::new();
    for _ in 0..3 {
        pair.send(0, 1, false);
        pair.run();
        numbers.push(pair.sides[0].last_cdc().sequence);
    }
    assert_eq!(numbers, [65_535, 0, 1]);
    assert_eq!(pair.conn(0).tx.completed_sequence, 1);
    assert_eq!(pair.recv(1, 8), 3);
}
