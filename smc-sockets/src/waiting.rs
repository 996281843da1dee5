//! How a thread waits for a connection: it looks for a while, as long as that has paid
//! lately, then sleeps.
//!
//! Who sleeps does so at the connection's own descriptor, and, if nobody else does, at
//! the device's as well, in the driver's place: then one wake is enough.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::shard::{Shard, State, timespec};
use crate::socket::Socket;

/// Looks at the device between two readings of the clock.
const GLANCES: usize = 16;

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Tries until it succeeds or fails, waiting in between if the stream does that.
pub(crate) fn until_done<T>(
    shard: &Arc<Shard>,
    socket: &Socket,
    direction: Direction,
    mut attempt: impl FnMut(&mut State) -> Option<io::Result<T>>,
) -> io::Result<T> {
    let mut state = shard.lock();
    if let Some(done) = attempt(&mut state) {
        return done;
    }
    if socket.is_nonblocking() {
        shard.settle(&mut state);
        if let Some(done) = attempt(&mut state) {
            return done;
        }
        socket.mark(direction);
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let began = Instant::now();
    let (mut budget, timeout) = {
        let mut status = socket.status();
        let timeout = match direction {
            Direction::Read => status.read_timeout,
            Direction::Write => status.write_timeout,
        };
        (status.spin.begin(), timeout)
    };
    let mut last = began;
    while !budget.is_zero() {
        state.glance(shard, GLANCES);
        if let Some(done) = attempt(&mut state) {
            shard.settle(&mut state);
            socket.status().spin.found();
            return done;
        }
        drop(state);
        let now = Instant::now();
        let mut status = socket.status();
        if status.spin.was_interrupted(now - last) {
            budget = Duration::ZERO;
        } else if now - began > budget {
            status.spin.missed();
            budget = Duration::ZERO;
        }
        drop(status);
        last = now;
        state = shard.lock();
    }
    loop {
        shard.settle(&mut state);
        if let Some(done) = attempt(&mut state) {
            return done;
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (reads, writes) = match direction {
            Direction::Read => (false, state.is_writable(shard, socket)),
            Direction::Write => (state.is_readable(socket), false),
        };
        let ready = socket.ready_fd(reads, writes)?;
        socket.mark(direction);
        let leads = shard.lead(&mut state);
        drop(state);
        let flags = match direction {
            Direction::Read => PollFlags::IN,
            Direction::Write => PollFlags::OUT,
        };
        let mut polled = [
            PollFd::from_borrowed_fd(ready.as_fd(), flags),
            PollFd::new(&shard.device, PollFlags::IN),
        ];
        let polled = if leads {
            &mut polled[..]
        } else {
            &mut polled[..1]
        };
        let slept = rustix::event::poll(polled, left.map(timespec).as_ref());
        state = shard.lock();
        if leads {
            shard.resign(&mut state);
        }
        match slept {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
