//! Registrations of descriptors in epoll sets of the kernel. The library notes one for each
//! descriptor that the program has made, so that it can move it to a set of its own when the
//! descriptor becomes a connection over SMC. If there are several, the kernel is asked.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::{ADDED, IN_NONE, TRACKED, bits, change, slot, slot_or_new};
use crate::library::config;

/// A registration of a descriptor in an epoll set of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Registration {
    pub(crate) set: i32,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

/// The registration of a descriptor in an epoll set of the kernel, if it has [`ADDED`].
#[derive(Default)]
pub(super) struct Added {
    set: AtomicI32,
    events: AtomicU32,
    data: AtomicU64,
}

/// Whether the library knows in which epoll sets the kernel has a descriptor.
#[inline]
pub(crate) fn is_tracked(fd: i32) -> bool {
    bits(fd) & TRACKED != 0
}

/// Leaves it to the kernel to know the epoll sets of a descriptor, which are of no interest while it
/// is a connection.
pub(crate) fn untrack(fd: i32) {
    if is_tracked(fd) {
        change(fd, (TRACKED, 0), |_| true);
    }
}

/// Notes that the kernel has changed the registration of a descriptor.
pub(crate) fn registered(operation: i32, fd: i32, to: Registration) {
    let before = bits(fd) & TRACKED;
    if before == 0 {
        return;
    }
    let slot = slot(fd).or_else(|| slot_or_new(fd));
    let Some(slot) = slot.filter(|_| !config::is_vforked()) else {
        return untrack(fd);
    };
    let added = &slot.added;
    let is_same = || before == ADDED && added.set.load(Ordering::Relaxed) == to.set;
    match operation {
        libc::EPOLL_CTL_ADD if before == IN_NONE => {}
        libc::EPOLL_CTL_MOD if is_same() => {}
        libc::EPOLL_CTL_DEL if is_same() => {
            change(fd, (TRACKED, IN_NONE), |_| true);
            return;
        }
        _ => return untrack(fd),
    }
    added.events.store(to.events, Ordering::Relaxed);
    added.data.store(to.data, Ordering::Relaxed);
    added.set.store(to.set, Ordering::Relaxed);
    change(fd, (TRACKED, ADDED), |_| true);
}

/// The registrations of a descriptor in epoll sets of the kernel: those that are noted, or all that
/// `find` lists if only the kernel knows them.
pub(crate) fn registrations(
    fd: i32,
    find: impl FnOnce(i32) -> Vec<Registration>,
) -> Vec<Registration> {
    let tracked = bits(fd) & TRACKED;
    match slot(fd) {
        _ if tracked == IN_NONE => Vec::new(),
        Some(slot) if tracked == ADDED => vec![Registration {
            set: slot.added.set.load(Ordering::Relaxed),
            events: slot.added.events.load(Ordering::Relaxed),
            data: slot.added.data.load(Ordering::Relaxed),
        }],
        _ => find(fd),
    }
}
