//! Short waits for a peer in calls that are not to wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long one call waits that is not to wait at all.
const MOST: Duration = Duration::from_millis(5);

/// The part of a program's time that such waits take at most: one in so many.
const ONE_IN: u64 = 20;

/// The time that calls of one kind may wait: a twentieth of a program's time, and some waits at once
/// after none for long. Peers that send nothing, or as late as they can, delay it no longer.
pub(crate) struct ShortWaits {
    /// How long one call waits.
    most: Duration,
    /// The time of waits that may be taken at once, in microseconds.
    at_once: u64,
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
    /// For so many waits at once, of 5 ms each.
    pub(crate) const fn new(at_once: u64) -> Self {
        Self::of(MOST, at_once)
    }

    /// For so many waits at once, of this time each.
    pub(crate) const fn of(most: Duration, at_once: u64) -> Self {
        Self {
            most,
            at_once: at_once * most.as_micros() as u64,
            paid: AtomicU64::new(0),
        }
    }

    /// Makes a call that waits so long at most as it is passed, which may be zero. The time counts if it
    /// returns true.
    pub(crate) fn wait(&self, call: impl FnOnce(Duration) -> bool) {
        let begin = now();
        let most = self.left(begin);
        if call(most) && !most.is_zero() {
            self.spend(begin, now());
        }
    }

    /// How long a call may wait: not at all, if less than a whole wait is left.
    fn left(&self, now: u64) -> Duration {
        let owed = self.paid.load(Ordering::Relaxed).saturating_sub(now) / ONE_IN;
        let left = Duration::from_micros(self.at_once.saturating_sub(owed));
        match left < self.most {
            true => Duration::ZERO,
            false => self.most,
        }
    }

    /// Counts a wait that has begun at one time, and has ended now.
    fn spend(&self, began: u64, now: u64) {
        let waited = now.saturating_sub(began);
        let (order, most) = (Ordering::Relaxed, self.at_once * ONE_IN);
        let _ = self.paid.fetch_update(order, order, |paid| {
            let paid = paid.max(now).saturating_add(waited.saturating_mul(ONE_IN));
            // A process that was stopped meanwhile has not waited for a peer.
            Some(paid.min(now.saturating_add(most)))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// One that waits as long as it may, at this time, in milliseconds.
    fn wait(waits: &ShortWaits, at: u64) -> Duration {
        let at = (at + 1_000) * 1000;
        let left = waits.left(at);
        let waited = u64::try_from(left.as_micros()).unwrap();
        waits.spend(at - waited, at);
        left
    }

    #[test]
    fn some_waits_at_once_are_as_long_as_they_may_be() {
        let waits = ShortWaits::new(20);
        for _ in 0..20 {
            assert_eq!(wait(&waits, 7), MOST);
        }
        assert_eq!(wait(&waits, 7), Duration::ZERO);
        // One has been paid for.
        assert_eq!(wait(&waits, 107), MOST);
        assert_eq!(wait(&waits, 107), Duration::ZERO);
        assert_eq!(wait(&waits, 127), Duration::ZERO);
        assert_eq!(wait(&waits, 207), MOST);
    }

    /// Also those that were not in vain.
    #[test]
    fn a_twentieth_of_the_time_is_waited() {
        let waits = ShortWaits::new(20);
        let total: Duration = (0..10_000).map(|at| wait(&waits, at)).sum();
        let most = Duration::from_millis(100 + 10_000 / ONE_IN);
        assert!((most - MOST..=most).contains(&total), "{total:?}");
    }

    #[test]
    fn after_the_only_wait_at_once_there_is_none_for_twenty_times_its_time() {
        let waits = ShortWaits::new(1);
        assert_eq!(wait(&waits, 7), MOST);
        assert_eq!(wait(&waits, 106), Duration::ZERO);
        assert_eq!(wait(&waits, 107), MOST);
    }

    #[test]
    fn waits_may_be_longer() {
        let most = Duration::from_millis(100);
        let waits = ShortWaits::of(most, 2);
        let all = [0, 100, 150, 1999, 2000].map(|at| wait(&waits, at));
        assert_eq!(all, [most, most, Duration::ZERO, Duration::ZERO, most]);
    }

    #[test]
    fn what_is_waited_is_counted() {
        let waits = ShortWaits::new(20);
        let (begin, mut passed) = (Instant::now(), Duration::ZERO);
        for _ in 0..40 {
            waits.wait(|most| {
                passed += most;
                std::thread::sleep(most);
                true
            });
        }
        let most = 20 * MOST + begin.elapsed() / 20;
        assert!(passed <= most + MOST, "{passed:?} of {most:?}");
    }
}
