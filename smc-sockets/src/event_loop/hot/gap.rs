//! Gaps: times in which a loop that polled did not have the CPU.
//!
//! Another thread had it, or the loop runs in a virtual machine whose host did not run it. In the
//! second case polling takes the CPU from no one. A virtual machine does not learn which of the two
//! it was; but a thread that needs the CPU still needs it after the gap, and the kernel counts it.

use std::time::{Duration, Instant};

use super::backoff::Backoff;

/// Longest time that a yield or a poll takes on a free CPU.
const GAP: Duration = Duration::from_micros(300);
/// Longest gap that may be one of the host. Kernels suspend processes that exceed a quota of CPU
/// time for longer.
const MAX_HOST_GAP: Duration = Duration::from_millis(5);
/// First and longest time without polling after a [`GAP`].
pub(super) const BACKOFF: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(640));
/// Time after a gap of the host in which another gap is one of another thread.
const APART: Duration = Duration::from_millis(10);

/// The gaps of one event loop.
#[derive(Debug)]
pub(super) struct Gaps {
    /// Length of a gap that [`Self::judge`] has not judged yet.
    found: Option<Duration>,
    /// Time of the last gap of the host.
    of_host: Option<Instant>,
    backoff: Backoff,
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self {
            found: None,
            of_host: None,
            backoff: Backoff::new(BACKOFF),
        }
    }

    /// Notes that a yield or a poll took this time until the loop had the CPU again.
    pub(super) fn note(&mut self, time: Duration) {
        if time > GAP {
            self.found = self.found.max(Some(time));
        }
    }

    /// Begins a time without polling if another thread had the CPU in a gap since the last call:
    /// if `crowded` returns that more threads run than there are CPUs, or that it does not know, if
    /// the gap was longer than [`MAX_HOST_GAP`], or less than [`APART`] after the last one.
    /// `crowded` is called after a gap only.
    pub(super) fn judge(&mut self, now: Instant, crowded: impl FnOnce() -> Option<bool>) {
        let Some(time) = self.found.take() else {
            return;
        };
        let is_apart = self.of_host.is_none_or(|at| now >= at + APART);
        if time <= MAX_HOST_GAP && is_apart && crowded() == Some(false) {
            self.of_host = Some(now);
        } else {
            self.backoff.begin(now);
        }
    }

    /// Whether a time without polling lasts.
    pub(super) fn are_recent(&self, now: Instant) -> bool {
        self.backoff.lasts(now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{APART, BACKOFF, GAP, Gaps, MAX_HOST_GAP};

    /// Whether a loop polls after a gap of this length.
    fn polls_after(
        gaps: &mut Gaps,
        now: Instant,
        gap: Duration,
        crowded: impl FnOnce() -> Option<bool>,
    ) -> bool {
        gaps.note(gap);
        gaps.judge(now, crowded);
        !gaps.are_recent(now)
    }

    #[test]
    fn only_a_gap_while_no_other_thread_needs_the_cpu_is_one_of_the_host() {
        let (now, long) = (Instant::now(), GAP * 2);
        let polls = |gap, crowded| polls_after(&mut Gaps::new(), now, gap, || crowded);
        assert!(polls_after(&mut Gaps::new(), now, GAP, || unreachable!(
            "no gap"
        )));
        assert!(polls(long, Some(false)));
        assert!(!polls(long, Some(true)));
        assert!(!polls(long, None), "threads cannot be counted");
        assert!(polls(MAX_HOST_GAP, Some(false)));
        assert!(!polls(2 * MAX_HOST_GAP, Some(false)), "a quota of CPU time");
    }

    #[test]
    fn a_gap_soon_after_another_is_one_of_a_thread() {
        let (mut gaps, mut now) = (Gaps::new(), Instant::now());
        for _ in 0..3 {
            assert!(polls_after(&mut gaps, now, 2 * GAP, || Some(false)));
            now += APART;
        }
        assert!(polls_after(&mut gaps, now, 2 * GAP, || Some(false)));
        now += APART / 2;
        assert!(!polls_after(&mut gaps, now, 2 * GAP, || unreachable!(
            "known"
        )));
        now += BACKOFF.0;
        assert!(!gaps.are_recent(now));
        assert!(polls_after(&mut gaps, now, 2 * GAP, || Some(false)));
    }

    #[test]
    fn a_gap_is_judged_once_and_by_its_length() {
        let (mut gaps, now) = (Gaps::new(), Instant::now());
        gaps.note(2 * MAX_HOST_GAP);
        gaps.note(2 * GAP);
        gaps.judge(now, || Some(false));
        assert!(gaps.are_recent(now), "the longer one");
        let later = now + 2 * BACKOFF.0;
        gaps.judge(later, || unreachable!("there was no other gap"));
        assert!(!gaps.are_recent(later));
    }
}
