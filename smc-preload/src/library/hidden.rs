//! Descriptors of the library, which the program does not see.
//!
//! ```text
//!   0 ... limit of the program (soft) ... limit of the process (hard)
//!   └── the program's ──┘└─────────── the library's ───────────────┘
//! ```
//!
//! They are above the numbers that the program may have. The kernel's limit is raised only while
//! one is made: before and after, `getrlimit`, what the program opens, and what it executes know
//! the program's own limit. Where the limit cannot be raised, the library has the last quarter of
//! the numbers, and without room a connection stays TCP. The kernel is not asked again for a limit
//! that cannot be raised before the program changes it.
//!
//! Each has a mark in the table of descriptors, so that calls of the program on its number fail as
//! on one that is not open. Calls of the library itself are made inside of [`config::inside`].

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use smc_sockets::descriptors::{Keeper, set_keeper};

use super::{config, table};

/// The library's numbers begin here at the latest.
const MOST: u64 = 1 << 14;
/// Descriptors that a process has to be permitted, at least, for the library to take any: below, a
/// program counts its own.
const FEWEST: u64 = 64;
/// Attempts at the lock, after which a thread goes on without it: its holder was forked away, or
/// is this thread, which a signal has interrupted.
const ATTEMPTS: usize = 2_000;

/// The thread that makes a descriptor, changes a limit, or has the process copied.
static LOCK: AtomicI32 = AtomicI32::new(0);

/// A limit that cannot be raised as the kernel gave it last, or 0. Changed by the holder of the lock.
static FIXED: AtomicU64 = AtomicU64::new(0);

/// Whether the process may have so few descriptors that the library takes none, as the limit was last.
static FEW: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const ENOUGH: u8 = 1;
const TOO_FEW: u8 = 2;

/// The limit of descriptors. Callers hold the lock.
fn limit() -> Rlimit {
    let fixed = FIXED.load(Ordering::Relaxed);
    if fixed != 0 {
        return Rlimit {
            current: Some(fixed),
            maximum: Some(fixed),
        };
    }
    let limit = getrlimit(Resource::Nofile);
    let fixed = limit.current.filter(|_| limit.current == limit.maximum);
    FIXED.store(fixed.unwrap_or(0), Ordering::Relaxed);
    let few = match limit.maximum.is_some_and(|hard| hard < FEWEST) {
        true => TOO_FEW,
        false => ENOUGH,
    };
    FEW.store(few, Ordering::Relaxed);
    limit
}

/// The program may have changed the limit. Callers hold the lock, if it is free.
pub(crate) fn limit_changes() {
    FIXED.store(0, Ordering::Relaxed);
    FEW.store(UNKNOWN, Ordering::Relaxed);
}

/// Keeps other threads from making descriptors of the library and from changing limits.
pub(crate) struct Held(bool);

/// Waits until no other thread makes a descriptor of the library.
pub(crate) fn hold() -> Held {
    let acquire = || {
        let exchanged = LOCK.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        exchanged.is_ok()
    };
    for _ in 0..ATTEMPTS {
        if acquire() {
            return Held(true);
        }
        std::thread::yield_now();
    }
    Held(false)
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.0 {
            LOCK.store(0, Ordering::Release);
        }
    }
}

/// The lock is held by the thread that has the process copied.
static FORKS: AtomicBool = AtomicBool::new(false);

/// The process is to be copied: with its own limit.
pub(crate) fn before_fork() {
    let held = hold();
    FORKS.store(held.0, Ordering::Relaxed);
    std::mem::forget(held);
}

/// The process was copied, and goes on.
pub(crate) fn after_fork() {
    drop(Held(FORKS.swap(false, Ordering::Relaxed)));
}

/// In a child no other thread holds the lock.
pub(crate) fn forked() {
    FORKS.store(false, Ordering::Relaxed);
    LOCK.store(0, Ordering::Relaxed);
    FIXED.store(0, Ordering::Relaxed);
}

/// The least of the library's numbers for these limits, and whether it takes a higher limit.
fn least(limit: &Rlimit) -> (u64, bool) {
    let soft = limit.current.unwrap_or(u64::MAX);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let least = soft.min(MOST).min(hard - hard / 4);
    (least, least >= soft && hard > soft)
}

/// Raises the limit for as long as it lives.
struct Raised(Rlimit);

impl Raised {
    fn from(limit: Rlimit) -> Self {
        let current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..limit });
        Self(limit)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        let limit = Rlimit {
            current: self.0.current,
            maximum: self.0.maximum,
        };
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Runs a function while the process may have as many descriptors as its hard limit says.
fn receive(run: &mut dyn FnMut()) {
    let _held = hold();
    let limit = limit();
    let _raised = (limit.current != limit.maximum).then(|| Raised::from(limit));
    run();
}

/// Whether the process may have so few descriptors that the library takes none. The kernel is asked
/// if the program may have changed that, and where they are few: another process may permit more.
pub(crate) fn are_few() -> bool {
    match FEW.load(Ordering::Relaxed) {
        ENOUGH => return false,
        UNKNOWN => {}
        _ => limit_changes(),
    }
    let _held = hold();
    let hard = limit().maximum;
    hard.is_some_and(|hard| hard < FEWEST)
}

/// Makes a descriptor at one of the library's numbers.
///
/// # Errors
/// Errors of the function; [`Errno::MFILE`] if there is no room.
pub(crate) fn keep(make: impl FnOnce() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    place(least, |number| {
        let low = make()?;
        rustix::io::fcntl_dupfd_cloexec(&low, number)
    })
}

/// Makes a descriptor by a function that gets the least number that it may have.
fn place(
    least: fn(&Rlimit) -> (u64, bool),
    make: impl FnOnce(i32) -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    let _held = hold();
    let limit = limit();
    let (number, raises) = least(&limit);
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    let _raised = raises.then(|| Raised::from(limit));
    config::inside(|| match make(number) {
        Ok(high) if table::hide(high.as_raw_fd()) => Ok(high),
        Ok(_) | Err(Errno::INVAL | Errno::MFILE) => {
            // Another process may have lowered it.
            limit_changes();
            Err(Errno::MFILE)
        }
        Err(error) => Err(error),
    })
}

/// Duplicates a descriptor to one of the library's numbers.
///
/// # Errors
/// [`Errno::MFILE`] if there is no room.
pub(crate) fn duplicate(fd: i32) -> Result<OwnedFd, Errno> {
    place(least, |number| {
        rustix::io::fcntl_dupfd_cloexec(super::conn::borrowed(fd), number)
    })
}

/// Duplicates a descriptor at the start of the process, when nothing is known of it: at a number
/// that makes its table of descriptors no larger than most have it.
pub(crate) fn duplicate_early(fd: i32) -> Result<OwnedFd, Errno> {
    const EARLY: u64 = 900;
    let early = |limit: &Rlimit| {
        let soft = limit.current.unwrap_or(u64::MAX);
        (EARLY.min(soft - soft / 4), false)
    };
    place(early, |number| {
        rustix::io::fcntl_dupfd_cloexec(super::conn::borrowed(fd), number)
    })
}

/// Whether a number is the library's, for a call of the program: none that is open.
#[inline]
pub(crate) fn is_hidden(fd: i32) -> bool {
    table::is_hidden(fd) && !config::is_inside()
}

/// Has the engine make its descriptors here.
pub(crate) fn start() {
    set_keeper(Keeper {
        make: |make| keep(make),
        receive,
        runs: config::set_inside,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(soft: u64, hard: Option<u64>) -> Rlimit {
        Rlimit {
            current: Some(soft),
            maximum: hard,
        }
    }

    #[test]
    fn the_librarys_numbers_are_above_those_of_the_program_where_there_is_room() {
        assert_eq!(least(&limit(1024, Some(1 << 20))), (1024, true));
        assert_eq!(least(&limit(1024, None)), (1024, true));
        assert_eq!(least(&limit(1 << 20, Some(1 << 20))), (MOST, false));
        assert_eq!(least(&limit(256, Some(256))), (192, false));
        assert_eq!(least(&limit(1000, Some(1100))), (825, false));
    }

    #[test]
    fn the_lock_is_given_up_for_lost_in_the_end() {
        let first = hold();
        assert!(first.0);
        assert!(!hold().0);
        drop(first);
        assert!(hold().0);
    }
}
