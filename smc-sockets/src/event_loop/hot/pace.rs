//! How long a loop has waited for its events lately.

use std::time::{Duration, Instant};

/// Events after which the average means something.
const ENOUGH: u32 = 16;
/// Events after which those before count half.
const MEMORY: u32 = 128;
/// A wake-up takes longer than that.
const QUICK: Duration = Duration::from_micros(10);

/// Waits for events, of which the last ones weigh most.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the wait for the next event began.
    since: Option<Instant>,
    waited: Duration,
    events: u32,
}

impl Pace {
    /// The loop has found nothing.
    pub(super) fn waits(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// The loop has found an event.
    pub(super) fn found(&mut self, now: Instant) {
        self.waited += self.wait(now);
        self.since = None;
        self.events += 1;
        if self.events >= MEMORY {
            self.events /= 2;
            self.waited /= 2;
        }
    }

    /// Whether events have come faster than a thread wakes up, with this wait and whatever
    /// interrupted the loop while it waited.
    pub(super) fn is_quick(&self, now: Instant) -> bool {
        self.events >= ENOUGH && self.waited + self.wait(now) <= QUICK * self.events
    }

    fn wait(&self, now: Instant) -> Duration {
        let began = self.since.unwrap_or(now);
        now.saturating_duration_since(began)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{ENOUGH, MEMORY, Pace, QUICK};

    fn after(pace: &mut Pace, now: &mut Instant, wait: Duration, events: u32) -> bool {
        for _ in 0..events {
            pace.waits(*now);
            *now += wait / 2;
            pace.waits(*now);
            *now += wait - wait / 2;
            pace.found(*now);
            // A task that takes long is no wait.
            *now += 50 * QUICK;
        }
        pace.is_quick(*now)
    }

    #[test]
    fn waits_are_short_on_average_or_not() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        assert!(
            !after(&mut pace, &mut now, QUICK / 8, ENOUGH - 1),
            "too few"
        );
        assert!(after(&mut pace, &mut now, QUICK / 8, 1));
        assert!(after(&mut pace, &mut now, 2 * QUICK, 4));
        assert!(!after(&mut pace, &mut now, 2 * QUICK, MEMORY));
        assert!(after(&mut pace, &mut now, QUICK / 8, 4 * MEMORY));
    }

    #[test]
    fn a_wait_counts_before_it_ends() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        assert!(after(&mut pace, &mut now, QUICK / 2, ENOUGH));
        pace.waits(now);
        assert!(pace.is_quick(now + QUICK));
        assert!(!pace.is_quick(now + QUICK * ENOUGH));
    }

    #[test]
    fn an_interruption_is_made_up_for_by_many_events() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        assert!(after(&mut pace, &mut now, QUICK / 8, MEMORY));
        assert!(
            !after(&mut pace, &mut now, QUICK * MEMORY, 1),
            "a time slice"
        );
        assert!(after(&mut pace, &mut now, QUICK / 8, MEMORY));
    }
}
