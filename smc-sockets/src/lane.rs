//! The data path of one connection, without the endpoint's lock.
//!
//! ```text
//!   thread with connection 1 ── lane of 1 ──► memory of connection 1   no lock in common
//!   thread with connection 2 ── lane of 2 ──► memory of connection 2
//!
//!   lend:      Endpoint ── LentConnection, and its memory ──► the lane
//!   take back: whatever is not only about bytes, and before a thread waits
//! ```
//!
//! A thread that reads or writes has the lock of the lane, which no other connection needs, and
//! touches memory of the program under that alone. Locks are taken in this order: the lane's, then
//! the endpoint's. A thread that has the endpoint's lock takes a lane only if it is free
//! ([`State::recall`](crate::shard::State)): a thread that is held up while it copies, by a page
//! fault for instance, holds up its own connection and no other.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use smc_proto::endpoint::LentConnection;
use smc_transport_ism::shared::Lane as Memory;

use crate::shard::{Shard, Via};
use crate::socket::Socket;

/// Bytes between what two threads write: cache lines are fetched in pairs.
struct Apart {
    _bytes: MaybeUninit<[u8; 128]>,
}

impl Default for Apart {
    fn default() -> Self {
        Self {
            _bytes: MaybeUninit::uninit(),
        }
    }
}

/// The place of a connection's data path while the endpoint has lent it. An alignment instead of
/// the distances would make each connection's memory more expensive to allocate.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Lane {
    _before: Apart,
    lent: Mutex<Option<Lent>>,
    /// There is one. Changes under the endpoint's lock only.
    is_lent: AtomicBool,
    /// Threads that wait for the connection at the endpoint.
    waiting: AtomicUsize,
    /// The thread with the endpoint's lock wanted it while another one used it.
    is_wanted: AtomicBool,
    _behind: Apart,
}

/// A connection's data path.
pub(crate) struct Lent {
    pub(crate) connection: LentConnection,
    pub(crate) memory: Memory,
}

/// Polls of a connection's head before the endpoint is asked: to give a data path back and to lend
/// it again takes as long as many of them, during which the peer would have to wait in turn.
const POLLS: usize = 64;

/// The head of a DMB.
type Head = [u8; 32];

/// Outcome of polling the own DMB.
enum PollOutcome {
    /// There is something to be read.
    Readable,
    Nothing,
    /// The message is for the endpoint.
    Other(Head),
}

/// What a call of a connection's data path needs.
struct Call<'a> {
    memory: &'a mut Memory,
    /// The peer is to be rung for.
    rings: bool,
}

impl Call<'_> {
    #[inline(always)]
    fn signal(&mut self, signal: &smc_proto::command::Signal) {
        self.rings |= self.memory.write_signal(signal);
    }
}

impl Lane {
    /// Locks the data path. Callers do not hold the endpoint's lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Lent>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the data path is lent. Callers hold the endpoint's lock.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Relaxed)
    }

    /// Sets [`Self::is_lent`]. Callers hold the endpoint's lock.
    pub(crate) fn set_lent(&self, lent: bool) {
        self.is_lent.store(lent, Ordering::Relaxed);
    }

    /// Takes what is lent, for the thread that holds the endpoint's lock: `None` if a thread uses
    /// it. If another one waits for the connection, the user gives it back at once.
    pub(crate) fn take_or_want(&self) -> Option<Lent> {
        self.try_take().or_else(|| {
            self.is_wanted.store(true, Ordering::Relaxed);
            // Of this and the end of its use that cross, either this finds it free or the user
            // finds that it is wanted.
            fence(Ordering::SeqCst);
            self.try_take()
        })
    }

    fn try_take(&self) -> Option<Lent> {
        match self.lent.try_lock() {
            Ok(mut lent) => lent.take(),
            Err(TryLockError::Poisoned(lent)) => lent.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Notes that a thread waits for the connection at the endpoint. Callers hold the endpoint's
    /// lock, and the data path was taken back: a thread that borrows it after this sees it.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// Whether a thread that ends its use, and has released the lane, is to give it back at once.
    #[inline]
    fn take_wanted(&self) -> bool {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return false;
        }
        fence(Ordering::SeqCst);
        self.is_wanted.swap(false, Ordering::Relaxed)
    }
}

/// A thread that waits for a connection at the endpoint.
pub(crate) struct Waiting<'a>(&'a Lane);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Release);
    }
}

impl Lent {
    /// Polls the head of the own DMB, a few times at most.
    #[inline(always)]
    fn poll(&mut self, socket: &Socket) -> PollOutcome {
        if socket.backs_off() {
            socket.back_off();
        }
        for poll in 0..POLLS {
            match self.poll_once() {
                PollOutcome::Nothing => std::hint::spin_loop(),
                PollOutcome::Readable => {
                    if poll == 0 {
                        socket.count_immediate();
                    }
                    return PollOutcome::Readable;
                }
                other => return other,
            }
        }
        PollOutcome::Nothing
    }

    #[inline(always)]
    fn poll_once(&mut self) -> PollOutcome {
        let mut head = [0; 32];
        if !self.memory.poll_head(&mut head) {
            return PollOutcome::Nothing;
        }
        match self.connection.handle_signal(&head) {
            Some(_) if self.connection.is_readable() => PollOutcome::Readable,
            Some(_) => PollOutcome::Nothing,
            None => PollOutcome::Other(head),
        }
    }
}

/// Whether a socket's data path may be lent as far as the socket knows.
#[inline]
fn is_eligible(socket: &Socket) -> bool {
    !socket.is_nonblocking() && socket.via() == Via::Ism
}

/// Gives the data path back, with the message that the endpoint is to handle.
#[inline(never)]
fn give_back(
    shard: &Arc<Shard>,
    socket: &Socket,
    mut slot: MutexGuard<'_, Option<Lent>>,
    head: Option<Head>,
) {
    let mut state = shard.lock();
    let now = shard.coarse();
    if let Some(lent) = slot.take() {
        state.take_back(shard, socket, lent, head, now);
        state.release_device(shard, now);
    }
    // Tasks are woken behind the endpoint's lock, and may use the stream.
    drop(slot);
}

/// The data path of a socket, lent if it was not. `None` if the endpoint does not lend it now.
#[inline(always)]
fn borrow<'a>(shard: &Arc<Shard>, socket: &'a Socket) -> Option<MutexGuard<'a, Option<Lent>>> {
    if !is_eligible(socket) {
        return None;
    }
    let mut slot = socket.lane.lock();
    if slot.is_none() {
        *slot = lend(shard, socket);
        slot.as_ref()?;
    }
    shard.use_lane();
    Some(slot)
}

#[inline(never)]
fn lend(shard: &Arc<Shard>, socket: &Socket) -> Option<Lent> {
    shard.lock().lend(socket, shard.coarse())
}

/// What follows from a call: a ring for the peer, or the endpoint goes on.
#[inline(always)]
fn finish(shard: &Arc<Shard>, socket: &Socket, slot: MutexGuard<'_, Option<Lent>>, rings: bool) {
    let Some(lent) = &*slot else {
        return;
    };
    let is_settled = lent.connection.is_settled();
    if rings || !is_settled {
        follow(shard, socket, slot, rings, is_settled);
    } else {
        drop(slot);
    }
    if socket.lane.take_wanted() {
        give_back_wanted(shard, socket);
    }
}

/// Gives the data path back for a thread that waits.
#[inline(never)]
fn give_back_wanted(shard: &Arc<Shard>, socket: &Socket) {
    let mut state = shard.lock_for(socket);
    state.release_device(shard, shard.coarse());
}

#[inline(never)]
fn follow(
    shard: &Arc<Shard>,
    socket: &Socket,
    slot: MutexGuard<'_, Option<Lent>>,
    rings: bool,
    is_settled: bool,
) {
    if rings && let Some(lent) = &*slot {
        let remote = lent.memory.remote();
        shard.lock().transports.ism.device_mut().ring(remote);
    }
    if !is_settled {
        give_back(shard, socket, slot, None);
    }
}

/// Reads what there is into the slices in turn, or peeks at it: how many bytes. `None` if the
/// endpoint has to be asked, and before anything was read.
#[inline(always)]
pub(crate) fn read(
    shard: &Arc<Shard>,
    socket: &Socket,
    into: &mut [IoSliceMut<'_>],
    peeks: bool,
) -> Option<usize> {
    let mut slot = borrow(shard, socket)?;
    let lent = slot.as_mut()?;
    if !lent.connection.is_readable() {
        if !shard.polls_lanes() {
            return None;
        }
        match lent.poll(socket) {
            PollOutcome::Readable => {}
            PollOutcome::Nothing => return None,
            PollOutcome::Other(head) => {
                give_back(shard, socket, slot, Some(head));
                return None;
            }
        }
    }
    let (mut total, mut room, mut rings, mut available) = (0, 0, false, 0);
    for slice in into {
        room += slice.len();
        let mut call = Call {
            memory: &mut lent.memory,
            rings: false,
        };
        let mut copied = 0;
        let _ = lent.connection.read(
            &mut call,
            #[inline(always)]
            |call, readable| {
                available = readable.len().max(available);
                copied = call.memory.take(readable, slice).unwrap_or(0);
                if peeks { 0 } else { copied }
            },
            #[inline(always)]
            |call, signal| call.signal(signal),
        );
        rings |= call.rings;
        total += copied as usize;
        // What is peeked at stays where it is.
        if peeks && copied > 0 || !peeks && !lent.connection.is_readable() {
            break;
        }
    }
    if !peeks && total > 0 {
        socket.view.received(total, room, available);
    }
    finish(shard, socket, slot, rings);
    (total > 0).then_some(total)
}

/// Writes as much as there is room for: how many bytes. `None` if the endpoint has to be asked,
/// and nothing was written.
#[inline(always)]
pub(crate) fn write(shard: &Arc<Shard>, socket: &Socket, bytes: &[u8]) -> Option<usize> {
    let mut slot = borrow(shard, socket)?;
    let lent = slot.as_mut()?;
    let mut call = Call {
        memory: &mut lent.memory,
        rings: false,
    };
    let written = lent.connection.write(
        &mut call,
        #[inline(always)]
        |call, space| call.memory.fill(space, bytes).unwrap_or(0),
        #[inline(always)]
        |call, signal| call.signal(signal),
    );
    let rings = call.rings;
    match written {
        Ok(len @ 1..) => {
            socket.reset_backoff();
            socket.view.sent(len as usize, bytes.len());
            finish(shard, socket, slot, rings);
            Some(len as usize)
        }
        _ => None,
    }
}
