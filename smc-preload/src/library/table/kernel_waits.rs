//! Threads that wait at epoll sets in the kernel: the first connection over SMC in such a set has to
//! wake them.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{KIND, MOST, SET, byte};

/// Threads that wait at each descriptor in the kernel, if it is an epoll set without connections.
static WAITERS: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];

/// Counts a thread that is about to wait at this epoll set in the kernel. False, and not counted, if
/// the set has connections by now, for which the library has to wait.
#[inline]
pub(crate) fn begins_wait(set: &AtomicU32, fd: i32) -> bool {
    // A thread that gives this set connections sees the waiter, or this one sees that it has some.
    set.fetch_add(1, Ordering::SeqCst);
    if byte(fd).is_some_and(|byte| byte.load(Ordering::SeqCst) & KIND == SET) {
        ends_wait(set);
        return false;
    }
    true
}

/// Uncounts a thread that has waited.
#[inline]
pub(crate) fn ends_wait(set: &AtomicU32) {
    set.fetch_sub(1, Ordering::AcqRel);
}

/// The count of threads that wait at a descriptor in the kernel; `None` if the number is too large.
#[inline]
pub(crate) fn waiters_at(fd: i32) -> Option<&'static AtomicU32> {
    WAITERS.get(usize::try_from(fd).ok()?)
}

/// Number of threads that wait at an epoll set in the kernel, where the library cannot wake them.
pub(crate) fn waiters(set: i32) -> u32 {
    waiters_at(set).map_or(0, |waiters| waiters.load(Ordering::SeqCst))
}
