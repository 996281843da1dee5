//! Who hears the device.
//!
//! ```text
//!            parked: a peer that rings makes a system call, and somebody wakes
//!    ┌─────────────────────────────────────────────────────────────────────────┐
//!    │ the driver, at the descriptor    or, while one sleeps: a thread, at the │
//!    │                                  peers' words; it leads                 │
//!    └──────▲───────────────────────────────────────────────────────┬──────────┘
//!     RECESS passed without use,                        somebody polls it
//!     or somebody is to be told at once                             │
//!    ┌──────┴───────────────────────────────────────────────────────▼──────────┐
//!    │ awake: a ring is two stores; it is heard when a thread next looks, or   │
//!    │ when the driver does, at the end of the recess                          │
//!    └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A program that reads and writes all the time makes no system calls, and the peers it
//! talks to make none. What an idle device was rung for waits at most two recesses.
//!
//! While it is awake, who waits for one connection looks at the message at the head of its
//! DMB and hears the device only now and then: what rings is one more cache line that the
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

/// How long the device may stay awake with nobody looking: only octets for a program that
/// does not ask for them are told late by this.
pub(super) const RECESS: Duration = Duration::from_millis(5);

/// How long the device may stay awake while event loops sleep: what arrives for them waits
/// this long at most if the thread that kept the device awake does something else.
const SHORT_RECESS: Duration = Duration::from_micros(200);

/// How the threads share the work of hearing the device.
pub(super) struct Attention {
    /// A thread sleeps at the peers' words.
    led: bool,
    /// The kernel does not know how.
    wordless: bool,
    /// Threads that sleep until something happens to their connection.
    threads: usize,
    /// Connections with something that waits for a notification and polls nothing itself.
    connections: usize,
    /// Event loops that poll the device.
    pub(super) loops: usize,
    /// Of these, how many sleep until the device's descriptor is readable.
    pub(super) parked_loops: usize,
    /// The driver is woken by the device's descriptor.
    pub(super) driver_polls: bool,
    /// The device is awake, and to be looked at then.
    recess: Option<Instant>,
    /// It was used since the recess began.
    used: bool,
    pub(super) lanes: Arc<Lanes>,
}

impl Default for Attention {
    fn default() -> Self {
        Self {
            led: false,
            wordless: false,
            threads: 0,
            connections: 0,
            loops: 0,
            parked_loops: 0,
            driver_polls: true,
            recess: None,
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
    fn must_park(&self) -> bool {
        self.threads + self.connections > 0
    }

    /// Whether nothing waits but threads that look at their connections by themselves.
    #[inline]
    fn looks_alone(&self) -> bool {
        !self.must_park() && self.loops == 0
    }

    /// Lets threads with data paths that are lent know of it.
    #[inline]
    pub(super) fn note_changes(&self) {
        self.lanes.set_looks(self.looks_alone());
    }

    /// Whether something waits that no event loop polls the device for. A thread that sleeps at
    /// the peers' words is woken by what rings, and not by what comes over sockets.
    pub(super) fn needs_driver(&self) -> bool {
        self.loops == 0 || self.connections > 0 || self.threads > 0
    }
}

impl State {
    /// Hears what there is; whether that was all.
    pub(crate) fn take_in(&mut self, shard: &Arc<Shard>, now: Instant) -> bool {
        // What need not ring is looked for.
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

    /// Hears what a connection is waited for by.
    #[inline]
    pub(crate) fn take_in_of(&mut self, shard: &Arc<Shard>, via: Via, now: Instant) {
        match via {
            Via::Ism => {
                self.take_in(shard, now);
            }
            Via::Verbs => {
                self.hear_rnics(shard, now);
            }
        }
    }

    /// Hears what RNICs have to tell; whether that was anything.
    pub(crate) fn hear_rnics(&mut self, shard: &Arc<Shard>, now: Instant) -> bool {
        let mut ever = false;
        for _ in 0..ATTEMPTS {
            let any = self.transports.hear(&mut self.engine, now);
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

    /// Looks for what a connection is waited for by; whether there was something.
    #[inline]
    pub(crate) fn glance_of(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
        looks: usize,
    ) -> bool {
        match socket.via() {
            Via::Ism => self.glance(shard, socket, now, looks),
            // A look is a few system calls.
            Via::Verbs => self.hear_rnics(shard, now),
        }
    }

    /// Looks a few times where messages to the connection arrive, and once at the device,
    /// or each time if somebody is to be told at once; whether there was something.
    #[inline]
    fn glance(&mut self, shard: &Arc<Shard>, socket: &Socket, now: Instant, looks: usize) -> bool {
        for look in 0..looks {
            if self.look(shard, socket, now) {
                return true;
            }
            if (look == 0 || self.attention.is_urgent())
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

    /// Looks where messages to a connection arrive, which costs less than to hear the
    /// device: whether anything was taken in. What the device was rung for meanwhile waits
    /// as in a recess; so not while somebody is to be told of it at once.
    //= SHM-034
    #[inline]
    pub(super) fn look(&mut self, shard: &Arc<Shard>, socket: &Socket, now: Instant) -> bool {
        let Some(conn) = socket.conn().filter(|_| self.looks_for(socket)) else {
            return false;
        };
        let looked = self.transports.look(&mut self.engine, conn, now);
        if looked == PollOutcome::More {
            self.carry_out(shard, now);
        }
        // What arrived for loops that sleep is passed on.
        if self.attention.parked_loops > 0 && !self.transports.ism.device().is_parked() {
            self.take_in(shard, now);
        }
        looked.is_anything()
    }

    /// Whether there is a place to look at, and nobody who is to be told by the device.
    #[inline]
    pub(super) fn looks_for(&self, socket: &Socket) -> bool {
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
                self.attention.recess = None;
                self.assign_device(shard);
                return self.arm(shard, now);
            }
        }
        // The rest is for the driver.
        shard.ring();
    }

    /// Gives the device back after using it: it stays awake, unless somebody who does not
    /// look himself is to be told of what happens.
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
                0 => RECESS,
                _ => SHORT_RECESS,
            };
            let end = now.after(time);
            if at.recess.is_none_or(|recess| end < recess) {
                at.recess = Some(end);
            }
            self.attend();
            self.arm(shard, now);
        }
    }

    /// Lets the peers do without rings, if only threads wait that look at their connections by
    /// themselves.
    //= SHM-075
    #[inline]
    fn attend(&mut self) {
        self.attention.note_changes();
        if self.attention.looks_alone() {
            self.transports.ism.device_mut().suppress_rings();
        }
    }

    /// Has the peers ring again: something waits for what rings.
    //= SHM-075
    pub(super) fn stop_attending(&mut self) {
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

    /// The driver has seen to what woke it.
    pub(crate) fn rest(&mut self, shard: &Arc<Shard>, now: Instant) {
        if self.transports.is_due() {
            self.hear_rnics(shard, now);
        }
        // A loop that never sleeps hands nothing over by itself.
        self.assign_device(shard);
        self.recall_put_off(shard, now);
        let over = self.attention.recess.is_none_or(|recess| recess <= now);
        let at = &mut self.attention;
        at.used |= over && at.lanes.take_use();
        if over && !std::mem::take(&mut at.used) || at.is_urgent() {
            return self.settle(shard, now);
        }
        if over {
            at.recess = Some(now.after(RECESS));
        }
        self.take_in(shard, now);
        self.attend();
        self.arm(shard, now);
    }

    /// When the device is to be looked at, if nobody does before.
    pub(super) fn recess(&self) -> Option<Instant> {
        self.attention.recess
    }

    /// Lets a thread sleep at the peers' words, if none does yet; to be given back by
    /// [`Self::resign`].
    pub(crate) fn lead(&mut self) -> Option<FutexWords> {
        if self.attention.led || self.attention.wordless {
            return None;
        }
        let words = self.transports.ism.device_mut().futex_words();
        self.attention.led = words.is_some();
        words
    }

    /// The thread that led sleeps no more; whether it could not.
    pub(crate) fn resign(&mut self, wordless: bool) {
        self.attention.wordless |= wordless;
        self.attention.led = false;
        self.transports.ism.device_mut().release_futex_words();
    }

    /// A thread begins to sleep, or ends.
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
        let others = at.loops > 1 || at.must_park();
        if at.recess.is_none() && (guarded || others) {
            at.recess = Some(now.after(RECESS));
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

    /// Whether everything that happens to a connection is to be heard at once, and not
    /// when its stream is next used.
    pub(crate) fn set_urgent(&mut self, conn: ConnId, urgent: bool) {
        let entry = self.entry_mut(conn);
        let changed = entry.is_some_and(|at| std::mem::replace(&mut at.urgent, urgent) != urgent);
        let connections = &mut self.attention.connections;
        match (changed, urgent) {
            (false, _) => {}
            (true, true) => {
                *connections = connections.saturating_add(1);
                self.stop_attending();
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

    use crate::{SmcListener, SmcStream, Stack};

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
            // A read in vain looks at the device, which stays awake.
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
