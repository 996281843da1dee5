//! Polling inside of an attempt to read: the caller waits for a moment where it is.
//!
//! Being woken costs a multi-thread runtime more than most answers take: the future of
//! `block_on` is woken by another thread, and a worker that runs out of tasks wakes a second
//! one before it runs the next. So a `poll` method that finds nothing polls the memory of the
//! connection for some microseconds before it returns [`Poll::Pending`](std::task::Poll).
//!
//! ```text
//!   future of block_on    polls whenever it would wait
//!   task of a worker      polls if the last transfer of its stream was a write, so that an
//!                         answer is due, and if no task of another stream is ready
//! ```
//!
//! Other tasks of the worker wait meanwhile, among them one that the task itself has woken. So
//! each answer that is found in place takes a share of the [budget](::tokio::task::coop) after
//! which tokio lets other tasks run.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ::tokio::runtime::{Handle, RuntimeFlavor};

/// Who attempts to read in a multi-thread runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    /// The future of `block_on`, which has a thread of its own.
    Root,
    /// A task, whose worker has other tasks.
    Task,
}

impl Caller {
    /// The caller, if it is one that polls in place: a task only for an answer. In a
    /// current-thread runtime the driver task takes turns with all other tasks without a system
    /// call, and does better.
    pub(super) fn current(waits_for_answer: bool) -> Option<Self> {
        let caller = match ::tokio::task::try_id() {
            None => Self::Root,
            Some(_) if waits_for_answer => Self::Task,
            Some(_) => return None,
        };
        let runtime = Handle::try_current().ok()?;
        (runtime.runtime_flavor() != RuntimeFlavor::CurrentThread).then_some(caller)
    }
}

/// How polling in place ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spun {
    /// An attempt would not wait any more.
    Ready,
    /// Nothing happened for as long as polling lasts.
    Nothing,
    /// Tasks of other streams became ready and are to be run.
    Others,
}

/// Whether attempts poll in place, by what that brought lately.
#[derive(Default)]
pub(crate) struct InPlace {
    /// Polling would take a CPU that others need.
    contended: AtomicBool,
    root: Skips,
    tasks: Skips,
}

/// Attempts that do not poll because polling was in vain.
#[derive(Default)]
struct Skips {
    left: AtomicU32,
    /// Times in a row that polling was in vain.
    vain: AtomicU32,
}

/// Attempts of a future of `block_on` without polling after it polled in vain on a contended CPU.
const ROOT_SKIPS: u32 = 4;
/// Attempts of tasks without polling after several tasks became ready at once, after polling was
/// in vain on a contended CPU, and at most after it was several times in a row on another.
const TASK_SKIPS: u32 = 64;

impl InPlace {
    /// An event loop has found that the CPUs are contended, or not.
    pub(crate) fn set_contended(&self, contended: bool) {
        // Polling threads read it.
        if self.contended.load(Ordering::Relaxed) != contended {
            self.contended.store(contended, Ordering::Relaxed);
        }
    }

    /// So many tasks became ready at once.
    pub(crate) fn woke(&self, tasks: usize) {
        if tasks > 1 {
            self.tasks.skip(TASK_SKIPS);
        }
    }

    /// Whether an attempt of the caller polls before it waits: always in a future of `block_on`
    /// while the CPUs are not contended, else now and then, and again after that found something.
    pub(super) fn begins(&self, caller: Caller) -> bool {
        let contended = self.contended.load(Ordering::Relaxed);
        match caller {
            Caller::Root => !contended || self.root.take(),
            Caller::Task => self.tasks.take(),
        }
    }

    /// An attempt of the caller has polled.
    pub(super) fn ended(&self, caller: Caller, spun: Spun) {
        match (caller, spun) {
            (Caller::Root, Spun::Ready) => self.root.skip(0),
            (Caller::Root, _) => self.root.skip(ROOT_SKIPS),
            (Caller::Task, Spun::Ready) => self.tasks.paid(),
            (Caller::Task, Spun::Nothing) if !self.contended.load(Ordering::Relaxed) => {
                self.tasks.was_in_vain();
            }
            (Caller::Task, _) => self.tasks.skip(TASK_SKIPS),
        }
    }
}

impl Skips {
    /// Whether no attempt is left to be skipped; takes one if there is.
    fn take(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    fn skip(&self, attempts: u32) {
        if self.left.load(Ordering::Relaxed) != attempts {
            self.left.store(attempts, Ordering::Relaxed);
        }
    }

    fn paid(&self) {
        if self.vain.load(Ordering::Relaxed) != 0 {
            self.vain.store(0, Ordering::Relaxed);
        }
    }

    /// Skips twice as many attempts as the last time.
    fn was_in_vain(&self) {
        let vain = self.vain.load(Ordering::Relaxed);
        let skips = 1_u32
            .checked_shl(vain)
            .unwrap_or(TASK_SKIPS)
            .min(TASK_SKIPS);
        self.vain.store(vain.saturating_add(1), Ordering::Relaxed);
        self.skip(skips);
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, InPlace, ROOT_SKIPS, Spun, TASK_SKIPS};

    fn polls(in_place: &InPlace, caller: Caller, spun: Spun) -> bool {
        let polls = in_place.begins(caller);
        if polls {
            in_place.ended(caller, spun);
        }
        polls
    }

    #[test]
    fn on_a_contended_cpu_the_future_of_block_on_polls_while_that_pays() {
        let in_place = InPlace::default();
        let polls = |found| {
            let spun = if found { Spun::Ready } else { Spun::Nothing };
            polls(&in_place, Caller::Root, spun)
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
    fn tasks_poll_less_and_less_while_that_is_in_vain() {
        let in_place = InPlace::default();
        let polls = |spun| polls(&in_place, Caller::Task, spun);
        assert!((0..9).all(|_| polls(Spun::Ready)));
        for skips in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert!(polls(Spun::Nothing));
            assert!((0..skips).all(|_| !polls(Spun::Ready)), "{skips}");
        }
        assert!((0..9).all(|_| polls(Spun::Ready)));
        assert!(polls(Spun::Nothing));
        assert!(!polls(Spun::Ready));
        assert!(polls(Spun::Ready), "it began anew");
    }

    #[test]
    fn tasks_seldom_poll_while_others_are_ready_or_need_the_cpu() {
        let in_place = InPlace::default();
        let polls = |spun| polls(&in_place, Caller::Task, spun);
        assert!(polls(Spun::Others));
        assert!((0..TASK_SKIPS).all(|_| !polls(Spun::Ready)));
        assert!(polls(Spun::Ready));
        in_place.woke(1);
        assert!(polls(Spun::Ready));
        in_place.woke(2);
        assert!((0..TASK_SKIPS).all(|_| !polls(Spun::Ready)));
        assert!(polls(Spun::Ready));
        in_place.set_contended(true);
        assert!((0..9).all(|_| polls(Spun::Ready)), "it pays");
        assert!(polls(Spun::Nothing));
        assert!((0..TASK_SKIPS).all(|_| !polls(Spun::Ready)));
        assert!(polls(Spun::Ready));
    }
}
