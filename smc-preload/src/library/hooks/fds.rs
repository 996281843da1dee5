//! Descriptors: closed, duplicated, and what is set of them.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use std::os::fd::IntoRawFd;

use rustix::io::Errno;

use super::{guard, is_reentrant, returned, status};
use crate::library::conn::{Conn, Phase};
use crate::library::table::{self, Object};
use crate::library::{accepting, config, hidden, real};

/// Linux's number of the request whether the urgent mark is next.
const SIOCATMARK: c_ulong = 0x8905;

/// A descriptor is closed, or is to name something else.
fn forget(fd: c_int) {
    if config::shares_memory() {
        // What a child of vfork does to its descriptors is not done to the parent's.
        return;
    }
    accepting::drop_left();
    let object = table::take(fd);
    config::inside(|| match &object {
        Some(Object::Conn(conn)) => conn.remove_fd(fd),
        Some(Object::Set(set)) => set.remove_fd(fd),
        Some(Object::Listener(_)) | None => {}
    });
    config::inside(|| drop(object));
}

/// The kernel has just given a number to the program: what had it before may have been closed where
/// no hook sees it, as libc's streams close theirs.
pub(super) fn is_new(fd: c_int) {
    table::closed(fd);
    if table::has(fd) {
        table::reveal(fd);
        guard(|| forget(fd));
    }
}

/// A descriptor is a duplicate of another.
fn duplicate(of: c_int, new: c_int) {
    if new < 0 || config::shares_memory() {
        return;
    }
    match table::get(of) {
        Some(Object::Conn(conn)) => conn.add_fd(new),
        Some(Object::Set(set)) => set.add_fd(new),
        Some(listener @ Object::Listener(_)) => {
            table::put(new, listener);
        }
        None => {}
    }
}

/// close(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if table::has(fd) {
        if hidden::is_hidden(fd) {
            return status(Err(Errno::BADF));
        }
        if is_reentrant(fd) {
            return status(Err(Errno::INTR));
        }
        match config::is_inside() {
            true => table::reveal(fd),
            false => guard(|| forget(fd)),
        }
    }
    table::closed(fd);
    if config::is_inside() {
        // No thread is cancelled within the library.
        // SAFETY: as the caller's.
        return unsafe { real::syscall(libc::SYS_close, fd.into(), 0, 0, 0, 0, 0) } as c_int;
    }
    // SAFETY: as the caller's.
    unsafe { real::close(fd) }
}

/// close_range(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn close_range(
    first: c_uint,
    last: c_uint,
    flags: c_int,
) -> c_int {
    const UNSHARES: c_int = libc::CLOSE_RANGE_UNSHARE.cast_signed();
    if config::is_inside() {
        // What the library closes itself concerns no connection of the program.
        // SAFETY: as the caller's.
        return unsafe { kernel_close_range(first, last, flags) };
    }
    // With other flags it closes nothing, or fails.
    if flags & !UNSHARES == 0 && first <= last && !config::shares_memory() {
        for fd in table::known(first, last) {
            if table::has(fd) && !table::is_hidden(fd) {
                guard(|| forget(fd));
            }
            table::closed(fd);
        }
    }
    // SAFETY: as the caller's.
    unsafe { close_around(first, last, flags) }
}

/// Closes a range, or marks it, but for the descriptors of the library.
///
/// # Safety
/// The arguments are those that close_range(2) demands.
unsafe fn close_around(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let mut from = first;
    while let Some(hidden) = table::next_hidden(from, last).filter(|_| from <= last) {
        if from < hidden {
            // SAFETY: as the caller's.
            let done = unsafe { kernel_close_range(from, hidden - 1, flags) };
            if done < 0 {
                return done;
            }
        }
        from = hidden + 1;
    }
    // What is wrong with the arguments is the kernel's to say.
    if from <= last || first > last {
        // SAFETY: as the caller's.
        return unsafe { kernel_close_range(from, last, flags) };
    }
    0
}

/// close_range(2) of the kernel; libc has no such function everywhere.
///
/// # Safety
/// The arguments are those that close_range(2) demands.
unsafe fn kernel_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let [first, last, flags] = [first.into(), last.into(), flags.into()];
    // SAFETY: as the caller's.
    unsafe { real::syscall(libc::SYS_close_range, first, last, flags, 0, 0, 0) as c_int }
}

/// closefrom(3).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: as the caller's.
    unsafe { close_range(first.max(0).cast_unsigned(), c_uint::MAX, 0) };
}

/// dup(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    if hidden::is_hidden(fd) {
        return status(Err(Errno::BADF));
    }
    if is_reentrant(fd) {
        return status(Err(Errno::BUSY));
    }
    // SAFETY: as the caller's.
    let new = unsafe { real::dup(fd) };
    after_dup(fd, new);
    new
}

/// A number names what another one does; nothing has changed if it is negative.
fn after_dup(of: c_int, new: c_int) {
    if new < 0 {
        return;
    }
    table::closed(new);
    if table::has(of) {
        guard(|| duplicate(of, new));
    }
}

/// Has a number name something else: not one that the library has for a moment, before a
/// descriptor gets its place.
fn apart(run: impl FnOnce() -> c_int) -> c_int {
    let _held = config::is_active().then(hidden::hold);
    run()
}

/// dup2(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    if hidden::is_hidden(from) || hidden::is_hidden(to) {
        return status(Err(Errno::BADF));
    }
    if is_reentrant(from) || is_reentrant(to) {
        return status(Err(Errno::BUSY));
    }
    if from != to && (table::has(from) || table::has(to)) {
        let is_open = || rustix::io::fcntl_getfd(crate::library::conn::borrowed(from)).is_ok();
        if table::has(to) && from >= 0 && guard(is_open) {
            guard(|| forget(to));
        }
    }
    // SAFETY: as the caller's.
    let new = apart(|| unsafe { real::dup2(from, to) });
    if from != to {
        after_dup(from, new);
    }
    new
}

/// dup3(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if hidden::is_hidden(from) || hidden::is_hidden(to) {
        return status(Err(Errno::BADF));
    }
    if is_reentrant(from) || is_reentrant(to) {
        return status(Err(Errno::BUSY));
    }
    if from != to && table::has(to) {
        let is_open = || rustix::io::fcntl_getfd(crate::library::conn::borrowed(from)).is_ok();
        if from >= 0 && flags & !libc::O_CLOEXEC == 0 && guard(is_open) {
            guard(|| forget(to));
        }
    }
    // SAFETY: as the caller's.
    let new = apart(|| unsafe { real::dup3(from, to, flags) });
    after_dup(from, new);
    new
}

fn is_pending(conn: &Conn) -> bool {
    conn.phase() == Phase::Pending
}

/// What fcntl(2) does of a descriptor with an entry; `None` if the kernel does it as well.
fn control(fd: c_int, command: c_int, argument: c_long) -> Option<c_int> {
    let object = table::get(fd)?;
    let is_nonblocking = argument & c_long::from(libc::O_NONBLOCK) != 0;
    match (command, object) {
        (libc::F_SETFL, Object::Conn(conn)) => {
            conn.set_nonblocking(is_nonblocking);
            // While it is being made, the engine has the mode.
            is_pending(&conn).then_some(0)
        }
        (libc::F_GETFL, Object::Conn(conn)) if is_pending(&conn) => {
            let bit = if conn.is_nonblocking() {
                libc::O_NONBLOCK
            } else {
                0
            };
            Some(libc::O_RDWR | bit)
        }
        _ => None,
    }
}

/// Follows fcntl(2), whose third argument, where there is one, is an integer or a pointer.
fn after_control(fd: c_int, command: c_int, result: c_int) {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        duplicate(fd, result);
    }
}

/// `F_DUPFD_CLOEXEC` of the library: its duplicates are hidden.
///
/// # Safety
/// The arguments are those that fcntl(2) demands.
unsafe fn own_control(fd: c_int, argument: c_long) -> c_int {
    if !config::is_active() {
        // SAFETY: as the caller's.
        return unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, argument) };
    }
    status(hidden::duplicate(fd).map(IntoRawFd::into_raw_fd))
}

/// fcntl(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    if is_reentrant(fd) {
        return status(Err(Errno::AGAIN));
    }
    if command == libc::F_DUPFD_CLOEXEC && config::is_inside() {
        // SAFETY: as the caller's.
        return unsafe { own_control(fd, argument) };
    }
    if !table::has(fd) || config::is_inside() {
        // SAFETY: as the caller's.
        return unsafe { real::fcntl(fd, command, argument) };
    }
    if table::is_hidden(fd) {
        return status(Err(Errno::BADF));
    }
    if let Some(done) = guard(|| control(fd, command, argument)) {
        return done;
    }
    // SAFETY: as the caller's.
    let result = unsafe { real::fcntl(fd, command, argument) };
    guard(|| after_control(fd, command, result));
    result
}

/// fcntl(2) of programs that were compiled for large files.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn fcntl64(
    fd: c_int,
    command: c_int,
    argument: c_long,
) -> c_int {
    // SAFETY: as the caller's; on 64-bit systems they are one.
    unsafe { fcntl(fd, command, argument) }
}

/// ioctl(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn ioctl(
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
) -> c_int {
    if is_reentrant(fd) {
        return status(Err(Errno::AGAIN));
    }
    if table::has(fd) && !argument.is_null() {
        let value = argument.cast::<c_int>();
        let done = guard(|| match (request, table::get(fd)?) {
            (libc::FIONBIO, Object::Conn(conn)) => {
                // SAFETY: the request names an integer of the caller.
                conn.set_nonblocking(unsafe { *value } != 0);
                is_pending(&conn).then_some(Ok(0))
            }
            (libc::FIONREAD, Object::Conn(conn)) => {
                let unread = conn.unread()?;
                // SAFETY: as above.
                unsafe { *value = c_int::try_from(unread).unwrap_or(c_int::MAX) };
                Some(Ok(0))
            }
            (SIOCATMARK, Object::Conn(conn)) => {
                let mark = conn.smc()?.at_mark().ok()?;
                // SAFETY: as above.
                unsafe { *value = mark.into() };
                Some(Ok(0))
            }
            // What was written is in the peer's memory.
            (libc::TIOCOUTQ, Object::Conn(conn)) => {
                conn.smc()?;
                // SAFETY: as above.
                unsafe { *value = 0 };
                Some(Ok(0))
            }
            _ => None::<Result<usize, Errno>>,
        });
        if let Some(done) = done {
            return returned(done) as c_int;
        }
    }
    // SAFETY: as the caller's.
    unsafe { real::ioctl(fd, request, argument) }
}
