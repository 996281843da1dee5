//! Error numbers.

use std::io;

use rustix::io::Errno;

/// Sets the error number of this thread.
#[allow(unsafe_code)]
pub(crate) fn set(number: i32) {
    // SAFETY: libc's pointer to this thread's own number is valid.
    unsafe { *libc::__errno_location() = number };
}

/// The error number that a TCP socket has for an error of a stream.
pub(crate) fn of(error: &io::Error) -> Errno {
    if let Some(number) = error.raw_os_error() {
        return Errno::from_raw_os_error(number);
    }
    match error.kind() {
        io::ErrorKind::WouldBlock => Errno::AGAIN,
        io::ErrorKind::Interrupted => Errno::INTR,
        io::ErrorKind::BrokenPipe => Errno::PIPE,
        io::ErrorKind::TimedOut => Errno::TIMEDOUT,
        io::ErrorKind::NotConnected => Errno::NOTCONN,
        io::ErrorKind::InvalidInput => Errno::INVAL,
        io::ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
        io::ErrorKind::OutOfMemory => Errno::NOMEM,
        // A child has inherited the connection, or the peer is gone.
        _ => Errno::CONNRESET,
    }
}
