//! Adaptive busy polling of an event loop: how long it polls without an event before it sleeps.
//!
//! A wake-up takes tens of microseconds, so a loop whose peer answers sooner is faster if it
//! keeps polling. Polling occupies a CPU, so it has to end when the peer, or another program,
//! waits for that CPU.
//!
//! The event loop reports sleeps and found events to [`HotPhase`], whose [`HotPhase::next`] decides
//! what the loop does next. Nothing here makes a system call but the count of running threads.
//!
//! ```text
//!   event ──► hot: polls ──► after 3 us without an event: polls between turns of the loop
//!               ▲                       │ after 10 us: yields the CPU as well
//!               │ event                 ▼ after the budget
//!               └────────────────── sleeps
//!   slept for more than 150 us: the next budget is half as long
//!   more threads run than there are CPUs, and events
//!   take longer to come than a thread to wake up: no budget for 2 ms (to 128 ms)
//!   another thread has the CPU during a yield or a poll: no budget for 10 ms (to 640 ms)
//! ```
//!
//! The CPUs count as contended only after several counts of running threads in a row
//! ([`CONFIRM`], [`WORKERS_CONFIRM`]), since the other workers of a runtime run for some
//! microseconds whenever a task is woken. While events come faster than a thread wakes up, sleeping
//! gains nothing, and threads are not counted. To measure the pace of events, the loop polls for
//! [`TRIAL`] without a count at first and after each time without a budget.

mod backoff;
mod crowd;
mod gap;
mod pace;

pub(crate) use crowd::is_crowded;

use std::time::{Duration, Instant};

use self::backoff::Backoff;
use self::gap::Gaps;
use self::pace::Pace;
use crate::shard::Turn;

/// Longest budget, that is, time without an event before the loop sleeps. A budget below the time
/// of a wake-up would cost the polling and the wake-up.
const MAX_BUDGET: Duration = Duration::from_micros(50);
/// Shortest budget; a shorter one counts as zero.
const MIN_BUDGET: Duration = Duration::from_micros(20);
/// Longest budget in a runtime with several workers. There it takes longer to answer a message:
/// another worker is woken beside the one that handles it, often on the same CPU.
const MAX_WORKERS_BUDGET: Duration = Duration::from_micros(100);
/// Time without an event after which the loop does its other work between polls.
const PAUSE_AFTER: Duration = Duration::from_micros(3);
/// Time without an event after which the loop also yields the CPU between polls, since the peer
/// may wait for it.
const YIELD_AFTER: Duration = Duration::from_micros(10);
/// First and longest time without polling after more threads ran than there are CPUs.
const CROWDED: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(128));
/// Pause between two counts of the running threads.
const COUNT_EVERY: Duration = Duration::from_millis(1);
/// Pause before a count that exceeds the CPUs is repeated, as a thread may have run for a moment,
/// and number of such counts in a row after which the CPUs are contended.
const CONFIRM: (Duration, u32) = (Duration::from_micros(20), 4);
/// [`CONFIRM`] of a runtime with several workers. The peer's is likely to have several, too, which
/// run for a moment whenever a task is woken.
const WORKERS_CONFIRM: (Duration, u32) = (Duration::from_micros(100), 10);
/// Time of polling without counts, at first and after each time without polling. Long enough to
/// measure the pace of events.
const TRIAL: Duration = Duration::from_micros(300);

/// State of the adaptive polling of one event loop.
#[derive(Debug)]
pub(crate) struct HotPhase {
    /// Largest budget of this loop.
    most: Duration,
    /// Longest sleep that leaves the budget as it is: a longer one halves it.
    long: Duration,
    /// Time without an event after which the loop sleeps.
    budget: Duration,
    /// Time of the last event or wake-up.
    active: Option<Instant>,
    /// When the loop went to sleep, while it sleeps.
    parked: Option<Instant>,
    /// Events since the last wake-up.
    events: u32,
    /// Times without the CPU while the loop polled, and times without polling after them.
    gaps: Gaps,
    /// Times without polling after more threads ran than there are CPUs.
    crowds: Backoff,
    /// Pause before a count is repeated, and counts in a row: [`CONFIRM`] or [`WORKERS_CONFIRM`].
    confirm: (Duration, u32),
    /// When the running threads are counted next.
    count_at: Option<Instant>,
    /// Number of counts in a row that exceeded the number of CPUs.
    row: u32,
    pace: Pace,
    /// Whether the CPUs were contended at the last call of [`Self::next`]; `true` before the first
    /// call.
    was_contended: bool,
}

impl HotPhase {
    /// Polls for at most `longest` without an event, and at most [`MAX_BUDGET`], or
    /// [`MAX_WORKERS_BUDGET`] in a runtime that has several workers. Less than [`MIN_BUDGET`] means
    /// not at all.
    pub(crate) fn new(longest: Duration, has_workers: bool) -> Self {
        let most = if longest < MIN_BUDGET {
            Duration::ZERO
        } else {
            longest.min(MAX_BUDGET)
        };
        let (budget, confirm) = match has_workers {
            true if !most.is_zero() => (longest.min(MAX_WORKERS_BUDGET), WORKERS_CONFIRM),
            _ => (most, CONFIRM),
        };
        Self {
            most: budget,
            long: 3 * most,
            budget,
            confirm,
            active: None,
            parked: None,
            events: 0,
            gaps: Gaps::new(),
            crowds: Backoff::new(CROWDED),
            count_at: None,
            row: 0,
            pace: Pace::default(),
            was_contended: true,
        }
    }

    /// Notes that the loop goes to sleep.
    pub(crate) fn parks(&mut self, now: Instant) {
        self.parked = Some(now);
    }

    /// Notes that the loop was woken. A long sleep halves the budget.
    pub(crate) fn wakes(&mut self, now: Instant) {
        let slept = self
            .parked
            .take()
            .map(|at| now.saturating_duration_since(at));
        self.budget = match slept {
            Some(slept) if slept > self.long => match self.budget / 2 {
                less if less < MIN_BUDGET => Duration::ZERO,
                less => less,
            },
            _ => self.most,
        };
        self.active = Some(now);
        self.events = 0;
        if slept.is_some_and(|slept| slept > self.long) {
            // The peer had nothing to send, so the measured pace is of no use any more.
            self.pace = Pace::default();
            self.row = 0;
        }
    }

    /// Decides what the loop does after a poll that found this number of events. `crowded` counts
    /// the running threads and returns whether they are more than the CPUs, or `None` if it does
    /// not know; it is called once in a while, as it makes system calls.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        found: u32,
        crowded: impl Fn() -> Option<bool>,
    ) -> Turn {
        self.gaps.judge(now, &crowded);
        if found > 0 {
            self.pace.found(now);
            // The first event after a wake-up is the one that woke the loop.
            if self.events > 0 {
                self.budget = self.most;
            }
            self.events = self.events.saturating_add(found);
            self.active = Some(now);
            let is_cold = self.budget.is_zero() || self.is_contended(now);
            // After a single event no other one comes before its task has run.
            return match found {
                1 if is_cold => Turn::Parked,
                _ => Turn::Hot,
            };
        }
        let active = *self.active.get_or_insert(now);
        let idle = now.saturating_duration_since(active);
        let contended = self.is_contended(now);
        if std::mem::replace(&mut self.was_contended, contended) && !contended {
            self.begin_trial(now);
        }
        self.pace.waits(now);
        if idle >= self.budget || contended || self.counts(now, crowded) {
            return Turn::Parked;
        }
        if idle < PAUSE_AFTER {
            return Turn::Hot;
        }
        if idle < YIELD_AFTER {
            return Turn::Pause;
        }
        Turn::Yield
    }

    /// Starts polling, at first or after a time without it.
    fn begin_trial(&mut self, now: Instant) {
        self.pace = Pace::default();
        self.row = 0;
        self.count_at = Some(now + TRIAL);
    }

    /// Counts the running threads if a count is due. Returns whether the CPUs are contended.
    fn counts(&mut self, now: Instant, crowded: impl Fn() -> Option<bool>) -> bool {
        if self.count_at.is_some_and(|at| now < at) {
            return false;
        }
        let is_crowded = !self.pace.is_quick(now) && crowded() == Some(true);
        self.row = if is_crowded { self.row + 1 } else { 0 };
        let (confirm, row) = self.confirm;
        let pause = if is_crowded { confirm } else { COUNT_EVERY };
        self.count_at = Some(now + pause);
        if self.row < row {
            return false;
        }
        self.crowds.begin(now);
        self.was_contended = true;
        true
    }

    /// Notes that a yield or a poll took this time until the loop had the CPU again.
    pub(crate) fn took(&mut self, now: Instant, time: Duration) {
        self.gaps.note(now, time);
    }

    /// Whether the loop may poll without an event.
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn may_poll(&self, now: Instant) -> bool {
        !self.budget.is_zero() && !self.is_contended(now)
    }

    /// Whether other threads need the CPU on which the loop would poll.
    pub(crate) fn is_contended(&self, now: Instant) -> bool {
        self.gaps.lasts(now) || self.crowds.lasts(now)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use super::gap::BACKOFF;
    use super::{COUNT_EVERY, CROWDED, HotPhase, MAX_BUDGET, MAX_WORKERS_BUDGET, TRIAL};
    use crate::shard::Turn;

    const CONFIRM: Duration = super::CONFIRM.0;
    const ROW: u32 = super::CONFIRM.1;
    const FREE: fn() -> Option<bool> = || Some(false);
    const CROWDED_CPUS: fn() -> Option<bool> = || Some(true);
    const US: Duration = Duration::from_micros(1);

    /// A loop that slept for so long, was woken by an event and polls: for how long.
    fn polls(hot: &mut HotPhase, now: &mut Instant, slept: Duration) -> Duration {
        hot.parks(*now);
        *now += slept;
        hot.wakes(*now);
        let woken = *now;
        let mut turn = hot.next(*now, 1, FREE);
        while turn != Turn::Parked {
            *now += US;
            turn = hot.next(*now, 0, FREE);
        }
        *now - woken
    }

    #[test]
    fn a_loop_whose_peer_answers_soon_polls_and_yields_the_cpu_before_it_sleeps() {
        let (mut hot, start) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        hot.wakes(start);
        assert_eq!(hot.next(start, 1, FREE), Turn::Hot);
        assert_eq!(hot.next(start + 2 * US, 0, FREE), Turn::Hot);
        assert_eq!(hot.next(start + 9 * US, 0, FREE), Turn::Pause);
        assert_eq!(hot.next(start + 11 * US, 0, FREE), Turn::Yield);
        assert_eq!(hot.next(start + 49 * US, 0, FREE), Turn::Yield);
        assert_eq!(hot.next(start + 50 * US, 0, FREE), Turn::Parked);
    }

    #[test]
    fn after_long_sleeps_a_loop_polls_less_and_then_not_at_all() {
        let (mut hot, mut now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        let long = Duration::from_millis(1);
        assert_eq!(polls(&mut hot, &mut now, long), 25 * US);
        assert!(polls(&mut hot, &mut now, long) <= US);
        // A peer that answers soon is polled for again.
        assert_eq!(polls(&mut hot, &mut now, 100 * US), MAX_BUDGET);
    }

    #[test]
    fn with_several_workers_a_loop_polls_longer_and_after_long_sleeps_as_little() {
        let mut hot = HotPhase::new(Duration::MAX, true);
        let (mut now, soon, long) = (Instant::now(), 2 * MAX_BUDGET, 4 * MAX_BUDGET);
        assert_eq!(polls(&mut hot, &mut now, soon), MAX_WORKERS_BUDGET);
        assert_eq!(polls(&mut hot, &mut now, long), 50 * US);
        assert_eq!(polls(&mut hot, &mut now, long), 25 * US);
        assert!(polls(&mut hot, &mut now, long) <= US);
        assert!(!hot.may_poll(now));
        assert_eq!(polls(&mut hot, &mut now, soon), MAX_WORKERS_BUDGET);
        assert!(hot.may_poll(now));
        let mut short = HotPhase::new(30 * US, true);
        assert_eq!(polls(&mut short, &mut now, 30 * US), 30 * US);
        let mut none = HotPhase::new(Duration::ZERO, true);
        assert!(polls(&mut none, &mut now, soon) <= US && !none.may_poll(now));
    }

    #[test]
    fn while_another_thread_wants_the_cpu_a_loop_sleeps_at_once() {
        let (mut hot, mut now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        let mut backoff = BACKOFF.0;
        for _ in 0..8 {
            hot.wakes(now);
            hot.next(now, 1, FREE);
            now += 20 * US;
            assert_eq!(hot.next(now, 0, FREE), Turn::Yield);
            // The other had the CPU for a slice.
            let slice = Duration::from_millis(3);
            now += slice;
            hot.took(now, slice);
            assert_eq!(hot.next(now, 1, CROWDED_CPUS), Turn::Parked);
            for _ in 0..2 {
                assert!(polls(&mut hot, &mut now, US) <= US, "{backoff:?}");
            }
            now += backoff;
            assert_eq!(polls(&mut hot, &mut now, US), MAX_BUDGET, "{backoff:?}");
            backoff = (2 * backoff).min(BACKOFF.1);
        }
        now += 10 * BACKOFF.1;
        hot.wakes(now);
        now += 20 * US;
        assert_eq!(hot.next(now, 0, FREE), Turn::Yield);
        now += Duration::from_millis(3);
        hot.took(now, Duration::from_millis(3));
        hot.next(now, 0, CROWDED_CPUS);
        now += BACKOFF.0;
        assert_eq!(polls(&mut hot, &mut now, US), MAX_BUDGET, "it begins anew");
    }

    #[test]
    fn after_a_gap_in_which_no_other_thread_had_the_cpu_a_loop_polls_on() {
        let (mut hot, mut now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        hot.wakes(now);
        now += Duration::from_millis(1);
        hot.took(now, Duration::from_millis(1));
        assert_eq!(hot.next(now, 1, FREE), Turn::Hot);
        assert_eq!(polls(&mut hot, &mut now, US), MAX_BUDGET);
    }

    #[test]
    fn tasks_that_take_long_are_no_other_thread() {
        let (mut hot, mut now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        hot.wakes(now);
        now += 20 * US;
        assert_eq!(hot.next(now, 0, FREE), Turn::Yield);
        hot.took(now, US);
        now += Duration::from_millis(5);
        assert_eq!(hot.next(now, 1, FREE), Turn::Hot);
        assert_eq!(polls(&mut hot, &mut now, US), MAX_BUDGET);
    }

    /// A loop that waits for an event, which takes so long to come: how often it counts.
    fn waits(hot: &mut HotPhase, now: &mut Instant, wait: Duration, crowded: bool) -> u32 {
        let counts = Cell::new(0);
        hot.next(*now, 1, || unreachable!("there was an event"));
        for _ in 0..wait.as_micros() {
            *now += US;
            hot.next(*now, 0, || {
                counts.update(|counts| counts + 1);
                Some(crowded)
            });
        }
        counts.get()
    }

    /// One that has polled for as long as nothing is counted.
    fn tried(hot: &mut HotPhase, now: &mut Instant) {
        hot.wakes(*now);
        let end = *now + TRIAL;
        hot.next(*now, 0, || unreachable!("it is tried"));
        while *now + 41 * US < end {
            assert_eq!(waits(hot, now, 40 * US, true), 0);
        }
        *now = end;
        hot.wakes(*now);
    }

    #[test]
    fn a_loop_sleeps_at_once_while_more_threads_run_than_there_are_cpus() {
        let (mut hot, mut now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        let mut backoff = CROWDED.0;
        for _ in 0..8 {
            tried(&mut hot, &mut now);
            for _ in 1..ROW {
                hot.wakes(now);
                assert_eq!(hot.next(now, 0, CROWDED_CPUS), Turn::Hot, "for a moment");
                now += 5 * US;
                assert_eq!(hot.next(now, 0, || unreachable!("soon")), Turn::Pause);
                now += CONFIRM;
            }
            hot.wakes(now);
            assert_eq!(hot.next(now, 0, CROWDED_CPUS), Turn::Parked);
            now += backoff - US;
            hot.wakes(now);
            let uncounted = || unreachable!("it is known");
            assert_eq!(hot.next(now, 0, uncounted), Turn::Parked, "{backoff:?}");
            now += US;
            backoff = (2 * backoff).min(CROWDED.1);
        }
        tried(&mut hot, &mut now);
        assert_eq!(hot.next(now, 0, FREE), Turn::Hot);
        assert_eq!(polls(&mut hot, &mut now, US), MAX_BUDGET);
    }

    #[test]
    fn a_loop_polls_on_while_the_number_of_threads_is_unknown() {
        let (mut hot, mut now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        tried(&mut hot, &mut now);
        for _ in 0..2 * ROW {
            hot.wakes(now);
            assert_eq!(hot.next(now, 0, || None), Turn::Hot);
            now += COUNT_EVERY;
        }
    }

    #[test]
    fn threads_that_run_for_a_moment_are_no_crowd() {
        let (mut hot, mut now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        tried(&mut hot, &mut now);
        for _ in 0..8 {
            for count in 0..ROW {
                hot.wakes(now);
                let crowded = count + 1 < ROW;
                assert_eq!(hot.next(now, 0, || Some(crowded)), Turn::Hot);
                now += if crowded { CONFIRM } else { COUNT_EVERY };
            }
        }
    }

    /// Sleeping would be slower, whatever else runs.
    #[test]
    fn nothing_is_counted_while_events_come_faster_than_threads_wake_up() {
        let (mut hot, mut now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        for _ in 0..10_000 {
            assert_eq!(waits(&mut hot, &mut now, 2 * US, true), 0);
            assert!(!hot.is_contended(now));
        }
        let mut counts = 0;
        while !hot.is_contended(now) {
            counts += waits(&mut hot, &mut now, 30 * US, true);
            assert!(counts <= ROW);
        }
        assert_eq!(counts, ROW, "once they are slow");
        // A faster peer is polled for again.
        now += CROWDED.0;
        for _ in 0..10_000 {
            assert_eq!(waits(&mut hot, &mut now, 2 * US, true), 0);
        }
    }

    #[test]
    fn a_loop_without_a_budget_sleeps_while_the_task_of_its_only_event_runs() {
        let (mut hot, now) = (HotPhase::new(MAX_BUDGET, false), Instant::now());
        assert_eq!(hot.next(now, 1, FREE), Turn::Hot);
        hot.took(now, Duration::from_millis(1));
        assert_eq!(hot.next(now, 1, CROWDED_CPUS), Turn::Parked);
        assert_eq!(hot.next(now, 2, FREE), Turn::Hot);
    }

    #[test]
    fn a_loop_without_a_budget_never_polls_twice() {
        let (mut hot, mut now) = (HotPhase::new(Duration::ZERO, false), Instant::now());
        assert!(polls(&mut hot, &mut now, US) <= US);
    }
}
