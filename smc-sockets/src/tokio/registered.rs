//! What a runtime waits for.
//!
//! Here only it is known that the descriptors stay as they are.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::task::{Context, Poll, ready};

use ::tokio::io::Interest;
use ::tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::process::Process;

/// What has one descriptor from now on, all its life.
pub(super) trait FixedDescriptor: AsRawFd {
    /// Makes sure of that.
    fn fix_descriptor(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Descriptor with an epoll of its own.
impl FixedDescriptor for crate::Connecting {}

/// Descriptor with an event of its own.
impl FixedDescriptor for crate::SmcListener {}

/// Its TCP connection, or a socket that is made when it is first asked for and kept with
/// the connection.
impl FixedDescriptor for crate::SmcStream {
    fn fix_descriptor(&self) -> io::Result<()> {
        self.try_as_fd().map(drop)
    }
}

/// A value with its descriptor at a runtime.
///
/// A child made by `fork` shares the poller of the parent's runtime, so that its copy never
/// leaves that: the parent would not be woken any more. Nothing can be waited for in a child.
pub(super) struct Registered<T: FixedDescriptor> {
    process: Process,
    /// Goes before the value, which owns the descriptor.
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
    pub(super) fn new(inner: T, interest: Interest) -> io::Result<Self> {
        inner.fix_descriptor()?;
        let fd = Fd(inner.as_raw_fd());
        // SAFETY: those that implement `FixedDescriptor` own their descriptor, which neither closes nor
        // changes while they are there, and `inner` goes behind it.
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

    /// The value without its runtime; in a child, too.
    pub(super) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        this.leave_runtime();
        // SAFETY: `this` is not dropped, nor used again.
        unsafe { ManuallyDrop::take(&mut this.inner) }
    }

    fn leave_runtime(&mut self) {
        if self.process.is_current() {
            // SAFETY: this is called once, by what ends the value.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }

    /// The descriptor at the runtime.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a child.
    fn runtime(&self) -> io::Result<&AsyncFd<Fd>> {
        self.process.check()?;
        Ok(&self.fd)
    }

    /// Waits until reading would not.
    pub(super) async fn readable(&self) -> io::Result<Ready<'_>> {
        self.runtime()?.readable().await.map(Ready)
    }

    /// Takes the readiness for reading, or has the task woken by the next: what made the
    /// descriptor readable before is to be read afterwards.
    pub(super) fn poll_readable_once(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = self.runtime()?.poll_read_ready(context);
        ready.map_ok(|mut ready| ready.clear_ready())
    }

    /// Waits until it is ready; it stays so.
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<()> {
        self.runtime()?.ready(interest).await?.retain_ready();
        Ok(())
    }

    /// Has the task woken when it is ready; it stays so.
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

    /// Tries until it would not wait any more.
    pub(super) async fn async_io<R>(
        &self,
        interest: Interest,
        mut attempt: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let inner = &*self.inner;
        self.runtime()?.async_io(interest, |_| attempt(inner)).await
    }

    /// Tries if it is known that it would not wait.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        attempt: impl FnOnce(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        self.runtime()?.try_io(interest, |_| attempt(&self.inner))
    }

    /// Reads, or has the task woken.
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

    /// Writes, or has the task woken.
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

/// A readiness that was waited for.
pub(super) struct Ready<'a>(AsyncFdReadyGuard<'a, Fd>);

impl Ready<'_> {
    /// What comes from here on is waited for again.
    pub(super) fn clear(mut self) {
        self.0.clear_ready();
    }
}

impl<T: FixedDescriptor> Drop for Registered<T> {
    fn drop(&mut self) {
        self.leave_runtime();
        // SAFETY: neither it nor `self` is used again.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}
