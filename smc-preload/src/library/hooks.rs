//! The symbols of libc that programs find in this library first.
//!
//! Each looks its descriptor up and leaves a foreign one to libc, in a frame without anything to
//! drop: a thread that is cancelled there is unwound through it.

mod address;
mod data;
mod exec;
mod fds;
mod number;
mod options;
mod print;
mod start;
mod waits;

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;

use super::{config, errno, report};

/// Runs the library's part of a call. A panic ends the process here: nothing above can handle
/// it.
#[inline]
fn guard<T>(run: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(|| config::inside(run))) {
        Ok(done) => done,
        Err(_) => {
            report::line("a mistake in the library; the process ends");
            std::process::abort()
        }
    }
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

/// As [`returned`], of functions that return an `int`.
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
