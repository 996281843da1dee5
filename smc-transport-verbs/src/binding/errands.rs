//! What may take its time: binding a queue pair asks for the peer's MAC, registering
//! much memory fetches its pages, and a queue pair is gone when none of its work is in flight.
//! Threads wait for these while other links go on.
//!
//! There are none until there is something to wait for, and at most [`THREADS`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use smc_proto::id::{BufferId, LinkId};

use crate::rnic::{Rnic, RnicError};

/// Number of peers that can be slow before another one waits for them.
const THREADS: usize = 4;

/// Outcome of an errand.
pub(super) enum Done<R: Rnic> {
    Connected {
        link: LinkId,
        result: Result<(), RnicError>,
    },
    Registered {
        buffer: BufferId,
        link: LinkId,
        result: Result<R::Region, RnicError>,
    },
    Destroyed {
        link: LinkId,
    },
}

type Errand<R> = Box<dyn FnOnce() -> Done<R> + Send>;

/// Threads that run errands.
pub(super) struct Errands<R: Rnic> {
    shared: Arc<Shared<R>>,
}

struct Shared<R: Rnic> {
    board: Mutex<Board<R>>,
    work: Condvar,
    /// Signals that an errand is done.
    eventfd: OwnedFd,
}

struct Board<R: Rnic> {
    waiting: VecDeque<Errand<R>>,
    done: VecDeque<Done<R>>,
    threads: usize,
    idle: usize,
    over: bool,
}

impl<R: Rnic> Shared<R> {
    fn board(&self) -> MutexGuard<'_, Board<R>> {
        // Nothing is left half done under it.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, done: Done<R>) {
        self.board().done.push_back(done);
        let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    fn run(&self) {
        let mut board = self.board();
        while !board.over {
            if let Some(errand) = board.waiting.pop_front() {
                drop(board);
                self.finish(errand());
                board = self.board();
            } else {
                board.idle += 1;
                let woken = self.work.wait(board);
                board = woken.unwrap_or_else(PoisonError::into_inner);
                board.idle -= 1;
            }
        }
    }
}

impl<R: Rnic> Errands<R> {
    pub(super) fn new() -> io::Result<Self> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let board = Board {
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            threads: 0,
            idle: 0,
            over: false,
        };
        let shared = Shared {
            board: Mutex::new(board),
            work: Condvar::new(),
            eventfd,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Runs an errand elsewhere.
    pub(super) fn run(&self, errand: impl FnOnce() -> Done<R> + Send + 'static) {
        let mut board = self.shared.board();
        board.waiting.push_back(Box::new(errand));
        if board.idle < board.waiting.len() && board.threads < THREADS {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("smc-verbs".into());
            if thread.spawn(move || shared.run()).is_ok() {
                board.threads += 1;
            } else if board.threads == 0
                && let Some(errand) = board.waiting.pop_front()
            {
                // Better late than never.
                drop(board);
                self.shared.finish(errand());
                return;
            }
        }
        drop(board);
        self.shared.work.notify_one();
    }

    /// What is done, all of it.
    pub(super) fn take(&self) -> VecDeque<Done<R>> {
        let mut count = [0; 8];
        // Nothing was written if it would have to wait.
        if rustix::io::read(&self.shared.eventfd, &mut count).is_err() {
            return VecDeque::new();
        }
        std::mem::take(&mut self.shared.board().done)
    }
}

impl<R: Rnic> AsFd for Errands<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.eventfd.as_fd()
    }
}

impl<R: Rnic> Drop for Errands<R> {
    /// Errands that were not begun are not run; a thread that runs one ends after it.
    fn drop(&mut self) {
        let mut board = self.shared.board();
        board.over = true;
        board.waiting.clear();
        drop(board);
        self.shared.work.notify_all();
    }
}
