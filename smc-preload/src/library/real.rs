//! The functions of libc that this library stands before.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    epoll_event, fd_set, mmsghdr, msghdr, nfds_t, off_t, pollfd, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval,
};

/// Finds the next definition of a function behind this library's. Null if there is none.
#[cold]
fn find(at: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string; dlsym has no other precondition.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !found.is_null() {
        at.store(found, Ordering::Relaxed);
    }
    found
}

/// Defines each function so that a call is one jump through a pointer, which saves no register:
/// at first it points to a function that finds the real one.
macro_rules! real {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
            $(#[$attribute])*
            #[inline]
            pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
                type Function = unsafe extern "C-unwind" fn($($kind),*) -> $result;

                static AT: AtomicPtr<c_void> = AtomicPtr::new(resolve as Function as *mut c_void);

                #[cold]
                unsafe extern "C-unwind" fn resolve($($argument: $kind),*) -> $result {
                    let name = const {
                        match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                            Ok(name) => name,
                            Err(_) => panic!(),
                        }
                    };
                    let found = find(&AT, name);
                    if found.is_null() {
                        super::errno::set(libc::ENOSYS);
                        return -1;
                    }
                    // SAFETY: libc's function of this name has this type.
                    let function: Function = unsafe { std::mem::transmute(found) };
                    // SAFETY: the caller keeps to what the function asks for.
                    unsafe { function($($argument),*) }
                }

                // SAFETY: the pointer is `resolve` or libc's function of this name: both have this
                // type.
                let function: Function = unsafe { std::mem::transmute(AT.load(Ordering::Relaxed)) };
                // SAFETY: the caller keeps to what the function asks for.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

real! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: libc::c_uint, last: libc::c_uint, flags: c_int) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t;
    fn readv(fd: c_int, into: *const libc::iovec, count: c_int) -> ssize_t;
    fn recv(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, into: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: libc::c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t;
    fn writev(fd: c_int, bytes: *const libc::iovec, count: c_int) -> ssize_t;
    fn send(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: libc::c_uint, flags: c_int) -> c_int;
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t;
    fn sendfile64(to: c_int, from: c_int, offset: *mut libc::off64_t, len: size_t) -> ssize_t;
    fn splice(from: c_int, from_offset: *mut libc::loff_t, to: c_int, to_offset: *mut libc::loff_t, len: size_t, flags: libc::c_uint) -> ssize_t;
    fn preadv(fd: c_int, into: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t;
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int, mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int;
    fn ioctl(fd: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn getrlimit(resource: c_int, limit: *mut libc::rlimit) -> c_int;
    fn getrlimit64(resource: c_int, limit: *mut libc::rlimit64) -> c_int;
    fn setrlimit(resource: c_int, limit: *const libc::rlimit) -> c_int;
    fn setrlimit64(resource: c_int, limit: *const libc::rlimit64) -> c_int;
    fn prlimit(pid: libc::pid_t, resource: c_int, new: *const libc::rlimit, old: *mut libc::rlimit) -> c_int;
    fn prlimit64(pid: libc::pid_t, resource: c_int, new: *const libc::rlimit64, old: *mut libc::rlimit64) -> c_int;
    fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn preadv2(fd: c_int, into: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn pwritev2(fd: c_int, bytes: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn sockatmark(fd: c_int) -> c_int;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
}

/// A function that was found before, or is found now.
fn known(at: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = at.load(Ordering::Relaxed);
    if known.is_null() {
        find(at, name)
    } else {
        known
    }
}

/// Finds a function whose result is no number: `fdopen`.
pub(crate) fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    static AT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let found = known(&AT, c"fdopen");
    if found.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: libc's function of this name has this type.
    let function: unsafe extern "C-unwind" fn(c_int, *const c_char) -> *mut libc::FILE =
        unsafe { std::mem::transmute(found) };
    // SAFETY: the mode is the caller's C string.
    unsafe { function(fd, mode) }
}

/// Opens a stream anew: `freopen`.
///
/// # Safety
/// The arguments are those that freopen(3) demands.
pub(crate) unsafe fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut libc::FILE,
) -> *mut libc::FILE {
    static AT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let found = known(&AT, c"freopen");
    if found.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: libc's function of this name has this type.
    let function: unsafe extern "C-unwind" fn(
        *const c_char,
        *const c_char,
        *mut libc::FILE,
    ) -> *mut libc::FILE = unsafe { std::mem::transmute(found) };
    // SAFETY: as the caller's.
    unsafe { function(path, mode, stream) }
}

/// Finds what is called most, so that no call has to look for it.
pub(crate) fn warm_up() {
    // SAFETY: -1 is no descriptor: each fails without doing anything.
    unsafe {
        read(-1, ptr::null_mut(), 0);
        write(-1, ptr::null(), 0);
        close(-1);
        fcntl(-1, libc::F_GETFD, 0);
    }
}
