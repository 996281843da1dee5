//! Short waits for a peer in calls that are not to wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long one call waits.
const MOST: Duration = Duration::from_millis(5);

/// The part of a program's time that such waits take at most: one in so many.
const ONE_IN: u64 = 20;

/// The time of waits that may be taken at once, after none for long: 20 of them in vain.
const AT_ONCE: u64 = 100_000;

/// The time that calls of one kind may wait: a twentieth of a program's time, and 100 ms more. Peers
/// that send nothing, or as late as they can, delay it no longer.
pub(crate) struct ShortWaits {
    /// When no wait is owed for any more, in microseconds of the monotonic clock: each puts it off by
    /// twenty times its own time.
    paid: AtomicU64,
}

/// The monotonic clock in microseconds.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let rest = u64::try_from(now.tv_nsec / 1000).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(rest)
}

impl ShortWaits {
    pub(crate) const fn new() -> Self {
        Self {
            paid: AtomicU64::new(0),
        }
    }

    /// Makes a call that waits so long at most as it is passed, which may be zero. The time counts if it
    /// returns true.
    pub(crate) fn wait(&self, call: impl FnOnce(Duration) -> bool) {
        let (most, begin) = (self.left(now()), Instant::now());
        if call(most) && !most.is_zero() {
            self.spend(begin.elapsed(), now());
        }
    }

    /// How long a call may wait.
    fn left(&self, now: u64) -> Duration {
        let owed = self.paid.load(Ordering::Relaxed).saturating_sub(now) / ONE_IN;
        MOST.min(Duration::from_micros(AT_ONCE.saturating_sub(owed)))
    }

    /// Counts a wait that has ended now.
    fn spend(&self, waited: Duration, now: u64) {
        let waited = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        let (order, most) = (Ordering::Relaxed, AT_ONCE * ONE_IN);
        let _ = self.paid.fetch_update(order, order, |paid| {
            let paid = paid.max(now).saturating_add(waited.saturating_mul(ONE_IN));
            // A process that was stopped meanwhile has not waited for a peer.
            Some(paid.min(now.saturating_add(most)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that waits as long as it may, at this time, in milliseconds.
    fn wait(waits: &ShortWaits, at: u64) -> Duration {
        let left = waits.left(at * 1000);
        waits.spend(left, at * 1000);
        left
    }

    #[test]
    fn some_waits_at_once_are_as_long_as_they_may_be() {
        let waits = ShortWaits::new();
        for _ in 0..20 {
            assert_eq!(wait(&waits, 7), MOST);
        }
        assert_eq!(wait(&waits, 7), Duration::ZERO);
        // One has been paid for.
        assert_eq!(wait(&waits, 107), MOST);
        assert_eq!(wait(&waits, 107), Duration::ZERO);
        assert_eq!(wait(&waits, 127), Duration::from_millis(1));
    }

    /// Also those that were not in vain.
    #[test]
    fn a_twentieth_of_the_time_is_waited() {
        let waits = ShortWaits::new();
        let total: Duration = (0..10_000).map(|at| wait(&waits, at)).sum();
        let most = Duration::from_millis(100 + 10_000 / ONE_IN);
        assert!((most - MOST..=most).contains(&total), "{total:?}");
    }

    #[test]
    fn what_is_waited_is_counted() {
        let waits = ShortWaits::new();
        let (begin, mut passed) = (Instant::now(), Duration::ZERO);
        for _ in 0..40 {
            waits.wait(|most| {
                passed += most;
                std::thread::sleep(most);
                true
            });
        }
        let most = Duration::from_micros(AT_ONCE) + begin.elapsed() / 20;
        assert!(passed <= most + MOST, "{passed:?} of {most:?}");
    }
}
