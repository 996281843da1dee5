//! Other programs in the place of this one.

use std::ffi::{c_char, c_int};

use super::guard;
use crate::library::{accepting, config, real};

fn before() {
    if config::is_active() && !config::shares_memory() {
        guard(accepting::before_exec);
    }
}

/// execve(2).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    before();
    // SAFETY: as the caller's.
    unsafe { real::execve(path, arguments, environment) }
}

/// execv(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    before();
    // SAFETY: as the caller's.
    unsafe { real::execv(path, arguments) }
}

/// execvp(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    before();
    // SAFETY: as the caller's.
    unsafe { real::execvp(file, arguments) }
}

/// execvpe(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    before();
    // SAFETY: as the caller's.
    unsafe { real::execvpe(file, arguments, environment) }
}
