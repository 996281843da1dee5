//! Whether the tasks of a runtime take long.
//!
//! A turn takes long if a task does, or if the thread lost its CPU meanwhile. The second ends by
//! itself, and another worker that is woken because of it only takes one more CPU: so the CPU
//! time of the thread decides.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A task that takes longer keeps others waiting.
const SLOW: Duration = Duration::from_micros(200);
/// How long tasks are expected to take long then.
const STAYS_SLOW: Duration = Duration::from_millis(100);
/// Time between two readings of the thread's CPU time, which are system calls.
const READ_EVERY: Duration = Duration::from_millis(1);

/// CPU time that a thread has used.
#[derive(Clone, Copy)]
pub(super) struct CpuTime {
    thread: ThreadId,
    used: Duration,
}

impl CpuTime {
    /// The calling thread's.
    pub(super) fn read() -> Self {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Self {
            thread: thread::current().id(),
            used: used.try_into().unwrap_or_default(),
        }
    }
}

/// The turns of a runtime.
#[derive(Default)]
pub(super) struct SlowTasks {
    until: Option<Instant>,
    last: Option<(Instant, CpuTime)>,
}

impl SlowTasks {
    /// The runtime sleeps from now on.
    pub(super) fn sleeps(&mut self) {
        self.last = None;
    }

    /// A turn of the runtime has ended.
    pub(super) fn turned(&mut self, begin: Instant, end: Instant, read: impl FnOnce() -> CpuTime) {
        let took = end.saturating_duration_since(begin);
        let is_due = self.last.is_none_or(|(at, _)| end >= at + READ_EVERY);
        if took <= SLOW && !is_due {
            return;
        }
        let now = read();
        if took > SLOW && self.lost(end, now).is_some_and(|lost| 2 * lost < took) {
            self.until = Some(end + STAYS_SLOW);
        }
        self.last = Some((end, now));
    }

    /// For how long the thread was not on a CPU since the last reading, if that was its own.
    fn lost(&self, end: Instant, now: CpuTime) -> Option<Duration> {
        let (at, last) = self.last.filter(|(_, last)| last.thread == now.thread)?;
        let used = now.used.saturating_sub(last.used);
        Some(end.saturating_duration_since(at).saturating_sub(used))
    }

    /// Whether tasks are expected to take long.
    pub(super) fn are_expected(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};
    use std::time::{Duration, Instant};

    use super::{CpuTime, READ_EVERY, SLOW, STAYS_SLOW, SlowTasks};

    const US: Duration = Duration::from_micros(1);

    /// A thread with turns that take so long, of which it is on a CPU for so long.
    struct Turns {
        tasks: SlowTasks,
        now: Instant,
        thread: ThreadId,
        used: Duration,
    }

    impl Turns {
        fn new() -> Self {
            let mut turns = Self {
                tasks: SlowTasks::default(),
                now: Instant::now(),
                thread: thread::current().id(),
                used: Duration::ZERO,
            };
            assert!(!turns.turn(US, US));
            turns
        }

        fn turn(&mut self, took: Duration, used: Duration) -> bool {
            let begin = self.now;
            (self.now, self.used) = (self.now + took, self.used + used);
            let (thread, used) = (self.thread, self.used);
            self.tasks
                .turned(begin, self.now, || CpuTime { thread, used });
            self.tasks.are_expected(self.now)
        }
    }

    #[test]
    fn a_task_that_uses_the_cpu_for_long_is_slow_for_a_while() {
        let mut turns = Turns::new();
        assert!(!turns.turn(SLOW, SLOW));
        assert!(turns.turn(2 * SLOW, 2 * SLOW));
        assert!(turns.turn(STAYS_SLOW - US, US));
        assert!(!turns.turn(US, US));
    }

    #[test]
    fn a_thread_that_lost_its_cpu_has_no_slow_task() {
        let mut turns = Turns::new();
        assert!(!turns.turn(20 * SLOW, 2 * US));
        // So it is however many turns of the same millisecond came before.
        for _ in 0..READ_EVERY.as_micros() {
            assert!(!turns.turn(2 * US, 2 * US));
        }
        assert!(!turns.turn(20 * SLOW, 2 * US));
        assert!(turns.turn(20 * SLOW, 20 * SLOW), "this one is");
    }

    #[test]
    fn what_another_thread_used_or_a_sleep_took_says_nothing() {
        let mut turns = Turns::new();
        turns.thread = thread::spawn(|| thread::current().id()).join().unwrap();
        assert!(!turns.turn(2 * SLOW, 2 * SLOW));
        turns.tasks.sleeps();
        turns.now += STAYS_SLOW;
        assert!(!turns.turn(US, US));
        assert!(turns.turn(2 * SLOW, 2 * SLOW));
    }

    #[test]
    fn the_cpu_time_of_a_thread_grows() {
        let (begin, limit) = (CpuTime::read(), Instant::now() + Duration::from_secs(60));
        while CpuTime::read().used <= begin.used {
            assert!(Instant::now() < limit);
        }
        assert!(CpuTime::read().thread == begin.thread);
    }
}
