//! What waits for a stream without blocking a thread: tasks, and event loops.
//!
//! ```text
//!   poll_read, readable().await ── register ──► Waiters of the stream
//!   EventLoop::register        ── watch ─────►      │
//!                                                   │ notify: the engine reports
//!                                                   ▼ Readable, Writable, Closed
//!                      wakers, after the endpoint's lock is released
//!                      ready list of the event loop
//! ```
//!
//! Wakers are invoked and dropped without the endpoint's lock: either may run code of the
//! program, which may use a stream.
#![cfg_attr(
    not(feature = "tokio"),
    allow(dead_code, reason = "without a runtime only event loops wait")
)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::descriptors;
use crate::waiting::Direction;

/// The tasks and the event loops that wait for one stream.
#[derive(Default)]
pub(crate) struct Waiters {
    /// Which of [`READ`], [`WRITE`] and [`WATCHED`] the list has, and [`DRIVEN`].
    present: AtomicU8,
    list: Mutex<List>,
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const WATCHED: u8 = 4;
const DRIVEN: u8 = 8;

#[derive(Default)]
struct List {
    read: Tasks,
    write: Tasks,
    /// One of each event loop.
    watches: Vec<Arc<Watch>>,
    /// Number of the last [`WaiterId`].
    last: u64,
}

/// The tasks that wait in one direction.
#[derive(Default)]
struct Tasks {
    /// The task that called a `poll` method last.
    polled: Option<Waker>,
    /// Futures of methods that may wait at the same time.
    futures: Vec<(WaiterId, Waker)>,
}

/// One of the futures that wait for a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaiterId(u64);

/// Wakes a task. A waker that panics is the fault of the program that made it: the thread that
/// wakes it may be the driver, or one of another part of the program, and goes on.
pub(crate) fn wake(waker: Waker) {
    // What it leaves half done is its own. Its payload may panic when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake())).map_err(std::mem::forget);
}

impl Direction {
    fn bit(self) -> u8 {
        match self {
            Self::Read => READ,
            Self::Write => WRITE,
        }
    }
}

impl List {
    /// Removes the registration of an event loop.
    fn unwatch(&mut self, ready: &Arc<ReadyList>) -> Option<Arc<Watch>> {
        let of = |watch: &Arc<Watch>| Arc::ptr_eq(&watch.ready, ready);
        let at = self.watches.iter().position(of)?;
        let watch = self.watches.swap_remove(at);
        watch.end();
        Some(watch)
    }

    fn tasks(&mut self, direction: Direction) -> &mut Tasks {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}

impl Waiters {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a notification in this direction reaches a task or an event loop.
    #[inline]
    pub(crate) fn has(&self, direction: Direction) -> bool {
        self.present.load(Ordering::Relaxed) & (direction.bit() | WATCHED) != 0
    }

    /// Whether tasks or an event loop wait, or a runtime drives what does.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.present.load(Ordering::Relaxed) != 0
    }

    /// Whether a notification in this direction reaches a task.
    #[inline]
    pub(crate) fn has_tasks(&self, direction: Direction) -> bool {
        self.present.load(Ordering::Relaxed) & direction.bit() != 0
    }

    /// Whether what waits for the stream is driven by a runtime that polls the device, so that
    /// an attempt need not poll it.
    #[inline]
    pub(crate) fn are_driven(&self) -> bool {
        self.present.load(Ordering::Relaxed) & DRIVEN != 0
    }

    /// Sets [`Self::are_driven`].
    pub(crate) fn set_driven(&self, driven: bool) {
        match driven {
            true => self.present.fetch_or(DRIVEN, Ordering::Relaxed),
            false => self.present.fetch_and(!DRIVEN, Ordering::Relaxed),
        };
    }

    /// Removes everything that waits: the stream is used no more. Callers do not hold the
    /// endpoint's lock.
    pub(crate) fn clear(&self) {
        let mut list = self.list();
        let all = (
            std::mem::take(&mut list.read),
            std::mem::take(&mut list.write),
            std::mem::take(&mut list.watches),
        );
        self.present.store(0, Ordering::Relaxed);
        drop(list);
        all.2.iter().for_each(|watch| watch.end());
    }

    /// Registers the task of a `poll` method, in place of the one before. Callers hold the
    /// endpoint's lock, and drop what is returned without it.
    pub(crate) fn register(&self, direction: Direction, waker: &Waker) -> Option<Waker> {
        let mut list = self.list();
        let polled = &mut list.tasks(direction).polled;
        let before = match polled {
            Some(known) if known.will_wake(waker) => None,
            _ => polled.replace(waker.clone()),
        };
        self.present.fetch_or(direction.bit(), Ordering::Relaxed);
        before
    }

    /// Registers a future, or its new waker. Callers hold the endpoint's lock, and drop the
    /// waker that is returned without it.
    pub(crate) fn register_future(
        &self,
        direction: Direction,
        id: Option<WaiterId>,
        waker: &Waker,
    ) -> (WaiterId, Option<Waker>) {
        let mut list = self.list();
        list.last += 1;
        let new = WaiterId(list.last);
        let futures = &mut list.tasks(direction).futures;
        let known = futures.iter_mut().find(|(of, _)| Some(*of) == id);
        let registered = match known {
            Some((of, known)) if known.will_wake(waker) => (*of, None),
            Some((of, known)) => (*of, Some(std::mem::replace(known, waker.clone()))),
            None => {
                futures.push((new, waker.clone()));
                (new, None)
            }
        };
        self.present.fetch_or(direction.bit(), Ordering::Relaxed);
        registered
    }

    /// Removes a future that waits no more.
    pub(crate) fn remove_future(&self, direction: Direction, id: WaiterId) {
        let mut list = self.list();
        let futures = &mut list.tasks(direction).futures;
        let at = futures.iter().position(|(of, _)| *of == id);
        let removed = at.map(|at| futures.swap_remove(at));
        drop(list);
        drop(removed);
    }

    /// Has an event loop notified from now on, in place of its registration before, which is
    /// dropped without the endpoint's lock.
    pub(crate) fn watch(&self, watch: Arc<Watch>) -> Option<Arc<Watch>> {
        let mut list = self.list();
        let before = list.unwatch(&watch.ready);
        // Loops that have ended without deregistering the stream: a program may make one after
        // the other.
        list.watches.retain(|watch| !watch.ready.is_closed());
        list.watches.push(watch);
        self.present.fetch_or(WATCHED, Ordering::Relaxed);
        before
    }

    /// Notifies an event loop no more; whether another one is left.
    pub(crate) fn unwatch(&self, ready: &Arc<ReadyList>) -> (Option<Arc<Watch>>, bool) {
        let mut list = self.list();
        let before = list.unwatch(ready);
        let watched = !list.watches.is_empty();
        if !watched {
            self.present.fetch_and(!WATCHED, Ordering::Relaxed);
        }
        (before, watched)
    }

    /// Takes the wakers of a direction, to be invoked once the endpoint's lock, which callers
    /// hold, is released; adds the stream to the ready lists of its event loops.
    #[inline]
    pub(crate) fn notify(&self, direction: Direction, wakes: &mut Vec<Waker>) {
        if self.has(direction) {
            self.notify_all(direction, wakes);
        }
    }

    #[inline(never)]
    fn notify_all(&self, direction: Direction, wakes: &mut Vec<Waker>) {
        let mut list = self.list();
        // Set under the list's lock only.
        if self.has_tasks(direction) {
            self.present.fetch_and(!direction.bit(), Ordering::Relaxed);
            let tasks = list.tasks(direction);
            wakes.extend(tasks.polled.take());
            wakes.extend(tasks.futures.drain(..).map(|(_, waker)| waker));
        }
        for watch in &list.watches {
            watch.notify(direction);
        }
    }
}

/// A stream as an event loop knows it.
pub(crate) struct Watch {
    token: usize,
    /// Directions of it that are on the list.
    listed: AtomicU8,
    /// The stream is not registered under this token any more.
    ended: AtomicBool,
    ready: Arc<ReadyList>,
}

/// Streams of an event loop that became ready, in that order.
///
/// Another thread may poll the device and list a stream while the loop sleeps: it wakes the
/// loop by an event descriptor.
pub(crate) struct ReadyList {
    listed: Mutex<Listed>,
    /// The loop sleeps, or is about to.
    asleep: AtomicBool,
    /// The event was raised and is to be cleared.
    raised: AtomicBool,
    event: OwnedFd,
}

#[derive(Default)]
struct Listed {
    streams: Vec<Arc<Watch>>,
    /// The loop has ended.
    closed: bool,
}

impl Watch {
    pub(crate) fn new(token: usize, ready: Arc<ReadyList>) -> Arc<Self> {
        Arc::new(Self {
            token,
            listed: AtomicU8::new(0),
            ended: AtomicBool::new(false),
            ready,
        })
    }

    /// Ends the registration: the stream is not listed under this token from now on.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Adds the stream to the list, unless it is there.
    pub(crate) fn notify(self: &Arc<Self>, direction: Direction) {
        if self.listed.fetch_or(direction.bit(), Ordering::AcqRel) == 0 {
            self.ready.push(self.clone());
        }
    }
}

impl ReadyList {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            listed: Mutex::default(),
            asleep: AtomicBool::new(false),
            raised: AtomicBool::new(false),
            event: descriptors::eventfd(0)?,
        })
    }

    /// Readable while a loop that sleeps has to wake.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn push(&self, watch: Arc<Watch>) {
        {
            let mut listed = self.listed();
            // The stream has this list, which would have the stream for ever.
            if listed.closed {
                return;
            }
            listed.streams.push(watch);
        }
        // Most often the loop is awake. One that fell asleep set the flag before it saw the list
        // without the stream, under its lock.
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            descriptors::raise(&self.event);
            // Behind the write: a loop that woke for another reason must not take the flag and
            // leave the event.
            self.raised.store(true, Ordering::Release);
        }
    }

    /// Prepares for sleep: whether the list is empty, so that the event is raised for whatever
    /// is listed from now on.
    pub(crate) fn falls_asleep(&self) -> bool {
        // A thread that lists something after the list was seen empty sees the flag.
        self.asleep.store(true, Ordering::Release);
        let empty = self.is_empty();
        if !empty {
            self.wakes_up();
        }
        empty
    }

    /// Ends the sleep.
    pub(crate) fn wakes_up(&self) {
        self.asleep.store(false, Ordering::Release);
        // An event that is raised meanwhile is cleared by the next call.
        if self.raised.load(Ordering::Relaxed) && self.raised.swap(false, Ordering::AcqRel) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.listed().streams.is_empty()
    }

    /// Whether its loop has ended.
    fn is_closed(&self) -> bool {
        self.listed().closed
    }

    /// Ends the list with its loop.
    pub(crate) fn close(&self) {
        let mut listed = self.listed();
        listed.closed = true;
        let streams = std::mem::take(&mut listed.streams);
        drop(listed);
        drop(streams);
    }

    /// Removes all streams from the list and hands each out with its token and whether it is
    /// ready for reading and for writing.
    pub(crate) fn drain(&self, mut each: impl FnMut(usize, bool, bool)) {
        for watch in self.listed().streams.drain(..) {
            let listed = watch.listed.swap(0, Ordering::AcqRel);
            if !watch.ended.load(Ordering::Acquire) {
                each(watch.token, listed & READ != 0, listed & WRITE != 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::{ReadyList, Waiters, Watch};
    use crate::waiting::Direction::{Read, Write};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn task() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), count.into())
    }

    fn notify(waiters: &Waiters, direction: super::Direction) {
        let mut wakes = Vec::new();
        waiters.notify(direction, &mut wakes);
        wakes.into_iter().for_each(Waker::wake);
    }

    #[test]
    fn the_task_that_polled_last_is_woken_once_and_in_its_direction() {
        let waiters = Waiters::default();
        let ((first, one), (second, two)) = (task(), task());
        assert!(waiters.register(Read, &one).is_none());
        assert!(waiters.register(Read, &one).is_none(), "the same task");
        assert!(waiters.register(Read, &two).unwrap().will_wake(&one));
        notify(&waiters, Write);
        assert_eq!(second.0.load(Ordering::Relaxed), 0);
        notify(&waiters, Read);
        notify(&waiters, Read);
        assert_eq!(second.0.load(Ordering::Relaxed), 1);
        assert_eq!(first.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn all_futures_are_woken_but_those_that_were_given_up() {
        let waiters = Waiters::default();
        let tasks: Vec<_> = (0..3).map(|_| task()).collect();
        let ids: Vec<_> = tasks
            .iter()
            .map(|(_, waker)| waiters.register_future(Write, None, waker).0)
            .collect();
        let again = waiters.register_future(Write, Some(ids[0]), &tasks[0].1);
        assert_eq!(again.0, ids[0]);
        waiters.remove_future(Write, ids[1]);
        notify(&waiters, Write);
        let woken = tasks
            .iter()
            .map(|(count, _)| count.0.load(Ordering::Relaxed));
        assert_eq!(woken.collect::<Vec<_>>(), [1, 0, 1]);
        assert!(!waiters.has(Write));
    }

    #[test]
    fn a_watched_stream_is_listed_once_until_the_list_is_drained() {
        let (waiters, list) = (Waiters::default(), Arc::new(ReadyList::new().unwrap()));
        waiters.watch(Watch::new(7, list.clone()));
        for _ in 0..2 {
            notify(&waiters, Read);
            notify(&waiters, Write);
            notify(&waiters, Read);
            let mut drained = Vec::new();
            list.drain(|token, read, write| drained.push((token, read, write)));
            assert_eq!(drained, [(7, true, true)]);
            assert!(list.is_empty());
        }
        assert!(!waiters.unwatch(&list).1);
        notify(&waiters, Read);
        assert!(list.is_empty());
    }

    #[test]
    fn each_of_several_loops_lists_a_stream_until_it_is_deregistered_there() {
        let waiters = Waiters::default();
        let lists = [(); 2].map(|()| Arc::new(ReadyList::new().unwrap()));
        for (token, list) in lists.iter().enumerate() {
            waiters.watch(Watch::new(token, list.clone()));
            // Registering again changes the token.
            assert!(
                waiters
                    .watch(Watch::new(token + 10, list.clone()))
                    .is_some()
            );
        }
        let tokens = |list: &ReadyList| {
            let mut tokens = Vec::new();
            list.drain(|token, read, write| tokens.push((token, read, write)));
            tokens
        };
        notify(&waiters, Read);
        assert_eq!(tokens(&lists[0]), [(10, true, false)]);
        assert_eq!(tokens(&lists[1]), [(11, true, false)]);
        let (before, watched) = waiters.unwatch(&lists[0]);
        assert!(before.is_some() && watched);
        notify(&waiters, Write);
        assert!(lists[0].is_empty());
        assert_eq!(tokens(&lists[1]), [(11, false, true)]);
    }

    /// A loop that wakes for another reason, at whatever moment, leaves no event raised.
    #[test]
    fn the_event_is_cleared_by_a_loop_that_woke_by_itself() {
        use std::sync::Barrier;
        const ROUNDS: usize = 20_000;
        let list = Arc::new(ReadyList::new().unwrap());
        let (lists, step) = (list.clone(), Arc::new(Barrier::new(2)));
        let meets = step.clone();
        let other = std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                meets.wait();
                Watch::new(1, lists.clone()).notify(Read);
                meets.wait();
            }
        });
        for round in 0..ROUNDS {
            assert!(list.falls_asleep());
            step.wait();
            for _ in 0..round % 2_000 {
                std::hint::spin_loop();
            }
            list.wakes_up();
            step.wait();
            list.wakes_up();
            list.drain(|_, _, _| {});
            let flags = rustix::event::PollFlags::IN;
            let mut polled = [rustix::event::PollFd::new(&list.event, flags)];
            let now = rustix::time::Timespec::default();
            let raised = rustix::event::poll(&mut polled, Some(&now)).unwrap();
            assert_eq!(raised, 0, "round {round}");
        }
        other.join().unwrap();
    }
}
