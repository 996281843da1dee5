//! Every function that is translated, as compiled code.

use super::super::cursor::{Position, Ring, bytes_between, newer};
use super::super::laws;
use super::super::spans::{Span, Spans};
use super::values::{Draw, Flat, Source};
use crate::wire::types::Cursor;

/// The arguments and the result of a function at one point, as numbers.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) arguments: Vec<u64>,
    pub(super) result: Vec<u64>,
}

/// A function that is compared.
pub(super) struct Twin {
    pub(super) name: &'static str,
    /// Calls the function with arguments that are drawn; `None` where it must not be called.
    pub(super) run: fn(&mut Source) -> Option<Point>,
}

macro_rules! twins {
    ($($name:literal: |$($argument:ident: $of:ty),*| $call:expr $(, if $when:expr)?;)*) => {
        /// One for each function of the sources.
        pub(super) const TWINS: &[Twin] = &[$(Twin {
            name: $name,
            run: |source| {
                let (mut arguments, mut result) = (Vec::new(), Vec::new());
                $(let $argument = <$of>::draw(source, stringify!($argument));
                $argument.flat(&mut arguments);)*
                $(if !$when {
                    return None;
                })?
                $call.flat(&mut result);
                Some(Point { arguments, result })
            },
        }),*];
    };
}

twins! {
    "Ring::new": |base: u32, end: u32| Ring::new(base, end);
    "Ring::local": |size: u32| Ring::local(size);
    "Ring::shifted": |ring: Ring, head: u32| ring.shifted(head);
    "Ring::base": |ring: Ring| ring.base();
    "Ring::end": |ring: Ring| ring.end();
    "Ring::usable": |ring: Ring| ring.usable();
    "Ring::start": |ring: Ring| ring.start();
    "Ring::to_end": |ring: Ring, count: u32| ring.to_end(count), if count <= ring.end();
    "Ring::count_before": |ring: Ring, count: u32, octets: u32| ring.count_before(count, octets);
    "Ring::one_piece_before": |ring: Ring, count: u32, octets: u32|
        ring.one_piece_before(count, octets);
    "Ring::count_after": |ring: Ring, count: u32, octets: u32| ring.count_after(count, octets);
    "Ring::advance": |ring: Ring, from: Position, octets: u32| ring.advance(from, octets);
    "Ring::retreat": |ring: Ring, from: Position, octets: u32| ring.retreat(from, octets);
    "Ring::distance": |ring: Ring, from: Cursor, to: Cursor| ring.distance(from, to);
    "Ring::step": |ring: Ring, from: Position, to: Cursor, limit: u32|
        ring.step(from, to, limit);
    "Ring::ahead": |ring: Ring, from: Position, to: Cursor| ring.ahead(from, to);
    "Ring::spans": |ring: Ring, count: u32, len: u32| ring.spans(count, len),
        if count <= ring.end();
    "Position::since": |position: Position, earlier: u64| position.since(earlier),
        if earlier <= position.total;
    "Position::moved": |position: Position, octets: u32, cursor: Cursor|
        position.moved(octets, cursor);
    "bytes_between": |from: u64, to: u64| bytes_between(from, to), if from <= to;
    "newer": |a: u16, b: u16| newer(a, b);
    "Spans::new": |first: Span, second: Span| Spans::new(first, second);
    "Spans::first": |spans: Spans| spans.first();
    "Spans::second": |spans: Spans| spans.second();
    "Spans::len": |spans: Spans| spans.len();
    "Spans::is_empty": |spans: Spans| spans.is_empty();
    "at": |ring: Ring, start: u64, lap: u16, into: u32| laws::at(ring, start, lap, into);
    "inside": |ring: Ring, count: u32| laws::inside(ring, count);
    "a_ring_is_a_range_of_1_byte_to_1_gib": |base: u32, end: u32|
        laws::a_ring_is_a_range_of_1_byte_to_1_gib(base, end);
    "a_local_ring_is_its_memory": |size: u32| laws::a_local_ring_is_its_memory(size);
    "moved_rings_keep_their_size": |base: u32, end: u32, head: u32|
        laws::moved_rings_keep_their_size(base, end, head);
    "a_stream_begins_at_the_base": |base: u32, end: u32|
        laws::a_stream_begins_at_the_base(base, end);
    "an_advance_goes_on_in_the_stream":
        |base: u32, end: u32, start: u64, lap: u16, into: u32, count: u32|
        laws::an_advance_goes_on_in_the_stream(base, end, start, lap, into, count);
    "a_retreat_goes_back_in_the_stream":
        |base: u32, end: u32, start: u64, lap: u16, into: u32, count: u32|
        laws::a_retreat_goes_back_in_the_stream(base, end, start, lap, into, count);
    "a_retreat_undoes_an_advance": |base: u32, end: u32, from: Position, count: u32|
        laws::a_retreat_undoes_an_advance(base, end, from, count);
    "counts_move_as_positions_do": |base: u32, end: u32, from: Position, count: u32|
        laws::counts_move_as_positions_do(base, end, from, count);
    "distance_is_that_in_the_stream":
        |base: u32, end: u32, start: u64, lap: u16, into: u32, laps: u16, other: u32|
        laws::distance_is_that_in_the_stream(base, end, start, lap, into, laps, other);
    "an_advance_is_seen_at_its_size": |base: u32, end: u32, from: Position, count: u32|
        laws::an_advance_is_seen_at_its_size(base, end, from, count);
    "a_step_is_judged_by_distance":
        |base: u32, end: u32, from: Position, to: Cursor, limit: u32|
        laws::a_step_is_judged_by_distance(base, end, from, to, limit);
    "what_a_peer_may_send_is_accepted":
        |base: u32, end: u32, from: Position, count: u32, limit: u32|
        laws::what_a_peer_may_send_is_accepted(base, end, from, count, limit);
    "a_stale_cursor_is_backward":
        |base: u32, end: u32, from: Position, count: u32, limit: u32|
        laws::a_stale_cursor_is_backward(base, end, from, count, limit);
    "nothing_else_is_accepted":
        |base: u32, end: u32, from: Position, to: Cursor, limit: u32|
        laws::nothing_else_is_accepted(base, end, from, to, limit);
    "the_fast_judgement_is_the_full_one":
        |base: u32, end: u32, from: Position, to: Cursor, limit: u32|
        laws::the_fast_judgement_is_the_full_one(base, end, from, to, limit);
    "the_fast_judgement_sees_every_advance":
        |base: u32, end: u32, from: Position, count: u32|
        laws::the_fast_judgement_sees_every_advance(base, end, from, count);
    "the_later_sequence_number_is_newer": |earlier: u16, by: u16|
        laws::the_later_sequence_number_is_newer(earlier, by);
    "totals_give_the_bytes_between": |from: Position, count: u32|
        laws::totals_give_the_bytes_between(from, count);
    "the_end_is_as_far_as_counts_go": |base: u32, end: u32, count: u32|
        laws::the_end_is_as_far_as_counts_go(base, end, count);
    "spans_have_every_byte_at_its_place":
        |base: u32, end: u32, count: u32, len: u32, byte: u32|
        laws::spans_have_every_byte_at_its_place(base, end, count, len, byte);
    "no_two_bytes_share_a_place": |base: u32, end: u32, count: u32, byte: u32, other: u32|
        laws::no_two_bytes_share_a_place(base, end, count, byte, other);
    "one_piece_is_one_span": |base: u32, end: u32, count: u32, len: u32|
        laws::one_piece_is_one_span(base, end, count, len);
    "spans_are_kept": |first: Span, second: Span| laws::spans_are_kept(first, second);
}
