//! What the library has for descriptors, by their number.
//!
//! ```text
//!   LOW, HIGH               a byte for each descriptor: the kind of its object, and marks
//!   WAITERS                 threads that wait at a descriptor in the kernel
//!   PAGES ─► Page ─► Slot   object: the connection, the epoll set or the listener
//!                           added: the epoll set that the kernel has it in
//! ```
//!
//! The look-up of a foreign descriptor is one load; it takes no lock and allocates nothing. The
//! calls that programs make most look at the byte of its low 16 bits only: that of a larger number
//! leaves a mark there, and is looked up in full.

use std::array;
use std::cell::RefCell;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use smc_sockets::PublishedListener;

use super::config;
use super::conn::Conn;
use super::set::Set;

/// Descriptors in a page.
const PER_PAGE: usize = 512;
/// Descriptors with larger numbers than all pages hold stay foreign.
const MOST: usize = 1 << 20;

/// Descriptors whose byte is found by their low 16 bits.
const LOW_COUNT: usize = 1 << 16;

/// What each descriptor is. The kernel backs what is used of it.
pub(crate) static LOW: [AtomicU8; LOW_COUNT] = [const { AtomicU8::new(0) }; LOW_COUNT];
static HIGH: [AtomicU8; MOST - LOW_COUNT] = [const { AtomicU8::new(0) }; MOST - LOW_COUNT];

/// Threads that wait at each descriptor in the kernel, if it is an epoll set without connections.
static WAITERS: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];

static PAGES: [OnceLock<Box<Page>>; MOST / PER_PAGE] = [const { OnceLock::new() }; MOST / PER_PAGE];

struct Page([Slot; PER_PAGE]);

/// What the library has for one descriptor.
#[derive(Default)]
struct Slot {
    /// The number of the connection or the epoll set, if it is one. No two objects have the same.
    number: AtomicU64,
    object: Mutex<Option<Object>>,
    added: Added,
}

/// The registration of a descriptor in an epoll set of the kernel, if it has [`ADDED`].
#[derive(Default)]
struct Added {
    set: AtomicI32,
    events: AtomicU32,
    data: AtomicU64,
}

/// The program has made the descriptor as a socket.
const MADE_HERE: u8 = 1 << 3;
/// The program has made it as a socket of TCP, and has neither connected it nor listened at it.
const UNUSED: u8 = 1 << 4;
/// The kernel has the descriptor in no epoll set. Without this and [`ADDED`] only the kernel knows.
const IN_NONE: u8 = 1 << 5;
/// The kernel has the descriptor in one epoll set, which is known.
const ADDED: u8 = 1 << 6;
/// Of a descriptor's low bits: there is, or was, something for a larger number with these.
const LARGER: u8 = 1 << 7;

/// Bits of what the registrations of a descriptor are.
const TRACKED: u8 = IN_NONE | ADDED;
/// Bits that a descriptor has until it is closed.
const MARKS: u8 = MADE_HERE | UNUSED | TRACKED;
/// Bits of the kind.
const KIND: u8 = 7;

/// Bits of [`LOW`] without which a call on a descriptor is the kernel's alone.
pub(crate) const MAY_HAVE: u8 = KIND | LARGER;
/// Bits of [`LOW`] without which epoll_ctl(2) is the kernel's alone.
pub(crate) const MAY_BE_TRACKED: u8 = MAY_HAVE | TRACKED;

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
fn byte(fd: i32) -> Option<&'static AtomicU8> {
    let fd = usize::try_from(fd).ok()?;
    match fd.checked_sub(LOW_COUNT) {
        None => LOW.get(fd),
        Some(at) => HIGH.get(at),
    }
}

#[inline]
fn bits(fd: i32) -> u8 {
    byte(fd).map_or(0, |byte| byte.load(Ordering::Acquire))
}

/// The kind of a descriptor, 0 if it is the kernel's alone.
#[inline]
fn kind_of(fd: i32) -> u8 {
    bits(fd) & KIND
}

/// Changes the bits of a descriptor, if `is_so` finds those that it has as they are to be; the bits
/// before, of one that was changed.
fn change(fd: i32, (without, with): (u8, u8), is_so: impl Fn(u8) -> bool) -> Option<u8> {
    let byte = byte(fd)?;
    if with != 0
        && let Some(at) = usize::try_from(fd).ok().filter(|at| *at >= LOW_COUNT)
        && let Some(low) = LOW.get(at % LOW_COUNT)
    {
        low.fetch_or(LARGER, Ordering::SeqCst);
    }
    // In one order with what threads note that wait at a set in the kernel.
    let changed = byte.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |bits| {
        is_so(bits).then_some(bits & !without | with)
    });
    changed.ok()
}

/// Descriptors with a connection or an epoll set.
static SERVED: AtomicUsize = AtomicUsize::new(0);

fn set_kind(fd: i32, of: u8) {
    let is_served = |kind: u8| matches!(kind, CONN | SET);
    let Some(before) = change(fd, (KIND, of), |_| true) else {
        return;
    };
    match (is_served(before & KIND), is_served(of)) {
        (false, true) => SERVED.fetch_add(1, Ordering::SeqCst),
        (true, false) => SERVED.fetch_sub(1, Ordering::SeqCst),
        _ => 0,
    };
}

/// Whether any descriptor has a connection or an epoll set.
#[inline]
pub(crate) fn serves_any() -> bool {
    SERVED.load(Ordering::Relaxed) != 0
}

/// Whether a call on a descriptor may concern more than the kernel, as far as its low bits show.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn may_have(fd: i32, mask: u8) -> bool {
    let at = fd.cast_unsigned() as usize % LOW_COUNT;
    LOW.get(at)
        .is_some_and(|bits| bits.load(Ordering::Acquire) & mask != 0)
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
    change(fd, (KIND, 0), |bits| bits & KIND == HIDDEN);
}

/// The first descriptor of the library from a number on, up to another.
pub(crate) fn next_hidden(from: u32, to: u32) -> Option<u32> {
    let mut at = from as usize;
    let end = (to as usize).min(MOST - 1);
    while at <= end {
        match PAGES.get(at / PER_PAGE).and_then(OnceLock::get) {
            None => at = (at / PER_PAGE + 1) * PER_PAGE,
            Some(_) => {
                let fd = i32::try_from(at).ok()?;
                if kind_of(fd) == HIDDEN {
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

/// A thread begins to wait at an epoll set in the kernel; false if the set has connections by now,
/// and the thread is to wait for them.
#[inline]
pub(crate) fn begins_wait(set: &AtomicU32, fd: i32) -> bool {
    // A thread that makes this a set with connections sees the waiter, or this one sees that.
    set.fetch_add(1, Ordering::SeqCst);
    if byte(fd).is_some_and(|byte| byte.load(Ordering::SeqCst) & KIND == SET) {
        ends_wait(set);
        return false;
    }
    true
}

/// The thread waits no more.
#[inline]
pub(crate) fn ends_wait(set: &AtomicU32) {
    set.fetch_sub(1, Ordering::AcqRel);
}

/// The threads that wait at a descriptor in the kernel; none for a number that no program uses.
#[inline]
pub(crate) fn waiters_at(fd: i32) -> Option<&'static AtomicU32> {
    WAITERS.get(usize::try_from(fd).ok()?)
}

/// Threads that wait at an epoll set in the kernel without the library.
pub(crate) fn waiters(set: i32) -> u32 {
    waiters_at(set).map_or(0, |waiters| waiters.load(Ordering::SeqCst))
}

/// Whether the library knows in which epoll sets the kernel has a descriptor.
#[inline]
pub(crate) fn is_tracked(fd: i32) -> bool {
    bits(fd) & TRACKED != 0
}

/// Only the kernel knows the epoll sets of a descriptor from now on: they are of no interest while
/// it is a connection.
pub(crate) fn untrack(fd: i32) {
    if is_tracked(fd) {
        change(fd, (TRACKED, 0), |_| true);
    }
}

/// The kernel has changed the registration of a descriptor.
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

/// A descriptor is closed: the kernel has it in no set. What a child of `vfork` closes stays open in
/// its parent, whose memory this is.
#[inline]
pub(crate) fn closed(fd: i32) {
    if bits(fd) & MARKS != 0 && !config::is_vforked() {
        change(fd, (MARKS, 0), |_| true);
    }
}

/// The program has made a descriptor.
fn made(fd: i32, marks: u8) {
    if fd >= 0 && !config::is_vforked() {
        change(fd, (MARKS, marks | IN_NONE), |_| true);
    }
}

/// The program has made a socket, one of TCP or another.
pub(crate) fn made_here(fd: i32, is_tcp: bool) {
    made(fd, MADE_HERE | if is_tcp { UNUSED } else { 0 });
}

/// The program has made an epoll set.
pub(crate) fn made_set(fd: i32) {
    made(fd, 0);
}

/// The program connects a socket, or listens at it: whether it is one of TCP that this program has
/// made and not used before, as far as the library has seen. The kernel refuses to connect one
/// that is in use all the same.
pub(crate) fn begins_use(fd: i32) -> bool {
    let is_unused = bits(fd) & UNUSED != 0;
    if is_unused {
        change(fd, (UNUSED, 0), |_| true);
    }
    is_unused
}

/// Whether the program, or one that it was forked from, has made a descriptor as a socket.
pub(crate) fn is_made_here(fd: i32) -> bool {
    bits(fd) & MADE_HERE != 0
}

/// The registrations of a descriptor in epoll sets of the kernel: all that `find` lists, unless
/// they are known.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_without_an_entry_are_foreign_whatever_their_number() {
        for fd in [i32::MIN, -1, 0, 700_001, 1 << 20, i32::MAX] {
            assert!(!has(fd), "{fd}");
            assert!(get(fd).is_none() && take(fd).is_none());
            closed(fd);
            assert!(!is_tracked(fd) && registrations(fd, |_| Vec::new()).is_empty());
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
    fn registrations_are_known_of_what_this_program_has_made() {
        let at = |set, data| Registration {
            set,
            events: 5,
            data,
        };
        let known = |fd| registrations(fd, |_| panic!("known"));
        let fd = 700_100;
        assert_eq!(registrations(fd, |_| vec![at(9, 9)]), [at(9, 9)], "unknown");
        registered(libc::EPOLL_CTL_ADD, fd, at(3, 2));
        assert!(!is_tracked(fd), "unknown still");
        made_here(fd, true);
        assert!(known(fd).is_empty());
        registered(libc::EPOLL_CTL_ADD, fd, at(3, 2));
        assert_eq!(known(fd), [at(3, 2)]);
        registered(libc::EPOLL_CTL_MOD, fd, at(3, 7));
        assert_eq!(known(fd), [at(3, 7)]);
        registered(libc::EPOLL_CTL_DEL, fd, at(3, 0));
        assert!(known(fd).is_empty());
        for (operation, set) in [(libc::EPOLL_CTL_ADD, 4), (libc::EPOLL_CTL_DEL, 4)] {
            made_here(fd, true);
            registered(libc::EPOLL_CTL_ADD, fd, at(3, 1));
            registered(operation, fd, at(set, 1));
            assert_eq!(
                registrations(fd, |_| vec![at(9, 9)]),
                [at(9, 9)],
                "two sets"
            );
        }
        made_set(fd);
        registered(libc::EPOLL_CTL_ADD, fd, at(3, 1));
        closed(fd);
        assert!(!is_tracked(fd));
    }

    #[test]
    fn a_number_of_many_bits_shows_in_its_low_bits() {
        let (fd, low) = (5 << 16 | 321, 321);
        let has = |mask: u8| LOW[low].load(Ordering::Relaxed) & mask != 0;
        assert!(!has(MAY_HAVE));
        made_here(fd, true);
        assert!(has(MAY_HAVE) && has(MAY_BE_TRACKED) && !super::has(low as i32));
        assert!(put(fd, Object::Listener(None)));
        drop(take(fd));
        closed(fd);
        assert!(has(MAY_HAVE) && !super::has(fd) && !is_tracked(low as i32));
    }
}
