//! Sleeping at words of memory, which takes one system call, and one to be woken: for a
//! thread that waits in a device's place while another thread polls its descriptor.
//!
//! Each peer counts the wakes of its bells in a word of its own page, which is mapped here
//! for reading only. A thread sleeps while these are what it saw before the device was
//! parked; a [`Call`] of its own process wakes it, too.

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
use crate::doorbell::Bells;
use crate::memory::BellsOf;

/// Most words one thread can sleep at, less one for the [`Call`].
const MOST: usize = 127;

/// Wakes a thread of this process that sleeps at [`Words`].
#[derive(Debug, Default)]
pub struct Call(AtomicU32);

impl Call {
    /// One that was never made.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// How often it was made.
    #[must_use]
    pub fn made(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Makes it.
    pub fn make(&self) {
        self.0.fetch_add(1, Ordering::Release);
        // It fails only for what is no futex.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, u32::MAX >> 1);
    }

    /// Sleeps until it was made more often than `made`, or the time is over; sometimes
    /// for less. Whether a signal ended the sleep.
    pub fn sleep(&self, made: u32, timeout: Option<Duration>) -> bool {
        let time = timeout.map(timespec);
        let flags = futex::Flags::PRIVATE;
        let slept = descriptors::sleep(|| futex::wait(&self.0, flags, made, time.as_ref()));
        slept == Err(Errno::INTR)
    }
}

/// The peers' words, as they were when [`Device::words`] gave them.
#[derive(Debug)]
pub struct Words {
    peers: Vec<(Arc<BellsOf>, u32)>,
}

impl Words {
    /// Sleeps until a peer has rung and wakes, or `call` was made more often than
    /// `made`, or the time is over; sometimes for less. Whether a signal ended the sleep.
    ///
    /// # Errors
    /// The operating system's: it knows nothing of this before Linux 5.16.
    //= SHM-032
    pub fn sleep(&self, call: &Call, made: u32, timeout: Option<Duration>) -> io::Result<bool> {
        let flags = WaitFlags::SIZE_U32;
        let mut waits = Vec::with_capacity(self.peers.len() + 1);
        waits.push(wait(made, call.0.as_ptr(), flags | WaitFlags::PRIVATE));
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

/// Wakes who sleeps at the word of these bells, which are this side's own.
pub(super) fn wake(bells: &Bells) {
    bells.count_wake();
    // It fails only for what is no futex.
    let _ = futex::wake(bells.wakes(), futex::Flags::empty(), u32::MAX >> 1);
}

impl Device {
    /// From now on [`Device::park`] has peers wake who sleeps at these words; until
    /// [`Device::forget_words`]. `None` if there are too many peers.
    ///
    /// Peers that come later, and whatever is not a ring, are reported by the descriptor
    /// only: a thread has to poll it, and call [`Device::heed`].
    pub fn words(&mut self) -> Option<Words> {
        if self.channels.iter().count() > MOST {
            return None;
        }
        self.awake();
        let mut peers = Vec::new();
        self.channels.for_each(|channel| {
            channel.at_word = true;
            let theirs = channel.theirs();
            // With the order of its ring before its wake, as in the model.
            let seen = theirs.bells().wakes().load(Ordering::Acquire);
            peers.push((theirs.clone(), seen));
        });
        Some(Words { peers })
    }

    /// No thread sleeps at futex words any more: peers wake the one that polls the descriptor.
    pub fn forget_words(&mut self) {
        self.awake();
        self.channels.for_each(|channel| channel.at_word = false);
    }
}
