//! Which descriptors the program has made, and which of its sockets it has used: a socket that it was
//! given, or has used already, stays the kernel's.

use super::{IN_NONE, MADE_HERE, MARKS, UNUSED, bits, change};
use crate::library::config;

/// Notes that a descriptor is closed. What a child of `vfork` closes stays open in its parent, whose
/// memory this is.
#[inline]
pub(crate) fn closed(fd: i32) {
    if bits(fd) & MARKS != 0 && !config::is_vforked() {
        change(fd, (MARKS, 0), |_| true);
    }
}

/// Notes that the program has made a descriptor, which is in no epoll set yet.
fn made(fd: i32, marks: u8) {
    if fd >= 0 && !config::is_vforked() {
        change(fd, (MARKS, marks | IN_NONE), |_| true);
    }
}

/// Notes that the program has made a socket, one of TCP or another.
pub(crate) fn made_here(fd: i32, is_tcp: bool) {
    made(fd, MADE_HERE | if is_tcp { UNUSED } else { 0 });
}

/// Notes that the program has made an epoll set.
pub(crate) fn made_set(fd: i32) {
    made(fd, 0);
}

/// Notes that the program connects a socket, or listens at it. Returns whether it is a TCP socket
/// that this program has made and not used before, as far as the library has seen. The kernel
/// refuses to connect one that is in use nevertheless.
pub(crate) fn begins_use(fd: i32) -> bool {
    let is_unused = bits(fd) & UNUSED != 0;
    if is_unused {
        change(fd, (UNUSED, 0), |_| true);
    }
    is_unused
}

/// Whether the program, or one that it was forked from, has made a descriptor as a socket.
pub(crate) fn is_made_here(fd: i32) -> bool {
    bits(fd) & MADE_HERE != 0
}
