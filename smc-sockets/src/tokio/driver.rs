//! The task that polls the device of a stack in a runtime, in place of the driver thread.
//!
//! ```text
//!   runtime A  ── task ──┐                     a task for each runtime that waits for
//!   runtime B  ── task ──┼── the stack's       streams of the stack, and one descriptor
//!   driver thread ───────┘   device            of it at the runtime's poller
//! ```
//!
//! While messages come faster than a thread wakes up, the task stays runnable and polls memory
//! between the other tasks. It goes on in one of two ways:
//!
//! - It yields as `yield_now` does. The runtime then polls its descriptors, which is a system
//!   call, and in a current-thread runtime the future of `block_on` as well. In a multi-thread
//!   runtime the task waits until its worker has nothing else to do, and no other worker can
//!   take it over.
//! - It wakes itself. That makes no system call in a current-thread runtime, whose future of
//!   `block_on` is not polled, however. In a multi-thread runtime it wakes another worker, which
//!   can take the task over, and competes with the peer for a CPU.
//!
//! So it wakes itself in a current-thread runtime while events come, and in a multi-thread
//! runtime after a sleep or while tasks take long; else it yields.
//!
//! A worker that runs out of tasks, even for the moment of a yield, searches for some at the
//! others, and wakes a second worker when it finds one. That worker takes a CPU from the peer.
//! So a turn polls for longer in a multi-thread runtime, and tasks that wait for an answer poll
//! where they are ([`in_place`](super::in_place)).

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use ::tokio::io::Interest;
use ::tokio::runtime::{Handle, Id, RuntimeFlavor};

use super::in_place::InPlace;
use super::registered::{FixedDescriptor, Registered};
use super::slow::{CpuTime, SlowTasks};
use crate::shard::{Attachment, Shard, Turn};
use crate::waiters::wake;

/// The runtimes that poll the device of an endpoint.
#[derive(Default)]
pub(crate) struct Runtimes {
    known: Mutex<Known>,
    /// Whether attempts to read poll for a moment.
    pub(crate) in_place: InPlace,
}

#[derive(Default)]
struct Known {
    tasks: Vec<Arc<Task>>,
    /// Runtimes whose tasks cannot wait for a descriptor.
    without_io: Vec<Id>,
}

/// Runtimes without I/O that are remembered. One that was forgotten is found out again.
const MOST_WITHOUT_IO: usize = 64;

/// The task of one runtime.
struct Task {
    runtime: Id,
    /// Not when its runtime has ended.
    alive: AtomicBool,
    /// Wakes it when the endpoint ends.
    waker: Mutex<Option<Waker>>,
    /// The future of `block_on` waits for a stream.
    has_root: AtomicBool,
}

/// Longest time that a turn polls without an event.
const SPIN: Duration = Duration::from_micros(4);
/// Longest time in which a runtime's descriptors are not polled.
const PAUSE_EVERY: Duration = Duration::from_micros(200);
/// A runtime that has the task run again this soon after it woke itself, or yielded in a
/// runtime of one thread, has no other work.
const UNDISTURBED: (Duration, Duration) = (Duration::from_nanos(300), Duration::from_nanos(1_500));
/// Longest time that a turn polls without an event where there are several workers: one that has
/// nothing else to run wakes a second one at every turn, which runs what becomes ready meanwhile.
const WORKER_SPIN: Duration = Duration::from_micros(16);
/// A worker that has the task run again this soon after it yielded has no other work: after the
/// turn of an event, whose tasks it has run meanwhile, and after another.
const WORKER_UNDISTURBED: (Duration, Duration) =
    (Duration::from_micros(12), Duration::from_micros(2));
/// Events after which a runtime whose tasks wake no other tasks is expected to have no other work
/// at once, and events between two checks of that.
const LONE: (u32, u32) = (8, 16);

impl Runtimes {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        let known = self.known.get_mut();
        for task in &known.unwrap_or_else(PoisonError::into_inner).tasks {
            task.waker().take().into_iter().for_each(wake);
        }
    }
}

impl Task {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sees to it that the runtime of the calling task polls the device. False without a runtime,
/// in one without I/O, and if no descriptor is left: the driver thread has to poll then.
pub(super) fn ensure(shard: &Arc<Shard>) -> bool {
    let Ok(runtime) = Handle::try_current() else {
        return false;
    };
    let id = runtime.id();
    let mut known = shard.runtimes.lock();
    if known.without_io.contains(&id) {
        return false;
    }
    let Known { tasks, without_io } = &mut *known;
    let polls = |task: &Arc<Task>| task.runtime == id && task.alive.load(Ordering::Acquire);
    let is_multi_thread = runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
    if let Some(task) = tasks.iter().find(|task| polls(task)) {
        if !is_multi_thread && ::tokio::task::try_id().is_none() {
            task.has_root.store(true, Ordering::Relaxed);
        }
        return true;
    }
    tasks.retain(|task| task.alive.load(Ordering::Acquire));
    let Ok(fd) = shard.device_descriptor() else {
        return false;
    };
    let register = || Registered::new(Device(fd), Interest::READABLE);
    let descriptor = match catch_unwind(AssertUnwindSafe(register)) {
        Ok(Ok(descriptor)) => descriptor,
        Ok(Err(_)) => return false,
        // tokio panics if its runtime has no I/O.
        Err(_) => {
            if without_io.len() >= MOST_WITHOUT_IO {
                without_io.remove(0);
            }
            without_io.push(id);
            return false;
        }
    };
    let task = Arc::new(Task {
        runtime: id,
        alive: AtomicBool::new(true),
        waker: Mutex::default(),
        has_root: AtomicBool::new(true),
    });
    tasks.push(task.clone());
    drop(known);
    let driver = Driver {
        alive: Alive(task),
        attachment: shard.attach(is_multi_thread),
        descriptor,
        is_multi_thread,
        has_workers: is_multi_thread && runtime.metrics().num_workers() > 1,
        paused: None,
        slow: SlowTasks::default(),
        lone: 0,
    };
    runtime.spawn(driver.run());
    true
}

/// Lets other tasks run.
async fn wake_itself() {
    let mut woken = false;
    poll_fn(|context| {
        if std::mem::replace(&mut woken, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
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

/// Waker that is never replaced.
impl FixedDescriptor for Device {}

struct Driver {
    /// Ends before the attachment, at whose end the waiting tasks are woken.
    alive: Alive,
    attachment: Attachment,
    descriptor: Registered<Device>,
    is_multi_thread: bool,
    /// The runtime has several workers.
    has_workers: bool,
    /// When the runtime last polled its descriptors.
    paused: Option<Instant>,
    slow: SlowTasks,
    /// Events of which the task that they woke was all the work.
    lone: u32,
}

impl Driver {
    async fn run(mut self) {
        let (mut readable, mut undisturbed, mut slept) = (false, false, true);
        // Turns since the last event.
        let mut turns = 0_u32;
        loop {
            self.attachment.poll(readable);
            if turns == 2 {
                self.lone = if undisturbed {
                    self.lone.saturating_add(1)
                } else {
                    0
                };
            }
            let expected = turns == 1 && self.lone >= LONE.0 && !self.lone.is_multiple_of(LONE.1);
            if std::mem::take(&mut undisturbed) || expected {
                self.attachment.spin(self.longest_spin());
                self.lone = self.lone.saturating_add(expected.into());
            }
            turns = match self.attachment.has_found() {
                true => 1,
                false => turns.saturating_add(1),
            };
            let turn = self.attachment.next();
            let outcome = match turn {
                Turn::Over => return,
                Turn::Parked => {
                    self.slow.sleeps();
                    let woken = self.sleep().await;
                    (slept, self.paused) = (true, Some(Instant::now()));
                    woken
                }
                Turn::Hot if self.wakes_itself(slept) => {
                    slept = false;
                    let begin = Instant::now();
                    wake_itself().await;
                    undisturbed = begin.elapsed() < UNDISTURBED.0;
                    Ok(false)
                }
                Turn::Hot | Turn::Pause | Turn::Yield => {
                    if turn == Turn::Yield {
                        self.attachment.yield_cpu();
                    }
                    let begin = Instant::now();
                    ::tokio::task::yield_now().await;
                    let end = Instant::now();
                    let took = end.saturating_duration_since(begin);
                    self.paused = Some(end);
                    undisturbed = took < self.undisturbed_yield(turns);
                    if self.is_multi_thread {
                        self.slow.turned(begin, end, CpuTime::read);
                    }
                    self.is_readable().await
                }
            };
            // It fails when the runtime shuts down.
            let Ok(now) = outcome else { return };
            readable = now;
        }
    }

    /// Longest time that a turn polls without an event.
    fn longest_spin(&self) -> Duration {
        match self.has_workers {
            true => WORKER_SPIN,
            false => SPIN,
        }
    }

    /// A yield of the task that takes less, so many turns after an event, shows that the runtime
    /// has no other work.
    fn undisturbed_yield(&self, turns: u32) -> Duration {
        match (self.has_workers, turns) {
            (false, _) => UNDISTURBED.1,
            (true, 1) => WORKER_UNDISTURBED.0,
            (true, _) => WORKER_UNDISTURBED.1,
        }
    }

    /// Whether the task wakes itself after this turn.
    fn wakes_itself(&self, slept: bool) -> bool {
        let now = Instant::now();
        if self.is_multi_thread {
            return slept || self.slow.are_expected(now);
        }
        let polled = self.paused.is_some_and(|at| now < at + PAUSE_EVERY);
        polled && !self.alive.0.has_root.swap(false, Ordering::Relaxed)
    }

    /// Whether the descriptor is readable.
    async fn is_readable(&self) -> io::Result<bool> {
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
