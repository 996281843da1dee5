//! Pieces of a ring: at most two, because a ring wraps at most once.

/// Consecutive bytes of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Span {
    /// Offset of the first byte in the element or buffer, in bytes.
    pub offset: u32,
    /// Number of bytes.
    pub len: u32,
}

/// Up to two spans in stream order; the second is empty unless the first ends
/// at the end of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Spans {
    first: Span,
    second: Span,
}

impl Spans {
    /// No bytes.
    pub const EMPTY: Self = Self {
        first: Span { offset: 0, len: 0 },
        second: Span { offset: 0, len: 0 },
    };

    pub(super) const fn new(first: Span, second: Span) -> Self {
        Self { first, second }
    }

    /// The bytes up to the end of the ring.
    #[must_use]
    pub const fn first(self) -> Span {
        self.first
    }

    /// The bytes from the start of the ring on, often none.
    #[must_use]
    pub const fn second(self) -> Span {
        self.second
    }

    /// Bytes in both.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.first.len.wrapping_add(self.second.len)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The spans that hold bytes, in stream order.
    pub fn iter(self) -> impl Iterator<Item = Span> {
        [self.first, self.second]
            .into_iter()
            .filter(|span| span.len > 0)
    }
}
