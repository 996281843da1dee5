//! Cursor arithmetic of RFC 7609 A.4, and the only place that has any.
//!
//! A wire cursor is a count inside a ring and the number of times it wrapped,
//! modulo 65536. Next to it this module keeps the number of bytes since the
//! connection began, in 64 bits, so that differences between our own cursors
//! are subtractions and nothing ever divides.

use super::spans::{Span, Spans};
use crate::wire::types::Cursor;

/// Where the bytes of a ring lie: counts run from `base` up to, not including, `end`.
///
/// In an RMB element `base` is 0 if both peers announced to have no eye catcher
/// (what Linux does) and 4 otherwise; `end` is the element's length (CDC-015).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ring {
    base: u32,
    end: u32,
}

/// A place in a byte stream that is laid round a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    /// Bytes of the stream before this place.
    pub(super) total: u64,
    /// The place as the wire has it.
    pub(super) cursor: Cursor,
}

/// What a cursor of the peer says compared with its predecessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The cursor is this many bytes further, 0 or more.
    Forward(u32),
    /// At most one ring back.
    Backward,
}

/// Why a cursor of the peer cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepFault {
    /// The count is not in the ring.
    Outside,
    /// Further than the peer may be.
    TooFar,
    /// More than one ring back.
    FarBack,
}

impl Ring {
    /// Longest ring, 1 GiB: twice the largest size a code can name (CLC-038).
    pub const MAX: u32 = 1 << 30;

    /// A ring with counts `base..end`, or `None` if that is empty or above [`Ring::MAX`].
    #[must_use]
    pub const fn new(base: u32, end: u32) -> Option<Self> {
        if base < end && end <= Self::MAX {
            Some(Self { base, end })
        } else {
            None
        }
    }

    /// A ring in local memory from offset 0; it may be empty.
    pub(super) const fn local(size: u32) -> Self {
        let end = if size > Self::MAX { Self::MAX } else { size };
        Self { base: 0, end }
    }

    /// The ring with counts that begin at `head`: its place in memory.
    #[allow(dead_code, reason = "for SMC-D, which can be left out")]
    pub(super) const fn shifted(self, head: u32) -> Self {
        Self {
            base: head,
            end: head.saturating_add(self.usable()),
        }
    }

    /// First count of the ring, in bytes from the start of its element.
    #[must_use]
    pub const fn base(self) -> u32 {
        self.base
    }

    /// First count behind the ring.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.end
    }

    /// Bytes the ring holds; all of them may be in use at once (FLOW-001).
    #[must_use]
    pub const fn usable(self) -> u32 {
        self.end.wrapping_sub(self.base)
    }

    /// Where every cursor begins.
    pub(super) const fn start(self) -> Position {
        //= CDC-015
        //= CDC-016
        Position {
            total: 0,
            cursor: Cursor {
                wrap: 0,
                count: self.base,
            },
        }
    }

    /// Bytes from `count`, which is in the ring, to its end.
    pub(super) const fn to_end(self, count: u32) -> u32 {
        debug_assert!(count <= self.end);
        self.end.wrapping_sub(count)
    }

    /// The count `bytes` before `count`; `bytes` at most the ring.
    pub(super) const fn count_before(self, count: u32, bytes: u32) -> u32 {
        let from_base = count.wrapping_sub(self.base);
        if bytes <= from_base {
            count.wrapping_sub(bytes)
        } else {
            count.wrapping_add(self.usable()).wrapping_sub(bytes)
        }
    }

    /// The count `bytes` before `count`, if no end of the ring lies between.
    pub(super) const fn one_piece_before(self, count: u32, bytes: u32) -> Option<u32> {
        // What ends at the end of the ring is followed by its base.
        let behind = if count == self.base { self.end } else { count };
        if bytes <= behind.wrapping_sub(self.base) {
            Some(behind.wrapping_sub(bytes))
        } else {
            None
        }
    }

    /// The count `bytes` after `count`; `bytes` at most the ring.
    pub(super) const fn count_after(self, count: u32, bytes: u32) -> u32 {
        let count = count.wrapping_add(bytes);
        if count >= self.end {
            count.wrapping_sub(self.usable())
        } else {
            count
        }
    }

    /// The position `bytes` after `from`; `bytes` at most the ring.
    pub(super) const fn advance(self, from: Position, bytes: u32) -> Position {
        let count = from.cursor.count.wrapping_add(bytes);
        //= CDC-017
        //= RMB-020
        // A cursor that reaches the end is at the base of the next lap: the
        // end itself is never on the wire (CDC-015).
        let wrapped = count >= self.end;
        Position {
            total: from.total.wrapping_add(bytes as u64),
            cursor: Cursor {
                wrap: from.cursor.wrap.wrapping_add(wrapped as u16),
                count: if wrapped {
                    count.wrapping_sub(self.usable())
                } else {
                    count
                },
            },
        }
    }

    /// The position `bytes` before `from`; `bytes` at most the ring.
    pub(super) const fn retreat(self, from: Position, bytes: u32) -> Position {
        let count = self.count_before(from.cursor.count, bytes);
        let unwrapped = bytes > from.cursor.count.wrapping_sub(self.base);
        Position {
            total: from.total.wrapping_sub(bytes as u64),
            cursor: Cursor {
                wrap: from.cursor.wrap.wrapping_sub(unwrapped as u16),
                count,
            },
        }
    }

    /// Bytes from one cursor to another, negative if `to` lies before `from`.
    ///
    /// Wraps are compared in serial arithmetic, so any jump of up to 32767 laps
    /// comes out at its full size: a peer that adds one to the wrap count six
    /// times is seen as six rings ahead, not as none.
    #[inline]
    pub(super) fn distance(self, from: Cursor, to: Cursor) -> i64 {
        //= CDC-018
        //= CDC-019
        //= CDC-021
        let laps = i64::from(to.wrap.wrapping_sub(from.wrap).cast_signed());
        laps.wrapping_mul(i64::from(self.usable()))
            .wrapping_add(i64::from(to.count))
            .wrapping_sub(i64::from(from.count))
    }

    /// Judges a cursor of the peer that may be at most `limit` bytes after `from`.
    pub(super) fn step(self, from: Position, to: Cursor, limit: u32) -> Result<Step, StepFault> {
        if to.count < self.base || to.count >= self.end {
            return Err(StepFault::Outside);
        }
        let distance = self.distance(from.cursor, to);
        if distance > i64::from(limit) {
            return Err(StepFault::TooFar);
        }
        match u32::try_from(distance) {
            Ok(bytes) => Ok(Step::Forward(bytes)),
            Err(_) if distance >= i64::from(self.usable()).wrapping_neg() => Ok(Step::Backward),
            Err(_) => Err(StepFault::FarBack),
        }
    }

    /// How many bytes after `from` a cursor of the peer is, if it is in the ring and on
    /// the same lap or the next; more than any ring if it lies before. [`Ring::step`]
    /// classifies others.
    #[inline(always)]
    pub(super) fn ahead(self, from: Position, to: Cursor) -> Option<u32> {
        let laps = to.wrap.wrapping_sub(from.cursor.wrap);
        if laps > 1 || to.count.wrapping_sub(self.base) >= self.usable() {
            return None;
        }
        let lap = self.usable() & u32::from(laps).wrapping_neg();
        Some(to.count.wrapping_sub(from.cursor.count).wrapping_add(lap))
    }

    /// The pieces of the ring that hold the `len` bytes from `count` on.
    pub(super) fn spans(self, count: u32, len: u32) -> Spans {
        let first = len.min(self.to_end(count));
        Spans::new(
            Span {
                offset: count,
                len: first,
            },
            Span {
                offset: self.base,
                len: len.wrapping_sub(first),
            },
        )
    }
}

impl Position {
    /// Bytes from `earlier` to this position.
    pub(super) const fn since(self, earlier: u64) -> u32 {
        bytes_between(earlier, self.total)
    }

    /// The position moved to a cursor of the peer that [`Ring::step`] accepted.
    pub(super) const fn moved(self, bytes: u32, cursor: Cursor) -> Self {
        Self {
            total: self.total.wrapping_add(bytes as u64),
            cursor,
        }
    }
}

/// Bytes from total `from` to total `to`, which is not before it. All totals that
/// are compared lie within one ring of each other.
pub(super) const fn bytes_between(from: u64, to: u64) -> u32 {
    debug_assert!(from <= to);
    to.wrapping_sub(from) as u32
}

/// Whether CDC sequence number `a` was given after `b` (CDC-008, AMB-13).
pub(super) const fn newer(a: u16, b: u16) -> bool {
    //= CDC-008
    //= CDC-009
    a.wrapping_sub(b).cast_signed() > 0
}
