//! Blocking calls: how a thread of the program waits until a connection is readable or writable.
//! It polls the device within an adaptive time budget, then sleeps in the kernel.
//!
//! One sleeping thread is the leader: it sleeps at the peers' futex words, which peers wake, and
//! notifies the other threads when it has polled the device. The others sleep at the wake handles
//! of their connections. Used by the blocking calls of streams and by the tokio types.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use smc_proto::time::Instant;

use crate::interrupts;
use crate::shard::{Locked, Shard, State, Via};
use crate::socket::Socket;
#[cfg(feature = "tokio")]
use crate::tokio::SpinOutcome;

mod polling;

use self::polling::Polling;

/// Number of polls of the device between two readings of the clock.
pub(crate) const POLLS_PER_CLOCK: usize = 16;

/// Whether a thread waits to read or to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Read, Self::Write];
}

/// Pauses between two checks of a condition that wakes no thread: the shortest, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(10));

/// Waits until a condition holds that wakes no thread: checks it in pauses that double. False if
/// `until` comes first; without it, there is no end.
pub(crate) fn until_holds(until: Option<StdInstant>, mut holds: impl FnMut() -> bool) -> bool {
    let mut pause = PAUSE.0;
    while !holds() {
        let now = StdInstant::now();
        let left = until.map_or(pause, |until| until.saturating_duration_since(now));
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(PAUSE.1);
    }
    true
}

/// Repeats `attempt`, which returns `None` while it would block, until it returns a result. Sleeps
/// in between, unless the stream is nonblocking.
///
/// `since` is the time at which the caller began to wait; set here if it is `None`. The stream's
/// timeout counts from it.
///
/// # Errors
/// The error of `attempt`; [`io::ErrorKind::WouldBlock`] if the stream is nonblocking or the timeout
/// has passed; [`io::ErrorKind::Interrupted`] if a signal ended the sleep of an interruptible
/// stream.
#[inline]
pub(crate) fn until_done<T>(
    shard: &Arc<Shard>,
    socket: &Socket,
    direction: Direction,
    since: &mut Option<Instant>,
    attempt: impl FnMut(&mut State, Instant) -> Option<io::Result<T>>,
) -> io::Result<T> {
    let nonblocking = socket.is_nonblocking();
    until_done_by(shard, socket, direction, nonblocking, since, attempt)
}

/// Repeats `attempt` until it returns a result, as [`until_done`] does. `nonblocking` decides
/// whether the call sleeps in between, whatever the mode of the stream is.
///
/// # Errors
/// The errors of [`until_done`].
#[inline]
pub(crate) fn until_done_by<T>(
    shard: &Arc<Shard>,
    socket: &Socket,
    direction: Direction,
    nonblocking: bool,
    since: &mut Option<Instant>,
    mut attempt: impl FnMut(&mut State, Instant) -> Option<io::Result<T>>,
) -> io::Result<T> {
    let mut state = shard.lock_for(socket);
    let now = shard.coarse();
    match attempt(&mut state, now) {
        Some(done) => {
            state.release_device(shard, now);
            done
        }
        None => wait(
            shard,
            socket,
            (direction, nonblocking),
            since,
            state,
            now,
            attempt,
        ),
    }
}

/// Slow path of [`until_done_by`], after the first `attempt` returned `None`.
#[inline(never)]
fn wait<'a, T>(
    shard: &'a Arc<Shard>,
    socket: &Socket,
    (direction, nonblocking): (Direction, bool),
    since: &mut Option<Instant>,
    mut state: Locked<'a>,
    mut now: Instant,
    mut attempt: impl FnMut(&mut State, Instant) -> Option<io::Result<T>>,
) -> io::Result<T> {
    let mut attempt = |state: &mut State, now| {
        let done = attempt(state, now)?;
        state.release_device(shard, now);
        Some(done)
    };
    let via = socket.via();
    let _waiting = socket.lane.wait();
    if direction == Direction::Read && socket.backs_off() && !nonblocking {
        drop(state);
        socket.back_off();
        state = shard.lock_for(socket);
        // Another thread may have received it.
        if let Some(done) = attempt(&mut state, now) {
            return done;
        }
    }
    if socket.waiters.are_driven() && via == Via::Ism && state.is_polled_by_loop(direction) {
        socket.reset_backoff();
        state.publish_progress(socket, now);
        socket.mark(direction);
        return Err(io::ErrorKind::WouldBlock.into());
    }
    state.execute_commands(shard, now);
    // The first thing to arrive is most often what this thread waits for.
    if state.spin_for(shard, socket, now, 1) {
        match direction {
            Direction::Read => {
                socket.count_immediate();
                // Data that this thread only peeks at is for other readers, too.
                if socket.waiters.has_tasks(direction) {
                    state.notify_readers(socket, now);
                }
            }
            // This poll received data for readers without notifying them.
            Direction::Write => state.notify_readers(socket, now),
        }
        if let Some(done) = attempt(&mut state, now) {
            return done;
        }
        state.drain_device(shard, via, now);
        if let Some(done) = attempt(&mut state, now) {
            return done;
        }
    }
    socket.reset_backoff();
    if direction == Direction::Write {
        state.publish_stall(socket);
    }
    if nonblocking {
        state.publish_progress(socket, now);
        socket.mark(direction);
        state.release_device(shard, now);
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let timeout = socket.timeout(direction);
    let mut polling = Polling::begin(shard, &socket.spin, timeout.unwrap_or(Duration::MAX));
    let began = polling.began();
    while polling.has_budget() {
        if state.spin_for(shard, socket, now, POLLS_PER_CLOCK)
            && let Some(done) = attempt(&mut state, now)
        {
            polling.found();
            return done;
        }
        drop(state);
        now = polling.tick();
        state = shard.lock_for(socket);
        // Another thread may have received it.
        if let Some(done) = attempt(&mut state, now) {
            return done;
        }
    }
    let since = *since.get_or_insert(began);
    state.publish_progress(socket, now);
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(now.since(since)));
        if left.is_some_and(|left| left.is_zero()) {
            state.release_device(shard, now);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        socket.mark(direction);
        let can = |state: &mut State| match direction {
            Direction::Read => state.is_readable(socket, now),
            Direction::Write => state.is_writable(socket, now),
        };
        let interrupted;
        (state, interrupted) = sleep(shard, socket, state, left, can);
        now = shard.now();
        state.drain_device(shard, via, now);
        if let Some(done) = attempt(&mut state, now) {
            return done;
        }
        if interrupted && socket.is_interruptible() {
            state.release_device(shard, now);
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
}

/// Longest time that a task polls in place, as its thread has other tasks.
pub(crate) const MAX_SPIN: Duration = Duration::from_micros(20);

/// Polls for a connection over shared memory, without sleeping, until it is ready for `direction`
/// or the adaptive time budget, at most 20 microseconds, is used up. With `yields`, another task that
/// becomes ready ends the polling, too. `None` if nothing was polled: the connection is not over
/// shared memory, or has no budget.
#[cfg(feature = "tokio")]
pub(crate) fn spin(
    shard: &Arc<Shard>,
    socket: &Socket,
    direction: Direction,
    yields: bool,
) -> Option<SpinOutcome> {
    if socket.via() != Via::Ism {
        return None;
    }
    let mut polling = Polling::begin(shard, &socket.spin, MAX_SPIN).without_yields();
    if !polling.has_budget() {
        return None;
    }
    let mut now = shard.coarse();
    loop {
        let mut state = shard.lock_for(socket);
        // Data received here notifies no readers by itself.
        let reads = direction == Direction::Write || socket.waiters.has_tasks(Direction::Read);
        if state.spin_for(shard, socket, now, POLLS_PER_CLOCK) && reads {
            state.notify_readers(socket, now);
        }
        let others = yields && state.wakes_tasks();
        let ready = match direction {
            Direction::Read => state.is_readable(socket, now),
            Direction::Write => state.is_writable(socket, now),
        };
        if ready {
            state.release_device(shard, now);
            drop(state);
            polling.found();
            let after = now.since(polling.began());
            return Some(SpinOutcome::Ready { after });
        }
        drop(state);
        if !others {
            now = polling.tick();
        }
        if others || !polling.has_budget() {
            // The caller sleeps elsewhere.
            shard.lock().stop_spinning(shard, now);
            return Some(match others {
                true => SpinOutcome::OthersReady,
                false => SpinOutcome::TimedOut,
            });
        }
    }
}

/// Sleeps until a connection's wake handle or, for the leader, a peer wakes this thread, or `time`
/// has passed; not at all if `happened` returns `true` after the device was parked. Returns whether
/// a signal ended the sleep.
fn sleep<'a>(
    shard: &'a Arc<Shard>,
    socket: &Socket,
    mut state: Locked<'a>,
    time: Option<Duration>,
    happened: impl FnOnce(&mut State) -> bool,
) -> (Locked<'a>, bool) {
    let made = socket.wake_handle.count();
    socket.count_waiting_thread(true);
    state.count_waiting_thread(true);
    // Completions of RNICs are handled by the driver.
    let words = match socket.via() {
        Via::Ism => state.become_leader(),
        Via::Verbs => None,
    };
    state.drain_and_park(shard, shard.now());
    // Checked after `made` was read: a later interrupt wakes this thread.
    let mut interrupted = socket.is_interruptible() && interrupts::are_due();
    let mut no_futex_wait = false;
    if !interrupted && !happened(&mut state) {
        drop(state);
        match &words {
            Some(words) => match words.wait(&socket.wake_handle, made, time) {
                Ok(by_signal) => interrupted = by_signal,
                Err(_) => no_futex_wait = true,
            },
            None => interrupted = socket.wake_handle.wait(made, time),
        }
        state = shard.lock_for(socket);
    }
    if words.is_some() {
        state.end_leadership(no_futex_wait);
    }
    state.count_waiting_thread(false);
    socket.count_waiting_thread(false);
    (state, interrupted)
}

impl Shard {
    /// Waits until it is decided whether SMC or TCP carries an announced connection, or `time` has
    /// passed. Polls within an adaptive budget first. May return early. Returns whether a signal
    /// ended the wait.
    pub(crate) fn wait_for_handshake(
        self: &Arc<Self>,
        socket: &Socket,
        time: Option<Duration>,
    ) -> bool {
        let decided = |_: &mut State| socket.status().is_decided();
        let began = self.now();
        if self.spin_for_handshake(time.unwrap_or(Duration::MAX), decided) {
            return false;
        }
        let left = time.map(|time| time.saturating_sub(self.now().since(began)));
        let (_, interrupted) = sleep(self, socket, self.lock(), left, decided);
        interrupted
    }

    /// Polls until `happened` returns `true`, within an adaptive budget of at most `most`. Returns
    /// whether it did.
    pub(crate) fn spin_for_handshake(
        self: &Arc<Self>,
        most: Duration,
        happened: impl Fn(&mut State) -> bool,
    ) -> bool {
        let mut polling = Polling::begin(self, &self.setup_spin, most);
        loop {
            let mut state = self.lock();
            let coarse = self.coarse();
            state.drain_completions(self, coarse);
            let is_over = happened(&mut state);
            if is_over || !polling.has_budget() {
                state.stop_spinning(self, coarse);
            }
            drop(state);
            if is_over {
                if polling.has_budget() {
                    polling.found();
                }
                return true;
            }
            if !polling.has_budget() {
                return false;
            }
            for _ in 0..POLLS_PER_CLOCK {
                std::hint::spin_loop();
            }
            polling.tick();
        }
    }
}
