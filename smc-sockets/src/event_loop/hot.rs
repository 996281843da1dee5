//! How long an event loop polls before it sleeps.
//!
//! A wake-up takes tens of microseconds, so that a loop whose peer answers sooner does better
//! to poll on. Polling takes a CPU, so it must not go on when the peer, or another program,
//! waits for that CPU.
//!
//! ```text
//!   event ──► hot: polls ──► after 3 us without an event: polls between turns of the loop
//!               ▲                       │ after 10 us: yields the CPU as well
//!               │ event                 ▼ after the budget
//!               └────────────────── sleeps
//!   slept for longer than three budgets: the next budget is half as long
//!   more threads run than there are CPUs, and events
//!   take longer to come than a thread to wake up: no budget for 2 ms (to 128 ms)
//!   a yield or a poll that takes long: no budget for 10 ms (to 640 ms)
//! ```
//!
//! The threads that run are counted four times in a row: the other workers of a runtime run
//! for some microseconds whenever a task is woken. While events come faster than threads wake
//! up, sleeping gains nothing, and nothing is counted. So that this can show, polling is tried
//! for a moment at first and after each time without a budget.

mod crowd;
mod pace;

pub(crate) use crowd::is_crowded;

use std::time::{Duration, Instant};

use self::pace::Pace;
use crate::shard::Turn;

/// Longest time without an event before the loop sleeps. Shorter than a wake-up takes, it
/// costs the polling and the wake-up.
const MOST: Duration = Duration::from_micros(50);
/// Budgets shorter than this are none.
const LEAST: Duration = Duration::from_micros(20);
/// Time without an event after which the other work of the loop has a turn between polls.
const SOON: Duration = Duration::from_micros(3);
/// Time without an event after which the CPU is yielded to a peer that may wait for it.
const ALONE: Duration = Duration::from_micros(10);
/// A yield or a poll that takes longer gave the CPU to a thread that has no end of work.
pub(crate) const GAP: Duration = Duration::from_micros(300);
/// How long a contended CPU is not polled on after a [`GAP`]: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(640));
/// How long CPUs are not polled on because more threads run than there are: at first, and at
/// most.
const CROWDED: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(128));
/// Pause between two counts of the running threads.
const COUNT_EVERY: Duration = Duration::from_millis(1);
/// Pause before a count that exceeds the CPUs is repeated: a thread may have run for a moment.
const CONFIRM: Duration = Duration::from_micros(20);
/// Counts in a row that have to exceed the CPUs.
const ROW: u32 = 4;
/// Time at first, and after each time without polling, in which nothing is counted: enough for
/// the events that show how fast they come.
const TRIAL: Duration = Duration::from_micros(300);

/// The adaptive polling of one event loop.
#[derive(Debug)]
pub(crate) struct HotPhase {
    most: Duration,
    budget: Duration,
    /// The last event, or wake-up.
    active: Option<Instant>,
    parked: Option<Instant>,
    /// Events since the last wake-up.
    events: u32,
    gaps: Backoff,
    crowds: Backoff,
    /// The running threads are counted then.
    count_at: Option<Instant>,
    /// Counts in a row that exceeded the CPUs.
    row: u32,
    pace: Pace,
    /// The CPUs were contended at the last turn, or it is the first one.
    was_contended: bool,
}

/// Times without polling, each twice as long as the one before if that ended shortly before.
#[derive(Debug)]
struct Backoff {
    until: Option<Instant>,
    time: Duration,
    first: Duration,
    most: Duration,
}

impl Backoff {
    fn new((first, most): (Duration, Duration)) -> Self {
        let (until, time) = (None, first);
        Self {
            until,
            time,
            first,
            most,
        }
    }

    fn begin(&mut self, now: Instant) {
        self.time = match self.is_recent(now) {
            true => (2 * self.time).min(self.most),
            false => self.first,
        };
        self.until = Some(now + self.time);
    }

    fn is_recent(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until + 2 * self.time)
    }

    fn lasts(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

impl HotPhase {
    /// One that polls no longer than `most` without an event.
    pub(crate) fn new(most: Duration) -> Self {
        let most = if most < LEAST {
            Duration::ZERO
        } else {
            most.min(MOST)
        };
        Self {
            most,
            budget: most,
            active: None,
            parked: None,
            events: 0,
            gaps: Backoff::new(BACKOFF),
            crowds: Backoff::new(CROWDED),
            count_at: None,
            row: 0,
            pace: Pace::default(),
            was_contended: true,
        }
    }

    /// The loop goes to sleep.
    pub(crate) fn parks(&mut self, now: Instant) {
        self.parked = Some(now);
    }

    /// The loop was woken.
    pub(crate) fn wakes(&mut self, now: Instant) {
        let slept = self
            .parked
            .take()
            .map(|at| now.saturating_duration_since(at));
        self.budget = match slept {
            Some(slept) if slept > 3 * self.most => match self.budget / 2 {
                less if less < LEAST => Duration::ZERO,
                less => less,
            },
            _ => self.most,
        };
        self.active = Some(now);
        self.events = 0;
        if slept.is_some_and(|slept| slept > 3 * self.most) {
            // The peer had nothing to send: that says nothing of polling.
            self.pace = Pace::default();
        }
    }

    /// How the loop goes on after a turn that found so many events. `crowded` counts the
    /// threads that run, and is called now and then.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        found: u32,
        crowded: impl FnOnce() -> bool,
    ) -> Turn {
        if found > 0 {
            self.pace.found(now);
            // The first after a wake-up is what woke the loop.
            if self.events > 0 {
                self.budget = self.most;
            }
            self.events = self.events.saturating_add(found);
            self.active = Some(now);
            let is_cold = self.budget.is_zero() || self.is_contended(now);
            // Of one event no other comes before its task has run.
            return match found {
                1 if is_cold => Turn::Parked,
                _ => Turn::Hot,
            };
        }
        let active = *self.active.get_or_insert(now);
        let idle = now.saturating_duration_since(active);
        let contended = self.is_contended(now);
        if std::mem::replace(&mut self.was_contended, contended) && !contended {
            self.tries(now);
        }
        self.pace.waits(now);
        if idle >= self.budget || contended || self.counts(now, crowded) {
            return Turn::Parked;
        }
        if idle < SOON {
            return Turn::Hot;
        }
        if idle < ALONE {
            return Turn::Pause;
        }
        Turn::Yield
    }

    /// Polling begins, at first or again.
    fn tries(&mut self, now: Instant) {
        self.pace = Pace::default();
        self.row = 0;
        self.count_at = Some(now + TRIAL);
    }

    /// Takes a count of the running threads if one is due; whether the CPUs are contended.
    fn counts(&mut self, now: Instant, crowded: impl FnOnce() -> bool) -> bool {
        if self.count_at.is_some_and(|at| now < at) {
            return false;
        }
        let is_crowded = !self.pace.is_quick(now) && crowded();
        self.row = if is_crowded { self.row + 1 } else { 0 };
        let pause = if is_crowded { CONFIRM } else { COUNT_EVERY };
        self.count_at = Some(now + pause);
        if self.row < ROW {
            return false;
        }
        self.crowds.begin(now);
        self.was_contended = true;
        true
    }

    /// The loop has yielded the CPU, or polled, and has the CPU after this time.
    pub(crate) fn took(&mut self, now: Instant, time: Duration) {
        if time > GAP {
            self.gaps.begin(now);
        }
    }

    /// Whether polling would take a CPU that others need.
    pub(crate) fn is_contended(&self, now: Instant) -> bool {
        self.gaps.lasts(now) || self.crowds.lasts(now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{BACKOFF, CONFIRM, COUNT_EVERY, CROWDED, HotPhase, MOST, ROW, TRIAL};
    use crate::shard::Turn;

    const US: Duration = Duration::from_micros(1);

    /// A loop that slept for so long, was woken by an event and polls: for how long.
    fn polls(hot: &mut HotPhase, now: &mut Instant, slept: Duration) -> Duration {
        hot.parks(*now);
        *now += slept;
        hot.wakes(*now);
        let woken = *now;
        let mut turn = hot.next(*now, 1, || false);
        while turn != Turn::Parked {
            *now += US;
            turn = hot.next(*now, 0, || false);
        }
        *now - woken
    }

    #[test]
    fn a_loop_whose_peer_answers_soon_polls_and_yields_the_cpu_before_it_sleeps() {
        let (mut hot, start) = (HotPhase::new(MOST), Instant::now());
        hot.wakes(start);
        assert_eq!(hot.next(start, 1, || false), Turn::Hot);
        assert_eq!(hot.next(start + 2 * US, 0, || false), Turn::Hot);
        assert_eq!(hot.next(start + 9 * US, 0, || false), Turn::Pause);
        assert_eq!(hot.next(start + 11 * US, 0, || false), Turn::Yield);
        assert_eq!(hot.next(start + 49 * US, 0, || false), Turn::Yield);
        assert_eq!(hot.next(start + 50 * US, 0, || false), Turn::Parked);
    }

    #[test]
    fn after_long_sleeps_a_loop_polls_less_and_then_not_at_all() {
        let (mut hot, mut now) = (HotPhase::new(MOST), Instant::now());
        let long = Duration::from_millis(1);
        assert_eq!(polls(&mut hot, &mut now, long), 25 * US);
        assert!(polls(&mut hot, &mut now, long) <= US);
        // A peer that answers soon is polled for again.
        assert_eq!(polls(&mut hot, &mut now, 100 * US), MOST);
    }

    #[test]
    fn while_another_thread_wants_the_cpu_a_loop_sleeps_at_once() {
        let (mut hot, mut now) = (HotPhase::new(MOST), Instant::now());
        let mut backoff = BACKOFF.0;
        for _ in 0..8 {
            hot.wakes(now);
            hot.next(now, 1, || false);
            now += 20 * US;
            assert_eq!(hot.next(now, 0, || false), Turn::Yield);
            // The other had the CPU for a slice.
            let slice = Duration::from_millis(3);
            now += slice;
            hot.took(now, slice);
            assert_eq!(hot.next(now, 0, || false), Turn::Parked);
            for _ in 0..2 {
                assert!(polls(&mut hot, &mut now, US) <= US, "{backoff:?}");
            }
            now += backoff;
            assert_eq!(polls(&mut hot, &mut now, US), MOST, "{backoff:?}");
            backoff = (2 * backoff).min(BACKOFF.1);
        }
        now += 10 * BACKOFF.1;
        hot.wakes(now);
        now += 20 * US;
        assert_eq!(hot.next(now, 0, || false), Turn::Yield);
        now += Duration::from_millis(3);
        hot.took(now, Duration::from_millis(3));
        hot.next(now, 0, || false);
        now += BACKOFF.0;
        assert_eq!(polls(&mut hot, &mut now, US), MOST, "it begins anew");
    }

    #[test]
    fn tasks_that_take_long_are_no_other_thread() {
        let (mut hot, mut now) = (HotPhase::new(MOST), Instant::now());
        hot.wakes(now);
        now += 20 * US;
        assert_eq!(hot.next(now, 0, || false), Turn::Yield);
        hot.took(now, US);
        now += Duration::from_millis(5);
        assert_eq!(hot.next(now, 1, || false), Turn::Hot);
        assert_eq!(polls(&mut hot, &mut now, US), MOST);
    }

    /// A loop that waits for an event, which takes so long to come: how often it counts.
    fn waits(hot: &mut HotPhase, now: &mut Instant, wait: Duration, crowded: bool) -> u32 {
        let mut counts = 0;
        hot.next(*now, 1, || unreachable!("there was an event"));
        for _ in 0..wait.as_micros() {
            *now += US;
            hot.next(*now, 0, || {
                counts += 1;
                crowded
            });
        }
        counts
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
        let (mut hot, mut now) = (HotPhase::new(MOST), Instant::now());
        let mut backoff = CROWDED.0;
        for _ in 0..8 {
            tried(&mut hot, &mut now);
            for _ in 1..ROW {
                hot.wakes(now);
                assert_eq!(hot.next(now, 0, || true), Turn::Hot, "for a moment");
                now += 5 * US;
                assert_eq!(hot.next(now, 0, || unreachable!("soon")), Turn::Pause);
                now += CONFIRM;
            }
            hot.wakes(now);
            assert_eq!(hot.next(now, 0, || true), Turn::Parked);
            now += backoff - US;
            hot.wakes(now);
            let uncounted = || unreachable!("it is known");
            assert_eq!(hot.next(now, 0, uncounted), Turn::Parked, "{backoff:?}");
            now += US;
            backoff = (2 * backoff).min(CROWDED.1);
        }
        tried(&mut hot, &mut now);
        assert_eq!(hot.next(now, 0, || false), Turn::Hot);
        assert_eq!(polls(&mut hot, &mut now, US), MOST);
    }

    #[test]
    fn threads_that_run_for_a_moment_are_no_crowd() {
        let (mut hot, mut now) = (HotPhase::new(MOST), Instant::now());
        tried(&mut hot, &mut now);
        for _ in 0..8 {
            for count in 0..ROW {
                hot.wakes(now);
                let crowded = count + 1 < ROW;
                assert_eq!(hot.next(now, 0, || crowded), Turn::Hot);
                now += if crowded { CONFIRM } else { COUNT_EVERY };
            }
        }
    }

    /// Sleeping would be slower, whatever else runs.
    #[test]
    fn nothing_is_counted_while_events_come_faster_than_threads_wake_up() {
        let (mut hot, mut now) = (HotPhase::new(MOST), Instant::now());
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
        let (mut hot, now) = (HotPhase::new(MOST), Instant::now());
        assert_eq!(hot.next(now, 1, || false), Turn::Hot);
        hot.took(now, 2 * super::GAP);
        assert_eq!(hot.next(now, 1, || false), Turn::Parked);
        assert_eq!(hot.next(now, 2, || false), Turn::Hot);
    }

    #[test]
    fn a_loop_without_a_budget_never_polls_twice() {
        let (mut hot, mut now) = (HotPhase::new(Duration::ZERO), Instant::now());
        assert!(polls(&mut hot, &mut now, US) <= US);
    }
}
