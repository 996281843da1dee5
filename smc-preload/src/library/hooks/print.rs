//! Printing to a descriptor: libc writes by functions that no symbol can replace.
//!
//! `dprintf` to an SMC connection is served on x86-64 only.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::data;
#[cfg(target_arch = "x86_64")]
use super::variadic::variadic;
use crate::library::{real, table};

unsafe extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// vdprintf(3). The arguments are a `va_list`, which is passed as a pointer.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if !table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe { real::vdprintf(fd, format, arguments) };
    }
    let mut text = ptr::null_mut();
    // SAFETY: as the caller's; the text is this function's.
    let length = unsafe { vasprintf(&raw mut text, format, arguments) };
    let Ok(whole) = usize::try_from(length) else {
        return -1;
    };
    let mut written = 0;
    while written < whole {
        // SAFETY: libc has just made a text of this length.
        let done = unsafe { data::write(fd, text.add(written).cast(), whole - written) };
        match usize::try_from(done) {
            Ok(done) => written += done,
            Err(_) => break,
        }
    }
    // SAFETY: libc has allocated it.
    unsafe { libc::free(text.cast()) };
    if written < whole { -1 } else { length }
}

/// vdprintf(3) of programs that were compiled with checks.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if !table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe { real::__vdprintf_chk(fd, flag, format, arguments) };
    }
    // SAFETY: as the caller's.
    unsafe { vdprintf(fd, format, arguments) }
}

/// dprintf(3).
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    variadic!(16, "rdx", vdprintf)
}

/// dprintf(3) of programs that were compiled with checks.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    variadic!(24, "rcx", __vdprintf_chk)
}
