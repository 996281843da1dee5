//! Streams over connections that are opened anew: libc's freopen(3) takes each stream for one over
//! a file of its own.

use std::ffi::{c_char, c_int};
use std::sync::Mutex;

use libc::FILE;

use super::fds;
use crate::library::conn::lock;
use crate::library::real;

unsafe extern "C" {
    fn __fpurge(stream: *mut FILE);
}

/// Bits of a stream's first word, which are part of glibc's interface to programs.
const NO_READS: c_int = 4;
const NO_WRITES: c_int = 8;

/// Streams over connections, and their descriptors.
static STREAMS: Mutex<Vec<(usize, c_int)>> = Mutex::new(Vec::new());

/// A stream was made.
pub(super) fn made(stream: *mut FILE, fd: c_int) {
    lock(&STREAMS).push((stream.addr(), fd));
}

/// A stream with this descriptor is closed.
pub(super) fn closed(fd: c_int) {
    lock(&STREAMS).retain(|of| of.1 != fd);
}

fn descriptor(stream: *mut FILE) -> Option<c_int> {
    let streams = lock(&STREAMS);
    Some(streams.iter().find(|of| of.0 == stream.addr())?.1)
}

/// The flags of open(2), and of the stream, for a mode.
fn flags(mode: &[u8]) -> Option<(c_int, c_int)> {
    let updates = mode.contains(&b'+');
    let (created, one_way, missing) = match mode.first()? {
        b'r' => (0, libc::O_RDONLY, NO_WRITES),
        b'w' => (libc::O_CREAT | libc::O_TRUNC, libc::O_WRONLY, NO_READS),
        b'a' => (libc::O_CREAT | libc::O_APPEND, libc::O_WRONLY, NO_READS),
        _ => return None,
    };
    Some(match updates {
        true => (created | libc::O_RDWR, 0),
        false => (created | one_way, missing),
    })
}

/// Has a stream over a connection be one over a file, under the same number.
///
/// # Safety
/// The arguments are those that freopen(3) demands.
unsafe fn replace(path: *const c_char, mode: *const c_char, stream: *mut FILE, fd: c_int) -> bool {
    // SAFETY: the mode is a C string.
    let mode = unsafe { std::ffi::CStr::from_ptr(mode) }.to_bytes();
    let Some((of_file, of_stream)) = flags(mode).filter(|_| !path.is_null()) else {
        return false;
    };
    // SAFETY: the stream is the caller's, as is the path.
    let file = unsafe {
        libc::fflush(stream);
        __fpurge(stream);
        libc::clearerr(stream);
        libc::open(path, of_file, 0o666)
    };
    // SAFETY: the numbers are the caller's, and this function's.
    let is_replaced = file >= 0 && unsafe { fds::dup2(file, fd) } == fd;
    if file >= 0 {
        // SAFETY: as above.
        unsafe { fds::close(file) };
    }
    let flags = stream.cast::<c_int>();
    // SAFETY: the flags are the first word of the caller's stream.
    unsafe { flags.write(flags.read() & !(NO_READS | NO_WRITES) | of_stream) };
    is_replaced
}

/// freopen(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    let Some(fd) = descriptor(stream) else {
        // SAFETY: as the caller's.
        return unsafe { real::freopen(path, mode, stream) };
    };
    // SAFETY: as the caller's.
    if unsafe { replace(path, mode, stream, fd) } {
        return stream;
    }
    // SAFETY: a stream that cannot be opened anew is closed.
    unsafe { libc::fclose(stream) };
    std::ptr::null_mut()
}

/// freopen(3) of programs that were compiled for large files.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn freopen64(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> *mut FILE {
    // SAFETY: as the caller's.
    unsafe { freopen(path, mode, stream) }
}
