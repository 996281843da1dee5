//! The host between threads: those of conversations, and one that sleeps in `poll`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::host::Host;

pub(crate) struct Shared {
    host: Mutex<Host>,
    /// Something happened.
    changed: Condvar,
    /// Ends the driver's sleep.
    alarm: OwnedFd,
    devices: OwnedFd,
    over: AtomicBool,
}

impl Shared {
    pub(crate) fn new(host: Host) -> io::Result<Self> {
        let devices = host.binding.as_fd().try_clone_to_owned()?;
        Ok(Self {
            host: Mutex::new(host),
            changed: Condvar::new(),
            alarm: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            devices,
            over: AtomicBool::new(false),
        })
    }

    /// Works on the host; then lets it do what that led to.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Host) -> T) -> io::Result<T> {
        let mut host = self.lock();
        host.turn()?;
        let result = work(&mut host);
        host.turn()?;
        drop(host);
        self.changed.notify_all();
        self.wake()?;
        Ok(result)
    }

    /// Works on the host until that gives something, or the time is over.
    pub(crate) fn until<T>(
        &self,
        patience: Duration,
        mut work: impl FnMut(&mut Host) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let end = Instant::now() + patience;
        let mut host = self.lock();
        loop {
            host.turn()?;
            if let Some(result) = work(&mut host)? {
                host.turn()?;
                drop(host);
                self.changed.notify_all();
                self.wake()?;
                return Ok(result);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let waited = self.changed.wait_timeout(host, left);
            host = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The driver: sleeps until a device, a TCP connection, a timer or another thread
    /// has something.
    pub(crate) fn drive(&self) -> io::Result<()> {
        while !self.over.load(Ordering::Acquire) {
            let mut host = self.lock();
            let any = host.turn()?;
            let until = host.engine.poll_timeout();
            let left = until
                .map_or(LONGEST, |at| at.since(host.now()))
                .min(LONGEST);
            let listening = host.entries.values().filter(|entry| !entry.silent);
            let tcp: Vec<_> = listening.map(|entry| entry.tcp.clone()).collect();
            drop(host);
            if any {
                self.changed.notify_all();
            }
            let mut sources = vec![
                PollFd::new(&self.devices, PollFlags::IN),
                PollFd::new(&self.alarm, PollFlags::IN),
            ];
            sources.extend(tcp.iter().map(|tcp| PollFd::new(tcp, PollFlags::IN)));
            let left = left.try_into().map_err(io::Error::other)?;
            match poll(&mut sources, Some(&left)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut count = [0; 8];
            // Nothing to read is as good.
            let _ = rustix::io::read(&self.alarm, &mut count);
        }
        Ok(())
    }

    /// Ends the driver.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.over.store(true, Ordering::Release);
        self.wake()
    }

    fn wake(&self) -> io::Result<()> {
        rustix::io::write(&self.alarm, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Host> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver looks around at least this often.
const LONGEST: Duration = Duration::from_secs(1);
