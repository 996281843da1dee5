//! Laws of cursors, exhaustively on small rings, against 64-bit totals.

use crate::connection::cursor::{Position, Ring, Step, StepFault, newer};
use crate::wire::types::Cursor;

/// What the wire shows of a total, the slow way.
fn reference(ring: Ring, total: u64) -> Cursor {
    let usable = u64::from(ring.usable());
    Cursor {
        wrap: (total / usable) as u16,
        count: ring.base() + (total % usable) as u32,
    }
}

fn at(ring: Ring, total: u64) -> Position {
    Position {
        total,
        cursor: reference(ring, total),
    }
}

fn rings() -> impl Iterator<Item = Ring> {
    (1..=8).flat_map(|usable| [0, 4].map(|base| Ring::new(base, base + usable).unwrap()))
}

/// Totals near the start and near the wrap of the wrap count.
fn totals(ring: Ring) -> impl Iterator<Item = u64> {
    let usable = u64::from(ring.usable());
    (0..=4 * usable).chain(usable * 65_533..=usable * 65_539)
}

#[test]
fn positions_move_as_totals_do() {
    //= CDC-015 test
    //= CDC-016 test
    //= CDC-017 test
    for ring in rings() {
        assert_eq!(ring.start(), at(ring, 0));
        for from in totals(ring) {
            for bytes in 0..=ring.usable() {
                let to = from + u64::from(bytes);
                let moved = ring.advance(at(ring, from), bytes);
                assert_eq!(moved, at(ring, to));
                assert_eq!(ring.retreat(moved, bytes), at(ring, from));
                assert_eq!(
                    ring.count_after(at(ring, from).cursor.count, bytes),
                    moved.cursor.count
                );
                let spans = ring.spans(at(ring, from).cursor.count, bytes);
                let counts: std::vec::Vec<u32> = spans
                    .iter()
                    .flat_map(|span| span.offset..span.offset + span.len)
                    .collect();
                let expected: std::vec::Vec<u32> = (from..to)
                    .map(|total| reference(ring, total).count)
                    .collect();
                assert_eq!(counts, expected);
            }
        }
    }
}

#[test]
fn every_pair_of_cursors_is_judged_as_totals_are() {
    //= CASE-H01 test
    //= CDC-018 test
    //= CDC-019 test
    //= CDC-021 test
    for ring in rings() {
        let usable = i64::from(ring.usable());
        for from in totals(ring) {
            let old = at(ring, from);
            // All counts, also outside the ring, and all near and some far wraps.
            for wrap in (0..=16u16).chain(32_760..=32_776).chain(65_520..=65_535) {
                for count in 0..=ring.end() + 1 {
                    let new = Cursor {
                        wrap: old.cursor.wrap.wrapping_add(wrap),
                        count,
                    };
                    let laps = i64::from(wrap) - if wrap >= 32_768 { 65_536 } else { 0 };
                    let distance = laps * usable + i64::from(count) - i64::from(old.cursor.count);
                    for limit in [0, ring.usable() / 2, ring.usable()] {
                        let expected = if count < ring.base() || count >= ring.end() {
                            Err(StepFault::Outside)
                        } else if distance > i64::from(limit) {
                            Err(StepFault::TooFar)
                        } else if distance >= 0 {
                            Ok(Step::Forward(distance as u32))
                        } else if distance >= -usable {
                            Ok(Step::Backward)
                        } else {
                            Err(StepFault::FarBack)
                        };
                        assert_eq!(ring.step(old, new, limit), expected);
                    }
                }
            }
        }
    }
}

#[test]
fn a_full_ring_is_distinguished_from_an_empty_one_by_its_wrap() {
    //= CDC-018 test
    //= FLOW-017 test
    for ring in rings() {
        for total in totals(ring) {
            let full = ring.advance(at(ring, total), ring.usable());
            let empty = at(ring, total);
            assert_eq!(full.cursor.count, empty.cursor.count);
            assert_eq!(full.cursor.wrap, empty.cursor.wrap.wrapping_add(1));
            let used = ring.distance(empty.cursor, full.cursor);
            assert_eq!(used, i64::from(ring.usable()));
        }
    }
}

#[test]
fn a_largest_ring_loses_nothing_in_the_arithmetic() {
    let ring = Ring::new(4, Ring::MAX).unwrap();
    let end = ring.advance(ring.start(), ring.usable());
    assert_eq!(end.cursor, Cursor { wrap: 1, count: 4 });
    let far = Cursor {
        wrap: 32_767,
        count: ring.end() - 1,
    };
    let distance = ring.distance(ring.start().cursor, far);
    assert_eq!(distance, 32_768 * i64::from(ring.usable()) - 1);
    assert_eq!(
        ring.step(ring.start(), far, ring.usable()),
        Err(StepFault::TooFar)
    );
    assert_eq!(Ring::new(0, Ring::MAX + 1), None);
    assert_eq!(Ring::new(4, 4), None);
}

#[test]
fn sequence_numbers_are_serial() {
    //= CDC-008 test
    //= CDC-009 test
    assert!(newer(1, 0));
    assert!(!newer(0, 0));
    assert!(!newer(0, 1));
    assert!(newer(0, 65_535));
    assert!(!newer(65_535, 0));
    assert!(newer(0x7fff, 0));
    assert!(!newer(0x8000, 0));
    assert!(newer(0x8000, 1));
    for a in (0..=u16::MAX).step_by(257) {
        for ahead in 1..0x8000u16 {
            assert!(newer(a.wrapping_add(ahead), a));
            assert!(!newer(a, a.wrapping_add(ahead)));
        }
    }
}
