//! Wakes the driver thread of an endpoint.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::descriptors;

/// Wakes the driver thread, and has it accept connections.
pub(crate) struct DriverWaker {
    event: OwnedFd,
    /// A client has asked for its connection to be accepted.
    accepts: AtomicBool,
}

impl DriverWaker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            event: descriptors::eventfd(0)?,
            accepts: AtomicBool::new(false),
        })
    }

    /// Wakes the driver.
    pub(super) fn wake(&self) {
        descriptors::raise(&self.event);
    }

    /// Has the driver accept what waits at the listeners.
    pub(super) fn call_to_accept(&self) {
        self.accepts.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Takes the event that has woken the driver.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    /// Whether the driver was called to accept since the last call of this.
    pub(crate) fn take_call(&self) -> bool {
        self.accepts.swap(false, Ordering::Relaxed)
    }
}

/// Readable while the driver is to wake.
impl AsFd for DriverWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
