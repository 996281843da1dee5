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
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = descriptors::keep(|| timerfd_create(TimerfdClockId::Monotonic, flags))?;
        Ok(Self { fd, at: None })
    }

    /// Goes off at `at`, unless it does so earlier anyway.
    pub(super) fn set_by(&mut self, at: Instant) {
        if self.at.is_some_and(|earlier| earlier <= at) {
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

    /// Has gone off, and is to be set anew.
    pub(super) fn take(&mut self) {
        self.at = None;
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
