//! The driver's alarm clock: one timer for all deadlines.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec};
use smc_proto::time::Instant;

use super::{Shard, State};

/// How late a deadline may be that is only a time to check again: the timer is not set for each of
/// many connections.
const SLACK: Duration = Duration::from_millis(1);

impl State {
    /// Sees to it that the driver wakes at the next deadline.
    #[inline(always)]
    pub(crate) fn arm(&mut self, shard: &Shard, now: Instant) {
        if let Some(time) = self.engine.poll_timeout() {
            self.wake_at(shard, time, now);
        }
        if let Some(time) = self.idle_timer() {
            self.wake_at(shard, time, now);
        }
    }

    /// Sees to it that the driver wakes at this time; earlier does no harm.
    #[inline(always)]
    pub(crate) fn wake_at(&mut self, shard: &Shard, time: Instant, now: Instant) {
        if self.armed.is_none_or(|armed| time < armed) {
            self.wake_earlier_at(shard, time, now);
        }
    }

    /// Sees to it that the driver wakes at this time, or a little later.
    pub(super) fn wake_about(&mut self, shard: &Shard, time: Instant, now: Instant) {
        if self.armed.is_none_or(|armed| time.after(SLACK) < armed) {
            self.wake_earlier_at(shard, time, now);
        }
    }

    /// Sees to it that the driver, which has just checked, wakes for the next check: not
    /// before others are due as well, if that is soon.
    pub(super) fn schedule_next_check(&mut self, shard: &Shard, time: Instant, now: Instant) {
        self.wake_about(shard, time.max(now.after(SLACK)), now);
    }

    #[inline(never)]
    fn wake_earlier_at(&mut self, shard: &Shard, time: Instant, now: Instant) {
        self.armed = Some(time);
        match self.defers_timer {
            true => self.timer_is_due = true,
            false => shard.set_timer(time.since(now)),
        }
    }

    /// Sets the timer at the end of a turn of the driver, and not for each deadline that is earlier
    /// than the one before.
    pub(crate) fn defer_timer(&mut self) {
        self.defers_timer = true;
    }

    /// Ends what [`Self::defer_timer`] began.
    pub(crate) fn set_deferred_timer(&mut self, shard: &Shard, now: Instant) {
        self.defers_timer = false;
        let is_due = std::mem::take(&mut self.timer_is_due);
        if let Some(time) = self.armed.filter(|_| is_due) {
            shard.set_timer(time.since(now));
        }
    }

    /// The timer has gone off.
    pub(crate) fn timeout(&mut self, shard: &Shard) {
        let _ = rustix::io::read(&shard.timer, &mut [0; 8]);
        self.armed = None;
    }
}

impl Shard {
    #[cold]
    fn set_timer(&self, left: Duration) {
        let new = Itimerspec {
            it_interval: Timespec::default(),
            it_value: timespec(left.max(Duration::from_nanos(1))),
        };
        // It fails only for what is no timer.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &new);
    }
}

/// A span of time as the kernel takes it.
/// Events that a descriptor has now.
pub(crate) fn polled_now(fd: impl AsFd, events: PollFlags) -> Result<PollFlags, Errno> {
    let mut polled = [PollFd::new(&fd, events)];
    rustix::event::poll(&mut polled, Some(&Timespec::default()))?;
    let [polled] = polled;
    Ok(polled.revents())
}

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
