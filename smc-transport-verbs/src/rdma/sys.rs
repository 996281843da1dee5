//! Calls of libibverbs.
//!
//! Objects free themselves, in an order that the library allows: each holds what it was
//! made of.

mod channel;
mod context;
mod queue_pair;
mod region;
mod work;

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::fs::OFlags;

pub(super) use channel::Channel;
pub(super) use context::{Context, DeviceList};
pub use queue_pair::QueuePair;
pub use region::Region;

/// Result of a call that returns an error number.
fn checked(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// Result of a call that returns a pointer.
fn made<T>(pointer: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(io::Error::last_os_error)
}

fn nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}
