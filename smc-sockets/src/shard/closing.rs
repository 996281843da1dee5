//! Connections whose streams are closed, until their peers have closed as well.
//!
//! ```text
//!   close ─┬─ an event loop polls the device ─► left to it ─► closed
//!          │        │ late for what has rung, or the peer takes long
//!          └────────┴─► urgent: the driver polls
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use smc_proto::id::ConnId;
use smc_proto::time::{Duration, Instant};

use super::left_to_loops::LeftToLoops;
use super::{Shard, State};

/// How long the end of a connection is left to event loops before the driver checks.
const LEFT: Duration = Duration::from_millis(5);

/// How often a connection is left to event loops.
const MOST_TIMES: u32 = 20;

/// Most connections that are left to event loops.
const MOST: usize = 4096;

/// Closed connections that are left to event loops, in the order of their times.
#[derive(Default)]
pub(super) struct Closing(VecDeque<Left>);

/// One of them. The endpoint may have forgotten it.
struct Left {
    conn: ConnId,
    until: Instant,
    loops: LeftToLoops,
}

impl State {
    /// Goes on with a connection that no thread asks for any more.
    pub(super) fn end_closed(&mut self, shard: &Arc<Shard>, conn: ConnId, now: Instant) {
        if self.polling.loops == 0 || self.closing.0.len() >= MOST {
            self.set_urgent(conn, true);
            return self.drain_and_park(shard, now);
        }
        if self.polling.must_park() || self.polling.parked_loops > 0 {
            self.drain_and_park(shard, now);
        } else {
            // A loop is awake, and parks the device before it sleeps.
            self.drain_completions(shard, now);
            self.arm(shard, now);
        }
        if self.entry(conn).is_some_and(|entry| !entry.urgent) {
            let until = now.after(LEFT);
            self.closing.0.push_back(Left {
                conn,
                until,
                loops: LeftToLoops::new(self.polling.polls),
            });
            self.wake_about(shard, until, now);
        }
    }

    /// Has the driver poll for closed connections with which no event loop has gone on in time.
    pub(crate) fn urge_closing(&mut self, shard: &Arc<Shard>, now: Instant) {
        if self.closing.0.front().is_none_or(|left| left.until > now) {
            return self.arm_closing(shard, now);
        }
        let polls = self.polling.polls;
        let mut all_due = self.closing.0.iter().filter(|left| left.until <= now);
        let is_late = all_due.any(|left| left.loops.waits(polls)) && self.is_loop_late(shard);
        let mut urges = false;
        for _ in 0..self.closing.0.len() {
            let next = self.closing.0.front();
            if next.is_none_or(|left| left.until > now) {
                break;
            }
            let Some(mut left) = self.closing.0.pop_front() else {
                break;
            };
            if self.entry(left.conn).is_none() {
                continue;
            }
            let times = left.loops.again(polls, is_late);
            if times.is_some_and(|times| times + 1 < MOST_TIMES) {
                left.until = now.after(LEFT);
                self.closing.0.push_back(left);
            } else {
                self.set_urgent(left.conn, true);
                urges = true;
            }
        }
        if urges {
            self.drain_and_park(shard, now);
        }
        self.arm_closing(shard, now);
    }

    fn arm_closing(&mut self, shard: &Shard, now: Instant) {
        if let Some(until) = self.closing.0.front().map(|left| left.until) {
            self.schedule_next_check(shard, until, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::{Duration, Instant};

    use crate::{EventLoop, SmcListener, SmcStream, Stack, Wait};

    const LONG: Duration = Duration::from_secs(20);

    fn connection(server: &Stack, client: &Stack) -> (SmcStream, SmcStream) {
        let listener = SmcListener::bind_on(server, "127.0.0.1:0").unwrap();
        let near = SmcStream::connect_on(client, listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc() && far.carrier().is_smc());
        (near, far)
    }

    fn open(stack: &Stack) -> usize {
        let state = stack.shard().lock();
        state.sockets.iter().flatten().count()
    }

    fn urgent(stack: &Stack) -> usize {
        let state = stack.shard().lock();
        state
            .sockets
            .iter()
            .flatten()
            .filter(|at| at.urgent)
            .count()
    }

    /// The driver is not woken by the end of a connection while a loop polls for it.
    #[test]
    fn a_loop_that_polls_ends_connections_without_the_driver() {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let (near, mut far) = connection(&server, &client);
        let mut events = EventLoop::new(&client).unwrap();
        drop(near);
        assert_eq!((open(&client), urgent(&client)), (1, 0));
        assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
        drop(far);
        let end = Instant::now() + LONG;
        while open(&client) > 0 {
            assert!(Instant::now() < end, "it does not end");
            assert_eq!(urgent(&client), 0);
            events.drive(&mut Vec::new()).unwrap();
        }
    }

    /// A loop that does something else, and one that ends, hinder no connection from ending.
    #[test]
    fn the_driver_ends_connections_for_a_loop_that_does_not_poll() {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let events = EventLoop::new(&client).unwrap();
        for _ in 0..3 {
            let (near, mut far) = connection(&server, &client);
            drop(near);
            assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
            drop(far);
            let end = Instant::now() + LONG;
            while open(&client) > 0 {
                assert!(Instant::now() < end, "it does not end");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(events);
    }

    /// A loop that sleeps is woken by what rings: the driver is not needed before the loop is late for
    /// that.
    #[test]
    fn a_loop_that_sleeps_is_late_once_it_was_rung() {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let (near, mut far) = connection(&server, &client);
        let mut events = EventLoop::new(&client).unwrap();
        drop(near);
        while events.wait().unwrap() == Wait::Poll {
            events.drive(&mut Vec::new()).unwrap();
        }
        std::thread::sleep(Duration::from_millis(40));
        assert_eq!((open(&client), urgent(&client)), (1, 0));
        assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
        drop(far);
        let end = Instant::now() + LONG;
        while open(&client) > 0 {
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(events);
    }

    /// A peer that does not close takes the driver's time alone.
    #[test]
    fn the_driver_waits_for_peers_that_take_long() {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let (near, mut far) = connection(&server, &client);
        let mut events = EventLoop::new(&client).unwrap();
        drop(near);
        let end = Instant::now() + LONG;
        while urgent(&client) == 0 {
            assert!(Instant::now() < end, "it is left to the loop for ever");
            events.drive(&mut Vec::new()).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(client.shard().lock().closing.0.is_empty());
        let _ = far.write_all(b"late");
        drop(far);
        while open(&client) > 0 {
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
