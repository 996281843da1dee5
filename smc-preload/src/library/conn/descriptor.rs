//! Calls of the kernel for a connection's descriptor.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::library::{config, real};

/// A descriptor of the program for one call.
#[allow(unsafe_code)]
pub(crate) fn borrowed<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: only the kernel uses the number, which the program may close at any time: a
    // call on a closed one fails. -1 is no descriptor, which the type asks for.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// Waits until a descriptor is readable, if there is one.
pub(crate) fn poll_one(fd: Option<i32>, time: Option<Duration>) -> Result<(), Errno> {
    let time = time.and_then(|time| rustix::time::Timespec::try_from(time).ok());
    config::outside(|| {
        let mut polled = fd.map(|fd| PollFd::from_borrowed_fd(borrowed(fd), PollFlags::IN));
        rustix::event::poll(polled.as_mut_slice(), time.as_ref())
    })?;
    Ok(())
}

/// Whether the kernel would take bytes for a descriptor, without an error of it.
pub(crate) fn is_writable(fd: i32) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(borrowed(fd), PollFlags::OUT)];
    let now = rustix::time::Timespec::default();
    let found = config::inside(|| rustix::event::poll(&mut polled, Some(&now)));
    found.is_ok() && polled.iter().all(|at| at.revents() == PollFlags::OUT)
}

/// Sets `O_NONBLOCK` of a descriptor.
pub(crate) fn set_mode(fd: i32, nonblocking: bool) {
    let fd = borrowed(fd);
    if let Ok(flags) = rustix::fs::fcntl_getfl(fd) {
        let mut new = flags;
        new.set(rustix::fs::OFlags::NONBLOCK, nonblocking);
        if new != flags {
            let _ = rustix::fs::fcntl_setfl(fd, new);
        }
    }
}

/// Has a number name another open file.
#[allow(unsafe_code)]
pub(crate) fn replace(fd: i32, by: i32) {
    let flags = rustix::io::fcntl_getfd(borrowed(fd)).unwrap_or(rustix::io::FdFlags::empty());
    let close_on_exec = flags.contains(rustix::io::FdFlags::CLOEXEC);
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: dup3 has no precondition; the number is the program's, which has it for the
    // connection that `by` is.
    unsafe { real::dup3(by, fd, flags) };
}

/// Bytes that make a socket readable (`SO_RCVLOWAT`), as the kernel has it.
#[allow(unsafe_code)]
pub(crate) fn low_water(fd: i32) -> usize {
    let (mut value, mut len) = (1_i32, 4_u32);
    // SAFETY: the value and its length are this function's.
    unsafe {
        real::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    usize::try_from(value).unwrap_or(1)
}
