//! System calls that need pointers.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The user that a Unix socket's other end belonged to when it connected or began to
/// listen.
///
/// Not by rustix: its answer holds a process id that cannot be 0, and the kernel says
/// 0 of a process in another PID namespace.
pub(crate) fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the pointers are to a `ucred` and to its length, and the kernel writes
    // no more than that length; the descriptor is open, as it is borrowed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    if result == 0 && len as usize == size_of::<libc::ucred>() {
        Ok(credentials.uid)
    } else {
        Err(io::Error::last_os_error())
    }
}
