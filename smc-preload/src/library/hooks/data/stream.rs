//! Streams of libc over a connection: fdopen(3).

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::{size_t, ssize_t};

use super::super::guard;
use super::{read, write};
use crate::library::{real, table};

/// fdopen(3): libc's streams read and write by functions that no symbol can replace.
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn fdopen(
    fd: c_int,
    mode: *const std::ffi::c_char,
) -> *mut libc::FILE {
    if table::has(fd) && guard(|| table::conn(fd).is_some_and(|conn| conn.may_be_smc())) {
        // SAFETY: as the caller's.
        return unsafe { stream(fd, mode) };
    }
    // SAFETY: as the caller's.
    unsafe { real::fdopen(fd, mode) }
}

/// Where a stream has its descriptor (`_fileno`), for fileno(3).
const FILENO: usize = 112;

/// What fopencookie(3) calls.
#[repr(C)]
struct Functions {
    read: unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, size_t) -> ssize_t,
    write: unsafe extern "C-unwind" fn(*mut c_void, *const c_void, size_t) -> ssize_t,
    seek: *const c_void,
    close: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(
        cookie: *mut c_void,
        mode: *const std::ffi::c_char,
        functions: Functions,
    ) -> *mut libc::FILE;
}

/// A stream of libc over a connection. Its functions take the descriptor out of the cookie.
///
/// # Safety
/// The mode is a C string.
unsafe fn stream(fd: c_int, mode: *const std::ffi::c_char) -> *mut libc::FILE {
    unsafe extern "C-unwind" fn read_of(
        at: *mut c_void,
        into: *mut c_void,
        len: size_t,
    ) -> ssize_t {
        // SAFETY: as libc calls it.
        unsafe { read(at.addr() as c_int, into, len) }
    }
    unsafe extern "C-unwind" fn write_of(
        at: *mut c_void,
        bytes: *const c_void,
        len: size_t,
    ) -> ssize_t {
        let mut written = 0;
        while written < len {
            // SAFETY: as libc calls it, which takes less than all for an error.
            let done = unsafe { write(at.addr() as c_int, bytes.byte_add(written), len - written) };
            match usize::try_from(done) {
                Ok(done @ 1..) => written += done,
                _ => break,
            }
        }
        written.cast_signed()
    }
    unsafe extern "C-unwind" fn close_of(at: *mut c_void) -> c_int {
        super::super::reopen::closed(at.addr() as c_int);
        // SAFETY: the stream has the descriptor.
        unsafe { libc::close(at.addr() as c_int) }
    }
    let functions = Functions {
        read: read_of,
        write: write_of,
        seek: ptr::null(),
        close: close_of,
    };
    let cookie = ptr::without_provenance_mut(fd.cast_unsigned() as usize);
    // SAFETY: the functions stay, the mode is the caller's.
    let stream = unsafe { fopencookie(cookie, mode, functions) };
    if !stream.is_null() {
        // SAFETY: on 64-bit systems, `_fileno` of glibc's FILE has this place, which is part of
        // its interface to programs.
        unsafe { stream.cast::<c_int>().byte_add(FILENO).write(fd) };
        super::super::reopen::made(stream, fd);
    }
    stream
}
