//! Pairing, the accepting side: table of the clients that have called and whose connections were
//! not accepted yet.
//!
//! One table has the calls at all rendezvous of a stack. Its size is bounded. A call that finds it
//! full takes the place of the oldest call of the user with the most calls, so that no user keeps
//! another one out, at however many listeners it calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::event::{PollFd, PollFlags};

use crate::device::Gid128;
use crate::shared::message::Message;
use crate::shared::socket::{Received, Socket};

/// Default size of the table.
pub const MAX_CALLERS: usize = 256;
/// Number of times that a caller is polled for its announcement. All callers of a rendezvous are
/// polled once for each connection that it accepts, and these may be many.
const MAX_POLLS: u8 = u8::MAX;

/// The calls at all rendezvous of a stack. Each one costs a descriptor. A clone refers to the same
/// table.
#[derive(Clone, Debug)]
pub struct Callers {
    most: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// By age, the oldest first.
    pub(super) all: Vec<Caller>,
    /// Number of the last rendezvous.
    rendezvous: u64,
}

/// A client that has called.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) socket: Socket,
    pub(super) uid: u32,
    /// Cookie of the socket that will connect, and GID of the client's device.
    pub(super) announced: Option<(u64, Gid128)>,
    /// Number of the rendezvous that it has called.
    pub(super) rendezvous: u64,
    /// Number of times that it was polled and had not announced anything.
    polls: u8,
}

impl Default for Callers {
    fn default() -> Self {
        Self::new(MAX_CALLERS)
    }
}

impl Callers {
    /// A table for `most` calls, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            table: Arc::default(),
        }
    }

    /// Whether there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    /// Drops calls that their clients have closed, for example by ending before they connected.
    /// Returns whether others remain.
    //= SHM-036
    pub fn sweep(&self) -> bool {
        let mut table = self.lock();
        table.sweep();
        !table.all.is_empty()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table in a child, unless a thread of the parent held its lock at the fork.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Table>> {
        match self.table.try_lock() {
            Ok(table) => Some(table),
            Err(TryLockError::Poisoned(table)) => Some(table.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns a number for a new rendezvous.
    pub(super) fn rendezvous(&self) -> u64 {
        let mut table = self.lock();
        table.rendezvous += 1;
        table.rendezvous
    }

    /// Adds a call, and drops others if the table is full: those that were closed, unless `swept`
    /// says that the caller has had that done already; then that of [`Table::evict`].
    pub(super) fn add(&self, caller: Caller, swept: &mut bool) {
        let mut table = self.lock();
        if table.all.len() >= self.most && !std::mem::replace(swept, true) {
            table.sweep();
        }
        while table.all.len() >= self.most {
            table.evict(caller.uid);
        }
        table.all.push(caller);
    }
}

impl Table {
    /// Drops calls that their clients have closed.
    fn sweep(&mut self) {
        let sockets = self.all.iter().map(|caller| &caller.socket);
        // The kernel reports closed sockets even if no event is requested.
        let mut polled: Vec<_> = sockets
            .map(|socket| PollFd::new(socket, PollFlags::empty()))
            .collect();
        let now = rustix::time::Timespec::default();
        if !polled.is_empty() && rustix::event::poll(&mut polled, Some(&now)).is_ok() {
            let gone: Vec<_> = polled.iter().map(|at| !at.revents().is_empty()).collect();
            let mut gone = gone.into_iter();
            self.all.retain(|_| gone.next() != Some(true));
        }
    }

    /// Drops a call to make room for one of user `uid`: the oldest of the user that would have the
    /// most calls then. If several users have as many, `uid` is chosen if it is one of them.
    //= SHM-007
    fn evict(&mut self, uid: u32) {
        let mut calls = BTreeMap::from([(uid, 1_usize)]);
        for caller in &self.all {
            *calls.entry(caller.uid).or_default() += 1;
        }
        let most = calls.values().copied().max();
        let of_most = |caller: &Caller| match calls.get(&uid).copied() == most {
            true => caller.uid == uid,
            false => calls.get(&caller.uid).copied() == most,
        };
        let oldest = self.all.iter().position(of_most).unwrap_or_default();
        self.all.remove(oldest);
    }

    /// Receives announcements of the callers of a rendezvous. Drops callers that have closed their
    /// calls, or have sent something else.
    pub(super) fn receive(&mut self, rendezvous: u64) {
        self.all
            .retain_mut(|caller| caller.rendezvous != rendezvous || caller.receive());
        self.sweep();
    }

    /// Whether the table has calls at a rendezvous.
    pub(super) fn has(&self, rendezvous: u64) -> bool {
        let mut all = self.all.iter();
        all.any(|caller| caller.rendezvous == rendezvous)
    }

    /// Takes out the call at a rendezvous that has announced the socket with this cookie.
    pub(super) fn take(&mut self, rendezvous: u64, cookie: u64) -> Option<Caller> {
        let is_it = |caller: &Caller| caller.rendezvous == rendezvous && caller.names(cookie);
        let at = self.all.iter().position(is_it)?;
        Some(self.all.remove(at))
    }
}

impl Caller {
    pub(super) fn new(socket: Socket, uid: u32, rendezvous: u64) -> Self {
        Self {
            socket,
            uid,
            announced: None,
            rendezvous,
            polls: 0,
        }
    }

    /// Whether the client has announced the socket with this cookie.
    pub(super) fn names(&self, cookie: u64) -> bool {
        self.announced.is_some_and(|(of, _)| of == cookie)
    }

    /// Receives the announcement, if it has come. Returns whether to keep the caller.
    fn receive(&mut self) -> bool {
        if self.announced.is_some() {
            return true;
        }
        match self.socket.receive() {
            Received::Message(Message::Announce { cookie, gid }, None) => {
                self.announced = Some((cookie, gid));
                true
            }
            // The client has a question for the kernel between its call and the announcement.
            Received::Nothing => {
                self.polls += 1;
                self.polls < MAX_POLLS
            }
            Received::Message(..) | Received::Stripped(_) | Received::Malformed | Received::End => {
                false
            }
        }
    }
}
