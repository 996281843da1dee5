//! Identity of this process for the cost of a load: what a process made before a fork is not
//! the child's to use.
//!
//! ```text
//!   parent   page: 1 ──► objects of process 1
//!     │ fork: the kernel hands the child an empty page
//!   child    page: 0 ──► first read: 2 ──► objects of process 1 are inherited
//! ```
//!
//! Numbers grow from parent to child, so that no ancestor of a process has its number. A
//! process ID would not do: it costs a system call, and is given again.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Number of a process among its ancestors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process(u64);

/// The number of this process, or 0 before it has one. It lies in a page that is empty in a
/// child, or at [`FALLBACK`].
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// The number where the kernel has no such pages. `fork(3)` empties it in the child.
static FALLBACK: AtomicU64 = AtomicU64::new(0);
/// The last number given.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Children that `fork(3)` has made of this process and its ancestors.
static FORKS: AtomicU64 = AtomicU64::new(0);

impl Process {
    /// The own process.
    #[inline]
    #[must_use]
    pub fn current() -> Self {
        let page = page();
        match page.load(Ordering::Relaxed) {
            0 => Self(number(page)),
            number => Self(number),
        }
    }

    /// A process with this number, for tests.
    #[cfg(test)]
    pub(crate) const fn of_test(number: u64) -> Self {
        Self(number)
    }

    /// Whether it is this one, and not the one that this one was forked from.
    //= SHM-061
    #[inline]
    #[must_use]
    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// The error of whatever only the process that made it can do.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child.
    #[inline]
    pub fn check(self) -> io::Result<()> {
        match self.is_current() {
            true => Ok(()),
            false => Err(inherited()),
        }
    }
}

/// Number of children that `fork(3)` has made of this process and its ancestors so far.
#[must_use]
pub fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

#[cold]
fn inherited() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "an SMC connection stays with the process that made it; a child that was forked from \
         it cannot use it",
    )
}

#[inline]
fn page() -> &'static AtomicU64 {
    // SAFETY: it is null, or points to a number that is there as long as the process.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }.unwrap_or_else(make_page)
}

/// Gives this process a number. No lock: another thread may have held it at the fork.
#[cold]
fn number(page: &AtomicU64) -> u64 {
    let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let order = Ordering::Relaxed;
    match page.compare_exchange(0, new, order, order) {
        Ok(_) => new,
        Err(faster) => faster,
    }
}

#[cold]
fn make_page() -> &'static AtomicU64 {
    let mapped = map_page();
    let new = mapped.unwrap_or(ptr::from_ref(&FALLBACK).cast_mut());
    let order = Ordering::AcqRel;
    let page = match PAGE.compare_exchange(ptr::null_mut(), new, order, Ordering::Acquire) {
        Ok(_) => {
            // SAFETY: the handlers are functions that only change numbers.
            // Without memory for them, children are known by the page all the same.
            let _ = unsafe { libc::pthread_atfork(None, Some(in_parent), Some(in_child)) };
            new
        }
        Err(faster) => {
            if let Some(mapped) = mapped {
                // SAFETY: it was mapped above, and nothing else knows it.
                unsafe { libc::munmap(mapped.cast(), size_of::<AtomicU64>()) };
            }
            faster
        }
    };
    // SAFETY: it points to a mapping that is never taken away, or to a static.
    unsafe { &*page }
}

/// A page that is empty in a child.
fn map_page() -> Option<*mut AtomicU64> {
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    let len = size_of::<AtomicU64>();
    // SAFETY: a new mapping touches no memory that is in use.
    let page = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the range is the mapping above.
    if unsafe { libc::madvise(page, len, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: it was mapped above, and nothing else knows it.
        unsafe { libc::munmap(page, len) };
        return None;
    }
    Some(page.cast())
}

extern "C" fn in_parent() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn in_child() {
    FALLBACK.store(0, Ordering::Relaxed);
}

/// A value that is set once, which children have, too. No thread ever waits for another one here.
#[derive(Debug)]
pub(crate) struct Installed<T: Send + Sync + 'static>(AtomicPtr<T>);

impl<T: Send + Sync> Installed<T> {
    /// A place without a value.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value, if there is one.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: what is set is leaked: it stays as it is for as long as the process lives.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Sets the value. Only the first one counts; others are leaked.
    pub(crate) fn set(&self, value: T) {
        let new = ptr::from_mut(Box::leak(Box::new(value)));
        let (order, none) = (Ordering::AcqRel, ptr::null_mut());
        let _ = self.0.compare_exchange(none, new, order, Ordering::Acquire);
    }
}

/// A value that each process makes for itself. In a child, the parent's value stays where it
/// is, untouched.
#[derive(Debug)]
pub struct PerProcess<T>(AtomicPtr<(Process, T)>);

impl<T> PerProcess<T> {
    /// A place without a value.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The value of this process, if it has made one.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: a value is freed with `self` only, and replaced only in another process.
        let made = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        made.filter(|(of, _)| of.is_current())
            .map(|(_, value)| value)
    }

    /// The value of this process, made now if it has none.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get_or_make(&self, make: impl FnOnce() -> io::Result<T>) -> io::Result<&T> {
        let known = self.0.load(Ordering::Acquire);
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let new = Box::into_raw(Box::new((Process::current(), make()?)));
        let order = Ordering::AcqRel;
        match self
            .0
            .compare_exchange(known, new, order, Ordering::Acquire)
        {
            // SAFETY: it was made above and is in its place now.
            Ok(_) => Ok(unsafe { &(*new).1 }),
            Err(faster) => {
                // SAFETY: it was made above, and nothing else knows it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: another thread of this process has put it in its place.
                Ok(unsafe { &(*faster).1 })
            }
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: it was made by `get_or_make`, and goes with its place.
            drop(unsafe { Box::from_raw(*self.0.get_mut()) });
        }
    }
}

// SAFETY: it owns a `T`, as a box does.
unsafe impl<T: Send> Send for PerProcess<T> {}
// SAFETY: what is shared is a `T`; any thread may be the one that makes or frees it.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}
