//! The budget of one wait: how long it polls before it sleeps, and when it yields the CPU meanwhile.
//!
//! ```text
//!   begin ──► polls ──► after 5 us, and every 5 us from then on: yields the CPU
//!               │ event                          │ the thread was without a CPU for 300 us,
//!               ▼                                ▼ or the budget is used up
//!            handles it                       sleeps
//! ```
//!
//! The scheduler often puts two processes of one host that exchange TCP segments on one CPU. Then the
//! peer runs only when this thread yields or sleeps. A thread that was without a CPU for 300 us
//! competes with a program that has much to compute: polling stops, for all threads of the endpoint
//! ([`Contention`]).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smc_proto::time::Instant;
use smc_transport_ism::shared::SpinBudget;

use crate::shard::{Contention, Shard};

/// Time without an event after which the CPU is yielded, and between two yields. A peer that runs
/// on another CPU answers sooner. No shorter than the shortest budget, so that a wait during
/// contention ends before it yields.
const YIELD_INTERVAL: Duration = Duration::from_micros(5);

/// One wait that polls, by the clock of its endpoint.
pub(super) struct Polling<'a> {
    shard: &'a Shard,
    budget: WaitBudget<'a>,
}

impl<'a> Polling<'a> {
    /// Begins to poll for the learnt budget, and no longer than `most`.
    pub(super) fn begin(shard: &'a Shard, spin: &'a Mutex<SpinBudget>, most: Duration) -> Self {
        let contention = &shard.contention;
        let budget = WaitBudget::begin(shard.now(), spin, contention, most);
        Self { shard, budget }
    }

    /// Never yields. For a thread of a runtime: the runtime's other threads would run then, instead of
    /// the peer.
    #[cfg(feature = "tokio")]
    pub(super) fn without_yields(mut self) -> Self {
        self.budget.yielded = None;
        self
    }

    /// When it began.
    pub(super) fn began(&self) -> Instant {
        self.budget.began
    }

    /// Whether there is time left to poll.
    pub(super) fn has_budget(&self) -> bool {
        !self.budget.left.is_zero()
    }

    /// Records that polling has found what the thread waits for.
    pub(super) fn found(&self) {
        self.budget.found();
    }

    /// Reads the clock after a poll that found nothing. Yields the CPU if it is time to; ends the
    /// polling if the budget is used up or the thread was without a CPU for long.
    pub(super) fn tick(&mut self) -> Instant {
        let now = self.shard.now();
        if self.budget.next(now) != Next::Yield {
            return now;
        }
        std::thread::yield_now();
        let now = self.shard.now();
        self.budget.note_yield(now);
        now
    }
}

/// The step after a poll that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Poll,
    Yield,
    Sleep,
}

/// The time that one wait polls.
struct WaitBudget<'a> {
    /// Learnt from earlier waits, and for later ones.
    spin: &'a Mutex<SpinBudget>,
    contention: &'a Contention,
    /// Longest time since the begin; zero once polling is over.
    left: Duration,
    /// The learnt budget is reduced: to find something restores it.
    learns: bool,
    began: Instant,
    last: Instant,
    /// When the CPU was yielded last; `None` if it is not yielded.
    yielded: Option<Instant>,
}

impl<'a> WaitBudget<'a> {
    fn begin(
        now: Instant,
        spin: &'a Mutex<SpinBudget>,
        contention: &'a Contention,
        most: Duration,
    ) -> Self {
        let (learnt, is_whole) = {
            let mut spin = lock(spin);
            (spin.begin(), spin.is_whole())
        };
        let budget = match contention.lasts(now) {
            true => learnt.min(YIELD_INTERVAL),
            false => learnt,
        };
        Self {
            spin,
            contention,
            left: budget.min(most),
            learns: !is_whole,
            began: now,
            last: now,
            yielded: Some(now),
        }
    }

    fn found(&self) {
        if self.learns {
            lock(self.spin).found();
        }
    }

    fn next(&mut self, now: Instant) -> Next {
        if self.check_preempted(now) {
            return Next::Sleep;
        }
        if now.since(self.began) > self.left {
            lock(self.spin).missed();
            self.left = Duration::ZERO;
            return Next::Sleep;
        }
        match self.yielded {
            Some(at) if now.since(at) > YIELD_INTERVAL => Next::Yield,
            _ => Next::Poll,
        }
    }

    fn note_yield(&mut self, now: Instant) {
        self.yielded = Some(now);
        self.check_preempted(now);
    }

    /// Whether the thread was without a CPU for long since the clock was read last. Polling is over
    /// then, and contention begins.
    fn check_preempted(&mut self, now: Instant) -> bool {
        let between = now.since(std::mem::replace(&mut self.last, now));
        let is_preempted = lock(self.spin).was_interrupted(between);
        if is_preempted {
            self.contention.begin(now);
            self.left = Duration::ZERO;
        }
        is_preempted
    }
}

fn lock(spin: &Mutex<SpinBudget>) -> MutexGuard<'_, SpinBudget> {
    spin.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use smc_proto::time::Instant;
    use smc_transport_ism::shared::SpinBudget;

    use super::{Next, WaitBudget, YIELD_INTERVAL};
    use crate::shard::Contention;

    const US: Duration = Duration::from_micros(1);
    const WHOLE: Duration = Duration::from_micros(100);
    const EVER: Duration = Duration::MAX;

    /// A wait in which a yield takes so long: what came after each microsecond, until it sleeps.
    fn wait(
        now: &mut Instant,
        spin: &Mutex<SpinBudget>,
        contention: &Contention,
        elsewhere: Duration,
    ) -> Vec<Next> {
        let mut budget = WaitBudget::begin(*now, spin, contention, EVER);
        let mut all = Vec::new();
        while !budget.left.is_zero() {
            *now = now.after(US);
            let next = budget.next(*now);
            all.push(next);
            if next == Next::Yield {
                *now = now.after(elsewhere);
                budget.note_yield(*now);
            }
        }
        all
    }

    fn yields(all: &[Next]) -> usize {
        all.iter().filter(|next| **next == Next::Yield).count()
    }

    #[test]
    fn a_peer_on_the_same_cpu_runs_long_before_the_budget_is_over() {
        let spin = Mutex::new(SpinBudget::new(WHOLE));
        let mut now = Instant::from_nanos(1_000_000);
        let all = wait(&mut now, &spin, &Contention::default(), US);
        let first = all.iter().position(|next| *next == Next::Yield);
        assert_eq!(first, Some(YIELD_INTERVAL.as_micros() as usize));
        assert!(yields(&all) > 10, "{all:?}");
        assert_eq!(all.last(), Some(&Next::Sleep));
    }

    #[test]
    fn nothing_is_yielded_to_a_program_without_end_but_once() {
        let contention = Contention::default();
        let mut now = Instant::from_nanos(1_000_000);
        let slice = Duration::from_millis(3);
        let sockets: Vec<_> = (0..20)
            .map(|_| Mutex::new(SpinBudget::new(WHOLE)))
            .collect();
        let yields = sockets
            .iter()
            .map(|spin| yields(&wait(&mut now, spin, &contention, slice)));
        assert_eq!(yields.sum::<usize>(), 1, "of all connections together");
    }

    #[test]
    fn a_wait_whose_peer_answers_at_once_never_yields() {
        let spin = Mutex::new(SpinBudget::new(WHOLE));
        let contention = Contention::default();
        let now = Instant::from_nanos(1_000_000);
        let mut budget = WaitBudget::begin(now, &spin, &contention, EVER);
        assert_eq!(budget.next(now.after(US)), Next::Poll);
        assert_eq!(budget.next(now.after(4 * US)), Next::Poll);
        budget.found();
        assert_eq!(spin.lock().unwrap().begin(), WHOLE);
    }

    #[test]
    fn a_try_that_finds_something_brings_the_whole_budget_back() {
        let spin = Mutex::new(SpinBudget::new(WHOLE));
        let contention = Contention::default();
        let mut now = Instant::from_nanos(1_000_000);
        // The answer takes longer than the least budget, and less than the whole.
        let answers = 20 * US;
        let mut tries = 0;
        while spin.lock().unwrap().is_whole() {
            wait(&mut now, &spin, &contention, US);
        }
        (0..10).for_each(|_| spin.lock().unwrap().missed());
        while !spin.lock().unwrap().is_whole() {
            tries += 1;
            assert!(tries < 100, "it stays at the least");
            let mut budget = WaitBudget::begin(now, &spin, &contention, EVER);
            match budget.next(now.after(answers)) {
                Next::Sleep => {}
                _ => budget.found(),
            }
            now = now.after(2 * answers);
        }
        assert!(tries > 1, "{tries}");
    }

    #[test]
    fn no_wait_is_longer_than_its_caller_says() {
        let spin = Mutex::new(SpinBudget::new(WHOLE));
        let contention = Contention::default();
        let now = Instant::from_nanos(1_000_000);
        let none = WaitBudget::begin(now, &spin, &contention, Duration::ZERO);
        assert!(none.left.is_zero());
        let mut short = WaitBudget::begin(now, &spin, &contention, 3 * US);
        assert_eq!(short.next(now.after(4 * US)), Next::Sleep);
    }
}
