//! Arguments near the edges of rings, and values as numbers.

use super::super::cursor::{Position, Ring, Step, StepFault};
use super::super::spans::{Span, Spans};
use crate::wire::types::Cursor;

/// Numbers in a value, in the order of its fields; an enum is the number of its variant,
/// then what each variant has, 0 for all but its own.
pub(super) trait Flat {
    /// How many there are.
    const WIDTH: usize;

    fn flat(&self, to: &mut Vec<u64>);
}

/// Arguments drawn near the edges of a ring.
pub(super) trait Draw: Flat + Sized {
    /// Draws one; `name` is the name of the parameter.
    fn draw(from: &mut Source, name: &str) -> Self;
}

/// Pseudo-random numbers, and the ring that counts are drawn for.
pub(super) struct Source {
    state: u64,
    ring: Ring,
}

impl Source {
    pub(super) fn new(seed: u64) -> Self {
        let mut source = Self {
            state: seed,
            ring: Ring::local(1),
        };
        let largest = 1 << source.below(31);
        let usable = 1 + source.below(largest);
        let any = source.below(u64::from(Ring::MAX));
        let base = source.one_of([0, 4, any]);
        let ring = Ring::new(base as u32, (base + usable) as u32);
        source.ring = ring.unwrap_or(Ring::local(usable as u32));
        source
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_of<const N: usize>(&mut self, from: [u64; N]) -> u64 {
        from[self.below(N as u64) as usize]
    }
}

impl Draw for u16 {
    fn draw(from: &mut Source, _: &str) -> Self {
        let any = from.next();
        from.one_of([0, 1, 2, 0x7fff, 0x8000, 0x8001, 0xffff, any]) as Self
    }
}

impl Draw for u32 {
    fn draw(from: &mut Source, name: &str) -> Self {
        let ring = from.ring;
        let (base, end, usable) = (ring.base(), ring.end(), ring.usable());
        let inside = u64::from(base) + from.below(u64::from(usable));
        let part = from.below(u64::from(usable) + 1);
        let any = from.next();
        let edges = [
            base,
            base + 1,
            end - 1,
            end,
            end + 1,
            usable - 1,
            usable,
            usable + 1,
        ];
        let edge = u64::from(edges[from.below(8) as usize]);
        let value = from.one_of([
            inside, inside, inside, part, part, part, edge, edge, 0, 1, any,
        ]);
        match (name, from.below(8)) {
            ("base", 1..) => base,
            ("end", 1..) => end,
            _ => value as Self,
        }
    }
}

impl Draw for u64 {
    fn draw(from: &mut Source, _: &str) -> Self {
        let any = from.next();
        from.one_of([0, 1, 0xffff, 0x1_0000, 1 << 32, Self::MAX, any, any >> 8])
    }
}

impl Draw for Ring {
    fn draw(from: &mut Source, _: &str) -> Self {
        from.ring
    }
}

impl Flat for Ring {
    const WIDTH: usize = 2;

    fn flat(&self, to: &mut Vec<u64>) {
        to.extend([self.base(), self.end()].map(u64::from));
    }
}

impl Flat for Spans {
    const WIDTH: usize = 4;

    fn flat(&self, to: &mut Vec<u64>) {
        self.first().flat(to);
        self.second().flat(to);
    }
}

impl Draw for Spans {
    fn draw(from: &mut Source, name: &str) -> Self {
        Self::new(Span::draw(from, name), Span::draw(from, name))
    }
}

/// What is one number.
macro_rules! numbers {
    ($($of:ty: |$value:ident| $number:expr;)*) => {
        $(impl Flat for $of {
            const WIDTH: usize = 1;

            fn flat(&self, to: &mut Vec<u64>) {
                let $value = *self;
                to.push($number);
            }
        })*
    };
}

numbers! {
    bool: |value| u64::from(value);
    u16: |value| u64::from(value);
    u32: |value| u64::from(value);
    u64: |value| value;
    i64: |value| value.cast_unsigned();
    StepFault: |value| match value {
        Self::Outside => 0,
        Self::TooFar => 1,
        Self::FarBack => 2,
    };
}

/// What is made of its fields.
macro_rules! fields {
    ($($of:ident { $($field:ident: $inner:ty),* })*) => {
        $(impl Flat for $of {
            const WIDTH: usize = 0 $(+ <$inner>::WIDTH)*;

            fn flat(&self, to: &mut Vec<u64>) {
                $(self.$field.flat(to);)*
            }
        }

        impl Draw for $of {
            fn draw(from: &mut Source, _: &str) -> Self {
                $(let $field = <$inner>::draw(from, "");)*
                Self { $($field),* }
            }
        })*
    };
}

fields! {
    Cursor { wrap: u16, count: u32 }
    Position { total: u64, cursor: Cursor }
    Span { offset: u32, len: u32 }
}

impl Flat for Step {
    const WIDTH: usize = 2;

    fn flat(&self, to: &mut Vec<u64>) {
        to.extend(match self {
            Self::Forward(count) => [0, u64::from(*count)],
            Self::Backward => [1, 0],
        });
    }
}

/// What may be absent: zeros then.
fn or_zeros<T: Flat>(value: Option<&T>, to: &mut Vec<u64>) {
    let end = to.len() + T::WIDTH;
    if let Some(value) = value {
        value.flat(to);
    }
    to.resize(end, 0);
}

impl<T: Flat> Flat for Option<T> {
    const WIDTH: usize = 1 + T::WIDTH;

    fn flat(&self, to: &mut Vec<u64>) {
        to.push(u64::from(self.is_some()));
        or_zeros(self.as_ref(), to);
    }
}

impl<T: Flat, E: Flat> Flat for Result<T, E> {
    const WIDTH: usize = 1 + T::WIDTH + E::WIDTH;

    fn flat(&self, to: &mut Vec<u64>) {
        to.push(u64::from(self.is_err()));
        or_zeros(self.as_ref().ok(), to);
        or_zeros(self.as_ref().err(), to);
    }
}
