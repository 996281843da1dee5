//! System calls and socket options for which no dependency has a safe function. All of them
//! affect this process or the socket given, and keep no state here.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// `SO_BUF_LOCK`.
const BUFFER_LOCKS: libc::c_int = 72;

/// `SIOCATMARK`.
const AT_MARK: libc::Ioctl = 0x8905;

/// Number of descriptors for which [`reserve_descriptors`] makes room.
const DESCRIPTORS: u64 = 1024;

/// Grows the descriptor table of this process to [`DESCRIPTORS`] entries, or to `RLIMIT_NOFILE` if
/// that is lower. Duplicates `any` to the last number, and closes the duplicate at once.
///
/// In a process with several threads each growth of the table waits until all CPUs have passed
/// through the scheduler: 20 to 40 ms on a busy machine, in the thread that opens the 65th, 257th
/// or 513th descriptor. The table takes 8 bytes for each descriptor.
///
/// # Errors
/// The error of duplicating the descriptor.
pub(crate) fn reserve_descriptors(any: impl AsFd) -> io::Result<()> {
    let most = getrlimit(Resource::Nofile).current;
    let last = most
        .map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS))
        .saturating_sub(1);
    let last = i32::try_from(last).map_err(io::Error::other)?;
    drop(rustix::io::fcntl_dupfd_cloexec(any, last)?);
    Ok(())
}

/// Has a descriptor of this process name what `by` does, and closes what it named. The number stays
/// open, and its owner's. For a child made by `fork` in which nothing closes the number any more, as a
/// thread of the parent owned it.
pub(crate) fn replace_inherited(of: impl AsFd, by: impl AsFd) {
    let (number, by) = (of.as_fd().as_raw_fd(), by.as_fd().as_raw_fd());
    // SAFETY: dup3 accesses no memory of the caller; the number was open and stays so. If it fails,
    // nothing has changed.
    unsafe { libc::dup3(by, number, libc::O_CLOEXEC) };
}

/// Sets `SO_RCVLOWAT`: the number of bytes, at least 1, that must have been received before `poll`
/// reports a socket readable. The end of the stream is reported regardless.
///
/// # Errors
/// The error of `setsockopt`.
pub(crate) fn set_low_water(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes.max(1)).unwrap_or(libc::c_int::MAX);
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw const bytes).cast();
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `size` bytes at `value`, which is a local variable.
    let done =
        unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, size) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this process gained privileges when it was executed, so that its environment cannot be
/// trusted (`AT_SECURE`, which secure_getenv(3) checks, too).
pub(crate) fn is_secure() -> bool {
    // SAFETY: getauxval reads a number and accesses no memory of the caller.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the read position of a TCP socket is at the urgent mark (`SIOCATMARK`).
///
/// # Errors
/// The error of `ioctl`.
pub(crate) fn is_at_mark(socket: impl AsFd) -> io::Result<bool> {
    let mut at_mark: libc::c_int = 0;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes one `c_int` to a local variable of that type.
    match unsafe { libc::ioctl(socket, AT_MARK, &raw mut at_mark) } {
        0 => Ok(at_mark != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the program has set the size of a socket's receive buffer, and of its send buffer
/// (`SO_BUF_LOCK`). Both are `false` before Linux 5.15, which does not report them.
pub(crate) fn are_buffers_set(socket: impl AsFd) -> (bool, bool) {
    let mut locks: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    let value = (&raw mut locks).cast();
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `size` bytes to `value`, which is a local variable,
    // and their number to `size`, which is another.
    let done =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, BUFFER_LOCKS, value, &raw mut size) };
    (done == 0 && locks & 2 != 0, done == 0 && locks & 1 != 0)
}

/// Time since a TCP socket has last received bytes, in whole milliseconds (`TCP_INFO`); `None` if the
/// kernel does not say.
pub(crate) fn last_received(socket: impl AsFd) -> Option<Duration> {
    // Where `tcpi_last_data_recv` begins, which is of 32 bits, and the length of what is asked for.
    const AT: usize = 52;
    const LEN: usize = AT + 4;
    let mut info = [0_u8; LEN];
    let mut size = LEN as libc::socklen_t;
    let value = info.as_mut_ptr().cast();
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `size` bytes to `value`, which is a local variable,
    // and their number to `size`, which is another.
    let done = unsafe {
        libc::getsockopt(
            socket,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            value,
            &raw mut size,
        )
    };
    let millis = info.last_chunk().copied().map(u32::from_ne_bytes);
    let millis = millis.filter(|_| done == 0 && size as usize == LEN)?;
    Some(Duration::from_millis(millis.into()))
}

#[cfg(test)]
mod tests {
    use super::{are_buffers_set, last_received, set_low_water};
    use rustix::event::{PollFd, PollFlags};
    use rustix::net::sockopt;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn below_the_low_water_mark_no_thread_is_woken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let is_readable = |millis: i64| {
            let time = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: millis * 1_000_000,
            };
            let mut polled = [PollFd::new(&server, PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&time)).unwrap() > 0
        };
        set_low_water(&server, 8).unwrap();
        client.write_all(b"four").unwrap();
        assert!(!is_readable(50));
        client.write_all(b"more").unwrap();
        assert!(is_readable(900));
        set_low_water(&server, 100).unwrap();
        assert!(!is_readable(50));
        drop(client);
        assert!(is_readable(900));
    }

    #[test]
    fn the_kernel_knows_when_bytes_have_come() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let begin = Instant::now();
        client.write_all(b"bytes").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let age = last_received(&server).unwrap();
        // The kernel counts in ticks of up to 10 ms.
        let least = Duration::from_millis(80);
        assert!(age >= least && age <= begin.elapsed() + least, "{age:?}");
    }

    /// Later descriptors wait for no growth of the table.
    #[test]
    fn a_stack_makes_room_for_descriptors() {
        crate::children::fork(|| {
            let room = || {
                let status = std::fs::read_to_string("/proc/self/status").unwrap();
                let line = status.lines().find_map(|at| at.strip_prefix("FDSize:"));
                line.unwrap().trim().parse::<u64>().unwrap()
            };
            assert!(room() < super::DESCRIPTORS, "a child has a small table");
            let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
            let _stack = crate::Stack::open().unwrap();
            assert!(room() >= super::DESCRIPTORS.min(most.unwrap_or(u64::MAX)));
        })
        .succeeds();
    }

    #[test]
    fn the_kernel_knows_which_sizes_of_buffers_were_set() {
        let socket = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (none, receive, send) = (socket(), socket(), socket());
        sockopt::set_socket_recv_buffer_size(&receive, 1 << 16).unwrap();
        sockopt::set_socket_send_buffer_size(&send, 1 << 16).unwrap();
        assert_eq!(
            [&none, &receive, &send].map(are_buffers_set),
            [(false, false), (true, false), (false, true)]
        );
    }
}
