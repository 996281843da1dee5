//! Threads that are cancelled.

use std::ffi::c_int;

use super::guard;
use crate::library::{cancel, config, real};

/// pthread_cancel(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cancel(thread: libc::pthread_t) -> c_int {
    cancel::begin();
    // SAFETY: as the caller's.
    let done = unsafe { real::pthread_cancel(thread) };
    if done == 0 && config::is_active() && !config::is_inside() {
        guard(|| cancel::interrupt(thread));
    }
    done
}
