//! A program as a child that behaves as if it had replaced this process.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use nix::sys::signal::{self, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Signals that are meant for the program.
const FORWARDED: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// How the program ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended(ExitStatus);

/// Runs a program, forwards signals to it and waits for its end. Meanwhile, `beside` is called
/// whenever the time is over that it returned last.
///
/// # Errors
/// The program cannot be executed.
pub(crate) fn run(
    command: &mut Command,
    beside: &mut dyn FnMut() -> Option<Duration>,
) -> io::Result<Ended> {
    let mut awaited = SigSet::empty();
    awaited.add(Signal::SIGCHLD);
    FORWARDED.iter().for_each(|signal| awaited.add(*signal));
    // SAFETY: no handler is installed. Ignored, as some programs start others, the signal
    // would not come, and the kernel would keep no status.
    unsafe { signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    // Before the child is there, so that none is lost.
    let before = awaited.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: setting the mask is safe between fork and exec.
    unsafe { command.pre_exec(move || Ok(before.thread_set_mask()?)) };
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&awaited, flags)?;
    let child = command.spawn()?;
    wait(child, &signals, beside)
}

fn wait(
    mut child: Child,
    signals: &SignalFd,
    beside: &mut dyn FnMut() -> Option<Duration>,
) -> io::Result<Ended> {
    let process = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended(status));
        }
        let time = beside().map(Timespec::try_from);
        let time = time.transpose().map_err(io::Error::other)?;
        let mut waited = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        match poll(&mut waited, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(received) = signals.read_signal()? {
            if let Some(signal) = forwarded(&received) {
                // The program may have ended meanwhile, but stays a process until it is waited
                // for.
                let _ = signal::kill(process, signal);
            }
        }
    }
}

/// The signal to forward. A terminal sends its signals to the program as well, as one of
/// the same process group.
fn forwarded(received: &siginfo) -> Option<Signal> {
    let number = i32::try_from(received.ssi_signo).ok()?;
    let signal = Signal::try_from(number).ok()?;
    let is_from_process = received.ssi_code <= 0;
    (is_from_process && FORWARDED.contains(&signal)).then_some(signal)
}

impl Ended {
    /// The status as a shell has it.
    pub(super) fn status(self) -> u8 {
        let signalled = self.0.signal().map(|signal| signal.saturating_add(128));
        let status = self.0.code().or(signalled).unwrap_or(1);
        u8::try_from(status).unwrap_or(1)
    }

    /// Ends this process by the signal that ended the program, if one did; returns the
    /// status otherwise.
    pub(crate) fn repeat(self) -> u8 {
        let signal = self
            .0
            .signal()
            .and_then(|signal| Signal::try_from(signal).ok());
        if let Some(signal) = signal {
            die_by(signal);
        }
        self.status()
    }
}

fn die_by(signal: Signal) {
    // The program wrote its core, if any.
    let none = rustix::process::Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    // SAFETY: no handler is installed.
    let _ = unsafe { signal::signal(signal, SigHandler::SigDfl) };
    let mut set = SigSet::empty();
    set.add(signal);
    let _ = signal::raise(signal);
    let _ = set.thread_unblock();
}
