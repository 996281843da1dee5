//! System calls that programs make by number.

use std::ffi::{c_int, c_long, c_ulong};

use super::{address, data, exec, fds, limits, options, start, waits};
use crate::library::{defaults, real, table};

/// An argument as a pointer.
fn at<T>(argument: c_long) -> *mut T {
    std::ptr::with_exposed_provenance_mut(argument.cast_unsigned() as usize)
}

/// An argument as an `int`: the kernel reads its low half.
#[allow(clippy::cast_possible_truncation, reason = "as the kernel does")]
fn int(argument: c_long) -> c_int {
    argument as c_int
}

/// An argument as a length.
fn len(argument: c_long) -> usize {
    argument.cast_unsigned() as usize
}

/// syscall(2): calls that have a hook go there if they concern a connection.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: as the caller's.
    match unsafe { hooked(number, [a, b, c, d, e, f]) } {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::syscall(number, a, b, c, d, e, f) },
    }
}

/// The hook of a call, if it has one; `None` if the kernel does it.
///
/// # Safety
/// The arguments are those that the call demands.
#[inline]
unsafe fn hooked(number: c_long, arguments: [c_long; 6]) -> Option<c_long> {
    let [a, b, c, d, e, f] = arguments;
    // Of most calls the first argument is the descriptor.
    if table::has(int(a)) {
        // SAFETY: as the caller's.
        if let Some(done) = unsafe { of_served(number, arguments) } {
            return Some(done);
        }
    }
    // SAFETY: as the caller's, for all of these.
    let done = unsafe {
        match number {
            libc::SYS_connect => address::connect(int(a), at(b), int(c).cast_unsigned()).into(),
            libc::SYS_listen => address::listen(int(a), int(b)).into(),
            libc::SYS_accept4 => address::accept4(int(a), at(b), at(c), int(d)).into(),
            libc::SYS_socket => address::socket(int(a), int(b), int(c)).into(),
            libc::SYS_dup3 => fds::dup3(int(a), int(b), int(c)).into(),
            libc::SYS_close => {
                table::closed(int(a));
                return None;
            }
            libc::SYS_close_range => {
                let [first, last] = [a, b].map(|at| int(at).cast_unsigned());
                fds::close_range(first, last, int(c)).into()
            }
            // A set may get its first connection while a thread waits at it.
            libc::SYS_epoll_pwait => {
                waits::epoll_pwait(int(a), at(b), int(c), int(d), at(e)).into()
            }
            libc::SYS_epoll_pwait2 => {
                waits::epoll_pwait2(int(a), at(b), int(c), at(d), at(e)).into()
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => waits::epoll_wait(int(a), at(b), int(c), int(d)).into(),
            libc::SYS_epoll_create1 => waits::epoll_create1(int(a)).into(),
            libc::SYS_epoll_ctl => waits::epoll_ctl(int(a), int(b), int(c), at(d)).into(),
            libc::SYS_ppoll => waits::ppoll(at(a), b.cast_unsigned(), at(c), at(d)).into(),
            libc::SYS_prlimit64 => limits::prlimit64(int(a), int(b), at(c), at(d)).into(),
            libc::SYS_setrlimit => limits::setrlimit64(int(a), at(b)).into(),
            libc::SYS_setsockopt => {
                defaults::is_set(int(b), int(c));
                return None;
            }
            libc::SYS_sendmsg => data::sendmsg(int(a), at(b), int(c)) as c_long,
            libc::SYS_splice if table::has(int(c)) => {
                data::splice(int(a), at(b), int(c), at(d), len(e), int(f).cast_unsigned()) as c_long
            }
            libc::SYS_pselect6 if waits::concerns(int(a), waits::Sets([at(b), at(c), at(d)])) => {
                // SAFETY: the kernel takes a pointer to the mask and its length.
                let mask = at::<*const libc::sigset_t>(f);
                let mask = mask.as_ref().copied().unwrap_or(std::ptr::null());
                waits::pselect(int(a), at(b), at(c), at(d), at(e), mask).into()
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select if waits::concerns(int(a), waits::Sets([at(b), at(c), at(d)])) => {
                waits::select(int(a), at(b), at(c), at(d), at(e)).into()
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_accept => address::accept(int(a), at(b), at(c)).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => fds::dup2(int(a), int(b)).into(),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => waits::poll(at(a), b.cast_unsigned(), int(c)).into(),
            libc::SYS_execve | libc::SYS_execveat => {
                exec::executes(|| real::syscall(number, a, b, c, d, e, f))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork => start::copies(|| real::syscall(number, a, b, c, d, e, f)),
            libc::SYS_clone if is_fork(a, b) => {
                start::copies(|| real::syscall(number, a, b, c, d, e, f))
            }
            _ => return None,
        }
    };
    Some(done)
}

/// Whether clone(2) with these arguments makes a process with a copy of the memory and of the
/// stack, as fork(2) does.
fn is_fork(a: c_long, b: c_long) -> bool {
    let (flags, stack) = match cfg!(target_arch = "s390x") {
        true => (b, a),
        false => (a, b),
    };
    stack == 0 && int(flags) & (libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_THREAD) == 0
}

/// The hook of a call on a descriptor that has an entry.
///
/// # Safety
/// The arguments are those that the call demands.
unsafe fn of_served(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Option<c_long> {
    let fd = int(a);
    // SAFETY: as the caller's, for all of these.
    let done = unsafe {
        match number {
            libc::SYS_read => data::read(fd, at(b), len(c)) as c_long,
            libc::SYS_readv => data::readv(fd, at(b), int(c)) as c_long,
            libc::SYS_preadv2 => data::preadv2(fd, at(b), int(c), d, int(f)) as c_long,
            libc::SYS_pwritev2 => data::pwritev2(fd, at(b), int(c), d, int(f)) as c_long,
            libc::SYS_preadv => data::preadv(fd, at(b), int(c), 0) as c_long,
            libc::SYS_recvfrom => data::recvfrom(fd, at(b), len(c), int(d), at(e), at(f)) as c_long,
            libc::SYS_recvmsg => data::recvmsg(fd, at(b), int(c)) as c_long,
            libc::SYS_recvmmsg => {
                data::recvmmsg(fd, at(b), int(c).cast_unsigned(), int(d), at(e)).into()
            }
            libc::SYS_write => data::write(fd, at(b), len(c)) as c_long,
            libc::SYS_writev => data::writev(fd, at(b), int(c)) as c_long,
            libc::SYS_sendto => {
                data::sendto(fd, at(b), len(c), int(d), at(e), int(f).cast_unsigned()) as c_long
            }
            libc::SYS_sendmmsg => data::sendmmsg(fd, at(b), int(c).cast_unsigned(), int(d)).into(),
            libc::SYS_sendfile => data::sendfile(fd, int(b), at(c), len(d)) as c_long,
            libc::SYS_splice => {
                data::splice(fd, at(b), int(c), at(d), len(e), int(f).cast_unsigned()) as c_long
            }
            libc::SYS_shutdown => address::shutdown(fd, int(b)).into(),
            libc::SYS_close => fds::close(fd).into(),
            libc::SYS_dup => fds::dup(fd).into(),
            libc::SYS_fcntl => fds::fcntl(fd, int(b), c).into(),
            libc::SYS_ioctl => fds::ioctl(fd, b as c_ulong, at(c)).into(),
            libc::SYS_getpeername => address::getpeername(fd, at(b), at(c)).into(),
            libc::SYS_getsockopt => options::getsockopt(fd, int(b), int(c), at(d), at(e)).into(),
            libc::SYS_setsockopt => {
                let len = int(e).cast_unsigned();
                options::setsockopt(fd, int(b), int(c), at(d), len).into()
            }
            _ => return None,
        }
    };
    Some(done)
}
