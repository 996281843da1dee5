//! Receiving: read(2), recv(2) and their kin.

use std::ffi::{c_int, c_void};

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;

use super::super::fast::fast;
use super::super::{guard, returned, status};
use super::{is_empty, is_nowhere, read_one, read_several};
use crate::library::{errno, real, report, table};

fast! {
    /// read(2).
    pub(in super::super) fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t,
    fd in "di", MAY_HAVE, read_known
}

/// Reads from a descriptor that may have an entry.
unsafe extern "C-unwind" fn read_known(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
    if len == 0 && table::conn_id(fd).is_some() {
        // Unlike recv(2), which fails if there is nothing to be read.
        return 0;
    }
    // SAFETY: as the caller's.
    match unsafe { read_one(fd, into, len, 0) } {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::read(fd, into, len) },
    }
}

/// read(2) of programs that were compiled with checks.
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    room: size_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: as the caller's.
    unsafe { read(fd, into, len) }
}

/// Ends a program that reads more than it has room for, as libc does.
fn check(len: size_t, room: size_t) {
    if len > room {
        report::line("a read past the end of a buffer; the process ends");
        std::process::abort();
    }
}

fast! {
    /// readv(2).
    pub(in super::super) fn readv(fd: c_int, into: *const iovec, count: c_int) -> ssize_t,
    fd in "di", MAY_HAVE, readv_known
}

/// Reads from a descriptor that may have an entry.
unsafe extern "C-unwind" fn readv_known(fd: c_int, into: *const iovec, count: c_int) -> ssize_t {
    if table::has(fd) {
        let Ok(several) = usize::try_from(count) else {
            return returned(Err(Errno::INVAL));
        };
        // SAFETY: as the caller's.
        if unsafe { is_empty(fd, into, several) } {
            return 0;
        }
        // SAFETY: as the caller's.
        if let Some(done) = unsafe { read_several(fd, into, several, 0) } {
            return done;
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::readv(fd, into, count) }
}

fast! {
    /// recv(2).
    fn recv(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> ssize_t,
    fd in "di", MAY_HAVE, recv_known
}

/// Receives from a descriptor that may have an entry.
unsafe extern "C-unwind" fn recv_known(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as the caller's.
    match unsafe { read_one(fd, into, len, flags) } {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::recv(fd, into, len, flags) },
    }
}

/// recv(2) of programs that were compiled with checks.
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check(len, room);
    // SAFETY: as the caller's.
    unsafe { recv(fd, into, len, flags) }
}

fast! {
    /// recvfrom(2).
    pub(in super::super) fn recvfrom(
        fd: c_int,
        into: *mut c_void,
        len: size_t,
        flags: c_int,
        address: *mut sockaddr,
        address_len: *mut socklen_t,
    ) -> ssize_t, fd in "di", MAY_HAVE, recvfrom_known
}

/// Receives from a descriptor that may have an entry.
unsafe extern "C-unwind" fn recvfrom_known(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as the caller's.
    match unsafe { read_one(fd, into, len, flags) } {
        Some(done) => {
            if done >= 0 && !address.is_null() && !address_len.is_null() {
                // A connected socket has one peer.
                // SAFETY: the caller's length.
                unsafe { address_len.write(0) };
            }
            done
        }
        // SAFETY: as the caller's.
        None => unsafe { real::recvfrom(fd, into, len, flags, address, address_len) },
    }
}

/// recvfrom(2) of programs that were compiled with checks.
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    check(len, room);
    // SAFETY: as the caller's.
    unsafe { recvfrom(fd, into, len, flags, address, address_len) }
}

fast! {
    /// recvmsg(2).
    pub(in super::super) fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t,
    fd in "di", MAY_HAVE, recvmsg_known
}

/// Receives from a descriptor that may have an entry.
unsafe extern "C-unwind" fn recvmsg_known(
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    if table::has(fd) && !is_nowhere(message, 1) {
        // SAFETY: as the caller's.
        let of = unsafe { message.read() };
        // SAFETY: as the caller's.
        if let Some(done) = unsafe { read_several(fd, of.msg_iov, of.msg_iovlen, flags) } {
            if done >= 0 {
                let is_urgent = flags & libc::MSG_OOB;
                let is_cut = if is_urgent != 0 && done == 0 {
                    libc::MSG_TRUNC
                } else {
                    0
                };
                let new = msghdr {
                    msg_namelen: 0,
                    msg_controllen: 0,
                    msg_flags: is_urgent | is_cut | flags & libc::MSG_CMSG_CLOEXEC,
                    ..of
                };
                // SAFETY: as the caller's.
                unsafe { message.write(new) };
            }
            return done;
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::recvmsg(fd, message, flags) }
}

/// recvmmsg(2).
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: libc::c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if !table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
    }
    let mut done = 0;
    while done < count {
        // After the first, only what is there.
        let waits = done == 0 || flags & libc::MSG_WAITFORONE == 0;
        let flags = flags & !libc::MSG_WAITFORONE | if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: so many messages are the caller's.
        let message = unsafe { messages.add(done as usize) };
        // SAFETY: as above.
        let len = unsafe { recvmsg(fd, &raw mut (*message).msg_hdr, flags) };
        if len < 0 {
            return if done > 0 { done.cast_signed() } else { -1 };
        }
        // SAFETY: as above.
        unsafe { (*message).msg_len = u32::try_from(len).unwrap_or(u32::MAX) };
        done += 1;
        if len == 0 {
            break;
        }
    }
    done.cast_signed()
}

/// sockatmark(3).
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn sockatmark(fd: c_int) -> c_int {
    if table::has(fd) {
        let mark = guard(|| Some(table::conn(fd)?.smc()?.at_mark()));
        if let Some(mark) = mark {
            let mark = mark.map(c_int::from);
            return status(mark.map_err(|error| errno::of(&error)));
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::sockatmark(fd) }
}
