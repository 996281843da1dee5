//! Polling in place: a `poll` method that would return [`Poll::Pending`](std::task::Poll) first polls
//! the memory of its connection for some microseconds.
//!
//! Waking costs a multi-thread runtime more time than most replies take: another thread has to wake
//! the future of `block_on`, and a worker that runs out of tasks wakes a second one before it runs
//! the next.
//!
//! | caller | polls in place |
//! |---|---|
//! | future of `block_on` | whenever it would wait |
//! | task of a worker | if it expects a reply, as its last transfer was a write, and no task of another stream is ready |
//!
//! Other tasks of the worker wait meanwhile, also one that this task has woken. So each reply that
//! is found in place takes a share of the [budget](::tokio::task::coop) after which tokio lets other
//! tasks run.
//!
//! [`InPlace`] decides whether an attempt polls at all, by the outcomes of earlier ones.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ::tokio::runtime::{Handle, RuntimeFlavor};

/// What attempts to read in a multi-thread runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    /// The future of `block_on`, which has a thread of its own.
    Root,
    /// A task, whose worker may have others.
    Task,
}

impl Caller {
    /// The caller, if it may poll in place: a task only if it expects a reply. None does in a
    /// current-thread runtime, where the driver task takes turns with all others without a system
    /// call, and is faster.
    pub(super) fn current(expects_reply: bool) -> Option<Self> {
        let caller = match ::tokio::task::try_id() {
            None => Self::Root,
            Some(_) if expects_reply => Self::Task,
            Some(_) => return None,
        };
        let runtime = Handle::try_current().ok()?;
        (runtime.runtime_flavor() != RuntimeFlavor::CurrentThread).then_some(caller)
    }
}

/// How polling in place ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpinOutcome {
    /// The operation would not wait any more.
    Ready,
    /// Nothing arrived in time.
    TimedOut,
    /// Tasks of other streams became ready and are to be run.
    OthersReady,
}

/// Decides whether attempts poll in place, for all tasks of a stack. Its counters are hints: threads
/// that update them at one moment may lose an update.
#[derive(Default)]
pub(crate) struct InPlace {
    /// Whether polling would take a CPU that others need.
    contended: AtomicBool,
    root: Backoff,
    tasks: Backoff,
}

/// Attempts that do not poll, as polling has found nothing.
#[derive(Default)]
struct Backoff {
    /// Attempts left that do not poll.
    skips: AtomicU32,
    /// Failures in a row.
    failures: AtomicU32,
}

/// Attempts of a future of `block_on` that do not poll, after one found nothing on a contended CPU.
const ROOT_SKIPS: u32 = 4;
/// Attempts of tasks that do not poll: after several tasks became ready at once, and after one found
/// nothing on a contended CPU. On another CPU, the most after several failures in a row.
const TASK_SKIPS: u32 = 64;

impl InPlace {
    /// Sets whether the CPUs are contended, as an event loop has found.
    pub(crate) fn set_contended(&self, contended: bool) {
        // Only a change is stored: polling threads read the cache line.
        if self.contended.load(Ordering::Relaxed) != contended {
            self.contended.store(contended, Ordering::Relaxed);
        }
    }

    /// Notes that so many tasks became ready at once: while there are several, tasks do not poll.
    pub(crate) fn note_woken(&self, tasks: usize) {
        if tasks > 1 {
            self.tasks.skip(TASK_SKIPS);
        }
    }

    /// Whether an attempt of the caller polls before it waits. Some attempts do not, after one has
    /// found nothing; a future of `block_on` always polls while the CPUs are not contended.
    pub(super) fn should_poll(&self, caller: Caller) -> bool {
        let contended = self.contended.load(Ordering::Relaxed);
        match caller {
            Caller::Root => !contended || self.root.is_over(),
            Caller::Task => self.tasks.is_over(),
        }
    }

    /// Records the outcome of an attempt that has polled.
    pub(super) fn record(&self, caller: Caller, outcome: SpinOutcome) {
        match (caller, outcome) {
            (Caller::Root, SpinOutcome::Ready) => self.root.skip(0),
            (Caller::Root, _) => self.root.skip(ROOT_SKIPS),
            (Caller::Task, SpinOutcome::Ready) => self.tasks.reset(),
            (Caller::Task, SpinOutcome::TimedOut) if !self.contended.load(Ordering::Relaxed) => {
                self.tasks.double();
            }
            (Caller::Task, _) => self.tasks.skip(TASK_SKIPS),
        }
    }
}

impl Backoff {
    /// Whether no attempt is left to be skipped. Otherwise counts this one as skipped.
    fn is_over(&self) -> bool {
        let skips = self.skips.load(Ordering::Relaxed);
        if skips > 0 {
            self.skips.store(skips - 1, Ordering::Relaxed);
        }
        skips == 0
    }

    /// Skips so many attempts from now on.
    fn skip(&self, attempts: u32) {
        if self.skips.load(Ordering::Relaxed) != attempts {
            self.skips.store(attempts, Ordering::Relaxed);
        }
    }

    /// Begins the doubling anew, after a success.
    fn reset(&self) {
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Skips twice as many attempts as after the failure before, [`TASK_SKIPS`] at most.
    fn double(&self) {
        let failures = self.failures.load(Ordering::Relaxed);
        let skips = 1_u32
            .checked_shl(failures)
            .unwrap_or(TASK_SKIPS)
            .min(TASK_SKIPS);
        self.failures
            .store(failures.saturating_add(1), Ordering::Relaxed);
        self.skip(skips);
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, InPlace, ROOT_SKIPS, SpinOutcome, TASK_SKIPS};

    /// Makes an attempt that has this outcome if it polls; whether it did.
    fn attempt(in_place: &InPlace, caller: Caller, outcome: SpinOutcome) -> bool {
        let polls = in_place.should_poll(caller);
        if polls {
            in_place.record(caller, outcome);
        }
        polls
    }

    #[test]
    fn on_a_contended_cpu_the_future_of_block_on_polls_while_that_pays() {
        let in_place = InPlace::default();
        let polls = |found| {
            let outcome = if found {
                SpinOutcome::Ready
            } else {
                SpinOutcome::TimedOut
            };
            attempt(&in_place, Caller::Root, outcome)
        };
        assert!((0..9).all(|_| polls(false)), "no other needs the CPU");
        in_place.set_contended(true);
        for _ in 0..3 {
            assert!((0..ROOT_SKIPS).all(|_| !polls(false)));
            assert!(polls(false), "now and then");
        }
        assert!((0..ROOT_SKIPS).all(|_| !polls(false)));
        assert!((0..9).all(|_| polls(true)), "messages are found");
        assert!(polls(false));
        assert!(!polls(true));
        in_place.set_contended(false);
        assert!(polls(false));
    }

    #[test]
    fn tasks_poll_less_and_less_while_that_finds_nothing() {
        let in_place = InPlace::default();
        let polls = |outcome| attempt(&in_place, Caller::Task, outcome);
        assert!((0..9).all(|_| polls(SpinOutcome::Ready)));
        for skips in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert!(polls(SpinOutcome::TimedOut));
            assert!((0..skips).all(|_| !polls(SpinOutcome::Ready)), "{skips}");
        }
        assert!((0..9).all(|_| polls(SpinOutcome::Ready)));
        assert!(polls(SpinOutcome::TimedOut));
        assert!(!polls(SpinOutcome::Ready));
        assert!(polls(SpinOutcome::Ready), "it began anew");
    }

    #[test]
    fn tasks_seldom_poll_while_others_are_ready_or_need_the_cpu() {
        let in_place = InPlace::default();
        let polls = |outcome| attempt(&in_place, Caller::Task, outcome);
        assert!(polls(SpinOutcome::OthersReady));
        assert!((0..TASK_SKIPS).all(|_| !polls(SpinOutcome::Ready)));
        assert!(polls(SpinOutcome::Ready));
        in_place.note_woken(1);
        assert!(polls(SpinOutcome::Ready));
        in_place.note_woken(2);
        assert!((0..TASK_SKIPS).all(|_| !polls(SpinOutcome::Ready)));
        assert!(polls(SpinOutcome::Ready));
        in_place.set_contended(true);
        assert!((0..9).all(|_| polls(SpinOutcome::Ready)), "it pays");
        assert!(polls(SpinOutcome::TimedOut));
        assert!((0..TASK_SKIPS).all(|_| !polls(SpinOutcome::Ready)));
        assert!(polls(SpinOutcome::Ready));
    }
}
