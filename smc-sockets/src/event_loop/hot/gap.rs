//! Times in which a loop that polled did not have the CPU.
//!
//! Another thread had it, or the loop runs in a virtual machine whose host took it (steal time, which
//! many hosts do not report). In the second case polling takes the CPU from no other thread. A thread
//! that needs the CPU still does so after the gap, and the kernel counts it. That count is of the
//! whole machine: it does not show a thread that may run on this CPU only.

use std::time::{Duration, Instant};

use super::backoff::Backoff;

/// Longest time that a yield or a poll takes on a free CPU.
const GAP: Duration = Duration::from_micros(300);
/// Longest gap that counts as steal time. Kernels usually suspend programs for longer that exceed
/// their quota of CPU time.
const MAX_STEAL: Duration = Duration::from_millis(5);
/// A gap that follows another one sooner counts as another thread's, whatever the count shows.
const APART: Duration = Duration::from_millis(10);
/// First and longest time without polling after a gap in which another thread had the CPU.
pub(super) const BACKOFF: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(640));

/// The gaps of one event loop, and the times without polling after them.
#[derive(Debug)]
pub(super) struct Gaps {
    /// End of the last gap.
    last: Option<Instant>,
    /// End of a gap that is steal time unless [`Self::judge`] finds a thread that needs the CPU.
    undecided: Option<Instant>,
    backoff: Backoff,
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self {
            last: None,
            undecided: None,
            backoff: Backoff::new(BACKOFF),
        }
    }

    /// Notes that a yield or a poll took this time until the loop had the CPU again, at `end`. Begins
    /// a time without polling after a gap of more than [`MAX_STEAL`], or less than [`APART`] after
    /// the one before.
    pub(super) fn note(&mut self, end: Instant, time: Duration) {
        if time <= GAP {
            return;
        }
        let last = self.last.replace(end);
        let is_apart = last.is_none_or(|last| end >= last + time + APART);
        if is_apart && time <= MAX_STEAL {
            self.undecided = Some(end);
        } else {
            self.undecided = None;
            self.backoff.begin(end);
        }
    }

    /// Begins a time without polling after a gap that [`Self::note`] did not decide if `crowded`
    /// returns that more threads run than there are CPUs, or that their number is unknown. Too late
    /// after the gap, nothing is counted.
    pub(super) fn judge(&mut self, now: Instant, crowded: impl FnOnce() -> Option<bool>) {
        if let Some(end) = self.undecided.take()
            && now < end + BACKOFF.0
            && crowded() != Some(false)
        {
            self.backoff.begin(end);
        }
    }

    /// Whether a time without polling lasts.
    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.backoff.lasts(now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{APART, BACKOFF, GAP, Gaps, MAX_STEAL};

    /// Whether a loop polls after a gap that ends now.
    fn polls_after(gaps: &mut Gaps, now: Instant, gap: Duration, crowded: Option<bool>) -> bool {
        gaps.note(now, gap);
        gaps.judge(now, || crowded);
        !gaps.lasts(now)
    }

    #[test]
    fn only_a_short_gap_while_no_other_thread_needs_the_cpu_is_steal_time() {
        let now = Instant::now();
        let polls = |gap, crowded| polls_after(&mut Gaps::new(), now, gap, crowded);
        assert!(polls(GAP, Some(true)), "no gap");
        assert!(polls(2 * GAP, Some(false)));
        assert!(!polls(2 * GAP, Some(true)));
        assert!(!polls(2 * GAP, None), "the number of threads is unknown");
        assert!(polls(MAX_STEAL, Some(false)));
        assert!(!polls(2 * MAX_STEAL, Some(false)), "a quota of CPU time");
    }

    #[test]
    fn a_gap_soon_after_another_is_a_threads() {
        let (mut gaps, mut now) = (Gaps::new(), Instant::now());
        for _ in 0..3 {
            assert!(polls_after(&mut gaps, now, 2 * GAP, Some(false)));
            now += APART + 2 * GAP;
        }
        assert!(polls_after(&mut gaps, now, 2 * GAP, Some(false)));
        now += APART;
        assert!(!polls_after(&mut gaps, now, 2 * GAP, Some(false)));
        now += BACKOFF.0;
        assert!(!gaps.lasts(now));
        now += APART;
        assert!(polls_after(&mut gaps, now, 2 * GAP, Some(false)));
    }

    #[test]
    fn two_gaps_before_the_next_decision_are_a_threads() {
        let (mut gaps, now) = (Gaps::new(), Instant::now());
        gaps.note(now, 2 * GAP);
        gaps.note(now + 2 * GAP, 2 * GAP);
        assert!(gaps.lasts(now + 2 * GAP));
        gaps.judge(now + 2 * GAP, || unreachable!("decided"));
    }

    #[test]
    fn a_gap_in_a_time_without_polling_prolongs_it() {
        let (mut gaps, now) = (Gaps::new(), Instant::now());
        assert!(!polls_after(&mut gaps, now, 2 * GAP, Some(true)));
        let within = now + APART / 2;
        assert!(!polls_after(&mut gaps, within, 2 * GAP, Some(false)));
        assert!(gaps.lasts(within + 2 * BACKOFF.0 - GAP));
        assert!(!gaps.lasts(within + 2 * BACKOFF.0));
    }

    #[test]
    fn what_runs_long_after_a_gap_does_not_matter() {
        let (mut gaps, now) = (Gaps::new(), Instant::now());
        gaps.note(now, 2 * GAP);
        let later = now + BACKOFF.0;
        gaps.judge(later, || unreachable!("the loop did something else"));
        assert!(!gaps.lasts(later));
        gaps.note(later + APART, 2 * MAX_STEAL);
        gaps.judge(later + APART, || unreachable!("decided"));
        let end = later + APART + BACKOFF.0;
        assert!(!gaps.lasts(end), "it begins with the gap");
    }
}
