//! Spans of a ring as segments of a buffer, which commands name.

use super::Spans;
use crate::command::Segment;

/// Pieces of a ring as pieces of a buffer, the ring starting at `start`.
#[inline]
pub(crate) fn segments(spans: Spans, start: u32) -> [Segment; 2] {
    [spans.first(), spans.second()].map(|span| Segment {
        offset: start.wrapping_add(span.offset),
        length: span.len,
    })
}
