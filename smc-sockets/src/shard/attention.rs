//! Which thread polls the device, and when the device is parked.
//!
//! ```text
//!            parked: a peer that rings makes a system call, and a thread wakes
//!    ┌─────────────────────────────────────────────────────────────────────────┐
//!    │ the driver, at the descriptor    or, while one waits: a thread, at the  │
//!    │                                  peers' futex words: the leader         │
//!    └──────▲───────────────────────────────────────────────────────┬──────────┘
//!     IDLE_TIME passed without use,                     a thread polls it
//!     or a waiter has to be woken at once                           │
//!    ┌──────┴───────────────────────────────────────────────────────▼──────────┐
//!    │ awake: a ring is two stores; it is handled when a thread next polls, or │
//!    │ when the driver does, as the idle timer expires                         │
//!    └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A program that reads and writes all the time makes no system calls, and the peers it
//! talks to make none. What an idle device was rung for waits at most twice the idle time.
//!
//! While it is awake, a thread that waits for one connection polls the message at the head of
//! its DMB, and the device only now and then: doorbells are one more cache line that the
//! peer's core would have to give away.

use std::sync::Arc;
use std::time::Duration;

use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::PollOutcome;
use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_transport_ism::shared::FutexWords;

use super::lanes::Lanes;
use super::{Shard, State, Via};
use crate::socket::Socket;
use crate::waiting::Direction;

/// Completions taken in at one go, so that no peer keeps the lock for itself.
const COMPLETIONS: usize = 1024;

/// Attempts to park while peers ring.
const ATTEMPTS: usize = 16;

/// Longest time that the device stays awake while no thread polls it: only bytes for a program
/// that does not ask for them are reported late by this.
pub(super) const IDLE_TIME: Duration = Duration::from_millis(5);

/// Longest time that the device stays awake while event loops wait: what arrives for them waits
/// this long at most if the thread that kept the device awake does something else.
const SHORT_IDLE_TIME: Duration = Duration::from_micros(200);

/// A thread, by an address that no other thread has while it lives.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ThreadMark(usize);

impl ThreadMark {
    fn of_this() -> Self {
        thread_local! {
            static MARK: u8 = const { 0 };
        }
        Self(MARK.with(|mark| std::ptr::from_ref(mark).addr()))
    }
}

/// State of the threads, connections and event loops that wait for the device.
pub(super) struct Attention {
    /// The thread that waits at the peers' futex words.
    leader: Option<ThreadMark>,
    /// Whether the kernel has no such wait.
    no_futex_wait: bool,
    /// Number of threads that wait until something happens to their connection.
    threads: usize,
    /// Number of connections with a waiter that is to be notified and polls nothing itself.
    connections: usize,
    /// Event loops that poll the device.
    pub(super) loops: usize,
    /// Of these, how many sleep until the device's descriptor is readable.
    pub(super) parked_loops: usize,
    /// How often event loops have polled the device, which wraps.
    pub(super) polls: u64,
    /// Whether the driver is woken by the device's descriptor.
    pub(super) driver_polls: bool,
    /// When the device, which is awake, is to be polled.
    idle_timer: Option<Instant>,
    /// Whether the device was used since the idle timer was set.
    used: bool,
    pub(super) lanes: Arc<Lanes>,
}

impl Default for Attention {
    fn default() -> Self {
        Self {
            leader: None,
            no_futex_wait: false,
            threads: 0,
            connections: 0,
            loops: 0,
            parked_loops: 0,
            polls: 0,
            driver_polls: true,
            idle_timer: None,
            used: false,
            lanes: Arc::default(),
        }
    }
}

impl Attention {
    /// Whether a thread, a loop or a connection needs to be woken by what happens.
    #[inline]
    fn is_urgent(&self) -> bool {
        self.must_park() || self.parked_loops > 0
    }

    /// Whether a thread or a connection needs to be woken by what happens, so that the device
    /// must not stay awake unattended.
    #[inline]
    pub(super) fn must_park(&self) -> bool {
        self.threads + self.connections > 0
    }

    /// Whether nothing waits but threads that poll the heads of their DMBs.
    #[inline]
    fn only_heads_polled(&self) -> bool {
        !self.must_park() && self.loops == 0
    }

    /// Notifies threads with data paths that are lent.
    #[inline]
    pub(super) fn note_changes(&self) {
        self.lanes.set_heads_polled(self.only_heads_polled());
    }

    /// Whether something waits that no event loop polls the device for. A thread that waits at
    /// the peers' futex words is woken by what rings, and not by what comes over sockets.
    pub(super) fn needs_driver(&self) -> bool {
        self.loops == 0 || self.connections > 0 || self.threads > 0
    }
}

impl State {
    /// Drains the completions of all devices; whether that was all.
    pub(crate) fn take_in(&mut self, shard: &Arc<Shard>, now: Instant) -> bool {
        // Heads are polled for which peers do not ring.
        //= SHM-075
        if self.transports.ism.device().suppresses_rings() {
            self.transports.ism.device_mut().poll_heads();
        }
        for _ in 0..COMPLETIONS {
            self.carry_out(shard, now);
            match self.transports.poll() {
                Some(completion) => self.complete(shard, completion, now),
                None => return true,
            }
        }
        self.carry_out(shard, now);
        false
    }

    /// Drains the device that a connection uses.
    #[inline]
    pub(crate) fn take_in_of(&mut self, shard: &Arc<Shard>, via: Via, now: Instant) {
        match via {
            Via::Ism => {
                self.take_in(shard, now);
            }
            Via::Verbs => {
                self.poll_rnics(shard, now);
            }
        }
    }

    /// Drains completions of RNICs; whether there were any.
    pub(crate) fn poll_rnics(&mut self, shard: &Arc<Shard>, now: Instant) -> bool {
        let mut ever = false;
        for _ in 0..ATTEMPTS {
            let any = self.transports.poll_rnics(&mut self.engine, now);
            self.carry_out(shard, now);
            ever |= any;
            if !any && !self.transports.is_due() {
                return ever;
            }
        }
        // The rest is for the driver.
        shard.ring();
        ever
    }

    /// Polls the device that a connection uses; whether there was something.
    #[inline]
    pub(crate) fn spin_for(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
        polls: usize,
    ) -> bool {
        match socket.via() {
            Via::Ism => self.spin_at_head(shard, socket, now, polls),
            // A poll is a few system calls.
            Via::Verbs => self.poll_rnics(shard, now),
        }
    }

    /// Polls a few times where messages to the connection arrive, and the device once, or each
    /// time if a waiter has to be woken at once; whether there was something.
    #[inline]
    fn spin_at_head(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
        polls: usize,
    ) -> bool {
        for poll in 0..polls {
            if self.poll_head_of(shard, socket, now) {
                return true;
            }
            if (poll == 0 || self.attention.is_urgent())
                && let Some(completion) = self.transports.poll()
            {
                self.complete(shard, completion, now);
                self.carry_out(shard, now);
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Polls where messages to a connection arrive, which costs less than to poll the device;
    /// whether anything was taken in. What the device was rung for meanwhile waits until the
    /// idle timer; so not while a waiter has to be woken at once.
    //= SHM-034
    #[inline]
    pub(super) fn poll_head_of(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
    ) -> bool {
        let Some(conn) = socket.conn().filter(|_| self.may_poll_head(socket)) else {
            return false;
        };
        let outcome = self.transports.poll_head(&mut self.engine, conn, now);
        if outcome == PollOutcome::More {
            self.carry_out(shard, now);
        }
        // What arrived for loops that wait is passed on.
        if self.attention.parked_loops > 0 && !self.transports.ism.device().is_parked() {
            self.take_in(shard, now);
        }
        outcome.is_anything()
    }

    /// Whether there is a head to poll, and no waiter that the device has to wake.
    #[inline]
    pub(super) fn may_poll_head(&self, socket: &Socket) -> bool {
        !self.attention.must_park() && socket.via() == Via::Ism
    }

    #[inline]
    pub(super) fn complete(&mut self, shard: &Arc<Shard>, completion: IsmCompletion, now: Instant) {
        if !self.recall_for(shard, &completion, now) {
            return;
        }
        if let IsmCompletion::PeerVanished { peer, .. } = completion {
            self.save_octets(peer, now);
        } else if Self::is_handshake(&completion) {
            return self.receive_handshakes(now);
        }
        self.engine.handle_ism(now, completion);
    }

    /// Does everything there is to do, and parks the device.
    pub(crate) fn settle(&mut self, shard: &Arc<Shard>, now: Instant) {
        for _ in 0..ATTEMPTS {
            if !self.take_in(shard, now) {
                break;
            }
            if self.transports.ism.device_mut().park() {
                self.attention.idle_timer = None;
                self.assign_device(shard);
                return self.arm(shard, now);
            }
        }
        // The rest is for the driver.
        shard.ring();
    }

    /// Releases the device after using it: it stays awake, unless a waiter that does not poll has
    /// to be woken by what happens.
    #[inline(always)]
    pub(crate) fn leave(&mut self, shard: &Arc<Shard>, now: Instant) {
        let at = &mut self.attention;
        if self.transports.ism.device().is_parked() {
            self.arm(shard, now);
        } else if at.must_park() {
            self.settle(shard, now);
        } else {
            at.used = true;
            let time = match at.parked_loops {
                0 => IDLE_TIME,
                _ => SHORT_IDLE_TIME,
            };
            let end = now.after(time);
            if at.idle_timer.is_none_or(|at| end < at) {
                at.idle_timer = Some(end);
            }
            self.suppress_rings();
            self.arm(shard, now);
        }
    }

    /// Asks the peers not to ring, if only threads wait that poll the heads of their DMBs.
    //= SHM-075
    #[inline]
    fn suppress_rings(&mut self) {
        self.attention.note_changes();
        if self.attention.only_heads_polled() {
            self.transports.ism.device_mut().suppress_rings();
        }
    }

    /// Asks the peers to ring again: something waits for rings.
    //= SHM-075
    pub(super) fn restore_rings(&mut self) {
        self.attention.note_changes();
        self.transports.ism.device_mut().restore_rings();
    }

    /// A thread has polled the device for a while and does no more.
    pub(crate) fn stop_spinning(&mut self, shard: &Arc<Shard>, now: Instant) {
        if self.attention.is_urgent() {
            self.settle(shard, now);
        } else {
            self.leave(shard, now);
        }
    }

    /// Parks the device or sets its idle timer, after the driver has handled its events.
    pub(crate) fn rest(&mut self, shard: &Arc<Shard>, now: Instant) {
        if self.transports.is_due() {
            self.poll_rnics(shard, now);
        }
        // A loop that never sleeps hands nothing over by itself.
        self.assign_device(shard);
        self.recall_traced(shard, now);
        self.recall_put_off(shard, now);
        let over = self.attention.idle_timer.is_none_or(|at| at <= now);
        let at = &mut self.attention;
        at.used |= over && at.lanes.take_use();
        if over && !std::mem::take(&mut at.used) || at.is_urgent() {
            return self.settle(shard, now);
        }
        if over {
            at.idle_timer = Some(now.after(IDLE_TIME));
        }
        self.take_in(shard, now);
        self.suppress_rings();
        self.arm(shard, now);
    }

    /// When the device is to be polled, if no thread does before.
    pub(super) fn idle_timer(&self) -> Option<Instant> {
        self.attention.idle_timer
    }

    /// Makes the calling thread wait at the peers' futex words, if none does yet; ended by
    /// [`Self::end_leadership`].
    pub(crate) fn become_leader(&mut self) -> Option<FutexWords> {
        let thread = ThreadMark::of_this();
        if self.attention.leader == Some(thread) {
            // A handler of a signal has jumped out of its wait.
            self.end_leadership(false);
        }
        if self.attention.leader.is_some() || self.attention.no_futex_wait {
            return None;
        }
        let words = self.transports.ism.device_mut().futex_words();
        self.attention.leader = words.is_some().then_some(thread);
        words
    }

    /// Ends the wait of the calling thread as leader, if a handler of a signal has not done so:
    /// another thread may be the leader then. `no_futex_wait` is whether the kernel has no such
    /// wait.
    pub(crate) fn end_leadership(&mut self, no_futex_wait: bool) {
        self.attention.no_futex_wait |= no_futex_wait;
        if self.attention.leader == Some(ThreadMark::of_this()) {
            self.attention.leader = None;
            self.transports.ism.device_mut().release_futex_words();
        }
    }

    /// Counts a thread that begins to wait, or ends.
    pub(crate) fn sleeper(&mut self, begins: bool) {
        let threads = &mut self.attention.threads;
        *threads = if begins {
            threads.saturating_add(1)
        } else {
            threads.saturating_sub(1)
        };
        self.attention.note_changes();
    }

    /// An event loop has polled the device: as long as one does, it stays awake. If nothing
    /// else waits, it is for the loop alone to park it, unless it is `guarded`.
    #[inline]
    pub(super) fn used_by_loop(&mut self, shard: &Shard, now: Instant, guarded: bool) {
        let at = &mut self.attention;
        at.used = true;
        at.polls = at.polls.wrapping_add(1);
        let others = at.loops > 1 || at.must_park();
        if at.idle_timer.is_none() && (guarded || others) {
            at.idle_timer = Some(now.after(IDLE_TIME));
            self.arm(shard, now);
        }
    }

    /// Whether polling the device brings nothing that an event loop does not find: one sleeps
    /// until the device wakes it, or, of what a read has just looked for, polls.
    #[inline]
    pub(crate) fn is_polled_by_loop(&self, direction: Direction) -> bool {
        let parked = self.attention.parked_loops > 0 && self.transports.ism.device().is_parked();
        parked || direction == Direction::Read && self.attention.loops > 0
    }

    /// Has the driver poll for a connection whose event loop polls another device, or not.
    pub(crate) fn set_driven(&mut self, shard: &Arc<Shard>, socket: &Socket, driven: bool) {
        if let Some(conn) = socket.conn().filter(|_| !socket.is_polled()) {
            self.set_urgent(conn, driven);
            if driven {
                self.settle(shard, shard.coarse());
            }
        }
    }

    /// Sets whether everything that happens to a connection is handled at once, and not when its
    /// stream is next used.
    pub(crate) fn set_urgent(&mut self, conn: ConnId, urgent: bool) {
        let entry = self.entry_mut(conn);
        let changed = entry.is_some_and(|at| std::mem::replace(&mut at.urgent, urgent) != urgent);
        let connections = &mut self.attention.connections;
        match (changed, urgent) {
            (false, _) => {}
            (true, true) => {
                *connections = connections.saturating_add(1);
                self.restore_rings();
            }
            (true, false) => {
                *connections = connections.saturating_sub(1);
                self.attention.note_changes();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags};

    use super::ThreadMark;
    use crate::{SmcListener, SmcStream, Stack};

    /// A handler of a signal that waits ends the leadership of the thread that it has interrupted:
    /// when that thread goes on, another one may be the leader.
    #[test]
    fn a_thread_ends_no_leadership_but_its_own() {
        let stack = Stack::open().unwrap();
        let mut state = stack.shard().lock();
        let other = ThreadMark(ThreadMark::of_this().0.wrapping_add(1));
        state.attention.leader = Some(other);
        state.end_leadership(false);
        assert!(state.attention.leader == Some(other));
        state.attention.leader = Some(ThreadMark::of_this());
        state.end_leadership(false);
        assert!(state.attention.leader.is_none());
    }

    /// Whether the peers have to wake the device.
    fn is_parked(stack: &Stack) -> bool {
        let state = stack.shard().lock();
        state.transports.ism.device().is_parked()
    }

    /// A device that is awake without need is parked by the driver, which its timer wakes: no
    /// thread of the program has to do anything.
    #[test]
    fn a_device_that_falls_idle_is_parked_by_the_driver() {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut near = SmcStream::connect_on(&client, address).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc(), "{}", near.carrier());
        near.set_nonblocking(true).unwrap();
        let mut was_awake = false;
        for _ in 0..20 {
            far.write_all(b"there").unwrap();
            near.write_all(b"and back").unwrap();
            let mut read = 0;
            while read < 5 {
                read += near.read(&mut [0; 5]).unwrap_or(0);
            }
            far.read_exact(&mut [0; 8]).unwrap();
            // A read in vain polls the device, which stays awake.
            assert!(near.read(&mut [0; 5]).is_err());
            was_awake |= !is_parked(&client);
            let end = Instant::now() + Duration::from_secs(2);
            while !is_parked(&client) {
                assert!(Instant::now() < end, "it stays awake");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(was_awake, "nothing was to be parked");
    }

    /// While a connection is negotiated everything that happens to it is awaited at once; from
    /// then on, what its stream asks for.
    #[test]
    fn nothing_is_urgent_once_a_connection_is_decided() {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let near = SmcStream::connect_on(&client, address).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc() && far.carrier().is_smc());
        let is_urgent = |stack: &Stack| stack.shard().lock().attention.is_urgent();
        assert_eq!([&server, &client].map(is_urgent), [false; 2]);
        // The ends of both are awaited at once, and then nothing any more.
        drop((near, far));
        let end = Instant::now() + Duration::from_secs(5);
        while [&server, &client].map(is_urgent) != [false; 2] {
            assert!(Instant::now() < end, "something is still awaited");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// An idle link group ends after a while: nothing but the timer can wake the driver for
    /// that.
    #[test]
    fn the_timer_of_an_idle_driver_is_set_for_the_engines_next_deadline() {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let near = SmcStream::connect_on(&client, address).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc() && far.carrier().is_smc());
        drop((near, far));
        let is_set = |stack: &Stack| {
            let mut state = stack.shard().lock();
            let deadline = state.engine.poll_timeout();
            let parked = state.transports.ism.device().is_parked();
            parked && deadline.is_some_and(|at| state.armed.is_some_and(|armed| armed <= at))
        };
        let end = Instant::now() + Duration::from_secs(5);
        while !is_set(&server) || !is_set(&client) {
            assert!(Instant::now() < end, "no timer for the deadline");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A thread that polls keeps the device awake although a loop sleeps, and passes on what came
    /// for that; so does the driver if the thread does not come back.
    #[test]
    fn a_thread_polls_for_a_loop_that_sleeps() {
        const LONG: Duration = Duration::from_secs(20);
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connection = || {
            let near = SmcStream::connect_on(&client, address).unwrap();
            let (far, _) = listener.accept().unwrap();
            assert!(near.carrier().is_smc() && far.carrier().is_smc());
            (near, far)
        };
        let ((mut near, mut far), (of_loop, mut writer)) = (connection(), connection());
        of_loop.set_nonblocking(true).unwrap();
        let mut events = crate::EventLoop::new(&client).unwrap();
        events.register(&of_loop, 7).unwrap();
        let mut was_awake = false;
        for round in 0..100 {
            let mut ready = Vec::new();
            while events.wait().unwrap() == crate::Wait::Poll {
                events.drive(&mut ready).unwrap();
            }
            ready.clear();
            for _ in 0..3 {
                far.write_all(b"!").unwrap();
                near.read_exact(&mut [0; 1]).unwrap();
                was_awake |= !is_parked(&client);
            }
            writer.write_all(b"!").unwrap();
            if round % 2 == 0 {
                far.write_all(b"!").unwrap();
                near.read_exact(&mut [0; 1]).unwrap();
            }
            let mut polled = [PollFd::new(&events, PollFlags::IN)];
            let time = rustix::time::Timespec::try_from(LONG).unwrap();
            assert_eq!(
                rustix::event::poll(&mut polled, Some(&time)),
                Ok(1),
                "round {round}"
            );
            let end = Instant::now() + LONG;
            while ready.is_empty() {
                assert!(Instant::now() < end, "round {round}");
                events.drive(&mut ready).unwrap();
            }
            assert_eq!(ready[0].token, 7);
            assert_eq!((&of_loop).read(&mut [0; 8]).unwrap(), 1);
        }
        assert!(was_awake, "each read parked the device");
    }

    #[test]
    fn a_loop_that_decides_twice_to_sleep_is_counted_once() {
        let stack = Stack::open().unwrap();
        let mut events = crate::EventLoop::new(&stack).unwrap();
        for _ in 0..3 {
            while events.wait().unwrap() == crate::Wait::Poll {
                events.drive(&mut Vec::new()).unwrap();
            }
        }
        drop(events);
        let state = stack.shard().lock();
        assert_eq!(state.attention.parked_loops, 0);
    }
}
