//! The beginning of the process, and its children.

use std::ffi::c_long;

use crate::library::{config, hidden, own_listeners, real};

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // SAFETY: getauxval has no precondition.
    let is_privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    super::guard(|| config::start(is_privileged));
    // SAFETY: the handlers are functions of this library, which stays loaded.
    unsafe { libc::pthread_atfork(Some(forks), Some(has_forked), Some(forked)) };
    real::warm_up();
    super::fast::start();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    // A handler of a signal that came in the midst of the library may have its locks.
    if !config::is_inside() {
        super::guard(config::end);
    }
}

/// _exit(2).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _exit(status: std::ffi::c_int) -> ! {
    leave(status)
}

/// _Exit(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _Exit(status: std::ffi::c_int) -> ! {
    leave(status)
}

fn leave(status: std::ffi::c_int) -> ! {
    if !config::is_inside() {
        super::guard(config::end);
    }
    loop {
        // SAFETY: exit_group has no precondition.
        unsafe { real::syscall(libc::SYS_exit_group, status.into(), 0, 0, 0, 0, 0) };
    }
}

/// Makes a call that copies the process, past the C library and the handlers that it calls at
/// fork(2).
pub(super) fn copies(call: impl FnOnce() -> c_long) -> c_long {
    forks();
    let process = call();
    match process {
        0 => forked(),
        _ => has_forked(),
    }
    process
}

/// _Fork(3), which calls no handlers.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn _Fork() -> libc::pid_t {
    // SAFETY: _Fork has no precondition.
    let process = copies(|| c_long::from(unsafe { real::_Fork() }));
    libc::pid_t::try_from(process).unwrap_or(-1)
}

extern "C" fn forks() {
    hidden::before_fork();
}

extern "C" fn has_forked() {
    hidden::after_fork();
    own_listeners::are_shared();
}

extern "C" fn forked() {
    config::forked();
}
