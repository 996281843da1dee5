//! Registration of sockets with a tokio runtime: [`Registered`] is a value of this crate together
//! with its `AsyncFd`. Used by the async types of [`crate::tokio`].
//!
//! `AsyncFd` requires that a descriptor is neither closed nor replaced while it is registered.
//! [`FixedDescriptor`] lists the types for which that holds; no other module relies on it.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::task::{Context, Poll, ready};

use ::tokio::io::Interest;
use ::tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::process::Process;

/// A value that owns its descriptor and keeps the same one from [`Self::fix_descriptor`] until it
/// is dropped.
pub(super) trait FixedDescriptor: AsRawFd {
    /// Creates the descriptor if the value makes it on demand.
    ///
    /// # Errors
    /// The error of creating it.
    fn fix_descriptor(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Owns an epoll descriptor.
impl FixedDescriptor for crate::Connecting {}

/// Owns an event descriptor.
impl FixedDescriptor for crate::SmcListener {}

/// Owns its TCP connection's descriptor, or a socket that the first request for a descriptor
/// creates and that lasts as long as the connection.
impl FixedDescriptor for crate::SmcStream {
    fn fix_descriptor(&self) -> io::Result<()> {
        self.try_as_fd().map(drop)
    }
}

/// A value whose descriptor is registered with a tokio runtime.
///
/// A child made by `fork` shares the epoll of the parent's runtime. Its copy of this value is
/// therefore never deregistered: the parent would not be woken any more. Waiting fails in a child.
pub(super) struct Registered<T: FixedDescriptor> {
    process: Process,
    /// Dropped before `inner`, which owns the descriptor.
    fd: ManuallyDrop<AsyncFd<Fd>>,
    inner: ManuallyDrop<T>,
}

struct Fd(RawFd);

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl<T: FixedDescriptor> Registered<T> {
    /// Registers a value with the current runtime.
    ///
    /// # Errors
    /// The errors of [`FixedDescriptor::fix_descriptor`] and of registering.
    pub(super) fn new(inner: T, interest: Interest) -> io::Result<Self> {
        inner.fix_descriptor()?;
        let fd = Fd(inner.as_raw_fd());
        // SAFETY: a `FixedDescriptor` owns its descriptor, which is neither closed nor replaced
        // before the value is dropped, and `inner` is dropped after the registration.
        let fd = unsafe { AsyncFd::register_with_interest(fd, interest) };
        Ok(Self {
            process: Process::current(),
            fd: ManuallyDrop::new(fd.map_err(io::Error::from)?),
            inner: ManuallyDrop::new(inner),
        })
    }

    pub(super) fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Deregisters the value and returns it. In a child of the process it stays registered.
    pub(super) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        this.deregister();
        // SAFETY: `this` is neither dropped nor used again.
        unsafe { ManuallyDrop::take(&mut this.inner) }
    }

    /// Deregisters the descriptor, unless this is a child of the process. Called once.
    fn deregister(&mut self) {
        if self.process.is_current() {
            // SAFETY: only `into_inner` and `drop` call this, one of them once.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }

    /// The registration with the runtime.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child.
    fn runtime(&self) -> io::Result<&AsyncFd<Fd>> {
        self.process.check()?;
        Ok(&self.fd)
    }

    /// Waits until the descriptor is readable. [`Ready::clear`] discards the readiness again.
    pub(super) async fn readable(&self) -> io::Result<Ready<'_>> {
        self.runtime()?.readable().await.map(Ready)
    }

    /// Discards the readiness for reading if there is one, else registers the task for the next
    /// one. The caller reads afterwards whatever made the descriptor readable.
    pub(super) fn poll_readable_once(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.runtime()?.poll_read_ready(context);
        ready.map_ok(|mut ready| ready.clear_ready())
    }

    /// Waits until the descriptor is ready, and leaves the readiness in place.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.runtime()?.ready(interest).await?.retain_ready();
        Ok(())
    }

    /// Registers the task until the descriptor is ready for `interest`, and leaves the readiness
    /// in place.
    pub(super) fn poll_ready(
        &self,
        context: &mut Context<'_>,
        interest: Interest,
    ) -> Poll<io::Result<()>> {
        let runtime = self.runtime()?;
        let mut ready = if interest.is_readable() {
            ready!(runtime.poll_read_ready(context))?
        } else {
            ready!(runtime.poll_write_ready(context))?
        };
        ready.retain_ready();
        Poll::Ready(Ok(()))
    }

    /// Repeats `attempt` whenever the descriptor is ready, until it returns anything but
    /// [`io::ErrorKind::WouldBlock`].
    pub(super) async fn async_io<R>(
        &self,
        interest: Interest,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let inner = &*self.inner;
        self.runtime()?.async_io(interest, |_| attempt(inner)).await
    }

    /// Calls `attempt` once if the descriptor is known to be ready.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if it is not ready; else the error of `attempt`.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        attempt: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.runtime()?.try_io(interest, |_| attempt(&self.inner))
    }

    /// Repeats `attempt` while the descriptor is readable, until it returns anything but
    /// [`io::ErrorKind::WouldBlock`]. Else registers the task for the next readiness.
    pub(super) fn poll_read<R>(
        &self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let mut guard = ready!(self.runtime()?.poll_read_ready(context))?;
            if let Ok(outcome) = guard.try_io(|_| attempt(&self.inner)) {
                return Poll::Ready(outcome);
            }
        }
    }

    /// Repeats `attempt` while the descriptor is writable, until it returns anything but
    /// [`io::ErrorKind::WouldBlock`]. Else registers the task for the next readiness.
    pub(super) fn poll_write<R>(
        &self,
        context: &mut Context<'_>,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let mut guard = ready!(self.runtime()?.poll_write_ready(context))?;
            if let Ok(outcome) = guard.try_io(|_| attempt(&self.inner)) {
                return Poll::Ready(outcome);
            }
        }
    }
}

/// Readiness for reading, returned by [`Registered::readable`].
pub(super) struct Ready<'a>(AsyncFdReadyGuard<'a, Fd>);

impl Ready<'_> {
    /// Discards the readiness: the next wait ends when the descriptor becomes readable anew.
    pub(super) fn clear(mut self) {
        self.0.clear_ready();
    }
}

impl<T: FixedDescriptor> Drop for Registered<T> {
    fn drop(&mut self) {
        self.deregister();
        // SAFETY: neither `inner` nor `self` is used again.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}
