//! What the library has for descriptors, by their number.
//!
//! ```text
//!   KINDS                   0 for a descriptor that is the kernel's alone
//!   PAGES ─► Page ─► Slot   object: the connection, the epoll set or the listener
//!                           added: the epoll set that the kernel has it in
//! ```
//!
//! The look-up of a foreign descriptor is one load; it takes no lock and allocates nothing.

use std::array;
use std::cell::RefCell;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use smc_sockets::PublishedListener;

use super::config;
use super::conn::Conn;
use super::set::Set;

/// Descriptors in a page.
const PER_PAGE: usize = 512;
/// Descriptors with larger numbers than all pages hold stay foreign.
const MOST: usize = 1 << 20;

/// 0, or what kind of object each descriptor has. The kernel backs what is used of it.
static KINDS: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];

static PAGES: [OnceLock<Box<Page>>; MOST / PER_PAGE] = [const { OnceLock::new() }; MOST / PER_PAGE];

struct Page([Slot; PER_PAGE]);

/// What the library has for one descriptor.
#[derive(Default)]
struct Slot {
    /// The number of the connection or the epoll set, if it is one. No two objects have the same.
    number: AtomicU64,
    object: Mutex<Option<Object>>,
    added: Added,
    /// Whether this program made the descriptor as a socket, and has not used it yet.
    origin: AtomicU8,
    /// Threads that wait at it in the kernel, if it is an epoll set without connections.
    waiters: AtomicU32,
}

/// The registration of a descriptor in an epoll set of the kernel.
#[derive(Default)]
struct Added {
    /// The set's descriptor and one, or 0; [`UNKNOWN`] if only the kernel knows.
    set: AtomicI32,
    events: AtomicU32,
    data: AtomicU64,
}

/// The program has made the descriptor as a socket.
const MADE_HERE: u8 = 1;
/// The program has made it as a socket of TCP, and has neither connected it nor listened at it.
const UNUSED: u8 = 2;

/// The descriptor has been in several sets, or its registration has changed.
const UNKNOWN: i32 = -1;
/// The kind of connections.
const CONN: u8 = 1;
/// The kind of epoll sets with connections.
const SET: u8 = 2;
/// The kind of descriptors of the library, which have no object.
const HIDDEN: u8 = 4;

/// A descriptor that is not the kernel's alone.
#[derive(Clone)]
pub(crate) enum Object {
    /// A connection that SMC carries, or may come to.
    Conn(Arc<Conn>),
    /// An epoll set with such connections.
    Set(Arc<Set>),
    /// A listener that was announced, and is published.
    #[allow(dead_code, reason = "it is published for as long as the value lives")]
    Listener(Option<Arc<PublishedListener>>),
}

impl Object {
    fn kind(&self) -> u8 {
        match self {
            Self::Conn(_) => CONN,
            Self::Set(_) => SET,
            Self::Listener(_) => 3,
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

/// The registration of a descriptor in an epoll set, as the kernel has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Registration {
    pub(crate) set: i32,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

#[inline]
fn kind(fd: i32) -> Option<&'static AtomicU8> {
    KINDS.get(usize::try_from(fd).ok()?)
}

/// The kind of a descriptor, 0 if it is the kernel's alone.
#[inline]
fn kind_of(fd: i32) -> u8 {
    kind(fd).map_or(0, |kind| kind.load(Ordering::Acquire))
}

fn set_kind(fd: i32, of: u8) {
    if let Some(kind) = kind(fd) {
        // In one order with what threads note that wait at a set in the kernel.
        kind.store(of, Ordering::SeqCst);
    }
}

#[inline]
fn slot(fd: i32) -> Option<&'static Slot> {
    let fd = usize::try_from(fd).ok()?;
    let page = PAGES.get(fd / PER_PAGE)?.get()?;
    page.0.get(fd % PER_PAGE)
}

#[cold]
fn slot_or_new(fd: i32) -> Option<&'static Slot> {
    let fd = usize::try_from(fd).ok()?;
    let page = PAGES.get(fd / PER_PAGE)?;
    let page = page.get_or_init(|| Box::new(Page(array::from_fn(|_| Slot::default()))));
    page.0.get(fd % PER_PAGE)
}

impl Slot {
    fn lock(&self) -> Option<MutexGuard<'_, Option<Object>>> {
        // Held for a few instructions only, but for ever in a child that was forked in between.
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

    /// Changes the object, which is that of this descriptor; returns the one before.
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

/// Whether there is an entry for a descriptor.
#[inline]
pub(crate) fn has(fd: i32) -> bool {
    kind_of(fd) != 0
}

/// The entry of a descriptor.
#[inline]
pub(crate) fn get(fd: i32) -> Option<Object> {
    if matches!(kind_of(fd), 0 | HIDDEN) {
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

/// A number for an object that no other one has.
pub(crate) fn new_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// The number of the object of a descriptor if it is of a kind.
#[inline]
fn number_of(fd: i32, kind: u8) -> Option<u64> {
    // A number that is overwritten here is one of a descriptor that is closed meanwhile.
    if kind_of(fd) != kind {
        return None;
    }
    Some(slot(fd)?.number.load(Ordering::Acquire))
}

/// The number of the connection of a descriptor.
#[inline]
pub(crate) fn conn_id(fd: i32) -> Option<u64> {
    number_of(fd, CONN)
}

/// The epoll set that a thread used last, which is found without a lock. One that was closed has
/// nothing in it any more.
struct LastSet(RefCell<Option<Arc<Set>>>);

impl Drop for LastSet {
    fn drop(&mut self) {
        config::inside(|| drop(self.0.take()));
    }
}

thread_local! {
    static LAST_SET: LastSet = const { LastSet(RefCell::new(None)) };
}

/// Uses the epoll set of a descriptor for a few instructions. They must not close anything.
#[inline]
pub(crate) fn with_set<T>(fd: i32, run: impl FnOnce(&Set) -> Option<T>) -> Option<T> {
    let number = number_of(fd, SET)?;
    let used = LAST_SET.try_with(|last| {
        let last = last.0.try_borrow().ok()?;
        let set = last.as_ref().filter(|set| set.id() == number)?;
        Some(run(set))
    });
    match used {
        Ok(Some(done)) => done,
        Ok(None) => {
            remember(fd);
            None
        }
        // The thread ends.
        Err(_) => None,
    }
}

/// Remembers the epoll set of a descriptor for the calls that follow.
#[cold]
fn remember(fd: i32) {
    let set = set(fd);
    let before = LAST_SET.try_with(|last| match last.0.try_borrow_mut() {
        Ok(mut last) => std::mem::replace(&mut *last, set),
        Err(_) => set,
    });
    drop(before);
}

/// The epoll set of a descriptor.
#[inline]
pub(crate) fn set(fd: i32) -> Option<Arc<Set>> {
    match get(fd)? {
        Object::Set(set) => Some(set),
        _ => None,
    }
}

/// All connections, each under the descriptors that it has.
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

/// Gives a descriptor an entry; whether it can have one.
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

/// The epoll set of a descriptor if it is of this process; otherwise `new`, which the descriptor
/// gets. None for a number that can have no entry. Threads that ask at one moment get one set.
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

/// Marks a descriptor as the library's; whether it can have a mark.
pub(crate) fn hide(fd: i32) -> bool {
    if slot_or_new(fd).is_none() {
        return false;
    }
    set_kind(fd, HIDDEN);
    true
}

/// Whether a descriptor is the library's.
#[inline]
pub(crate) fn is_hidden(fd: i32) -> bool {
    kind_of(fd) == HIDDEN
}

/// Whether a descriptor has a connection or an epoll set, whose calls take locks.
pub(crate) fn has_locks(fd: i32) -> bool {
    matches!(kind_of(fd), CONN | SET)
}

/// A descriptor of the library is about to be closed.
pub(crate) fn reveal(fd: i32) {
    if let Some(kind) = kind(fd) {
        let _ = kind.compare_exchange(HIDDEN, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The first descriptor of the library from a number on, up to another.
pub(crate) fn next_hidden(from: u32, to: u32) -> Option<u32> {
    let mut at = from as usize;
    let end = (to as usize).min(MOST - 1);
    while at <= end {
        match PAGES.get(at / PER_PAGE).and_then(OnceLock::get) {
            None => at = (at / PER_PAGE + 1) * PER_PAGE,
            Some(_) => {
                if KINDS.get(at)?.load(Ordering::Acquire) == HIDDEN {
                    return u32::try_from(at).ok();
                }
                at += 1;
            }
        }
    }
    None
}

/// The descriptors in a range that have, or may have, something here.
pub(crate) fn known(from: u32, to: u32) -> impl Iterator<Item = i32> {
    let mut at = from as usize;
    let end = (to as usize).min(MOST - 1);
    std::iter::from_fn(move || {
        while at <= end {
            if PAGES.get(at / PER_PAGE)?.get().is_some() {
                at += 1;
                return i32::try_from(at - 1).ok();
            }
            at = (at / PER_PAGE + 1) * PER_PAGE;
        }
        None
    })
}

/// Removes the entry of a descriptor.
pub(crate) fn take(fd: i32) -> Option<Object> {
    if matches!(kind_of(fd), 0 | HIDDEN) {
        return None;
    }
    let mut at = slot(fd)?.lock()?;
    set_kind(fd, 0);
    at.take()
}

/// What the library has for a descriptor, found once for all that a call needs of it.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    slot: &'static Slot,
    kind: &'static AtomicU8,
}

/// The entry of a descriptor, made if there is none yet; none for a number that no program uses.
#[inline]
pub(crate) fn entry(fd: i32) -> Option<Entry> {
    let slot = slot(fd).or_else(|| slot_or_new(fd))?;
    let kind = kind(fd)?;
    Some(Entry { slot, kind })
}

impl Entry {
    /// Whether the descriptor is not the kernel's alone.
    #[inline]
    pub(crate) fn has(self) -> bool {
        self.kind.load(Ordering::Acquire) != 0
    }

    /// A thread begins to wait at this epoll set in the kernel; false if the set has connections
    /// by now, and the thread is to wait for them.
    #[inline]
    pub(crate) fn begins_wait(self) -> bool {
        // A thread that makes this a set with connections sees the waiter, or this one sees that.
        self.slot.waiters.fetch_add(1, Ordering::SeqCst);
        if self.kind.load(Ordering::SeqCst) == SET {
            self.ends_wait();
            return false;
        }
        true
    }

    /// The thread waits no more.
    #[inline]
    pub(crate) fn ends_wait(self) {
        self.slot.waiters.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The kernel has a descriptor in an epoll set from now on.
pub(crate) fn added(fd: i32, to: Registration) {
    let Some(slot) = slot(fd).or_else(|| slot_or_new(fd)) else {
        return;
    };
    let added = &slot.added;
    let before = added.set.load(Ordering::Relaxed);
    let of = to.set.saturating_add(1);
    if before != 0 && before != of {
        added.set.store(UNKNOWN, Ordering::Relaxed);
        return;
    }
    added.events.store(to.events, Ordering::Relaxed);
    added.data.store(to.data, Ordering::Relaxed);
    added.set.store(of, Ordering::Relaxed);
}

/// A registration of a descriptor may change: the kernel is asked if it is needed. Programs that
/// change registrations all the time pay one store for that.
#[inline]
pub(crate) fn changes(fd: i32) {
    if let Some(slot) = slot(fd) {
        slot.added.set.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// The kernel has a descriptor in this epoll set no more.
pub(crate) fn removed(fd: i32, set: i32) {
    if let Some(slot) = slot(fd)
        && slot.added.set.load(Ordering::Relaxed) == set.saturating_add(1)
    {
        slot.added.set.store(0, Ordering::Relaxed);
    }
}

/// A descriptor is closed: the kernel has it in no set.
#[inline]
pub(crate) fn closed(fd: i32) {
    let Some(slot) = slot(fd) else {
        return;
    };
    if slot.added.set.load(Ordering::Relaxed) != 0 {
        slot.added.set.store(0, Ordering::Relaxed);
    }
    if slot.origin.load(Ordering::Relaxed) != 0 {
        slot.origin.store(0, Ordering::Relaxed);
    }
}

/// The program has made a socket, one of TCP or another.
pub(crate) fn made_here(fd: i32, is_tcp: bool) {
    if let Some(slot) = slot_or_new(fd) {
        let unused = if is_tcp { UNUSED } else { 0 };
        slot.origin.store(MADE_HERE | unused, Ordering::Relaxed);
    }
}

/// The program connects a socket, or listens at it: whether it is one of TCP that this program has
/// made and not used before, as far as the library has seen. The kernel refuses to connect one
/// that is in use all the same.
pub(crate) fn begins_use(fd: i32) -> bool {
    let Some(slot) = slot(fd) else {
        return false;
    };
    let before = slot.origin.load(Ordering::Relaxed);
    if before & UNUSED != 0 {
        slot.origin.store(before & !UNUSED, Ordering::Relaxed);
    }
    before & UNUSED != 0
}

/// Whether the program, or one that it was forked from, has made a descriptor as a socket.
pub(crate) fn is_made_here(fd: i32) -> bool {
    slot(fd).is_some_and(|slot| slot.origin.load(Ordering::Relaxed) & MADE_HERE != 0)
}

/// Threads that wait at an epoll set in the kernel without the library.
pub(crate) fn waiters(set: i32) -> u32 {
    slot(set).map_or(0, |slot| slot.waiters.load(Ordering::SeqCst))
}

/// Whether the kernel may have a descriptor in a set.
pub(crate) fn is_added(fd: i32) -> bool {
    slot(fd).is_some_and(|slot| slot.added.set.load(Ordering::Relaxed) != 0)
}

/// The registrations of a descriptor in epoll sets of the kernel. If there may be several, all
/// that `find` lists.
pub(crate) fn registrations(
    fd: i32,
    find: impl FnOnce(i32) -> Vec<Registration>,
) -> Vec<Registration> {
    let Some(slot) = slot(fd) else {
        return Vec::new();
    };
    match slot.added.set.load(Ordering::Relaxed) {
        0 => Vec::new(),
        UNKNOWN => find(fd),
        set => vec![Registration {
            set: set - 1,
            events: slot.added.events.load(Ordering::Relaxed),
            data: slot.added.data.load(Ordering::Relaxed),
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_without_an_entry_are_foreign_whatever_their_number() {
        for fd in [i32::MIN, -1, 0, 700_001, 1 << 20, i32::MAX] {
            assert!(!has(fd), "{fd}");
            assert!(get(fd).is_none() && take(fd).is_none());
            closed(fd);
            assert!(registrations(fd, |_| panic!("none")).is_empty());
        }
    }

    #[test]
    fn descriptors_of_the_library_are_found_until_they_are_revealed() {
        for fd in [701_000, 701_777] {
            assert!(hide(fd) && is_hidden(fd) && has(fd));
            assert!(get(fd).is_none() && take(fd).is_none() && is_hidden(fd));
        }
        assert_eq!(next_hidden(700_500, u32::MAX), Some(701_000));
        assert_eq!(next_hidden(701_001, 701_777), Some(701_777));
        assert_eq!(next_hidden(701_001, 701_776), None);
        assert!(known(701_000, 701_001).eq([701_000, 701_001]));
        assert_eq!(known(900_000, u32::MAX).next(), None);
        reveal(701_777);
        assert!(!has(701_777));
    }

    #[test]
    fn a_socket_is_unused_until_it_is_used_once() {
        let fd = 700_200;
        assert!(!begins_use(fd), "it is none of this program's");
        made_here(fd, true);
        assert!(begins_use(fd) && !begins_use(fd) && is_made_here(fd));
        made_here(fd, true);
        closed(fd);
        assert!(!begins_use(fd) && !is_made_here(fd));
        made_here(fd, false);
        assert!(!begins_use(fd), "it is not of TCP");
    }

    #[test]
    fn registrations_are_known_until_the_descriptor_is_removed_or_closed() {
        let at = |set, data| Registration {
            set,
            events: 5,
            data,
        };
        let fd = 700_100;
        added(fd, at(3, 2));
        assert_eq!(registrations(fd, |_| panic!("one")), [at(3, 2)]);
        removed(fd, 4);
        assert!(is_added(fd));
        removed(fd, 3);
        assert!(!is_added(fd));
        added(fd, at(3, 1));
        added(fd, at(4, 1));
        assert_eq!(registrations(fd, |_| vec![at(9, 9)]), [at(9, 9)]);
        closed(fd);
        assert!(!is_added(fd));
        added(fd, at(3, 1));
        changes(fd);
        assert_eq!(registrations(fd, |_| vec![at(3, 7)]), [at(3, 7)]);
    }
}
