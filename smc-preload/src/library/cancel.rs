//! Threads that are cancelled (pthread_cancel(3)).
//!
//! The library is no place to end a thread: it may hold a lock, and has things to drop. Until the
//! first thread is to be cancelled, nothing is done for that but that calls within the library are
//! no cancellation points. From then on, cancelling is disabled within the library, and each call
//! that may wait is preceded by a cancellation point of its own, in a frame without anything to
//! drop. A call that waits is interrupted, and repeated if its thread was not the one.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use smc_sockets::interrupts;

use super::{config, real, table};

/// Any thread was to be cancelled.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Threads that sleep in the kernel for descriptors.
static SLEEPERS: AtomicU32 = AtomicU32::new(0);

/// glibc's signal for threads that are to be cancelled. Its handler does nothing to a thread that
/// has not allowed to be cancelled at any point.
const SIGCANCEL: c_int = 32;
const DISABLE: c_int = 1;
/// How often a thread that sleeps is interrupted: each pause is twice as long as the one before.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_micros(100);

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

/// Whether any thread may be to be cancelled.
#[inline]
pub(crate) fn is_possible() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Ends the calling thread if it is to be cancelled. Its caller has nothing to drop.
#[inline]
pub(crate) fn point() {
    if is_possible() && !config::is_inside() {
        answer();
    }
}

#[cold]
fn answer() {
    interrupts::answer();
    // SAFETY: no frame of the library up to that of the program has anything to drop.
    unsafe { pthread_testcancel() };
}

/// Whether a request to cancel a thread has interrupted a call of this one, which is to be
/// repeated then.
#[cold]
pub(crate) fn has_interrupted() -> bool {
    is_possible() && !config::is_inside() && interrupts::are_due()
}

/// Whether a call is to be repeated that such a request has interrupted although it is no
/// cancellation point: the next one answers it.
#[cold]
pub(crate) fn defers() -> bool {
    let was_due = has_interrupted();
    if was_due {
        interrupts::answer();
    }
    was_due
}

/// A child has the thread that made it, and no other.
pub(crate) fn forked() {
    SLEEPERS.store(0, Ordering::Relaxed);
}

/// Cancelling is disabled as long as it lives.
pub(crate) struct Disabled(c_int);

/// Disables cancelling, if it may be asked for.
#[inline]
pub(crate) fn disable() -> Option<Disabled> {
    is_possible().then(Disabled::new)
}

impl Disabled {
    #[cold]
    fn new() -> Self {
        let mut before = 0;
        // SAFETY: the state before is this function's.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Disabled {
    fn drop(&mut self) {
        // SAFETY: a null pointer is not written to.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

/// Sleeps in the kernel for descriptors, unless this thread has a request to answer; `None` if it
/// has. What a handler of a signal does meanwhile is not done in the midst of the library.
pub(crate) fn sleep<T>(sleep: impl FnOnce() -> T) -> Option<T> {
    SLEEPERS.fetch_add(1, Ordering::SeqCst);
    let slept = (!interrupts::are_due()).then(|| config::outside(sleep));
    SLEEPERS.fetch_sub(1, Ordering::Relaxed);
    slept
}

/// A thread is about to be cancelled.
pub(crate) fn begin() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Interrupts the calls in which a thread may wait that is to be cancelled.
pub(crate) fn interrupt(thread: libc::pthread_t) {
    interrupts::request();
    for (_, conn) in table::conns() {
        conn.wake_waits();
    }
    let mut pause = FIRST_PAUSE;
    for _ in 0..ATTEMPTS {
        if SLEEPERS.load(Ordering::SeqCst) == 0 || !signal(thread) {
            return;
        }
        std::thread::sleep(pause);
        pause *= 2;
    }
}

/// Sends a thread the signal; whether it lives.
fn signal(thread: libc::pthread_t) -> bool {
    let mut clock = 0;
    // SAFETY: the caller has cancelled the thread, so it may be named.
    if unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) } != 0 {
        return false;
    }
    // The kernel has the number of a thread in that of its clock.
    let (pid, tid) = (config::pid(), !(clock >> 3));
    // SAFETY: tgkill has no precondition.
    let sent = unsafe {
        real::syscall(
            libc::SYS_tgkill,
            pid.into(),
            tid.into(),
            SIGCANCEL.into(),
            0,
            0,
            0,
        )
    };
    sent == 0
}
