//! Positions in the ring of an RMB element, counted from its first byte ever.

use smc_proto::wire::types::Cursor;

/// The part of an RMB element that holds data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ring {
    /// Bytes of the element.
    pub(crate) size: u32,
    /// Where the data starts: 4 behind an eye catcher, else 0.
    pub(crate) base: u32,
}

impl Ring {
    /// Bytes of data that it holds.
    pub(crate) const fn usable(self) -> u32 {
        self.size.saturating_sub(self.base)
    }

    /// Where cursors start.
    pub(crate) const fn start(self) -> Cursor {
        Cursor {
            wrap: 0,
            count: self.base,
        }
    }

    /// Whether a cursor may have this count.
    pub(crate) const fn has(self, cursor: Cursor) -> bool {
        self.base <= cursor.count && cursor.count < self.size
    }

    /// Bytes from one cursor to another one, negative if it lies behind. Of two
    /// readings of the wrap count the nearer one is meant.
    pub(crate) fn advance(self, from: Cursor, to: Cursor) -> i64 {
        let wraps = i64::from(to.wrap.wrapping_sub(from.wrap).cast_signed());
        wraps * i64::from(self.usable()) + i64::from(to.count) - i64::from(from.count)
    }

    /// The first position from `from` on that lies at this offset of the element.
    pub(crate) fn at_offset(self, from: u64, offset: u32) -> u64 {
        let usable = u64::from(self.usable()).max(1);
        let place = u64::from(offset.saturating_sub(self.base));
        let here = from % usable;
        from + (place + usable - here) % usable
    }
}

/// Positions that were written, as ranges in order that do not touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Vec<(u64, u64)>);

/// More ranges than a writer in order ever makes.
const MAX_SPANS: usize = 256;

impl Spans {
    /// Adds a range. Beyond the limit the earliest one is forgotten.
    pub(crate) fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (mut low, mut high) = (from, to);
        self.0.retain(|&(start, end)| {
            let touches = start <= high && low <= end;
            if touches {
                low = low.min(start);
                high = high.max(end);
            }
            !touches
        });
        let place = self.0.partition_point(|&(start, _)| start < low);
        self.0.insert(place, (low, high));
        if self.0.len() > MAX_SPANS {
            self.0.remove(0);
        }
    }

    /// The first position of a range that was not written.
    pub(crate) fn first_gap(&self, from: u64, to: u64) -> Option<u64> {
        let mut at = from;
        for &(start, end) in &self.0 {
            if start > at {
                break;
            }
            at = at.max(end);
        }
        (at < to).then_some(at)
    }

    /// Forgets everything before a position.
    pub(crate) fn forget_before(&mut self, position: u64) {
        self.0.retain(|&(_, end)| end > position);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_ranges_are_counted_across_the_wrap() {
        let ring = Ring { size: 14, base: 4 };
        assert_eq!(ring.advance(ring.start(), Cursor { wrap: 1, count: 6 }), 12);
        assert_eq!(ring.at_offset(7, 4), 10);
        assert_eq!(ring.at_offset(7, 11), 7);
        assert_eq!(
            ring.advance(
                Cursor {
                    wrap: u16::MAX,
                    count: 13
                },
                ring.start()
            ),
            1
        );
        let mut spans = Spans::default();
        spans.add(4, 8);
        spans.add(10, 12);
        assert_eq!(spans.first_gap(4, 12), Some(8));
        spans.add(8, 10);
        assert_eq!(spans.first_gap(4, 12), None);
        spans.forget_before(12);
        assert_eq!(spans.first_gap(4, 5), Some(4));
    }
}
