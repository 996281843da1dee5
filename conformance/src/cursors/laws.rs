//! Laws of cursors. Each is compiled and run, and translated and proven.
//!
//! A law takes any arguments: `None` means that it does not apply to them, otherwise the
//! result is whether it holds. Rings are made by [`Ring::new`], so that a law is about each
//! ring there can be, from 1 byte to 1 GiB, wherever it begins.
//!
//! A position is described by three numbers: the bytes of the stream before the present
//! lap (`start`), the laps before it modulo 65536 (`lap`), and the bytes of the lap before the position
//! (`into`). That `start` is the number of laps times the size of the ring follows by
//! induction: it is so where every cursor begins, and what goes over the end of a ring moves
//! both at once.

use super::cursor::{Position, Ring, Step, StepFault, bytes_between, newer};
use super::spans::{Span, Spans};
use crate::wire::types::Cursor;

/// The position `into` bytes into a lap.
pub(super) fn at(ring: Ring, start: u64, lap: u16, into: u32) -> Position {
    Position {
        total: start.wrapping_add(into as u64),
        cursor: Cursor {
            wrap: lap,
            count: ring.base().wrapping_add(into),
        },
    }
}

/// Whether a count is one that the wire may carry.
pub(super) fn inside(ring: Ring, count: u32) -> bool {
    ring.base() <= count && count < ring.end()
}

/// Exactly the ranges that are not empty and not above 1 GiB are rings.
pub(super) fn a_ring_is_a_range_of_1_byte_to_1_gib(base: u32, end: u32) -> Option<bool> {
    match Ring::new(base, end) {
        Some(ring) => Some(
            base < end
                && end <= 0x4000_0000
                && ring.base() == base
                && ring.end() == end
                && base.wrapping_add(ring.usable()) == end,
        ),
        None => Some(base >= end || end > 0x4000_0000),
    }
}

/// A ring in local memory begins at 0 and is as long as its memory, up to 1 GiB.
pub(super) fn a_local_ring_is_its_memory(size: u32) -> Option<bool> {
    let ring = Ring::local(size);
    Some(ring.base() == 0 && ring.end() == size.min(Ring::MAX) && ring.usable() == ring.end())
}

/// A ring that lies elsewhere in memory has the same size.
pub(super) fn moved_rings_keep_their_size(base: u32, end: u32, head: u32) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if head > u32::MAX.wrapping_sub(ring.usable()) {
        return None;
    }
    let shifted = ring.shifted(head);
    Some(shifted.base() == head && shifted.usable() == ring.usable())
}

/// Every cursor begins at the base of the first lap.
pub(super) fn a_stream_begins_at_the_base(base: u32, end: u32) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    Some(ring.start() == at(ring, 0, 0, 0))
}

/// To advance by up to a ring goes on in the stream: what reaches the end of the ring is
/// in the next lap, and the end itself is never a count.
pub(super) fn an_advance_goes_on_in_the_stream(
    base: u32,
    end: u32,
    start: u64,
    lap: u16,
    into: u32,
    count: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    let usable = ring.usable();
    if into >= usable || count > usable {
        return None;
    }
    let to = ring.advance(at(ring, start, lap, into), count);
    let sum = into.wrapping_add(count);
    let expected = if sum < usable {
        at(ring, start, lap, sum)
    } else {
        let next = start.wrapping_add(usable as u64);
        at(ring, next, lap.wrapping_add(1), sum.wrapping_sub(usable))
    };
    Some(to == expected && inside(ring, to.cursor.count))
}

/// To retreat by up to a ring goes back in the stream, over the base into the lap before.
pub(super) fn a_retreat_goes_back_in_the_stream(
    base: u32,
    end: u32,
    start: u64,
    lap: u16,
    into: u32,
    count: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    let usable = ring.usable();
    if into >= usable || count > usable {
        return None;
    }
    let to = ring.retreat(at(ring, start, lap, into), count);
    let expected = if count <= into {
        at(ring, start, lap, into.wrapping_sub(count))
    } else {
        let before = start.wrapping_sub(usable as u64);
        let into = into.wrapping_add(usable).wrapping_sub(count);
        at(ring, before, lap.wrapping_sub(1), into)
    };
    Some(to == expected && inside(ring, to.cursor.count))
}

/// A retreat undoes an advance of up to a ring, and an advance undoes a retreat.
pub(super) fn a_retreat_undoes_an_advance(
    base: u32,
    end: u32,
    from: Position,
    count: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, from.cursor.count) || count > ring.usable() {
        return None;
    }
    let there = ring.retreat(ring.advance(from, count), count);
    let back = ring.advance(ring.retreat(from, count), count);
    Some(there == from && back == from)
}

/// Counts by themselves move as the counts of positions do.
pub(super) fn counts_move_as_positions_do(
    base: u32,
    end: u32,
    from: Position,
    count: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    let at = from.cursor.count;
    if !inside(ring, at) || count > ring.usable() {
        return None;
    }
    let after = ring.count_after(at, count);
    let before = ring.count_before(at, count);
    Some(
        after == ring.advance(from, count).cursor.count
            && before == ring.retreat(from, count).cursor.count,
    )
}

/// The distance of two cursors is that of their places in the stream, as long as they are
/// at most 32767 laps apart, whatever the wrap counters are.
pub(super) fn distance_is_that_in_the_stream(
    base: u32,
    end: u32,
    start: u64,
    lap: u16,
    into: u32,
    laps: u16,
    other: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    let usable = ring.usable();
    if into >= usable || other >= usable {
        return None;
    }
    let further = i64::from(laps.cast_signed()).wrapping_mul(i64::from(usable));
    let from = at(ring, start, lap, into);
    let to = at(
        ring,
        start.wrapping_add(further.cast_unsigned()),
        lap.wrapping_add(laps),
        other,
    );
    let distance = to.total.wrapping_sub(from.total).cast_signed();
    Some(ring.distance(from.cursor, to.cursor) == distance)
}

/// An advance by up to a ring is seen at its full size: a full ring differs from an empty one.
pub(super) fn an_advance_is_seen_at_its_size(
    base: u32,
    end: u32,
    from: Position,
    count: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, from.cursor.count) || count > ring.usable() {
        return None;
    }
    if from.total > u64::MAX.wrapping_sub(count as u64) {
        return None;
    }
    let to = ring.advance(from, count);
    Some(
        ring.distance(from.cursor, to.cursor) == i64::from(count)
            && ring.distance(to.cursor, from.cursor) == i64::from(count).wrapping_neg()
            && to.since(from.total) == count,
    )
}

/// A cursor is judged by its distance alone: outside of the ring; up to the limit ahead;
/// too far ahead; up to a ring behind; too far behind.
pub(super) fn a_step_is_judged_by_distance(
    base: u32,
    end: u32,
    from: Position,
    to: Cursor,
    limit: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    let usable = i64::from(ring.usable());
    let distance = ring.distance(from.cursor, to);
    Some(match ring.step(from, to, limit) {
        Err(StepFault::Outside) => !inside(ring, to.count),
        Ok(Step::Forward(count)) => {
            inside(ring, to.count) && distance == i64::from(count) && count <= limit
        }
        Err(StepFault::TooFar) => inside(ring, to.count) && distance > i64::from(limit),
        Ok(Step::Backward) => {
            inside(ring, to.count) && distance < 0 && distance >= usable.wrapping_neg()
        }
        Err(StepFault::FarBack) => inside(ring, to.count) && distance < usable.wrapping_neg(),
    })
}

/// A cursor that a peer may send is accepted, with the number of bytes it went on.
pub(super) fn what_a_peer_may_send_is_accepted(
    base: u32,
    end: u32,
    from: Position,
    count: u32,
    limit: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, from.cursor.count) || count > limit || limit > ring.usable() {
        return None;
    }
    let to = ring.advance(from, count);
    Some(match ring.step(from, to.cursor, limit) {
        Ok(Step::Forward(seen)) => seen == count && from.moved(seen, to.cursor) == to,
        _ => false,
    })
}

/// A stale cursor, one of up to a ring before, is a step backward, and never one forward.
pub(super) fn a_stale_cursor_is_backward(
    base: u32,
    end: u32,
    from: Position,
    count: u32,
    limit: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, from.cursor.count) || count == 0 || count > ring.usable() {
        return None;
    }
    let now = ring.advance(from, count);
    Some(ring.step(now, from.cursor, limit) == Ok(Step::Backward))
}

/// No cursor is accepted that is not the one of an advance by as much.
pub(super) fn nothing_else_is_accepted(
    base: u32,
    end: u32,
    from: Position,
    to: Cursor,
    limit: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, from.cursor.count) || limit > ring.usable() {
        return None;
    }
    match ring.step(from, to, limit) {
        Ok(Step::Forward(count)) => Some(from.moved(count, to) == ring.advance(from, count)),
        _ => None,
    }
}

/// The short judgement of the data path accepts what the full one accepts, and as much.
pub(super) fn the_fast_judgement_is_the_full_one(
    base: u32,
    end: u32,
    from: Position,
    to: Cursor,
    limit: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, from.cursor.count) || limit > ring.usable() {
        return None;
    }
    let full = match ring.step(from, to, limit) {
        Ok(Step::Forward(count)) => Some(count),
        _ => None,
    };
    let fast = match ring.ahead(from, to) {
        Some(count) if count <= limit => Some(count),
        _ => None,
    };
    Some(fast == full)
}

/// The short judgement sees every advance at its size, and takes a stale cursor, one of up
/// to a ring before, for more than a ring.
pub(super) fn the_fast_judgement_sees_every_advance(
    base: u32,
    end: u32,
    from: Position,
    count: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, from.cursor.count) || count > ring.usable() {
        return None;
    }
    let to = ring.advance(from, count);
    let stale = match ring.ahead(to, from.cursor) {
        Some(seen) => count == 0 && seen == 0 || seen > ring.usable(),
        None => count > 0,
    };
    Some(stale && ring.ahead(from, to.cursor) == Some(count))
}

/// Of two sequence numbers up to 32767 apart the later one is newer, and none is newer
/// than itself or than one half the range away.
pub(super) fn the_later_sequence_number_is_newer(earlier: u16, by: u16) -> Option<bool> {
    let later = earlier.wrapping_add(by);
    Some(if by == 0 || by == 0x8000 {
        !newer(later, earlier) && !newer(earlier, later)
    } else if by < 0x8000 {
        newer(later, earlier) && !newer(earlier, later)
    } else {
        !newer(later, earlier) && newer(earlier, later)
    })
}

/// Bytes between two totals that are less than 4 GiB apart.
pub(super) fn totals_give_the_bytes_between(from: Position, count: u32) -> Option<bool> {
    let to = from.total.wrapping_add(count as u64);
    if to < from.total {
        return None;
    }
    let moved = from.moved(count, from.cursor);
    Some(
        bytes_between(from.total, to) == count
            && moved.since(from.total) == count
            && moved.cursor == from.cursor,
    )
}

/// The end of the ring is as far as its counts go.
pub(super) fn the_end_is_as_far_as_counts_go(base: u32, end: u32, count: u32) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if count < base || count > end {
        return None;
    }
    let left = ring.to_end(count);
    Some(left <= ring.usable() && count.wrapping_add(left) == end)
}

/// Spans have every byte of a part of the ring, in order, each at its place.
pub(super) fn spans_have_every_byte_at_its_place(
    base: u32,
    end: u32,
    count: u32,
    len: u32,
    byte: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, count) || len > ring.usable() {
        return None;
    }
    let spans = ring.spans(count, len);
    let first = spans.first();
    let second = spans.second();
    let all = first.len.wrapping_add(second.len) == len
        && spans.len() == len
        && spans.is_empty() == (len == 0)
        && first.len <= len
        && first.offset == count
        && second.offset == base
        && first.len <= end.wrapping_sub(count)
        && second.len <= count.wrapping_sub(base)
        && (second.len == 0 || first.offset.wrapping_add(first.len) == end);
    if byte >= len {
        return Some(all);
    }
    let place = if byte < first.len {
        first.offset.wrapping_add(byte)
    } else {
        second.offset.wrapping_add(byte.wrapping_sub(first.len))
    };
    Some(all && place == ring.count_after(count, byte) && inside(ring, place))
}

/// Two bytes of the same ring that are in flight never have the same place.
pub(super) fn no_two_bytes_share_a_place(
    base: u32,
    end: u32,
    count: u32,
    byte: u32,
    other: u32,
) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, count) || byte >= other || other >= ring.usable() {
        return None;
    }
    Some(ring.count_after(count, byte) != ring.count_after(count, other))
}

/// What lies before a count is in one piece if its spans are one, and begins where the
/// count that much before is.
pub(super) fn one_piece_is_one_span(base: u32, end: u32, count: u32, len: u32) -> Option<bool> {
    let ring = Ring::new(base, end)?;
    if !inside(ring, count) || len == 0 || len > ring.usable() {
        return None;
    }
    let before = ring.count_before(count, len);
    let one = ring.spans(before, len).second().len == 0;
    Some(match ring.one_piece_before(count, len) {
        Some(begin) => one && begin == before,
        None => !one,
    })
}

/// Two spans are kept as they are given.
pub(super) fn spans_are_kept(first: Span, second: Span) -> Option<bool> {
    let spans = Spans::new(first, second);
    Some(spans.first() == first && spans.second() == second)
}
