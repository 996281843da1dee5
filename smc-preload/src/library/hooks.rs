//! The symbols of libc that programs find in this library first.
//!
//! Each looks up its descriptor and leaves a foreign one to libc, in a frame without anything to
//! drop: a thread that is cancelled there is unwound through it.

mod address;
mod cancel_hook;
mod data;
mod exec;
mod fast;
mod fds;
mod limits;
mod number;
mod options;
mod print;
mod reopen;
mod start;
#[cfg(target_arch = "x86_64")]
mod variadic;
#[cfg(target_arch = "x86_64")]
mod vfork;
mod waits;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;

use super::{cancel, config, errno, report, table};

/// Runs the library's part of a call. A panic ends the process here: nothing above can handle
/// it.
#[inline]
fn guard<T>(run: impl FnOnce() -> T) -> T {
    let _disabled = cancel::disable();
    match catch_unwind(AssertUnwindSafe(|| config::inside(run))) {
        Ok(done) => done,
        Err(_) => {
            report::line("a mistake in the library; the process ends");
            std::process::abort()
        }
    }
}

/// Runs the library's part of a call that may wait, of a descriptor that has an entry: it is a
/// cancellation point. `None` if the kernel does it.
#[inline]
fn waits(fd: i32, call: impl Fn() -> Option<isize>) -> Option<isize> {
    if config::is_inside() {
        return is_reentrant(fd).then(|| returned(Err(Errno::AGAIN)));
    }
    loop {
        cancel::point();
        let done = guard(&call);
        if done != Some(-1) || !cancel::has_interrupted() {
            return done;
        }
    }
}

/// Whether this is a call of a signal's handler that has interrupted the library itself, which may
/// hold the locks that the call needs. The library itself calls libc for connections by its own
/// descriptors only.
#[inline]
fn is_reentrant(fd: i32) -> bool {
    table::has_locks(fd) && config::is_inside()
}

/// What a function of libc returns: -1 with the error number, or the result.
#[inline]
fn returned(result: Result<usize, Errno>) -> isize {
    match result {
        Ok(value) => value.cast_signed(),
        Err(error) => {
            errno::set(error.raw_os_error());
            -1
        }
    }
}

/// Result of a function of libc, by the rule of [`returned`]: of functions that return an `int`.
#[inline]
fn status(result: Result<i32, Errno>) -> i32 {
    match result {
        Ok(value) => value,
        Err(error) => {
            errno::set(error.raw_os_error());
            -1
        }
    }
}
