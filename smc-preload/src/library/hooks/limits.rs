//! The limit of descriptors, which is another one for the moments in which the library makes one.

use std::ffi::c_int;

use libc::{pid_t, rlimit, rlimit64};

use crate::library::{config, hidden, real};

/// Waits until the limit is the program's.
fn hold(resource: c_int) -> Option<hidden::Held> {
    let is_of_descriptors = resource == libc::RLIMIT_NOFILE.cast_signed();
    (is_of_descriptors && config::is_active() && !config::is_inside()).then(hidden::hold)
}

macro_rules! resource_of {
    ($resource:ident, $limit:ident) => {
        $resource
    };
    ($pid:ident, $resource:ident, $new:ident, $old:ident) => {
        $resource
    };
}

macro_rules! limits {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> c_int {
                let held = hold(resource_of!($($argument),*));
                // SAFETY: as the caller's.
                let done = unsafe { real::$name($($argument),*) };
                if held.is_some() {
                    hidden::limit_changes();
                }
                done
            }
        )*
    };
}

limits! {
    /// getrlimit(2).
    fn getrlimit(resource: c_int, limit: *mut rlimit);
    /// getrlimit(2) of programs that were compiled for large files.
    fn getrlimit64(resource: c_int, limit: *mut rlimit64);
    /// setrlimit(2).
    fn setrlimit(resource: c_int, limit: *const rlimit);
    /// setrlimit(2) of programs that were compiled for large files.
    fn setrlimit64(resource: c_int, limit: *const rlimit64);
    /// prlimit(2).
    fn prlimit(pid: pid_t, resource: c_int, new: *const rlimit, old: *mut rlimit);
    /// prlimit(2) of programs that were compiled for large files.
    fn prlimit64(pid: pid_t, resource: c_int, new: *const rlimit64, old: *mut rlimit64);
}
