//! The device's timer: for what ends after a while though no peer does anything.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::socket::timespec;
use crate::descriptors;

/// A timer that makes a descriptor readable.
#[derive(Debug)]
pub(super) struct Alarm {
    fd: OwnedFd,
    at: Option<Instant>,
    /// Earliest time that was asked for after the alarm was due and before [`Self::take`], which then
    /// sets it.
    next: Option<Instant>,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = descriptors::keep(|| timerfd_create(TimerfdClockId::Monotonic, flags))?;
        Ok(Self {
            fd,
            at: None,
            next: None,
        })
    }

    /// Goes off at `at`, unless it does so earlier anyway.
    pub(super) fn set_by(&mut self, at: Instant) {
        if let Some(earlier) = self.at.filter(|earlier| *earlier <= at) {
            if earlier <= Instant::now() {
                self.next = self.next.into_iter().chain([at]).min();
            }
            return;
        }
        self.at = Some(at);
        let mut it_value = timespec(at.saturating_duration_since(Instant::now()));
        // Zero would disarm it.
        if it_value.tv_sec == 0 {
            it_value.tv_nsec = it_value.tv_nsec.max(1);
        }
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value,
        };
        // It fails only for what is no timer or no time.
        let _ = timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &time);
    }

    /// When it goes off.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    /// Notes that it has gone off. It is set to what was asked for since.
    pub(super) fn take(&mut self) {
        self.at = None;
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        if let Some(next) = self.next.take() {
            self.set_by(next);
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Alarm;

    /// What is tried again when the alarm is due may ask for the next time before the alarm is taken.
    #[test]
    fn a_time_that_is_asked_for_while_the_alarm_is_due_is_kept() {
        let mut alarm = Alarm::new().unwrap();
        let begin = Instant::now();
        alarm.set_by(begin);
        let [first, second] = [5, 10].map(|millis| begin + Duration::from_millis(millis));
        alarm.set_by(second);
        alarm.set_by(first);
        assert_eq!(alarm.at(), Some(begin));
        alarm.take();
        assert_eq!(alarm.at(), Some(first));
        alarm.take();
        assert_eq!(alarm.at(), None);
    }
}
