//! Waiting at futex words, which takes one system call, and one to be woken: for a thread that
//! waits in a device's place while another thread polls its descriptor.
//!
//! Each peer counts the wakes of its doorbells in a word of its own page, which is mapped here
//! for reading only. A thread waits while these have the values that they had before the
//! device was parked; a [`WakeHandle`] of its own process wakes it, too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Wait, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::{ClockId, Timespec};

use super::device::Device;
use super::socket::timespec;
use crate::descriptors;
use crate::doorbell::Doorbells;
use crate::memory::DoorbellPage;

/// Most words at which one thread can wait, less one for the [`WakeHandle`].
const MOST: usize = 127;

/// Wakes threads of this process that wait at it, alone or beside [`FutexWords`].
#[derive(Debug, Default)]
pub struct WakeHandle(AtomicU32);

impl WakeHandle {
    /// A handle with a count of 0.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Number of calls of [`Self::wake`] so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Counts one more wake, and wakes all threads that wait.
    pub fn wake(&self) {
        self.0.fetch_add(1, Ordering::Release);
        // It fails only for what is no futex.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Waits until [`Self::count`] is no longer `seen`, or the time is over; sometimes for less.
    /// Returns whether a signal ended the wait.
    pub fn wait(&self, seen: u32, timeout: Option<Duration>) -> bool {
        let time = timeout.map(timespec);
        let flags = futex::Flags::PRIVATE;
        let slept = descriptors::sleep(|| futex::wait(&self.0, flags, seen, time.as_ref()));
        slept == Err(Errno::INTR)
    }
}

/// The futex words of all peers, with the values that they had when
/// [`Device::futex_words`] was called.
#[derive(Debug)]
pub struct FutexWords {
    peers: Vec<(Arc<DoorbellPage>, u32)>,
}

impl FutexWords {
    /// Waits until a peer has rung and counted a wake, or the count of `handle` is no longer
    /// `seen`, or the time is over; sometimes for less. Returns whether a signal ended the wait.
    ///
    /// # Errors
    /// The operating system's: Linux before 5.16 has no such wait.
    //= SHM-032
    pub fn wait(
        &self,
        handle: &WakeHandle,
        seen: u32,
        timeout: Option<Duration>,
    ) -> io::Result<bool> {
        let flags = WaitFlags::SIZE_U32;
        let mut waits = Vec::with_capacity(self.peers.len() + 1);
        waits.push(wait(seen, handle.0.as_ptr(), flags | WaitFlags::PRIVATE));
        for (peer, seen) in &self.peers {
            waits.push(wait(*seen, peer.bells().wakes().as_ptr(), flags));
        }
        let clock = ClockId::Monotonic;
        let end = timeout.map(|time| after(rustix::time::clock_gettime(clock), time));
        let flags = WaitvFlags::empty();
        match descriptors::sleep(|| futex::waitv(&waits, flags, end.as_ref(), clock)) {
            Ok(_) | Err(Errno::AGAIN | Errno::TIMEDOUT) => Ok(false),
            Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

fn wait(value: u32, word: *mut u32, flags: WaitFlags) -> Wait {
    let mut wait = Wait::new();
    wait.val = value.into();
    wait.uaddr = WaitPtr::new(word.cast());
    wait.flags = flags;
    wait
}

fn after(now: Timespec, time: Duration) -> Timespec {
    const SECOND: i64 = 1_000_000_000;
    let time = timespec(time);
    let nanoseconds = now.tv_nsec + time.tv_nsec;
    Timespec {
        tv_sec: now
            .tv_sec
            .saturating_add(time.tv_sec)
            .saturating_add(nanoseconds / SECOND),
        tv_nsec: nanoseconds % SECOND,
    }
}

/// Counts a wake in this side's own doorbells, and wakes the threads that wait at that word.
pub(super) fn wake(bells: &Doorbells) {
    bells.count_wake();
    // It fails only for what is no futex.
    let _ = futex::wake(bells.wakes(), futex::Flags::empty(), u32::MAX >> 1);
}

impl Device {
    /// Makes [`Device::park`] ask peers to wake threads at their futex words, which are
    /// returned, until [`Device::release_futex_words`]. `None` if there are more than 127 peers.
    ///
    /// Peers that come later, and everything that is not a ring, are reported by the descriptor
    /// only: a thread has to poll it, and call [`Device::note_readable`].
    pub fn futex_words(&mut self) -> Option<FutexWords> {
        if self.channels.iter().count() > MOST {
            return None;
        }
        self.unpark();
        let mut peers = Vec::new();
        self.channels.for_each(|channel| {
            channel.at_futex_word = true;
            let theirs = channel.theirs();
            // With the order of its ring before its wake, as in the model.
            let seen = theirs.bells().wakes().load(Ordering::Acquire);
            peers.push((theirs.clone(), seen));
        });
        Some(FutexWords { peers })
    }

    /// Makes peers wake the thread that polls the descriptor: none waits at futex words any more.
    pub fn release_futex_words(&mut self) {
        self.unpark();
        self.channels
            .for_each(|channel| channel.at_futex_word = false);
    }
}
