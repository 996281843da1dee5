//! Every cursor that a peer can send, in every state of a small ring, against
//! 64-bit totals.

use super::harness::{params, take_transmit};
use crate::config::ConnectionConfig;
use crate::connection::cursor::{Position, Ring};
use crate::connection::*;
use crate::time::Instant;
use crate::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use crate::wire::types::{AlertToken, Cursor};

const CFG: ConnectionConfig = ConnectionConfig::DEFAULT;
const NOW: Instant = Instant::ZERO;

fn at(ring: Ring, total: u64) -> Position {
    let usable = u64::from(ring.usable());
    let cursor = Cursor {
        wrap: (total / usable) as u16,
        count: ring.base() + (total % usable) as u32,
    };
    Position { total, cursor }
}

fn rings() -> impl Iterator<Item = Ring> {
    (1..=8).flat_map(|usable| [0, 4].map(|base| Ring::new(base, base + usable).unwrap()))
}

/// All cursors up to eight laps away from one, and what total each means; `None` for
/// counts that are none of the ring.
fn cursors(ring: Ring, near: Position) -> impl Iterator<Item = (Cursor, Option<i64>)> {
    let usable = i64::from(ring.usable());
    let lap = near.total as i64 / usable;
    (-8..=8).flat_map(move |laps: i64| {
        (0..=ring.end() + 1).map(move |count| {
            let wrap = near.cursor.wrap.wrapping_add(laps as u16);
            let inside = (ring.base()..ring.end()).contains(&count);
            let total = (lap + laps) * usable + i64::from(count) - i64::from(ring.base());
            (Cursor { wrap, count }, inside.then_some(total))
        })
    })
}

/// What has to come of a cursor: how far the total moves, or nothing if it is refused.
fn moves(total: Option<i64>, present: u64, most: u64, ring: Ring) -> Option<u64> {
    let (present, most) = (present as i64, most as i64);
    match total? {
        total if total > most => None,
        total if total >= present => Some((total - present) as u64),
        // Back by no more than a ring is what a failover looks like: it stays.
        total if present - total <= i64::from(ring.usable()) => Some(0),
        _ => None,
    }
}

fn message(sequence: u16, producer: Cursor, consumer: Cursor) -> Cdc {
    Cdc {
        sequence,
        alert_token: AlertToken(7),
        producer,
        consumer,
        producer_flags: ProducerFlags::empty(),
        connection_flags: ConnectionFlags::empty(),
    }
}

#[test]
fn every_producer_cursor_in_every_state_of_the_reader() {
    //= CASE-H01 test
    //= CASE-C01 test
    //= CASE-C02 test
    let mut judged = 0u64;
    for ring in rings() {
        let usable = u64::from(ring.usable());
        let fresh = Connection::new(&params(ring, ring, 16), &CFG);
        let far = usable * 65_533;
        for sent in (0..=2 * usable).chain(far..=far + 4 * usable) {
            for consumed in sent..=sent + usable {
                for received in consumed..=sent + usable {
                    let mut conn = fresh.clone();
                    conn.rx.published = sent;
                    conn.rx.consumed = at(ring, consumed);
                    conn.rx.received = at(ring, received);
                    for (cursor, total) in cursors(ring, conn.rx.received) {
                        let mut conn = conn.clone();
                        let cdc = message(1, cursor, ring.start().cursor);
                        let outcome = conn.on_cdc(NOW, &CFG, &cdc);
                        let state = (ring, sent, consumed, received);
                        match moves(total, received, sent + usable, ring) {
                            Some(more) => {
                                assert!(
                                    matches!(
                                        outcome,
                                        CdcOutcome::Applied | CdcOutcome::BackwardCursor
                                    ),
                                    "{outcome:?} for {cursor:?} at {state:?}"
                                );
                                assert_eq!(conn.rx.received, at(ring, received + more));
                                let unread = received + more - consumed;
                                assert_eq!(u64::from(conn.readable().len()), unread);
                                assert!(unread <= usable);
                            }
                            None => {
                                assert!(
                                    matches!(outcome, CdcOutcome::Misbehaved(_)),
                                    "{outcome:?} for {cursor:?} at {state:?}"
                                );
                                assert_eq!(conn.readable().len(), 0);
                                assert_eq!(conn.state(), CloseState::PeerAbortWait);
                            }
                        }
                        judged += 1;
                    }
                }
            }
        }
    }
    // All of them: a change here is a change of what was checked.
    assert_eq!(judged, 2_252_704);
}

/// A connection that has written `written` bytes, of which the peer has read
/// `consumed`; the number of the next message.
fn writer(ring: Ring, consumed: u64, written: u64) -> (Connection, u16) {
    let mut conn = Connection::new(&params(ring, ring, 16), &CFG);
    let (mut acknowledged, mut sequence) = (0, 1);
    while conn.tx.written.total < written {
        let left = written - conn.tx.written.total;
        let step = left.min(u64::from(ring.usable()) - (conn.tx.written.total - acknowledged));
        conn.commit(NOW, &CFG, step as u32).unwrap();
        while let Some(transmit) = take_transmit(&mut conn, NOW, &CFG) {
            conn.on_notify_completed(NOW, &CFG, transmit.record);
        }
        acknowledged = conn.tx.written.total.min(consumed);
        let cdc = message(sequence, ring.start().cursor, at(ring, acknowledged).cursor);
        assert_eq!(conn.on_cdc(NOW, &CFG, &cdc), CdcOutcome::Applied);
        sequence += 1;
    }
    assert_eq!(conn.tx.consumer, at(ring, consumed));
    assert_eq!(conn.tx.written, at(ring, written));
    (conn, sequence)
}

#[test]
fn every_consumer_cursor_in_every_state_of_the_writer() {
    //= CASE-H01 test
    //= CASE-C03 test
    let mut judged = 0u64;
    for ring in rings() {
        let usable = u64::from(ring.usable());
        for consumed in 0..=3 * usable {
            for written in consumed..=consumed + usable {
                let (conn, sequence) = writer(ring, consumed, written);
                for (cursor, total) in cursors(ring, conn.tx.consumer) {
                    let mut conn = conn.clone();
                    let cdc = message(sequence, ring.start().cursor, cursor);
                    let outcome = conn.on_cdc(NOW, &CFG, &cdc);
                    let state = (ring, consumed, written);
                    match moves(total, consumed, written, ring) {
                        Some(more) => {
                            assert!(
                                matches!(outcome, CdcOutcome::Applied | CdcOutcome::BackwardCursor),
                                "{outcome:?} for {cursor:?} at {state:?}"
                            );
                            assert_eq!(conn.tx.consumer, at(ring, consumed + more));
                            let window = usable - (written - consumed - more);
                            assert_eq!(u64::from(conn.tx.window()), window);
                        }
                        None => assert!(
                            matches!(outcome, CdcOutcome::Misbehaved(_)),
                            "{outcome:?} for {cursor:?} at {state:?}"
                        ),
                    }
                    judged += 1;
                }
            }
        }
    }
    assert_eq!(judged, 265_064);
}
