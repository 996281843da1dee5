//! Time as an argument: the engine reads no clock.

use core::fmt;
pub use core::time::Duration;

/// A point in time, in nanoseconds since an origin the embedder chooses.
///
/// Must not run backwards between two calls into one endpoint; if it does,
/// timers fire late, nothing else breaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// The end of time, about 584 years after the origin.
    pub const MAX: Self = Self(u64::MAX);

    /// A point `nanoseconds` after the origin.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }
    /// Nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// The point moved later by `duration`, at most [`Instant::MAX`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanoseconds))
    }
    /// Time from `earlier` to this point, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Instant {
    /// Prints the time as `Duration` does, without the code for widths and roundings
    /// that may panic there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "s"),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "µs"),
            _ => (1, "ns"),
        };
        let (mut rest, mut place) = (self.0, unit);
        // The point is behind the units, if anything is.
        let mut point = "";
        while let (Some(digits), Some(below)) = (rest.checked_div(place), rest.checked_rem(place)) {
            write!(f, "{point}{digits}")?;
            if below == 0 {
                break;
            }
            point = if place == unit { "." } else { "" };
            rest = below;
            place /= 10;
        }
        f.write_str(name)
    }
}

/// The earlier of two deadlines that may not be set.
pub(crate) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, None) => a,
        (None, b) => b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_print_as_durations_do() {
        let mut nanoseconds = 1u64;
        for step in 0..2000u64 {
            for n in [
                nanoseconds,
                nanoseconds / 1000 * 1000,
                step,
                step * 1_000_000,
            ] {
                assert_eq!(
                    std::format!("{}", Instant::from_nanos(n)),
                    std::format!("{:?}", Duration::from_nanos(n))
                );
            }
            nanoseconds = nanoseconds.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (step % 64);
        }
        assert_eq!(std::format!("{}", Instant::ZERO), "0ns");
    }
}
