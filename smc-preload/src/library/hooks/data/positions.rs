//! Calls with a position, which sockets have not: preadv(2), preadv2(2), pwritev2(2).

use std::ffi::c_int;

use libc::{iovec, ssize_t};
use rustix::io::Errno;

use super::super::returned;
use super::{is_empty, read_several, write_several};
use crate::library::{real, table};

/// preadv(2): sockets have no position.
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn preadv(
    fd: c_int,
    into: *const iovec,
    count: c_int,
    offset: libc::off_t,
) -> ssize_t {
    if table::has(fd) {
        return returned(Err(Errno::SPIPE));
    }
    // SAFETY: as the caller's.
    unsafe { real::preadv(fd, into, count, offset) }
}

/// preadv2(2): with the offset -1 it is readv(2).
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    into: *const iovec,
    count: c_int,
    offset: libc::off_t,
    flags: c_int,
) -> ssize_t {
    if table::has(fd) {
        match message_flags(offset, flags) {
            // SAFETY: as the caller's.
            Ok(_) if unsafe { is_empty(fd, into, pieces(count)) } => return 0,
            Ok(flags) => {
                // SAFETY: as the caller's.
                let done = unsafe { read_several(fd, into, pieces(count), flags) };
                if let Some(done) = done {
                    return done;
                }
            }
            Err(error) => return returned(Err(error)),
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::preadv2(fd, into, count, offset, flags) }
}

/// pwritev2(2): with the offset -1 it is writev(2).
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    bytes: *const iovec,
    count: c_int,
    offset: libc::off_t,
    flags: c_int,
) -> ssize_t {
    if table::has(fd) {
        match message_flags(offset, flags) {
            // SAFETY: as the caller's.
            Ok(_) if unsafe { is_empty(fd, bytes, pieces(count)) } => return 0,
            Ok(flags) => {
                // SAFETY: as the caller's.
                let done = unsafe { write_several(fd, bytes, pieces(count), flags) };
                if let Some(done) = done {
                    return done;
                }
            }
            Err(error) => return returned(Err(error)),
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::pwritev2(fd, bytes, count, offset, flags) }
}

/// A number of pieces: a negative one is too large.
fn pieces(count: c_int) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The flags of recv(2) and send(2) for those of preadv2(2) and pwritev2(2).
fn message_flags(offset: libc::off_t, flags: c_int) -> Result<c_int, Errno> {
    /// Flags that say how much of a hurry there is, and what is to reach the disk.
    const HARMLESS: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC;
    if offset != -1 {
        return Err(Errno::SPIPE);
    }
    match flags & !HARMLESS {
        0 => Ok(0),
        libc::RWF_NOWAIT => Ok(libc::MSG_DONTWAIT),
        _ => Err(Errno::OPNOTSUPP),
    }
}
