//! From file to socket and between descriptors: sendfile(2), splice(2).

use std::ffi::c_int;
use std::io::IoSlice;

use libc::{size_t, ssize_t};
use rustix::io::Errno;

use super::super::{guard, returned, waits};
use crate::library::conn::Outcome;
use crate::library::{real, table};

/// Bytes copied at a time from a file.
const AT_ONCE: usize = 64 << 10;

/// sendfile(2).
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut libc::off_t,
    len: size_t,
) -> ssize_t {
    if table::has(to) || table::has(from) {
        // SAFETY: as the caller's; the types are one on 64-bit systems.
        if let Some(done) = waits(to, || unsafe { copy_file(to, from, offset.cast(), len) }) {
            return done;
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::sendfile(to, from, offset, len) }
}

/// sendfile64(2).
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut libc::off64_t,
    len: size_t,
) -> ssize_t {
    if table::has(to) || table::has(from) {
        // SAFETY: as the caller's.
        if let Some(done) = waits(to, || unsafe { copy_file(to, from, offset, len) }) {
            return done;
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::sendfile64(to, from, offset, len) }
}

/// Copies from a file to a connection; `None` if the kernel does it. What does not fit is not
/// taken out of the file.
///
/// # Safety
/// `offset` is null or the caller's.
unsafe fn copy_file(
    to: c_int,
    from: c_int,
    offset: *mut libc::off64_t,
    len: size_t,
) -> Option<ssize_t> {
    if table::conn(from).is_some_and(|conn| conn.smc().is_some()) {
        return Some(returned(Err(Errno::INVAL)));
    }
    let conn = table::conn(to)?;
    let mut bytes = vec![0_u8; len.min(AT_ONCE)];
    let mut total = 0;
    // SAFETY: as the caller's.
    let start = match unsafe { offset.as_ref() } {
        Some(offset) => *offset,
        // SAFETY: lseek has no precondition.
        None => unsafe { libc::lseek64(from, 0, libc::SEEK_CUR) },
    };
    if start < 0 {
        let error = std::io::Error::last_os_error().raw_os_error();
        // It is no file, or nothing.
        let is_open = error != Some(libc::EBADF);
        return Some(returned(Err(if is_open {
            Errno::INVAL
        } else {
            Errno::BADF
        })));
    }
    while total < len {
        let most = (len - total).min(bytes.len());
        let at = start + total as libc::off64_t;
        // SAFETY: so many bytes are this function's.
        let read = unsafe { libc::pread64(from, bytes.as_mut_ptr().cast(), most, at) };
        let Ok(read) = usize::try_from(read) else {
            if total > 0 {
                break;
            }
            return Some(-1);
        };
        if read == 0 {
            break;
        }
        let slices = [IoSlice::new(bytes.get(..read).unwrap_or_default())];
        match conn.write(&slices, 0) {
            Outcome::Kernel if total == 0 => return None,
            Outcome::Kernel => break,
            Outcome::Done(Ok(written)) => {
                total += written;
                if written < read {
                    break;
                }
            }
            Outcome::Done(Err(error)) if total == 0 => return Some(returned(Err(error))),
            Outcome::Done(Err(_)) => break,
        }
    }
    let end = start + total as libc::off64_t;
    // SAFETY: as the caller's.
    match unsafe { offset.as_mut() } {
        Some(offset) => *offset = end,
        None => {
            // SAFETY: lseek has no precondition.
            unsafe { libc::lseek64(from, end, libc::SEEK_SET) };
        }
    }
    Some(returned(Ok(total)))
}

/// splice(2): programs read and write where it cannot be.
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut libc::loff_t,
    to: c_int,
    to_offset: *mut libc::loff_t,
    len: size_t,
    flags: libc::c_uint,
) -> ssize_t {
    let is_served = |fd| table::has(fd) && table::conn(fd).is_some_and(|conn| conn.smc().is_some());
    if guard(|| is_served(from) || is_served(to)) {
        return returned(Err(Errno::INVAL));
    }
    // SAFETY: as the caller's.
    unsafe { real::splice(from, from_offset, to, to_offset, len, flags) }
}
