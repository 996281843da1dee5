//! Times in which threads that wait hardly poll, as another program wants their CPU.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smc_proto::time::Instant;

/// How long the CPU is left to others after a hole in a thread's time: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(640));

/// Set when a thread that polled lost its CPU for long; each time without polling is twice as
/// long as the one before if that ended shortly before. One for all threads of an endpoint: a
/// connection that is new need not find out by itself.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// Nanoseconds of the endpoint's time.
    until: AtomicU64,
    /// Nanoseconds of the last pause.
    pause: AtomicU64,
}

impl Contention {
    /// Begins a time without polling. Of two threads that do so at once, either counts.
    pub(crate) fn begin(&self, now: Instant) {
        let until = Instant::from_nanos(self.until.load(Ordering::Relaxed));
        let before = Duration::from_nanos(self.pause.load(Ordering::Relaxed));
        if now < until {
            return;
        }
        let is_recent = !before.is_zero() && now < until.after(2 * before);
        let pause = match is_recent {
            true => (2 * before).min(PAUSE.1),
            false => PAUSE.0,
        };
        let nanoseconds = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        self.pause.store(nanoseconds, Ordering::Relaxed);
        let until = now.after(pause).as_nanos();
        self.until.store(until, Ordering::Relaxed);
    }

    /// Whether such a time has not ended.
    #[inline]
    pub(crate) fn lasts(&self, now: Instant) -> bool {
        now.as_nanos() < self.until.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use smc_proto::time::Instant;

    use super::{Contention, PAUSE};

    #[test]
    fn pauses_double_while_holes_follow_each_other() {
        let contention = Contention::default();
        let mut now = Instant::from_nanos(5_000_000_000);
        assert!(!contention.lasts(now));
        let mut pause = PAUSE.0;
        for _ in 0..8 {
            contention.begin(now);
            let last = now.after(pause - Duration::from_nanos(1));
            assert!(contention.lasts(last), "{pause:?}");
            now = now.after(pause);
            assert!(!contention.lasts(now), "{pause:?}");
            pause = (2 * pause).min(PAUSE.1);
        }
        now = now.after(3 * PAUSE.1);
        contention.begin(now);
        assert!(!contention.lasts(now.after(PAUSE.0)), "begins anew");
    }

    #[test]
    fn a_hole_within_a_pause_does_not_prolong_it() {
        let contention = Contention::default();
        let now = Instant::from_nanos(1);
        contention.begin(now);
        contention.begin(now.after(PAUSE.0 / 2));
        assert!(!contention.lasts(now.after(PAUSE.0)));
    }
}
