//! How long to spin before waiting in the kernel.
//!
//! A wake costs tens of microseconds, spinning costs a core. So a thread spins about as long as
//! a wake would take, if that has paid lately; hardly when another thread wanted the core,
//! which shows as a hole in its own time.

use std::time::Duration;

/// Default of the longest spin: about what two wakes take.
pub(super) const MOST: Duration = Duration::from_micros(100);
/// Shortest spin: a wait in the kernel and a wake cost more of the cores' time, even where
/// the spin finds nothing.
const LEAST: Duration = Duration::from_micros(5);
/// A hole in time: longer than any interrupt handler, shorter than a time slice.
const HOLE: Duration = Duration::from_micros(300);
/// Number of waits after which a spin is tried again that has not paid.
const PROBE: u32 = 16;
/// Number of waits after which a spin is tried again after a hole.
const PROBE_AFTER_HOLE: u32 = 256;

/// Time that waits may spin, learnt from those before.
///
/// [`Device::wait`](super::Device::wait) has its own; this is for threads that wait otherwise:
/// [`begin`](Self::begin), poll until something is [`found`](Self::found), the time is
/// up ([`missed`](Self::missed)) or the core ran another thread
/// ([`was_interrupted`](Self::was_interrupted)), then wait in the kernel.
#[derive(Clone, Copy, Debug)]
pub struct SpinBudget {
    budget: Duration,
    /// Waits until the next try of more than the least.
    until_probe: u32,
    /// Longest spin.
    most: Duration,
}

impl SpinBudget {
    /// A budget of this time at most: zero on a machine with one core, where no other thread
    /// runs while this one spins.
    #[must_use]
    pub fn new(most: Duration) -> Self {
        Self {
            budget: most,
            until_probe: PROBE,
            most,
        }
    }

    /// Sets the longest spin.
    pub fn limit(&mut self, most: Duration) {
        (self.most, self.budget) = (most, most);
    }

    /// Time that the wait which begins now may spin.
    pub fn begin(&mut self) -> Duration {
        if self.budget < self.most && self.budget <= LEAST {
            self.until_probe = self.until_probe.saturating_sub(1);
            if self.until_probe == 0 {
                self.until_probe = PROBE;
                return self.most;
            }
        }
        self.budget
    }

    /// Whether a spin that finds something leaves the budget as it is.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.budget == self.most
    }

    /// Notes that the spin found something.
    pub fn found(&mut self) {
        self.budget = self.most;
    }

    /// Notes that the spin found nothing in its time.
    //= SHM-030
    pub fn missed(&mut self) {
        self.budget = (self.budget / 2).max(LEAST).min(self.most);
    }

    /// Notes the time between two polls: whether it has a hole, so that the spin must end.
    //= SHM-030
    pub fn was_interrupted(&mut self, between: Duration) -> bool {
        let hole = between > HOLE;
        if hole {
            self.budget = LEAST.min(self.most);
            self.until_probe = PROBE_AFTER_HOLE;
        }
        hole
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HOLE, LEAST, MOST, PROBE, PROBE_AFTER_HOLE, SpinBudget};

    #[test]
    fn spinning_that_never_pays_ends_but_for_probes() {
        //= SHM-030 test
        let mut spin = SpinBudget::new(MOST);
        let mut spun = Vec::new();
        for _ in 0..100 {
            spun.push(spin.begin());
            spin.missed();
        }
        assert_eq!(spun[0], MOST);
        assert!(spun.windows(2).take(5).all(|pair| pair[1] < pair[0]));
        let late: Duration = spun.iter().skip(10).sum();
        let probes = 90 / PROBE;
        let least = LEAST * (90 - probes);
        assert_eq!(late, MOST * probes + least, "one wait in {PROBE}");
    }

    #[test]
    fn one_find_brings_the_whole_budget_back() {
        let mut spin = SpinBudget::new(MOST);
        (0..10).for_each(|_| spin.missed());
        assert_eq!(spin.begin(), LEAST);
        spin.found();
        assert_eq!(spin.begin(), MOST);
    }

    #[test]
    fn a_busy_machine_is_left_alone_for_long() {
        //= SHM-030 test
        let mut spin = SpinBudget::new(MOST);
        assert!(!spin.was_interrupted(HOLE));
        assert_eq!(spin.begin(), MOST);
        assert!(spin.was_interrupted(HOLE * 2));
        let waits = (1..).find(|_| spin.begin() == MOST);
        assert_eq!(waits, Some(PROBE_AFTER_HOLE));
    }

    #[test]
    fn one_core_never_spins() {
        //= SHM-030 test
        let mut spin = SpinBudget::new(Duration::ZERO);
        for _ in 0..100 {
            assert_eq!(spin.begin(), Duration::ZERO);
            spin.found();
        }
    }
}
