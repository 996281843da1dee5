//! State of a driver task that the other tasks of its runtime share with it, by which they wake it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use ::tokio::runtime::Id;

use crate::waiters::wake;

/// The driver task of one runtime.
pub(super) struct DriverTask {
    runtime: Id,
    /// Whether the task has not ended.
    alive: AtomicBool,
    /// Waker of the task.
    waker: Mutex<Option<Waker>>,
    /// Whether the task waits until the descriptor is readable.
    sleeps: AtomicBool,
    /// Whether [`Self::take_over`] has woken the task since its last turn.
    takes_over: AtomicBool,
    /// Whether [`Self::take_over`] was called after a write.
    has_written: AtomicBool,
    /// Whether the worker is to run out of tasks: the runtime has not polled its descriptors for
    /// long.
    yields: AtomicBool,
    /// Whether the future of `block_on` waits for a stream.
    has_root: AtomicBool,
}

/// What a task has done before the driver task is to poll for its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    /// Found several replies in place: other tasks are to run.
    Run,
    /// Polled in place, and found nothing.
    Attempt,
    /// Wrote.
    Write,
}

/// Calls of [`DriverTask::take_over`] before a turn of the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TakenOver {
    /// Whether one was made after a write.
    pub(super) has_written: bool,
}

impl DriverTask {
    pub(super) fn new(runtime: Id) -> Self {
        Self {
            runtime,
            alive: AtomicBool::new(true),
            waker: Mutex::default(),
            sleeps: AtomicBool::new(false),
            takes_over: AtomicBool::new(false),
            has_written: AtomicBool::new(false),
            yields: AtomicBool::new(false),
            has_root: AtomicBool::new(true),
        }
    }

    /// Whether the task polls in this runtime.
    pub(super) fn polls_in(&self, runtime: Id) -> bool {
        self.runtime == runtime && self.is_alive()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Notes that the task has ended.
    pub(super) fn end(&self) {
        self.alive.store(false, Ordering::Release);
    }

    /// Notes that the future of `block_on` waits for a stream.
    pub(super) fn note_root(&self) {
        self.has_root.store(true, Ordering::Relaxed);
    }

    /// Whether the future of `block_on` has waited for a stream since the last call.
    pub(super) fn take_root(&self) -> bool {
        self.has_root.swap(false, Ordering::Relaxed)
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the waker of the task, which calls this.
    pub(super) fn keep_waker(&self, context: &Context<'_>) {
        let mut kept = self.waker();
        if !kept
            .as_ref()
            .is_some_and(|of| of.will_wake(context.waker()))
        {
            *kept = Some(context.waker().clone());
        }
    }

    /// Wakes the task.
    pub(super) fn wake(&self) {
        let waker = self.waker().clone();
        waker.into_iter().for_each(wake);
    }

    /// Has the task poll in a turn that begins as soon as its runtime runs it. Only [`After::Run`]
    /// wakes a task that sleeps until the descriptor is readable.
    ///
    /// Nothing happens if the runtime is to poll its descriptors and timers first: the worker does
    /// so when it is out of tasks, and then goes on with the driver task.
    pub(super) fn take_over(&self, after: After) {
        if !self.may_take_over(after) {
            return;
        }
        if after == After::Write {
            self.has_written.store(true, Ordering::Relaxed);
        }
        if !self.takes_over.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Whether the task takes over. One that sleeps does so after a run of replies only: the device
    /// is awake since the first of them, and no peer rings for the next.
    fn may_take_over(&self, after: After) -> bool {
        match self.sleeps.load(Ordering::Relaxed) {
            true => after == After::Run,
            false => !self.yields.load(Ordering::Relaxed),
        }
    }

    /// Whether the task is to take over in its next turn.
    pub(super) fn takes_over(&self) -> bool {
        self.takes_over.load(Ordering::Acquire)
    }

    /// The calls of [`Self::take_over`] since the last turn, if there were any.
    pub(super) fn taken_over(&self) -> Option<TakenOver> {
        let takes_over = self.takes_over.swap(false, Ordering::AcqRel);
        takes_over.then(|| TakenOver {
            has_written: self.has_written.swap(false, Ordering::Relaxed),
        })
    }

    /// Sets whether the task waits until the descriptor is readable.
    pub(super) fn set_sleeps(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::Relaxed);
    }

    /// Sets whether the worker is to run out of tasks before the task takes over again.
    pub(super) fn set_yields(&self, yields: bool) {
        self.yields.store(yields, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{After, DriverTask};

    #[test]
    fn a_driver_task_that_sleeps_takes_over_after_a_run_of_replies() {
        let runtime = ::tokio::runtime::Builder::new_current_thread().build();
        let task = DriverTask::new(runtime.unwrap().handle().id());
        let after = || [After::Run, After::Attempt, After::Write].map(|of| task.may_take_over(of));
        assert_eq!(after(), [true; 3]);
        task.set_yields(true);
        assert_eq!(after(), [false; 3], "descriptors are polled first");
        task.set_sleeps(true);
        assert_eq!(after(), [true, false, false], "they are polled");
        task.set_yields(false);
        assert_eq!(after(), [true, false, false]);
    }
}
