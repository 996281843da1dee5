//! What the library has for descriptors, by their number.
//!
//! ```text
//!   LOW, HIGH               a byte for each descriptor: the kind of its object, and marks
//!                             (hidden: the library's own; origins: made here, unused)
//!   WAITERS                 threads that wait at a descriptor in the kernel (kernel_waits)
//!   PAGES ─► Page ─► Slot   object: the connection, the epoll set or the listener (objects)
//!                           added: the epoll set that the kernel has it in (registrations)
//! ```
//!
//! The look-up of a foreign descriptor is one load; it takes no lock and allocates nothing. The
//! calls that programs make most read the byte of its low 16 bits only: that of a larger number
//! leaves a mark there, and is looked up in full.

use std::array;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

mod hidden;
mod kernel_waits;
mod last_set;
mod objects;
mod origins;
mod registrations;
#[cfg(test)]
mod tests;

pub(crate) use hidden::{hide, is_hidden, next_hidden, reveal};
#[cfg_attr(
    test,
    expect(unused_imports, reason = "unit tests are built without the hooks")
)]
pub(crate) use kernel_waits::{begins_wait, ends_wait, waiters, waiters_at};
pub(crate) use last_set::with_set;
pub(crate) use objects::{
    Object, conn, conn_id, conns, get, has, has_locks, listeners, new_number, put, set, set_or,
    take,
};
pub(crate) use origins::{begins_use, closed, is_made_here, made_here, made_set};
pub(crate) use registrations::{Registration, is_tracked, registered, registrations, untrack};

use registrations::Added;

/// Descriptors in a page.
const PER_PAGE: usize = 512;
/// Descriptors with larger numbers than all pages hold stay foreign.
const MOST: usize = 1 << 20;

/// Descriptors whose byte is found by their low 16 bits.
const LOW_COUNT: usize = 1 << 16;

/// What each descriptor is. The kernel backs what is used of it.
pub(crate) static LOW: [AtomicU8; LOW_COUNT] = [const { AtomicU8::new(0) }; LOW_COUNT];
static HIGH: [AtomicU8; MOST - LOW_COUNT] = [const { AtomicU8::new(0) }; MOST - LOW_COUNT];

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

/// Kind of descriptors that are the kernel's alone.
const NONE: u8 = 0;
/// Kind of connections.
const CONN: u8 = 1;
/// Kind of epoll sets with connections.
const SET: u8 = 2;
/// Kind of listeners.
const LISTENER: u8 = 3;
/// Kind of descriptors of the library, which have no object.
const HIDDEN: u8 = 4;

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

/// Clears and sets bits of a descriptor, if `is_so` returns true for those that it has. Returns the
/// bits before, or `None` if nothing was changed.
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

/// Sets the kind of a descriptor.
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

/// The slot of a descriptor, if its page exists.
#[inline]
fn slot(fd: i32) -> Option<&'static Slot> {
    let fd = usize::try_from(fd).ok()?;
    let page = PAGES.get(fd / PER_PAGE)?.get()?;
    page.0.get(fd % PER_PAGE)
}

/// The slot of a descriptor, whose page is made if it does not exist. `None` if the number is too
/// large.
#[cold]
fn slot_or_new(fd: i32) -> Option<&'static Slot> {
    let fd = usize::try_from(fd).ok()?;
    let page = PAGES.get(fd / PER_PAGE)?;
    let page = page.get_or_init(|| Box::new(Page(array::from_fn(|_| Slot::default()))));
    page.0.get(fd % PER_PAGE)
}

/// Descriptors in `from..=to` that may have a slot.
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
