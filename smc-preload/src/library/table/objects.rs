//! Objects of descriptors: connections, epoll sets and listeners.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

use smc_sockets::PublishedListener;

use super::{CONN, HIDDEN, LISTENER, NONE, PAGES, PER_PAGE, SET, Slot};
use super::{kind_of, set_kind, slot, slot_or_new};
use crate::library::conn::Conn;
use crate::library::set::Set;

/// The object of a descriptor that the library serves.
#[derive(Clone)]
pub(crate) enum Object {
    /// A connection over SMC, or one that may become SMC.
    Conn(Arc<Conn>),
    /// An epoll set that has such connections.
    Set(Arc<Set>),
    /// A listener whose connections may pair.
    #[allow(dead_code, reason = "it is published for as long as the value lives")]
    Listener(Option<Arc<PublishedListener>>),
}

impl Object {
    fn kind(&self) -> u8 {
        match self {
            Self::Conn(_) => CONN,
            Self::Set(_) => SET,
            Self::Listener(_) => LISTENER,
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Conn(conn) => Some(conn.id),
            Self::Set(set) => Some(set.id()),
            Self::Listener(_) => None,
        }
    }
}

impl Slot {
    /// Locks the object. `None` in a child in which the lock is held for ever.
    fn lock(&self) -> Option<MutexGuard<'_, Option<Object>>> {
        // The lock is held for a few instructions, or for ever in a child that was forked meanwhile.
        for _ in 0..100_000 {
            match self.object.try_lock() {
                Ok(object) => return Some(object),
                Err(TryLockError::Poisoned(object)) => {
                    return Some(PoisonError::into_inner(object));
                }
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }

    /// Replaces the object of a descriptor, whose slot this is; returns the one before.
    fn replace(&self, at: &mut Option<Object>, fd: i32, by: Object) -> Option<Object> {
        let kind = by.kind();
        if let Some(number) = by.number() {
            self.number.store(number, Ordering::Release);
        }
        let before = at.replace(by);
        set_kind(fd, kind);
        before
    }
}

/// Whether the library serves a descriptor, or has it for itself.
#[inline]
pub(crate) fn has(fd: i32) -> bool {
    kind_of(fd) != NONE
}

/// The object of a descriptor.
#[inline]
pub(crate) fn get(fd: i32) -> Option<Object> {
    if matches!(kind_of(fd), NONE | HIDDEN) {
        return None;
    }
    slot(fd)?.lock()?.clone()
}

/// The connection of a descriptor.
#[inline]
pub(crate) fn conn(fd: i32) -> Option<Arc<Conn>> {
    match get(fd)? {
        Object::Conn(conn) => Some(conn),
        _ => None,
    }
}

/// A new number for an object; no two objects have the same.
pub(crate) fn new_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// The number of a descriptor's object, if that is of this kind. Takes no lock.
#[inline]
pub(super) fn number_of(fd: i32, kind: u8) -> Option<u64> {
    // The number changes between the two loads only if the descriptor is closed meanwhile.
    if kind_of(fd) != kind {
        return None;
    }
    Some(slot(fd)?.number.load(Ordering::Acquire))
}

/// The number of a descriptor's connection. Takes no lock.
#[inline]
pub(crate) fn conn_id(fd: i32) -> Option<u64> {
    number_of(fd, CONN)
}

/// The epoll set of a descriptor.
#[inline]
pub(crate) fn set(fd: i32) -> Option<Arc<Set>> {
    match get(fd)? {
        Object::Set(set) => Some(set),
        _ => None,
    }
}

/// All connections, each with each of its descriptors.
pub(crate) fn conns() -> impl Iterator<Item = (i32, Arc<Conn>)> {
    let pages = PAGES
        .iter()
        .enumerate()
        .filter(|(_, page)| page.get().is_some());
    let fds = pages.flat_map(|(page, _)| page * PER_PAGE..(page + 1) * PER_PAGE);
    fds.filter_map(|fd| {
        let fd = i32::try_from(fd).ok()?;
        Some((fd, conn(fd)?))
    })
}

/// The descriptors of all listeners.
pub(crate) fn listeners() -> impl Iterator<Item = i32> {
    let pages = PAGES
        .iter()
        .enumerate()
        .filter(|(_, page)| page.get().is_some());
    let fds = pages.flat_map(|(page, _)| page * PER_PAGE..(page + 1) * PER_PAGE);
    fds.filter_map(|fd| i32::try_from(fd).ok())
        .filter(|fd| kind_of(*fd) == LISTENER)
}

/// Gives a descriptor an object; false if its number is too large.
pub(crate) fn put(fd: i32, object: Object) -> bool {
    let Some(slot) = slot_or_new(fd) else {
        return false;
    };
    let Some(mut at) = slot.lock() else {
        return false;
    };
    let before = slot.replace(&mut at, fd, object);
    drop(at);
    drop(before);
    true
}

/// The epoll set of a descriptor, if it was made in this process; otherwise `new`, which the
/// descriptor gets. `None` if the number is too large. Threads that call at one moment get one set.
pub(crate) fn set_or(fd: i32, new: Arc<Set>) -> Option<Arc<Set>> {
    let slot = slot_or_new(fd)?;
    let mut at = slot.lock()?;
    if let Some(Object::Set(set)) = &*at
        && set.is_of_this_process()
    {
        return Some(set.clone());
    }
    let before = slot.replace(&mut at, fd, Object::Set(new.clone()));
    drop(at);
    drop(before);
    Some(new)
}

/// Whether a descriptor is one of a connection or an epoll set, whose calls take locks.
pub(crate) fn has_locks(fd: i32) -> bool {
    matches!(kind_of(fd), CONN | SET)
}

/// Removes the object of a descriptor.
pub(crate) fn take(fd: i32) -> Option<Object> {
    if matches!(kind_of(fd), NONE | HIDDEN) {
        return None;
    }
    let mut at = slot(fd)?.lock()?;
    set_kind(fd, NONE);
    at.take()
}
