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
//! Other tasks of the worker wait meanwhile, also one that this task has woken. So after a [`Run`]
//! of replies that were found in place the task returns `Pending`, and wakes the driver task, which
//! polls and lets others run.
//!
//! [`InPlace`] decides whether an attempt polls at all, by the outcomes of earlier ones.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use smc_proto::time::Instant;

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
    /// The operation would not wait any more, after so much time.
    Ready { after: Duration },
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
    /// Attempts that have ended; wraps.
    attempts: AtomicU32,
    root: Backoff,
    tasks: Backoff,
    /// Writes after which the driver task does not poll.
    writes: Backoff,
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
            self.writes.skip(TASK_SKIPS);
        }
    }

    /// Whether the driver task polls after a task has written whose stream another read waits for.
    /// It does not after some of the writes, if it has found nothing.
    pub(super) fn should_poll_after_write(&self) -> bool {
        self.writes.is_over()
    }

    /// Records whether the driver task has found something after a write.
    pub(crate) fn record_after_write(&self, found: bool) {
        match found {
            true => self.writes.reset(),
            false => self.writes.double(),
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

    /// Attempts that have polled and ended; wraps.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Records the outcome of an attempt that has polled.
    pub(super) fn record(&self, caller: Caller, outcome: SpinOutcome) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        match (caller, outcome) {
            (Caller::Root, SpinOutcome::Ready { .. }) => self.root.skip(0),
            (Caller::Root, _) => self.root.skip(ROOT_SKIPS),
            (Caller::Task, SpinOutcome::Ready { .. }) => self.tasks.reset(),
            (Caller::Task, SpinOutcome::TimedOut) if !self.contended.load(Ordering::Relaxed) => {
                self.tasks.double();
            }
            (Caller::Task, _) => self.tasks.skip(TASK_SKIPS),
        }
    }
}

/// Replies that a task has found in place at a stream, one soon after another.
#[derive(Default)]
pub(super) struct Run {
    /// Cost of the replies: 1 for each microsecond of waiting, and [`REPLY`] for each reply.
    cost: AtomicU32,
    /// Time of the last reply, in microseconds of the endpoint's clock; wraps.
    last: AtomicU32,
}

/// Cost after which a [`Run`] is over. The reads and writes of so many replies are fewer than 128,
/// tokio's [budget](::tokio::task::coop), at whose end a task yields and wakes nothing.
const RUN: u32 = 96;
/// Cost of a reply beside the time that it took: a read, a write and their processing.
const REPLY: u32 = 3;
/// Microseconds between two replies after which a new run begins: the task has waited meanwhile.
const APART: u32 = 50;

impl Run {
    /// Adds a reply that was found at this time, after a wait of `after`.
    pub(super) fn add(&self, now: Instant, after: Duration) {
        #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
        let now = (now.as_nanos() / 1_000) as u32;
        let time = u32::try_from(after.as_micros()).unwrap_or(RUN);
        let last = self.last.swap(now, Ordering::Relaxed);
        let cost = match now.wrapping_sub(last).saturating_sub(time) {
            0..APART => self.cost.load(Ordering::Relaxed),
            _ => 0,
        };
        let cost = cost.saturating_add(REPLY).saturating_add(time);
        self.cost.store(cost, Ordering::Relaxed);
    }

    /// Whether other tasks are to run before the next attempt polls.
    pub(super) fn is_over(&self) -> bool {
        self.cost.load(Ordering::Relaxed) >= RUN
    }

    /// The task waits.
    pub(super) fn end(&self) {
        if self.cost.load(Ordering::Relaxed) != 0 {
            self.cost.store(0, Ordering::Relaxed);
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
    use std::time::Duration;

    use smc_proto::time::Instant;

    use super::{Caller, InPlace, ROOT_SKIPS, Run, SpinOutcome, TASK_SKIPS};

    const READY: SpinOutcome = SpinOutcome::Ready {
        after: Duration::ZERO,
    };

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
            let outcome = if found { READY } else { SpinOutcome::TimedOut };
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
        assert!((0..9).all(|_| polls(READY)));
        for skips in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert!(polls(SpinOutcome::TimedOut));
            assert!((0..skips).all(|_| !polls(READY)), "{skips}");
        }
        assert!((0..9).all(|_| polls(READY)));
        assert!(polls(SpinOutcome::TimedOut));
        assert!(!polls(READY));
        assert!(polls(READY), "it began anew");
    }

    #[test]
    fn tasks_seldom_poll_while_others_are_ready_or_need_the_cpu() {
        let in_place = InPlace::default();
        let polls = |outcome| attempt(&in_place, Caller::Task, outcome);
        assert!(polls(SpinOutcome::OthersReady));
        assert!((0..TASK_SKIPS).all(|_| !polls(READY)));
        assert!(polls(READY));
        in_place.note_woken(1);
        assert!(polls(READY));
        in_place.note_woken(2);
        assert!((0..TASK_SKIPS).all(|_| !polls(READY)));
        assert!(polls(READY));
        in_place.set_contended(true);
        assert!((0..9).all(|_| polls(READY)), "it pays");
        assert!(polls(SpinOutcome::TimedOut));
        assert!((0..TASK_SKIPS).all(|_| !polls(READY)));
        assert!(polls(READY));
    }

    #[test]
    fn the_driver_task_polls_after_writes_as_long_as_that_finds_replies() {
        let in_place = InPlace::default();
        let polls = |found| {
            let polls = in_place.should_poll_after_write();
            if polls {
                in_place.record_after_write(found);
            }
            polls
        };
        assert!((0..9).all(|_| polls(true)));
        for skips in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert!(polls(false));
            assert!((0..skips).all(|_| !polls(true)), "{skips}");
        }
        assert!((0..9).all(|_| polls(true)));
        in_place.note_woken(2);
        assert!((0..TASK_SKIPS).all(|_| !polls(true)), "others are ready");
        assert!(polls(true));
        assert!(in_place.should_poll(Caller::Root));
    }

    #[test]
    fn a_run_of_replies_ends_by_their_number_or_their_time() {
        let run = Run::default();
        let mut now = Instant::from_nanos(1_000_000);
        let mut replies = |after: Duration, apart: Duration| {
            let mut replies = 0;
            while !run.is_over() && replies < 1_000 {
                now = now.after(apart).after(after);
                run.add(now, after);
                replies += 1;
            }
            run.end();
            replies
        };
        let us = Duration::from_micros;
        assert_eq!(replies(us(0), us(1)), 32);
        assert_eq!(replies(us(13), us(1)), 6);
        assert_eq!(replies(us(200), us(1)), 1);
        assert_eq!(replies(us(13), us(100)), 1_000, "others have run meanwhile");
        assert!(!run.is_over());
    }
}
