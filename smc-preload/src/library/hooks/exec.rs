//! Other programs in the place of this one, or beside it.

use std::ffi::{c_char, c_int, c_void};

use super::guard;
use crate::library::{accepting, config, hidden, real};

/// The lock that keeps the limit of descriptors the program's, while this process executes
/// another program.
fn before() -> Option<hidden::Held> {
    // A child that shares its parent's memory would leave the lock to the parent for ever.
    if !config::is_active() || config::shares_memory() {
        return None;
    }
    if !config::is_inside() {
        guard(accepting::before_exec);
    }
    Some(hidden::hold())
}

macro_rules! executes {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> c_int {
                let _held = before();
                // SAFETY: as the caller's.
                unsafe { real::$name($($argument),*) }
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
                // The child begins with the limit of this moment.
                let _held = (config::is_active() && !config::shares_memory()).then(hidden::hold);
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
