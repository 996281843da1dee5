//! Sending: write(2), send(2) and their kin.

use std::ffi::{c_int, c_void};

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;

use super::super::fast::fast;
use super::super::{guard, returned};
use super::{is_empty, is_nowhere, write_one, write_several};
use crate::library::{real, report, table};

fast! {
    /// write(2).
    pub(in super::super) fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t,
    fd in "di", MAY_HAVE, write_known
}

/// Writes to a descriptor that may have an entry.
unsafe extern "C-unwind" fn write_known(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: as the caller's.
    match unsafe { write_one(fd, bytes, len, 0) } {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::write(fd, bytes, len) },
    }
}

fast! {
    /// writev(2).
    pub(in super::super) fn writev(fd: c_int, bytes: *const iovec, count: c_int) -> ssize_t,
    fd in "di", MAY_HAVE, writev_known
}

/// Writes to a descriptor that may have an entry.
unsafe extern "C-unwind" fn writev_known(fd: c_int, bytes: *const iovec, count: c_int) -> ssize_t {
    if table::has(fd) {
        let Ok(several) = usize::try_from(count) else {
            return returned(Err(Errno::INVAL));
        };
        // SAFETY: as the caller's.
        if unsafe { is_empty(fd, bytes, several) } {
            return 0;
        }
        // SAFETY: as the caller's.
        if let Some(done) = unsafe { write_several(fd, bytes, several, 0) } {
            return done;
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::writev(fd, bytes, count) }
}

fast! {
    /// send(2).
    fn send(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t,
    fd in "di", MAY_HAVE, send_known
}

/// Sends to a descriptor that may have an entry.
unsafe extern "C-unwind" fn send_known(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as the caller's.
    match unsafe { write_one(fd, bytes, len, flags) } {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::send(fd, bytes, len, flags) },
    }
}

fast! {
    /// sendto(2).
    pub(in super::super) fn sendto(
        fd: c_int,
        bytes: *const c_void,
        len: size_t,
        flags: c_int,
        address: *const sockaddr,
        address_len: socklen_t,
    ) -> ssize_t, fd in "di", MAY_HAVE, sendto_known
}

/// Sends to a descriptor that may have an entry: a connection has one receiver, whatever is named.
unsafe extern "C-unwind" fn sendto_known(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    // SAFETY: as the caller's.
    match unsafe { write_one(fd, bytes, len, flags) } {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::sendto(fd, bytes, len, flags, address, address_len) },
    }
}

/// Whether a message has control messages.
///
/// # Safety
/// The arguments are those that sendmsg(2) demands.
#[inline]
unsafe fn has_control(message: *const msghdr) -> bool {
    if is_nowhere(message, 1) {
        return false;
    }
    // SAFETY: as the caller's.
    let of = unsafe { &*message };
    !of.msg_control.is_null() && of.msg_controllen != 0
}

/// Whether a message with control messages passes on a descriptor of an SMC connection.
///
/// # Safety
/// The arguments are those that sendmsg(2) demands.
unsafe fn passes_connection(message: *const msghdr) -> bool {
    // SAFETY: as the caller's.
    let of = unsafe { message.read() };
    // SAFETY: the control messages are readable, as the caller says.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const of) };
    while !at.is_null() {
        // SAFETY: libc has just found it within the buffer.
        let header = unsafe { at.read_unaligned() };
        if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: as above.
            let data = unsafe { libc::CMSG_DATA(at) };
            let len = (header.cmsg_len as usize).saturating_sub(data.addr() - at.addr());
            for index in 0..len / size_of::<c_int>() {
                // SAFETY: within the length of the message.
                let fd = unsafe { data.cast::<c_int>().add(index).read_unaligned() };
                if table::conn(fd).is_some_and(|conn| conn.smc().is_some()) {
                    return true;
                }
            }
        }
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(&raw const of, at) };
    }
    false
}

/// sendmsg(2).
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    if table::has(fd) && !is_nowhere(message, 1) {
        // SAFETY: as the caller's.
        let of = unsafe { message.read() };
        // SAFETY: as the caller's.
        let done = unsafe { write_several(fd, of.msg_iov, of.msg_iovlen, flags) };
        if let Some(done) = done {
            return done;
        }
    // SAFETY: as the caller's.
    } else if unsafe { has_control(message) } && guard(|| unsafe { passes_connection(message) }) {
        report::refuse("an SMC connection cannot be passed to another process (SCM_RIGHTS)");
        return returned(Err(Errno::INVAL));
    }
    // SAFETY: as the caller's.
    unsafe { real::sendmsg(fd, message, flags) }
}

/// sendmmsg(2).
#[unsafe(no_mangle)]
pub(in super::super) unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: libc::c_uint,
    flags: c_int,
) -> c_int {
    if !table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe { real::sendmmsg(fd, messages, count, flags) };
    }
    let mut done = 0;
    while done < count {
        // SAFETY: so many messages are the caller's.
        let message = unsafe { messages.add(done as usize) };
        // SAFETY: as above.
        let len = unsafe { sendmsg(fd, &raw const (*message).msg_hdr, flags) };
        if len < 0 {
            return if done > 0 { done.cast_signed() } else { -1 };
        }
        // SAFETY: as above.
        unsafe { (*message).msg_len = u32::try_from(len).unwrap_or(u32::MAX) };
        done += 1;
    }
    done.cast_signed()
}
