//! Futex words at which a thread waits for rings of a device's peers.
//!
//! A thread of the application can wait for all peers at once in one system call
//! (`futex_waitv`), while another thread polls the device's descriptor for everything that is not
//! a ring. A peer wakes the thread with one system call, too.
//!
//! Each peer counts its wakes in a word of its own doorbell page, which this process maps
//! read-only. [`Device::futex_words`] notes the counts before the device is parked, and
//! [`FutexWords::wait`] waits while they are unchanged. A [`WakeHandle`] ends the wait from within
//! this process.

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

/// Most peers that one thread can wait for: `futex_waitv` takes 128 words, and one is the
/// [`WakeHandle`]'s.
const MAX_PEERS: usize = 127;

/// A counter that wakes threads of this process, which wait for it alone ([`Self::wait`]) or
/// together with peers ([`FutexWords::wait`]).
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

    /// Adds 1 to the count, and wakes all threads that wait.
    pub fn wake(&self) {
        self.0.fetch_add(1, Ordering::Release);
        // FUTEX_WAKE fails only for an address that is no futex.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Waits until [`Self::count`] differs from `seen`, or `timeout` has passed; `None` waits
    /// without a limit. May return early. Returns whether a signal ended the wait.
    pub fn wait(&self, seen: u32, timeout: Option<Duration>) -> bool {
        let time = timeout.map(timespec);
        let flags = futex::Flags::PRIVATE;
        let slept = descriptors::sleep(|| futex::wait(&self.0, flags, seen, time.as_ref()));
        slept == Err(Errno::INTR)
    }
}

/// The futex words of all peers of a device, each with the count that it had when
/// [`Device::futex_words`] was called.
#[derive(Debug)]
pub struct FutexWords {
    peers: Vec<(Arc<DoorbellPage>, u32)>,
}

impl FutexWords {
    /// Waits until a peer has rung and counted a wake, or the count of `handle` differs from
    /// `seen`, or `timeout` has passed; `None` waits without a limit. May return early. Returns
    /// whether a signal ended the wait.
    ///
    /// # Errors
    /// The error of `futex_waitv`, which Linux before 5.16 does not have.
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
            waits.push(wait(*seen, peer.doorbells().wakes().as_ptr(), flags));
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

/// One entry of a `futex_waitv` call: wait while `word` has this value.
fn wait(value: u32, word: *mut u32, flags: WaitFlags) -> Wait {
    let mut wait = Wait::new();
    wait.val = value.into();
    wait.uaddr = WaitPtr::new(word.cast());
    wait.flags = flags;
    wait
}

/// The point in time at which `time` has passed since `now`.
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

/// Adds 1 to the count of wakes in this side's own doorbells, and wakes the threads of the peer
/// that wait at that word.
pub(super) fn wake(doorbells: &Doorbells) {
    doorbells.count_wake();
    // FUTEX_WAKE fails only for an address that is no futex.
    let _ = futex::wake(doorbells.wakes(), futex::Flags::empty(), u32::MAX >> 1);
}

impl Device {
    /// The futex words of all present peers. From now on [`Device::park`] asks these peers to
    /// wake a thread at their words, until [`Device::release_futex_words`]. `None`, without any
    /// effect, if the device has more than 127 peers.
    ///
    /// Peers that join later, and everything that is not a ring, are reported by the device's
    /// descriptor only: a thread has to poll that, and call [`Device::note_readable`].
    pub fn futex_words(&mut self) -> Option<FutexWords> {
        if self.channels.iter().count() > MAX_PEERS {
            return None;
        }
        self.unpark();
        let mut peers = Vec::new();
        self.channels.for_each(|channel| {
            channel.at_futex_word = true;
            let theirs = channel.theirs();
            // Acquire: the peer writes the ring before it counts the wake.
            let seen = theirs.doorbells().wakes().load(Ordering::Acquire);
            peers.push((theirs.clone(), seen));
        });
        Some(FutexWords { peers })
    }

    /// Makes peers wake the thread that polls the descriptor again. No thread may wait at futex
    /// words any more.
    pub fn release_futex_words(&mut self) {
        self.unpark();
        self.channels
            .for_each(|channel| channel.at_futex_word = false);
    }
}
