//! Reading and writing: memory of the program, and what moves it. The calls are in files by what
//! they do.

mod files;
mod positions;
mod receive;
mod send;
mod stream;

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};

use libc::{iovec, size_t, ssize_t};
use rustix::io::Errno;

use super::{returned, waits};
use crate::library::conn::Outcome;
use crate::library::table;

pub(super) use files::{sendfile, splice};
pub(super) use positions::{preadv, preadv2, pwritev2};
pub(super) use receive::{read, readv, recvfrom, recvmmsg, recvmsg};
pub(super) use send::{sendmmsg, sendmsg, sendto, write, writev};

/// Slices of one call, as many as most calls have.
const FEW: usize = 16;
/// Most slices of a call (`UIO_MAXIOV`).
const MOST: usize = 1024;

/// Reads from a connection; `None` if the kernel does it.
fn read_into(fd: c_int, into: &mut [IoSliceMut<'_>], flags: c_int) -> Option<ssize_t> {
    let conn = table::conn(fd)?;
    match conn.read(into, flags) {
        Outcome::Done(result) => Some(returned(result)),
        Outcome::Kernel => None,
    }
}

/// Whether these flags have a read drop the bytes, into whatever memory.
fn drops(flags: c_int) -> bool {
    flags & (libc::MSG_TRUNC | libc::MSG_OOB) == libc::MSG_TRUNC
}

/// Drops bytes of a connection; `None` if the kernel does it.
fn discard(fd: c_int, len: usize, flags: c_int) -> Option<ssize_t> {
    let conn = table::conn(fd)?;
    match conn.discard(len, flags) {
        Outcome::Done(result) => Some(returned(result)),
        Outcome::Kernel => None,
    }
}

/// Writes to a connection; `None` if the kernel does it.
fn write_from(fd: c_int, bytes: &[IoSlice<'_>], flags: c_int) -> Option<ssize_t> {
    let conn = table::conn(fd)?;
    match conn.write(bytes, flags) {
        Outcome::Done(result) => Some(returned(result)),
        Outcome::Kernel => None,
    }
}

/// Reads into memory of the program; `None` if the kernel does it.
///
/// # Safety
/// `len` bytes at `into` are the caller's.
#[inline]
unsafe fn read_one(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    waits(fd, || {
        if drops(flags) {
            return discard(fd, len, flags);
        }
        if is_nowhere(into, len) {
            return Some(returned(Err(Errno::FAULT)));
        }
        // SAFETY: as the caller's.
        let into = unsafe { slice_mut(into, len) };
        read_into(fd, &mut [IoSliceMut::new(into)], flags)
    })
}

/// Writes memory of the program; `None` if the kernel does it.
///
/// # Safety
/// `len` bytes at `bytes` are readable.
#[inline]
unsafe fn write_one(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    waits(fd, || {
        if is_nowhere(bytes, len) {
            return Some(returned(Err(Errno::FAULT)));
        }
        // SAFETY: as the caller's.
        let bytes = unsafe { slice(bytes, len) };
        write_from(fd, &[IoSlice::new(bytes)], flags)
    })
}

/// Whether bytes are where no program has any: in the first page. Other wrong pointers end the
/// process, as in any function of libc: to ask the kernel would take a system call for each.
#[inline]
fn is_nowhere<T>(at: *const T, len: usize) -> bool {
    const PAGE: usize = 4096;
    len > 0 && at.addr() < PAGE
}

/// Whether this is a connection, and pieces of memory have no byte among them: readv(2) and writev(2)
/// have nothing to do. Not so if the pieces are no valid ones.
///
/// # Safety
/// The arguments are those that readv(2) demands.
unsafe fn is_empty(fd: c_int, pieces: *const iovec, count: usize) -> bool {
    let is_valid = count <= MOST && !is_nowhere(pieces, count) && table::conn_id(fd).is_some();
    // SAFETY: so many are readable.
    is_valid && (0..count).all(|at| unsafe { pieces.add(at).read() }.iov_len == 0)
}

/// # Safety
/// `len` bytes at `at` are the caller's, for as long as it uses the slice.
unsafe fn slice_mut<'a>(at: *mut c_void, len: size_t) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: as the caller's; what another program left in memory is some bytes.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), len.min(isize::MAX as usize)) }
}

/// # Safety
/// `len` bytes at `at` are readable, for as long as the caller uses the slice.
unsafe fn slice<'a>(at: *const c_void, len: size_t) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller's.
    unsafe { std::slice::from_raw_parts(at.cast(), len.min(isize::MAX as usize)) }
}

/// Reads into several pieces of memory.
///
/// # Safety
/// The arguments are those that readv(2) demands.
unsafe fn read_several(
    fd: c_int,
    into: *const iovec,
    count: usize,
    flags: c_int,
) -> Option<ssize_t> {
    waits(fd, || {
        if count > MOST {
            return Some(returned(Err(Errno::INVAL)));
        }
        if is_nowhere(into, count) {
            return Some(returned(Err(Errno::FAULT)));
        }
        if drops(flags) {
            // SAFETY: so many are readable.
            let parts = (0..count).map(|at| unsafe { into.add(at).read() }.iov_len);
            return discard(fd, parts.fold(0, usize::saturating_add), flags);
        }
        let empty = || IoSliceMut::new(&mut []);
        let mut few: [IoSliceMut<'_>; FEW] = std::array::from_fn(|_| empty());
        let mut many = Vec::new();
        let slices = if count <= FEW {
            few.get_mut(..count).unwrap_or_default()
        } else {
            many.resize_with(count, empty);
            many.as_mut_slice()
        };
        for (at, slice) in slices.iter_mut().enumerate() {
            // SAFETY: so many are readable, and each names memory of the caller.
            let of = unsafe { into.add(at).read() };
            if is_nowhere(of.iov_base, of.iov_len) {
                return Some(returned(Err(Errno::FAULT)));
            }
            // SAFETY: as above.
            *slice = IoSliceMut::new(unsafe { slice_mut(of.iov_base, of.iov_len) });
        }
        read_into(fd, slices, flags)
    })
}

/// Writes several pieces of memory.
///
/// # Safety
/// The arguments are those that writev(2) demands.
unsafe fn write_several(
    fd: c_int,
    bytes: *const iovec,
    count: usize,
    flags: c_int,
) -> Option<ssize_t> {
    waits(fd, || {
        if count > MOST {
            return Some(returned(Err(Errno::INVAL)));
        }
        if is_nowhere(bytes, count) {
            return Some(returned(Err(Errno::FAULT)));
        }
        let mut few: [IoSlice<'_>; FEW] = std::array::from_fn(|_| IoSlice::new(&[]));
        let mut many = Vec::new();
        let slices = if count <= FEW {
            few.get_mut(..count).unwrap_or_default()
        } else {
            many.resize_with(count, || IoSlice::new(&[]));
            many.as_mut_slice()
        };
        for (at, to) in slices.iter_mut().enumerate() {
            // SAFETY: so many are readable, and each names memory that is.
            let of = unsafe { bytes.add(at).read() };
            if is_nowhere(of.iov_base, of.iov_len) {
                return Some(returned(Err(Errno::FAULT)));
            }
            // SAFETY: as above.
            *to = IoSlice::new(unsafe { slice(of.iov_base, of.iov_len) });
        }
        write_from(fd, slices, flags)
    })
}
