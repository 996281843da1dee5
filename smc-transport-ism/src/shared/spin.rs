//! How long to look before sleeping.
//!
//! Being woken costs tens of microseconds, looking costs a core. So: look about as
//! long as a wake would take, if that has paid lately; hardly when another thread wanted
//! the core, which shows as a hole in one's own time.

use std::time::Duration;

/// What most use for the longest look: about what two wakes take.
pub(super) const MOST: Duration = Duration::from_micros(100);
/// Shortest: falling asleep and being woken costs more of the cores' time, even where
/// looking finds nothing.
const LEAST: Duration = Duration::from_micros(5);
/// A hole in time: longer than any interrupt handler, shorter than a time slice.
const HOLE: Duration = Duration::from_micros(300);
/// Waits until looking is tried again though it has not paid.
const PROBE: u32 = 16;
/// Waits until looking is tried again after a hole.
const PROBE_AFTER_HOLE: u32 = 256;

/// How long waits may look, learnt from those before.
///
/// [`Device::wait`](super::Device::wait) has its own; this is for who waits otherwise:
/// [`begin`](Self::begin), look until something is [`found`](Self::found), the time is
/// up ([`missed`](Self::missed)) or the core ran another thread
/// ([`was_interrupted`](Self::was_interrupted)), then sleep.
#[derive(Clone, Copy, Debug)]
pub struct SpinBudget {
    budget: Duration,
    /// Waits until the next try of more than the least.
    rest: u32,
    /// Longest look.
    most: Duration,
}

impl SpinBudget {
    /// For looks of this time at most: none on a machine with one core, where there is
    /// nobody to look for.
    #[must_use]
    pub fn new(most: Duration) -> Self {
        Self {
            budget: most,
            rest: PROBE,
            most,
        }
    }

    /// Sets the longest look.
    pub fn limit(&mut self, most: Duration) {
        (self.most, self.budget) = (most, most);
    }

    /// How long the wait that begins now may look.
    pub fn begin(&mut self) -> Duration {
        if self.budget < self.most && self.budget <= LEAST {
            self.rest = self.rest.saturating_sub(1);
            if self.rest == 0 {
                self.rest = PROBE;
                return self.most;
            }
        }
        self.budget
    }

    /// Looking found something.
    pub fn found(&mut self) {
        self.budget = self.most;
    }

    /// Looking found nothing in its time.
    //= SHM-030
    pub fn missed(&mut self) {
        self.budget = (self.budget / 2).max(LEAST).min(self.most);
    }

    /// Time between two looks: whether it has a hole, and so looking must end.
    //= SHM-030
    pub fn was_interrupted(&mut self, between: Duration) -> bool {
        let hole = between > HOLE;
        if hole {
            self.budget = LEAST.min(self.most);
            self.rest = PROBE_AFTER_HOLE;
        }
        hole
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HOLE, LEAST, MOST, PROBE, PROBE_AFTER_HOLE, SpinBudget};

    #[test]
    fn looking_that_never_pays_ends_but_for_probes() {
        //= SHM-030 test
        let mut spin = SpinBudget::new(MOST);
        let mut looked = Vec::new();
        for _ in 0..100 {
            looked.push(spin.begin());
            spin.missed();
        }
        assert_eq!(looked[0], MOST);
        assert!(looked.windows(2).take(5).all(|pair| pair[1] < pair[0]));
        let late: Duration = looked.iter().skip(10).sum();
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
    fn one_core_never_looks() {
        //= SHM-030 test
        let mut spin = SpinBudget::new(Duration::ZERO);
        for _ in 0..100 {
            assert_eq!(spin.begin(), Duration::ZERO);
            spin.found();
        }
    }
}
