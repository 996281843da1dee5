//! The task that polls the device of a stack in a runtime, in place of the driver thread.
//!
//! ```text
//!   runtime A  ── task ──┐                     a task for each runtime that waits for
//!   runtime B  ── task ──┼── the stack's       streams of the stack, and one descriptor
//!   driver thread ───────┘   device            of it at the runtime's poller
//! ```
//!
//! While messages come faster than a thread wakes up, the task stays runnable and polls memory
//! between the other tasks. In a current-thread runtime it yields as `yield_now` does, which
//! lets the future of `block_on` run each time. In a multi-thread runtime it wakes itself: a
//! yielded task there waits until the worker's queue is empty and cannot be taken over by
//! another worker.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ::tokio::io::Interest;
use ::tokio::runtime::{Handle, Id, RuntimeFlavor};

use super::registered::{Registered, Steady};
use crate::shard::{Attachment, Shard, Turn};

/// The runtimes that poll the device of an endpoint.
#[derive(Default)]
pub(crate) struct Runtimes {
    tasks: Mutex<Vec<Arc<Task>>>,
}

/// The task of one runtime.
struct Task {
    runtime: Id,
    /// Not when its runtime has ended.
    alive: AtomicBool,
    /// Wakes it when the endpoint ends.
    waker: Mutex<Option<Waker>>,
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut();
        for task in tasks.unwrap_or_else(PoisonError::into_inner) {
            task.waker().take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Task {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees to it that the runtime of the calling task polls the device. False without a runtime,
/// and if no descriptor is left: the driver thread has to poll then.
///
/// # Panics
/// In a runtime without I/O.
pub(super) fn ensure(shard: &Arc<Shard>) -> bool {
    let Ok(runtime) = Handle::try_current() else {
        return false;
    };
    let id = runtime.id();
    let tasks = &shard.runtimes.tasks;
    let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    let polls = |task: &Arc<Task>| task.runtime == id && task.alive.load(Ordering::Acquire);
    if tasks.iter().any(polls) {
        return true;
    }
    tasks.retain(|task| task.alive.load(Ordering::Acquire));
    let registered = shard
        .device_descriptor()
        .and_then(|fd| Registered::new(Device(fd), Interest::READABLE));
    let Ok(descriptor) = registered else {
        return false;
    };
    let task = Arc::new(Task {
        runtime: id,
        alive: AtomicBool::new(true),
        waker: Mutex::default(),
    });
    tasks.push(task.clone());
    drop(tasks);
    let driver = Driver {
        alive: Alive(task),
        attachment: shard.attach(),
        descriptor,
        is_multi_thread: runtime.runtime_flavor() != RuntimeFlavor::CurrentThread,
    };
    runtime.spawn(driver.run());
    true
}

/// Whether the calling future is the one of `block_on` in a multi-thread runtime. It is no
/// task: its wake-ups come from another thread, which takes longer than most answers.
pub(super) fn is_root() -> bool {
    let runtime = || Handle::try_current().map(|runtime| runtime.runtime_flavor());
    ::tokio::task::try_id().is_none()
        && runtime().is_ok_and(|of| of != RuntimeFlavor::CurrentThread)
}

/// Lets other runtimes know that this one does not poll any more.
struct Alive(Arc<Task>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.store(false, Ordering::Release);
    }
}

/// A descriptor of the device.
struct Device(OwnedFd);

impl AsRawFd for Device {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// It is never replaced.
impl Steady for Device {}

struct Driver {
    /// Ends before the attachment, at whose end the waiting tasks are woken.
    alive: Alive,
    attachment: Attachment,
    descriptor: Registered<Device>,
    is_multi_thread: bool,
}

impl Driver {
    async fn run(mut self) {
        let mut readable = false;
        loop {
            self.attachment.poll(readable);
            let outcome = match self.attachment.next() {
                Turn::Over => return,
                Turn::Parked => self.sleep().await,
                Turn::Hot => self.pause(self.is_multi_thread).await,
                Turn::Yield => {
                    self.attachment.yield_cpu();
                    self.pause(false).await
                }
            };
            // It fails when the runtime shuts down.
            let Ok(now) = outcome else { return };
            readable = now;
        }
    }

    /// Lets other tasks run; whether the descriptor is readable.
    async fn pause(&mut self, wakes_itself: bool) -> io::Result<bool> {
        if wakes_itself {
            let mut paused = false;
            poll_fn(|context| {
                if std::mem::replace(&mut paused, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        } else {
            ::tokio::task::yield_now().await;
        }
        poll_fn(|context| {
            Poll::Ready(match self.poll_readable(context) {
                Poll::Ready(readable) => readable.map(|()| true),
                Poll::Pending => Ok(false),
            })
        })
        .await
    }

    /// Waits until the descriptor is readable, or the endpoint ends; which of them.
    async fn sleep(&mut self) -> io::Result<bool> {
        poll_fn(|context| {
            *self.alive.0.waker() = Some(context.waker().clone());
            if self.attachment.is_over() {
                return Poll::Ready(Ok(false));
            }
            self.poll_readable(context).map_ok(|()| true)
        })
        .await
    }

    /// Takes the readiness of the descriptor, which is edge-triggered: everything that made it
    /// readable is read afterwards.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.descriptor.poll_readable_once(context)
    }
}
