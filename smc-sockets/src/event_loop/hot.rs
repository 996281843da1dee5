//! How long an event loop polls before it sleeps.
//!
//! A wake-up takes tens of microseconds, so that a loop whose peer answers sooner does better
//! to poll on. Polling takes a CPU, so it must not go on when the peer, or another program,
//! waits for that CPU.
//!
//! ```text
//!   event ──► hot: polls ──► after 10 us without an event: polls and yields the CPU
//!               ▲                       │ after the budget
//!               │ event                 ▼
//!               └────────────────── sleeps
//!   slept for longer than three budgets: the next budget is half as long
//!   a yield that takes long: the CPU is contended, no budget for 10 ms (to 640 ms)
//! ```

use std::time::{Duration, Instant};

use crate::shard::Turn;

/// Longest time without an event before the loop sleeps. Shorter than a wake-up takes, it
/// costs the polling and the wake-up.
const MOST: Duration = Duration::from_micros(50);
/// Budgets shorter than this are none.
const LEAST: Duration = Duration::from_micros(20);
/// Time without an event after which the CPU is yielded to a peer that may wait for it.
const ALONE: Duration = Duration::from_micros(10);
/// A yield that takes longer gave the CPU to a thread that has no end of work.
const GAP: Duration = Duration::from_micros(300);
/// How long a contended CPU is not polled on: at first, and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(640));

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
    contended_until: Option<Instant>,
    backoff: Duration,
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
            contended_until: None,
            backoff: BACKOFF.0,
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
    }

    /// How the loop goes on after a turn, with or without an event.
    pub(crate) fn next(&mut self, now: Instant, progress: bool) -> Turn {
        if progress {
            // The first after a wake-up is what woke the loop.
            if self.events > 0 {
                self.budget = self.most;
            }
            self.events = self.events.saturating_add(1);
            self.active = Some(now);
            return Turn::Hot;
        }
        let active = *self.active.get_or_insert(now);
        let idle = now.saturating_duration_since(active);
        if idle >= self.budget || self.is_contended(now) {
            return Turn::Parked;
        }
        if idle < ALONE {
            return Turn::Hot;
        }
        Turn::Yield
    }

    /// The loop has yielded the CPU and has it again, after this time.
    pub(crate) fn yielded(&mut self, now: Instant, took: Duration) {
        if took > GAP {
            self.contended(now);
        }
    }

    fn contended(&mut self, now: Instant) {
        let recently = self
            .contended_until
            .is_some_and(|until| now < until + 2 * self.backoff);
        self.backoff = match recently {
            true => (2 * self.backoff).min(BACKOFF.1),
            false => BACKOFF.0,
        };
        self.contended_until = Some(now + self.backoff);
    }

    fn is_contended(&self, now: Instant) -> bool {
        self.contended_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{BACKOFF, HotPhase, MOST};
    use crate::shard::Turn;

    const US: Duration = Duration::from_micros(1);

    /// A loop that slept for so long, was woken by an event and polls: for how long.
    fn polls(hot: &mut HotPhase, now: &mut Instant, slept: Duration) -> Duration {
        hot.parks(*now);
        *now += slept;
        hot.wakes(*now);
        let woken = *now;
        let mut turn = hot.next(*now, true);
        while turn != Turn::Parked {
            *now += US;
            turn = hot.next(*now, false);
        }
        *now - woken
    }

    #[test]
    fn a_loop_whose_peer_answers_soon_polls_and_yields_the_cpu_before_it_sleeps() {
        let (mut hot, start) = (HotPhase::new(MOST), Instant::now());
        hot.wakes(start);
        assert_eq!(hot.next(start, true), Turn::Hot);
        assert_eq!(hot.next(start + 9 * US, false), Turn::Hot);
        assert_eq!(hot.next(start + 11 * US, false), Turn::Yield);
        assert_eq!(hot.next(start + 49 * US, false), Turn::Yield);
        assert_eq!(hot.next(start + 50 * US, false), Turn::Parked);
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
            hot.next(now, true);
            now += 20 * US;
            assert_eq!(hot.next(now, false), Turn::Yield);
            // The other had the CPU for a slice.
            let slice = Duration::from_millis(3);
            now += slice;
            hot.yielded(now, slice);
            assert_eq!(hot.next(now, false), Turn::Parked);
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
        assert_eq!(hot.next(now, false), Turn::Yield);
        now += Duration::from_millis(3);
        hot.yielded(now, Duration::from_millis(3));
        hot.next(now, false);
        now += BACKOFF.0;
        assert_eq!(polls(&mut hot, &mut now, US), MOST, "it begins anew");
    }

    #[test]
    fn tasks_that_take_long_are_no_other_thread() {
        let (mut hot, mut now) = (HotPhase::new(MOST), Instant::now());
        hot.wakes(now);
        now += 20 * US;
        assert_eq!(hot.next(now, false), Turn::Yield);
        hot.yielded(now, US);
        now += Duration::from_millis(5);
        assert_eq!(hot.next(now, true), Turn::Hot);
        assert_eq!(polls(&mut hot, &mut now, US), MOST);
    }

    #[test]
    fn a_loop_without_a_budget_never_polls_twice() {
        let (mut hot, mut now) = (HotPhase::new(Duration::ZERO), Instant::now());
        assert!(polls(&mut hot, &mut now, US) <= US);
    }
}
