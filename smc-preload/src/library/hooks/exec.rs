//! Other programs in the place of this one, or beside it.

use std::ffi::{c_char, c_int, c_void};

use super::guard;
use crate::library::{accepting, config, hidden, real, table};

/// The lock that keeps the limit of descriptors the program's, while this process executes
/// another program.
fn before() -> Option<hidden::Held> {
    if !config::is_active() {
        return None;
    }
    if config::shares_memory() {
        if !config::is_inside() {
            guard(accepting::before_exec_in_shared_memory);
        }
        // The child would leave the lock to its parent for ever.
        return None;
    }
    if !config::is_inside() {
        guard(accepting::before_exec);
    }
    Some(hidden::hold())
}

/// Makes a call that executes another program in the place of this one.
pub(super) fn executes<T>(call: impl FnOnce() -> T) -> T {
    let _held = before();
    call()
}

macro_rules! executes {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> c_int {
                // SAFETY: as the caller's.
                executes(|| unsafe { real::$name($($argument),*) })
            }
        )*
    };
}

/// A list of strings that ends with a null pointer.
type List = *const *const c_char;

executes! {
    /// execve(2).
    fn execve(path: *const c_char, arguments: List, environment: List);
    /// execv(3).
    fn execv(path: *const c_char, arguments: List);
    /// execvp(3).
    fn execvp(file: *const c_char, arguments: List);
    /// execvpe(3).
    fn execvpe(file: *const c_char, arguments: List, environment: List);
    /// fexecve(3).
    fn fexecve(fd: c_int, arguments: List, environment: List);
    /// execveat(2).
    fn execveat(
        directory: c_int,
        path: *const c_char,
        arguments: List,
        environment: List,
        flags: c_int
    );
}

/// The lock that keeps the limit of descriptors the program's: the child that the C library makes
/// begins with the limit of this moment.
fn before_spawn() -> Option<hidden::Held> {
    if !config::is_active() || config::shares_memory() {
        return None;
    }
    if !config::is_inside() && table::serves_any() {
        guard(accepting::before_spawn);
    }
    Some(hidden::hold())
}

macro_rules! spawns {
    ($($(#[$about:meta])* fn $name:ident;)*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(
                pid: *mut libc::pid_t,
                path: *const c_char,
                actions: *const c_void,
                attributes: *const c_void,
                arguments: List,
                environment: List,
            ) -> c_int {
                let _held = before_spawn();
                // SAFETY: as the caller's.
                unsafe { real::$name(pid, path, actions, attributes, arguments, environment) }
            }
        )*
    };
}

spawns! {
    /// posix_spawn(3).
    fn posix_spawn;
    /// posix_spawnp(3).
    fn posix_spawnp;
}

/// posix_spawn_file_actions_adddup2(3): the program that is executed gets the descriptor. The child
/// calls no function that has a hook.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    fd: c_int,
    new: c_int,
) -> c_int {
    if table::has_locks(fd) && !config::is_inside() && !config::shares_memory() {
        guard(|| accepting::is_given(fd));
    }
    // SAFETY: as the caller's.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, fd, new) }
}

/// system(3). The lock is not held while the command runs.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    drop(before_spawn());
    // SAFETY: as the caller's.
    unsafe { real::system(command) }
}

/// popen(3).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    let _held = before_spawn();
    // SAFETY: as the caller's.
    unsafe { real::popen(command, mode) }
}
