//! Whether sockets may have options that hold for a stream as well, and that the kernel is asked for.
//!
//! Most programs set none. Sockets inherit them from their listeners, and processes inherit sockets:
//! what was not made by this program, or by one that it was forked from, may have any.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{SO_LINGER, SO_OOBINLINE, SO_RCVLOWAT, SO_RCVTIMEO, SO_SNDTIMEO, SOL_SOCKET};

use super::table;

/// Another name of the time-outs where `time_t` is longer than it was.
const NEW: [i32; 2] = [66, 67];

static ALL_HAVE: AtomicBool = AtomicBool::new(true);

/// The program sets an option of a socket.
pub(crate) fn is_set(level: i32, name: i32) {
    let holds = match name {
        SO_LINGER | SO_OOBINLINE | SO_RCVLOWAT | SO_RCVTIMEO | SO_SNDTIMEO => true,
        other => NEW.contains(&other),
    };
    if level == SOL_SOCKET && holds {
        ALL_HAVE.store(false, Ordering::Relaxed);
    }
}

/// The program connects a socket, or listens at it.
pub(crate) fn is_used(fd: i32) {
    if !table::is_made_here(fd) {
        ALL_HAVE.store(false, Ordering::Relaxed);
    }
}

/// Whether all sockets have the options that new ones have.
pub(crate) fn all_have() -> bool {
    ALL_HAVE.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_may_have_options_once_one_was_set_or_is_of_another_program() {
        let restore = || ALL_HAVE.store(true, Ordering::Relaxed);
        is_set(SOL_SOCKET, libc::SO_REUSEADDR);
        is_set(libc::IPPROTO_TCP, SO_LINGER);
        assert!(all_have());
        for name in [SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, 66, 67] {
            is_set(SOL_SOCKET, name);
            assert!(!all_have());
            restore();
        }
        let fd = 700_321;
        table::made_here(fd, true);
        is_used(fd);
        assert!(all_have());
        table::closed(fd);
        is_used(fd);
        assert!(!all_have());
        restore();
    }
}
