//! Descriptors and threads of this library in a program that must not see them.
//!
//! A library that is preloaded into a program sets a [`Keeper`], a set of hooks, before the first
//! stack is opened: descriptors then get numbers that the program does not use, and handlers of
//! signals know whether a thread is inside this library.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::io::{Errno, Result};

use crate::memory::system_calls::Signals;
use crate::process::Installed;

/// Hooks of a preload library for descriptors and threads of this library.
#[derive(Clone, Copy, Debug)]
pub struct Keeper {
    /// Calls the function once, which does not block and opens a descriptor. May return a duplicate of
    /// that descriptor at another number.
    pub make: fn(&mut dyn FnMut() -> Result<OwnedFd>) -> Result<OwnedFd>,
    /// Calls the function once, which does not block, while the limit of descriptors leaves room for
    /// those that a peer sends.
    pub receive: fn(&mut dyn FnMut()),
    /// Marks whether the calling thread is inside this library, and returns the mark before. A thread
    /// that sleeps is not: it holds no lock, so that a handler of a signal may use the library.
    pub runs: fn(bool) -> bool,
}

static KEEPER: Installed<Keeper> = Installed::new();

/// Sets the keeper of this process. Only the first one counts.
pub fn set_keeper(keeper: Keeper) {
    KEEPER.set(keeper);
}

/// Opens a descriptor that lasts, by the hook if there is one.
///
/// # Errors
/// Errors of the function; [`Errno::MFILE`] if no descriptor is left; [`Errno::INVAL`] if the hook
/// calls the function twice.
pub fn keep(make: impl FnOnce() -> Result<OwnedFd>) -> Result<OwnedFd> {
    let Some(keeper) = KEEPER.get() else {
        return make();
    };
    let mut make = Some(make);
    (keeper.make)(&mut || make.take().map_or(Err(Errno::INVAL), |make| make()))
}

/// Opens an eventfd with an initial count, non-blocking and close-on-exec.
///
/// # Errors
/// Errors of [`keep`] and of eventfd(2).
pub fn eventfd(count: u32) -> Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    keep(|| rustix::event::eventfd(count, flags))
}

/// Makes an eventfd readable; one whose count is full is readable already.
pub fn raise(eventfd: impl AsFd) {
    let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
}

/// Whether an error says that this process or the system has no descriptor or no memory left.
#[must_use]
pub fn is_short_of_room(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    error.kind() == io::ErrorKind::OutOfMemory
        || matches!(
            number,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)
        )
}

/// Calls the function once, which receives a message that may carry descriptors. `None` if the hook
/// does not call it.
pub(crate) fn receive<T>(receive: impl FnOnce() -> T) -> Option<T> {
    let Some(keeper) = KEEPER.get() else {
        return Some(receive());
    };
    let (mut receive, mut received) = (Some(receive), None);
    (keeper.receive)(&mut || received = receive.take().map(|receive| receive()));
    received
}

/// Starts a thread of this library, with all signals blocked: handlers are the program's, and run
/// in its threads alone.
///
/// # Errors
/// Errors of [`std::thread::Builder::spawn`].
pub fn spawn<T: Send + 'static>(
    thread: std::thread::Builder,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<std::thread::JoinHandle<T>> {
    let _blocked = Signals::block();
    thread.spawn(|| {
        if let Some(keeper) = KEEPER.get() {
            (keeper.runs)(true);
        }
        run()
    })
}

/// Runs a function that waits in the kernel: what a handler of a signal does meanwhile does not
/// count as done inside this library.
pub(crate) fn sleep<T>(sleep: impl FnOnce() -> T) -> T {
    let Some(keeper) = KEEPER.get() else {
        return sleep();
    };
    let before = (keeper.runs)(false);
    let slept = sleep();
    (keeper.runs)(before);
    slept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_descriptors_and_memory_are_a_shortage_and_no_others() {
        let of = |errno: Errno| is_short_of_room(&errno.into());
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS] {
            assert!(of(errno), "{errno}");
        }
        for errno in [Errno::CONNREFUSED, Errno::INVAL, Errno::TOOMANYREFS] {
            assert!(!of(errno), "{errno}");
        }
        assert!(is_short_of_room(&io::ErrorKind::OutOfMemory.into()));
        assert!(!is_short_of_room(&io::ErrorKind::QuotaExceeded.into()));
    }
}
