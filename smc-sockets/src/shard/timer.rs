//! The driver's alarm clock: one timer for all deadlines.

use std::time::Duration;

use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec};
use smc_proto::time::Instant;

use super::{Shard, State};

impl Shard {
    /// Sees to it that the driver wakes at the next deadline.
    pub(crate) fn arm(&self, state: &mut State) {
        if let Some(next) = state.engine.poll_timeout() {
            self.wake_at(state, next);
        }
    }

    /// Sees to it that the driver wakes at this time; earlier does no harm.
    pub(crate) fn wake_at(&self, state: &mut State, time: Instant) {
        if state.armed.is_some_and(|armed| armed <= time) {
            return;
        }
        state.armed = Some(time);
        let left = time.since(self.now()).max(Duration::from_nanos(1));
        let new = Itimerspec {
            it_interval: Timespec::default(),
            it_value: timespec(left),
        };
        // It fails only for what is no timer.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &new);
    }

    /// The timer has gone off.
    pub(crate) fn timeout(&self, state: &mut State) {
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        state.armed = None;
    }
}

/// A span of time as the kernel takes it.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
