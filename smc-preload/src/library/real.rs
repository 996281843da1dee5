//! The functions of libc that this library replaces.
#![allow(non_snake_case, reason = "they have libc's names")]

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
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty, else $failure:expr;)*) => {
        $(
            /// Where the function is.
            pub(crate) mod $name {
                #[allow(unused_imports, reason = "not each function has all types")]
                use super::*;

                pub(super) type Function = unsafe extern "C-unwind" fn($($kind),*) -> $result;

                pub(crate) static AT: AtomicPtr<c_void> =
                    AtomicPtr::new(resolve as Function as *mut c_void);

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
                        crate::library::errno::set(libc::ENOSYS);
                        return $failure;
                    }
                    // SAFETY: libc's function of this name has this type.
                    let function: Function = unsafe { std::mem::transmute(found) };
                    // SAFETY: the caller keeps to what the function asks for.
                    unsafe { function($($argument),*) }
                }
            }

            $(#[$attribute])*
            #[inline]
            pub(crate) unsafe fn $name($($argument: $kind),*) -> $result {
                // SAFETY: the pointer is `resolve` or libc's function of this name: both have this
                // type.
                let function: $name::Function =
                    unsafe { std::mem::transmute($name::AT.load(Ordering::Relaxed)) };
                // SAFETY: the caller keeps to what the function asks for.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

real! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int, else -1;
    fn listen(fd: c_int, backlog: c_int) -> c_int, else -1;
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int, else -1;
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int, else -1;
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int, else -1;
    fn shutdown(fd: c_int, how: c_int) -> c_int, else -1;
    fn close(fd: c_int) -> c_int, else -1;
    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int, else -1;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int, else -1;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int, else -1;
    fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t, else -1;
    fn readv(fd: c_int, into: *const libc::iovec, count: c_int) -> ssize_t, else -1;
    fn recv(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> ssize_t, else -1;
    fn recvfrom(fd: c_int, into: *mut c_void, len: size_t, flags: c_int, address: *mut sockaddr, address_len: *mut socklen_t) -> ssize_t, else -1;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, else -1;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: libc::c_uint, flags: c_int, timeout: *mut timespec) -> c_int, else -1;
    fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t, else -1;
    fn writev(fd: c_int, bytes: *const libc::iovec, count: c_int) -> ssize_t, else -1;
    fn send(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t, else -1;
    fn sendto(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int, address: *const sockaddr, address_len: socklen_t) -> ssize_t, else -1;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, else -1;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: libc::c_uint, flags: c_int) -> c_int, else -1;
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t, else -1;
    fn sendfile64(to: c_int, from: c_int, offset: *mut libc::off64_t, len: size_t) -> ssize_t, else -1;
    fn splice(from: c_int, from_offset: *mut libc::loff_t, to: c_int, to_offset: *mut libc::loff_t, len: size_t, flags: libc::c_uint) -> ssize_t, else -1;
    fn preadv(fd: c_int, into: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t, else -1;
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int, else -1;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int, else -1;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int, else -1;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int, else -1;
    fn epoll_create(size: c_int) -> c_int, else -1;
    fn epoll_create1(flags: c_int) -> c_int, else -1;
    fn epoll_ctl(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int, else -1;
    fn epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int, else -1;
    fn epoll_pwait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int, mask: *const sigset_t) -> c_int, else -1;
    fn epoll_pwait2(set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int, else -1;
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int, else -1;
    fn ioctl(fd: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int, else -1;
    fn dup(fd: c_int) -> c_int, else -1;
    fn dup2(from: c_int, to: c_int) -> c_int, else -1;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int, else -1;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long, else -1;
    fn pthread_cancel(thread: libc::pthread_t) -> c_int, else -1;
    fn getrlimit(resource: c_int, limit: *mut libc::rlimit) -> c_int, else -1;
    fn getrlimit64(resource: c_int, limit: *mut libc::rlimit64) -> c_int, else -1;
    fn setrlimit(resource: c_int, limit: *const libc::rlimit) -> c_int, else -1;
    fn setrlimit64(resource: c_int, limit: *const libc::rlimit64) -> c_int, else -1;
    fn prlimit(pid: libc::pid_t, resource: c_int, new: *const libc::rlimit, old: *mut libc::rlimit) -> c_int, else -1;
    fn prlimit64(pid: libc::pid_t, resource: c_int, new: *const libc::rlimit64, old: *mut libc::rlimit64) -> c_int, else -1;
    fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int, else -1;
    fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int, else -1;
    fn posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int, else -1;
    fn preadv2(fd: c_int, into: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t, else -1;
    fn pwritev2(fd: c_int, bytes: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t, else -1;
    fn sockatmark(fd: c_int) -> c_int, else -1;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, else -1;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, else -1;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int, else -1;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int, else -1;
    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int, else -1;
    fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int, else -1;
    fn execveat(directory: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int, else -1;
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, new: c_int) -> c_int, else libc::ENOSYS;
    fn _Fork() -> libc::pid_t, else -1;
    fn system(command: *const c_char) -> c_int, else -1;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE, else ptr::null_mut();
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE, else ptr::null_mut();
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut libc::FILE) -> *mut libc::FILE, else ptr::null_mut();
}

/// Finds what is called most, so that no call has to search for it.
pub(crate) fn warm_up() {
    // SAFETY: -1 is no descriptor: each fails without doing anything.
    unsafe {
        read(-1, ptr::null_mut(), 0);
        write(-1, ptr::null(), 0);
        close(-1);
        fcntl(-1, libc::F_GETFD, 0);
    }
}
