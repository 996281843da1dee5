//! How long one wait polls before it sleeps, and when it yields the CPU meanwhile.
//!
//! ```text
//!   begin ──► polls ──► after 5 us, and every 5 us from then on: yields the CPU
//!               │ what it waits for: found       │ a hole of 300 us: contention
//!               ▼                                ▼
//!            goes on with it                  sleeps; so it does after its budget
//! ```
//!
//! The kernel wakes a thread on the CPU of the one that wakes it, more often than not where both
//! talk over TCP of this host. There a peer that has just been woken runs only when this thread
//! sleeps, or yields.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smc_proto::time::Instant;
use smc_transport_ism::shared::SpinBudget;

use crate::shard::{Contention, Shard};

/// Time without an event after which the CPU is yielded, and between two yields. Longer than
/// a peer on another CPU takes to answer, and no shorter than the shortest budget, so that
/// nothing is yielded to a program that has no end of work.
const ALONE: Duration = Duration::from_micros(5);

/// One wait that polls, by the clock of its endpoint.
pub(super) struct Polling<'a> {
    shard: &'a Shard,
    phase: Phase<'a>,
}

impl<'a> Polling<'a> {
    /// Begins to poll for as long as that has paid lately, and no longer than `most`.
    pub(super) fn begin(shard: &'a Shard, spin: &'a Mutex<SpinBudget>, most: Duration) -> Self {
        let contention = &shard.contention;
        let phase = Phase::begin(shard.now(), spin, contention, most);
        Self { shard, phase }
    }

    /// Does not yield the CPU: other threads of the process would run, each of which keeps the peer
    /// from this CPU, too.
    #[cfg(feature = "tokio")]
    pub(super) fn without_yields(mut self) -> Self {
        self.phase.yielded = None;
        self
    }

    /// When it began.
    pub(super) fn began(&self) -> Instant {
        self.phase.began
    }

    /// Whether there is time left.
    pub(super) fn goes_on(&self) -> bool {
        !self.phase.budget.is_zero()
    }

    /// What was waited for has come.
    pub(super) fn found(&self) {
        self.phase.found();
    }

    /// Reads the clock after a look that found nothing, yields the CPU if it is time to, and
    /// ends the polling if its time is over or the thread was without a CPU for long.
    pub(super) fn tick(&mut self) -> Instant {
        let now = self.shard.now();
        if self.phase.next(now) != Next::Yield {
            return now;
        }
        std::thread::yield_now();
        let now = self.shard.now();
        self.phase.has_yielded(now);
        now
    }
}

/// What comes after a look that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Look,
    Yield,
    Sleep,
}

/// The time of one wait.
struct Phase<'a> {
    /// What is learnt for later waits.
    spin: &'a Mutex<SpinBudget>,
    contention: &'a Contention,
    /// Zero once it is over.
    budget: Duration,
    /// Later waits have less than the whole budget, as one that is a try may find out: to find
    /// something brings the whole back.
    learns: bool,
    began: Instant,
    last: Instant,
    /// When the CPU was yielded last; `None` if it is not yielded.
    yielded: Option<Instant>,
}

impl<'a> Phase<'a> {
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
            true => learnt.min(ALONE),
            false => learnt,
        };
        Self {
            spin,
            contention,
            budget: budget.min(most),
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
        if self.is_hole(now) {
            return Next::Sleep;
        }
        if now.since(self.began) > self.budget {
            lock(self.spin).missed();
            self.budget = Duration::ZERO;
            return Next::Sleep;
        }
        match self.yielded {
            Some(at) if now.since(at) > ALONE => Next::Yield,
            _ => Next::Look,
        }
    }

    fn has_yielded(&mut self, now: Instant) {
        self.yielded = Some(now);
        self.is_hole(now);
    }

    /// Whether there was a hole in the thread's time since the clock was read last.
    fn is_hole(&mut self, now: Instant) -> bool {
        let between = now.since(std::mem::replace(&mut self.last, now));
        let is_hole = lock(self.spin).was_interrupted(between);
        if is_hole {
            self.contention.begin(now);
            self.budget = Duration::ZERO;
        }
        is_hole
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

    use super::{ALONE, Next, Phase};
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
        let mut phase = Phase::begin(*now, spin, contention, EVER);
        let mut all = Vec::new();
        while !phase.budget.is_zero() {
            *now = now.after(US);
            let next = phase.next(*now);
            all.push(next);
            if next == Next::Yield {
                *now = now.after(elsewhere);
                phase.has_yielded(*now);
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
        assert_eq!(first, Some(ALONE.as_micros() as usize));
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
        let mut phase = Phase::begin(now, &spin, &contention, EVER);
        assert_eq!(phase.next(now.after(US)), Next::Look);
        assert_eq!(phase.next(now.after(4 * US)), Next::Look);
        phase.found();
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
            let mut phase = Phase::begin(now, &spin, &contention, EVER);
            match phase.next(now.after(answers)) {
                Next::Sleep => {}
                _ => phase.found(),
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
        let none = Phase::begin(now, &spin, &contention, Duration::ZERO);
        assert!(none.budget.is_zero());
        let mut short = Phase::begin(now, &spin, &contention, 3 * US);
        assert_eq!(short.next(now.after(4 * US)), Next::Sleep);
    }
}
