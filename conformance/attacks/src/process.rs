//! A process that takes part: commands go to its standard input, lines come from its
//! standard output.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::cgroup::Cgroup;
use crate::possessions::Possessions;

/// Longest wait for a line or for the end of a process that is to come by itself.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time until a process has given back what it had for others that are gone.
const RETURN: Duration = Duration::from_secs(20);

/// A running role; ended when dropped.
#[derive(Debug)]
pub struct Process {
    role: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    cgroup: Option<Cgroup>,
}

impl Process {
    pub(crate) fn new(role: &str, mut child: Child) -> Self {
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("standard output is piped");
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            role: role.to_owned(),
            child,
            stdin,
            lines,
            cgroup: None,
        }
    }

    pub(crate) fn set_cgroup(&mut self, cgroup: Cgroup) {
        self.cgroup = Some(cgroup);
    }

    /// ID of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command: a line.
    ///
    /// # Panics
    /// If it has ended.
    pub fn command(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        let sent = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        sent.unwrap_or_else(|error| panic!("{}: cannot be commanded: {error}", self.role));
    }

    /// The rest of the next line that begins with `key`; other lines are passed over.
    ///
    /// # Panics
    /// If none comes within a minute, or the process ends before.
    pub fn line(&mut self, key: &str) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(key) {
                        return rest.trim().to_owned();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{}: no line {key:?} within {TIMEOUT:?}", self.role)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait();
                    panic!("{}: ended without a line {key:?}: {status:?}", self.role)
                }
            }
        }
    }

    /// Sends a command, and returns the rest of the line it is answered by.
    pub fn ask(&mut self, command: &str, key: &str) -> String {
        self.command(command);
        self.line(key)
    }

    /// Closes its standard input, on which every role ends, and waits for its end.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if it goes on for more than a minute.
    pub fn close(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        self.wait(TIMEOUT)
    }

    /// Waits for its end, at most for `timeout`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], or the operating system's.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it by SIGKILL, and waits for that.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it has ended.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the process is there");
    }

    /// What it possesses now.
    ///
    /// # Panics
    /// If it has ended.
    #[must_use]
    pub fn possessions(&self) -> Possessions {
        let charged = self
            .cgroup
            .as_ref()
            .map_or(0, |cgroup| cgroup.shared_memory().expect("its cgroup"));
        Possessions::of(self.id(), charged).unwrap_or_else(|error| panic!("{}: {error}", self.role))
    }

    /// Waits until it possesses no more than `before`, memory up to `slack` bytes.
    ///
    /// # Panics
    /// If that is not so within 20 seconds, which a busy machine needs at times: with both.
    pub fn returns_to(&self, before: &Possessions, slack: u64) {
        let end = Instant::now() + RETURN;
        loop {
            let now = self.possessions();
            if now.is_within(before, slack) {
                return;
            }
            assert!(
                Instant::now() < end,
                "{}: {RETURN:?} later it possesses\n{now:?}, before it was\n{before:?}",
                self.role
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How often the kernel ended a process of its cgroup for want of memory.
    #[must_use]
    pub fn killed_for_memory(&self) -> u64 {
        self.cgroup
            .as_ref()
            .map_or(0, |cgroup| cgroup.kills().expect("its cgroup"))
    }

    /// Whether it runs.
    ///
    /// # Panics
    /// If the operating system cannot report the state.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
