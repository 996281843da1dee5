//! Waits that end because a thread of the process is to be cancelled.
//!
//! Each thread counts the requests that it has answered: one that comes between its last check and
//! its sleep ends that sleep at once.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

static REQUESTS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static ANSWERED: Cell<u32> = const { Cell::new(0) };
}

/// Has every thread end its wait for an interruptible stream, once. Threads that sleep are woken
/// by [`SmcStream::wake_waits`](crate::SmcStream::wake_waits).
pub fn request() {
    REQUESTS.fetch_add(1, Ordering::SeqCst);
}

/// Whether this thread has a request to answer.
#[must_use]
pub fn are_due() -> bool {
    REQUESTS.load(Ordering::SeqCst) != ANSWERED.get()
}

/// Answers all requests so far, for the calling thread.
pub fn answer() {
    ANSWERED.set(REQUESTS.load(Ordering::SeqCst));
}
