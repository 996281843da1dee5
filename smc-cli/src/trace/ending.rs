//! Signals that end a command that has to write its end first.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// SIGINT and SIGTERM, which end no process for as long as this is there.
pub(super) struct Ending {
    signals: SignalFd,
    /// The signals that were blocked before.
    before: SigSet,
}

impl Ending {
    pub(super) fn new() -> io::Result<Self> {
        let mut ending = SigSet::empty();
        ending.add(Signal::SIGINT);
        ending.add(Signal::SIGTERM);
        let before = ending.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let signals = SignalFd::with_flags(&ending, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        match signals {
            Ok(signals) => Ok(Self { signals, before }),
            Err(error) => {
                let _ = before.thread_set_mask();
                Err(error.into())
            }
        }
    }

    /// Waits for a signal; whether one came within the time.
    pub(super) fn within(&self, time: Duration) -> io::Result<bool> {
        let mut waited = [PollFd::from_borrowed_fd(
            self.signals.as_fd(),
            PollFlags::IN,
        )];
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut waited, Some(&time)) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // What came meanwhile is taken: the command ends by itself.
        while let Ok(Some(_)) = self.signals.read_signal() {}
        let _ = self.before.thread_set_mask();
    }
}
