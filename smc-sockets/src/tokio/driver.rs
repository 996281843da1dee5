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
//! where they are ([`in_place`](super::in_place)). When such a task begins to wait, it wakes the
//! driver task ([`DriverTask::take_over`]): the worker goes on with the driver task, which polls for
//! the answer, and then with the task, without being out of tasks in between.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::tokio::runtime::{Handle, RuntimeFlavor};
use ::tokio::task::coop;

use super::driver_task::{DriverTask, TakenOver};
use super::registered::{FixedDescriptor, Registered};
use super::slow::{CpuTime, SlowTasks};
use crate::shard::{Attachment, Shard, Turn};

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

/// Workers of the calling task's runtime that run beside its own, 1 at most: one runs for a moment
/// whenever a task is woken, and more of them have work to do.
#[cfg(target_has_atomic = "64")]
fn running_siblings() -> u32 {
    let Ok(runtime) = Handle::try_current() else {
        return 0;
    };
    let metrics = runtime.metrics();
    let runs = |worker: &usize| metrics.worker_park_unpark_count(*worker).is_multiple_of(2);
    let second = (0..metrics.num_workers()).filter(runs).nth(1);
    second.is_some().into()
}

/// None: tokio does not count here how often workers sleep.
#[cfg(not(target_has_atomic = "64"))]
fn running_siblings() -> u32 {
    0
}

/// Uses up the budget of the worker's tick. A task that was woken then begins the next tick. In
/// this one, tokio (1.54) would run three tasks that wake each other, and would wake another worker
/// for the next of them.
async fn use_up_budget() {
    poll_fn(|context| {
        // A task without a budget always has some left.
        for _ in 0..u8::MAX {
            if !coop::has_budget_remaining() {
                break;
            }
            if let Poll::Ready(budget) = coop::poll_proceed(context) {
                budget.made_progress();
            }
        }
        Poll::Ready(())
    })
    .await;
}

/// Lets other runtimes know that this one does not poll any more.
struct Alive(Arc<DriverTask>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A descriptor of the device.
pub(super) struct Device(pub(super) OwnedFd);

impl AsRawFd for Device {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waker that is never replaced.
impl FixedDescriptor for Device {}

/// Begins to poll the device in a runtime.
pub(super) fn spawn(
    runtime: &Handle,
    shard: &Arc<Shard>,
    task: Arc<DriverTask>,
    descriptor: Registered<Device>,
) {
    let is_multi_thread = runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
    let has_workers = is_multi_thread && runtime.metrics().num_workers() > 1;
    let driver = Driver {
        alive: Alive(task),
        attachment: shard.attach(is_multi_thread, has_workers),
        descriptor,
        is_multi_thread,
        has_workers,
        paused: None,
        slow: SlowTasks::default(),
        lone: 0,
    };
    runtime.spawn(driver.run());
}

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
        poll_fn(|context| {
            self.alive.0.keep_waker(context);
            Poll::Ready(())
        })
        .await;
        loop {
            let taken_over = self.taken_over();
            self.attachment.poll(readable);
            if turns == 2 && taken_over.is_none() {
                self.lone = if undisturbed {
                    self.lone.saturating_add(1)
                } else {
                    0
                };
            }
            let expected = turns == 1 && self.lone >= LONE.0 && !self.lone.is_multiple_of(LONE.1);
            let polls = taken_over.is_some() && self.attachment.may_poll();
            if std::mem::take(&mut undisturbed) || expected || polls {
                self.attachment.spin(self.longest_spin());
                self.lone = self.lone.saturating_add(expected.into());
            }
            if taken_over.is_some_and(|calls| calls.has_written) {
                self.attachment.record_after_write();
            }
            turns = match self.attachment.has_found() {
                true => 1,
                false => turns.saturating_add(1),
            };
            let turn = self.attachment.next(running_siblings);
            if taken_over.is_some() && turns == 1 && turn == Turn::Hot {
                use_up_budget().await;
            }
            let outcome = match turn {
                Turn::Over => return,
                Turn::Parked => {
                    self.slow.sleeps();
                    let woken = self.sleep().await;
                    slept = true;
                    self.note_pause(Instant::now());
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
                    // Otherwise the yield was cut short.
                    if !self.alive.0.takes_over() {
                        self.note_pause(end);
                        let took = end.saturating_duration_since(begin);
                        undisturbed = took < self.undisturbed_yield(turns);
                        if self.is_multi_thread {
                            self.slow.turned(begin, end, CpuTime::read);
                        }
                    }
                    self.is_readable().await
                }
            };
            // It fails when the runtime shuts down.
            let Ok(now) = outcome else { return };
            readable = now;
        }
    }

    /// What other tasks have called for since the last turn. If the runtime has not polled its
    /// descriptors for long, its worker is to run out of tasks next.
    fn taken_over(&self) -> Option<TakenOver> {
        let task = &self.alive.0;
        let taken_over = task.taken_over()?;
        let now = Instant::now();
        task.set_yields(self.paused.is_none_or(|at| now >= at + PAUSE_EVERY));
        Some(taken_over)
    }

    /// The runtime has polled its descriptors.
    fn note_pause(&mut self, now: Instant) {
        self.paused = Some(now);
        self.alive.0.set_yields(false);
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
        polled && !self.alive.0.take_root()
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

    /// Waits until the descriptor is readable: true. False if the endpoint ends, or the task is to
    /// take over.
    async fn sleep(&mut self) -> io::Result<bool> {
        let task = &self.alive.0;
        task.set_sleeps(true);
        let woken = poll_fn(|context| {
            task.keep_waker(context);
            if self.attachment.is_over() || task.takes_over() {
                return Poll::Ready(Ok(false));
            }
            self.poll_readable(context).map_ok(|()| true)
        })
        .await;
        task.set_sleeps(false);
        woken
    }

    /// Takes the readiness of the descriptor, which is edge-triggered: everything that made it
    /// readable is read afterwards.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.descriptor.poll_readable_once(context)
    }
}
