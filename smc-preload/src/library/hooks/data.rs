//! Reading and writing.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::ptr;

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;

use super::{guard, returned, status, waits};
use crate::library::conn::Outcome;
use crate::library::{errno, real, report, table};

/// Slices of one call, as many as most calls have.
const FEW: usize = 16;
/// Most slices of a call (`UIO_MAXIOV`).
const MOST: usize = 1024;
/// Bytes copied at a time from a file.
const AT_ONCE: usize = 64 << 10;

/// Reads from a connection; `None` if the kernel does it.
fn read_into(fd: c_int, into: &mut [IoSliceMut<'_>], flags: c_int) -> Option<ssize_t> {
    let conn = table::conn(fd)?;
    match conn.read(into, flags) {
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

/// Reads from a descriptor that has an entry; by `kernel`, a function of libc, if it carries the
/// descriptor. Not inline: calls of foreign descriptors jump to libc without saving a register.
///
/// # Safety
/// `len` bytes at `into` are the caller's.
#[inline(never)]
unsafe fn read_known(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
    kernel: impl Fn(c_int, *mut c_void, size_t, c_int) -> ssize_t,
) -> ssize_t {
    // SAFETY: as the caller's.
    match unsafe { read_one(fd, into, len, flags) } {
        Some(done) => done,
        None => kernel(fd, into, len, flags),
    }
}

/// Writes to a descriptor that has an entry, by the rule of [`read_known`].
///
/// # Safety
/// `len` bytes at `bytes` are readable.
#[inline(never)]
unsafe fn write_known(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    kernel: impl Fn(c_int, *const c_void, size_t, c_int) -> ssize_t,
) -> ssize_t {
    // SAFETY: as the caller's.
    match unsafe { write_one(fd, bytes, len, flags) } {
        Some(done) => done,
        None => kernel(fd, bytes, len, flags),
    }
}

/// Reads into memory of the program; `None` if the kernel does it.
///
/// # Safety
/// `len` bytes at `into` are the caller's.
#[inline]
unsafe fn read_one(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> Option<ssize_t> {
    waits(fd, || {
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

/// read(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
    if table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe {
            read_known(fd, into, len, 0, |fd, into, len, _| {
                real::read(fd, into, len)
            })
        };
    }
    // SAFETY: as the caller's.
    unsafe { real::read(fd, into, len) }
}

/// read(2) of programs that were compiled with checks.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __read_chk(
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

/// readv(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn readv(
    fd: c_int,
    into: *const iovec,
    count: c_int,
) -> ssize_t {
    if table::has(fd) {
        let Ok(several) = usize::try_from(count) else {
            return returned(Err(Errno::INVAL));
        };
        // SAFETY: as the caller's.
        if let Some(done) = unsafe { read_several(fd, into, several, 0) } {
            return done;
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::readv(fd, into, count) }
}

/// recv(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recv(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    if table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe {
            read_known(fd, into, len, flags, |fd, into, len, flags| {
                real::recv(fd, into, len, flags)
            })
        };
    }
    // SAFETY: as the caller's.
    unsafe { real::recv(fd, into, len, flags) }
}

/// recv(2) of programs that were compiled with checks.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __recv_chk(
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

/// recvfrom(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    into: *mut c_void,
    len: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> ssize_t {
    let done = match table::has(fd) {
        // SAFETY: as the caller's.
        true => unsafe { read_one(fd, into, len, flags) },
        false => None,
    };
    match done {
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
pub(super) unsafe extern "C-unwind" fn __recvfrom_chk(
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

/// recvmsg(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recvmsg(
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
                let new = msghdr {
                    msg_namelen: 0,
                    msg_controllen: 0,
                    msg_flags: is_urgent,
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
pub(super) unsafe extern "C-unwind" fn recvmmsg(
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

/// write(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn write(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
) -> ssize_t {
    if table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe {
            write_known(fd, bytes, len, 0, |fd, bytes, len, _| {
                real::write(fd, bytes, len)
            })
        };
    }
    // SAFETY: as the caller's.
    unsafe { real::write(fd, bytes, len) }
}

/// writev(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn writev(
    fd: c_int,
    bytes: *const iovec,
    count: c_int,
) -> ssize_t {
    if table::has(fd) {
        let Ok(several) = usize::try_from(count) else {
            return returned(Err(Errno::INVAL));
        };
        // SAFETY: as the caller's.
        if let Some(done) = unsafe { write_several(fd, bytes, several, 0) } {
            return done;
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::writev(fd, bytes, count) }
}

/// send(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn send(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    if table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe {
            write_known(fd, bytes, len, flags, |fd, bytes, len, flags| {
                real::send(fd, bytes, len, flags)
            })
        };
    }
    // SAFETY: as the caller's.
    unsafe { real::send(fd, bytes, len, flags) }
}

/// sendto(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> ssize_t {
    // A connection has one receiver, whatever is named.
    let done = match table::has(fd) {
        // SAFETY: as the caller's.
        true => unsafe { write_one(fd, bytes, len, flags) },
        false => None,
    };
    match done {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::sendto(fd, bytes, len, flags, address, address_len) },
    }
}

/// Whether a message passes on a descriptor of an SMC connection.
///
/// # Safety
/// The arguments are those that sendmsg(2) demands.
unsafe fn passes_connection(message: *const msghdr) -> bool {
    if is_nowhere(message, 1) {
        return false;
    }
    // SAFETY: as the caller's.
    let of = unsafe { message.read() };
    if of.msg_control.is_null() || of.msg_controllen == 0 {
        return false;
    }
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
pub(super) unsafe extern "C-unwind" fn sendmsg(
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
    } else if guard(|| unsafe { passes_connection(message) }) {
        report::refuse("an SMC connection cannot be passed to another process (SCM_RIGHTS)");
        return returned(Err(Errno::INVAL));
    }
    // SAFETY: as the caller's.
    unsafe { real::sendmsg(fd, message, flags) }
}

/// sendmmsg(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendmmsg(
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

/// preadv(2): sockets have no position.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn preadv(
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
pub(super) unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    into: *const iovec,
    count: c_int,
    offset: libc::off_t,
    flags: c_int,
) -> ssize_t {
    if table::has(fd) {
        match message_flags(offset, flags) {
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
pub(super) unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    bytes: *const iovec,
    count: c_int,
    offset: libc::off_t,
    flags: c_int,
) -> ssize_t {
    if table::has(fd) {
        match message_flags(offset, flags) {
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

/// sendfile(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendfile(
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
pub(super) unsafe extern "C-unwind" fn sendfile64(
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
pub(super) unsafe extern "C-unwind" fn splice(
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

/// sockatmark(3).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sockatmark(fd: c_int) -> c_int {
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

/// fdopen(3): libc's streams read and write by functions that no symbol stands before.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn fdopen(
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
        super::reopen::closed(at.addr() as c_int);
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
        super::reopen::made(stream, fd);
    }
    stream
}
