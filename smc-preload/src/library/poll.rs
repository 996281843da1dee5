//! `poll` and `select` over connections and other descriptors.
//!
//! A thread that waits so has an event loop of its own, which lists connections that this thread
//! has waited for before: the next wait for the same ones registers nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use libc::{POLLERR, POLLHUP, POLLIN, pollfd, sigset_t};
use rustix::io::Errno;
use smc_sockets::{EventLoop, Ready, Wait};

use super::conn::{self, Conn, Phase};
use super::table::{self, Object};
use super::{cancel, config, real};

/// Turns without events, but without sleep, after which the kernel is asked.
const IDLE_TURNS: u32 = 8;
/// How long a thread without a loop sleeps at a time.
const SLICE: Duration = Duration::from_millis(5);
/// Connections of earlier waits that a thread's loop keeps.
const KEPT: usize = 1024;

thread_local! {
    static POLLER: Place = const { Place(RefCell::new(None)) };
}

/// Where a thread has its event loop.
struct Place(RefCell<Option<Poller>>);

impl Drop for Place {
    fn drop(&mut self) {
        // A handler that ends the process, or jumps, in the midst of a wait leaves the loop as it
        // is at that moment.
        let is_in_use = self.0.try_borrow_mut().is_err();
        let poller = self.0.get_mut().take();
        match is_in_use {
            true => std::mem::forget(poller),
            false => config::inside(|| drop(poller)),
        }
    }
}

/// The event loop of a thread.
struct Poller {
    pid: i32,
    events: EventLoop,
    /// By the connection's number, which is the token, too.
    known: HashMap<u64, Weak<Conn>>,
    ready: Vec<Ready>,
}

impl Poller {
    fn new() -> Option<Self> {
        Some(Self {
            pid: config::pid(),
            events: EventLoop::new(config::opened_stack()?).ok()?,
            known: HashMap::new(),
            ready: Vec::new(),
        })
    }

    /// Has the loop list a connection.
    fn register(&mut self, conn: &Arc<Conn>) {
        let Some(stream) = conn.smc() else {
            return;
        };
        if self.known.len() >= KEPT {
            self.forget_unused();
        }
        if self.known.contains_key(&conn.id) {
            return;
        }
        let token = usize::try_from(conn.id).unwrap_or(usize::MAX);
        if self.events.register(stream, token).is_ok() {
            self.known.insert(conn.id, Arc::downgrade(conn));
        }
    }

    /// Forgets all connections: those that are still waited for are registered again.
    fn forget_unused(&mut self) {
        for (_, conn) in self.known.drain() {
            let conn = conn.upgrade();
            if let Some(stream) = conn.as_ref().and_then(|conn| conn.smc()) {
                let _ = self.events.deregister(stream);
            }
        }
    }

    fn drive(&mut self) {
        let _ = self.events.drive(&mut self.ready);
        self.ready.clear();
    }
}

/// A connection among the descriptors.
struct Entry {
    at: usize,
    conn: Arc<Conn>,
}

/// What descriptors are, and what the kernel is asked of them.
struct Sorted {
    /// Connections that are made, or being made.
    conns: Vec<Entry>,
    /// For each descriptor: nothing of connections, but of those that are being made whether they
    /// go on.
    polled: Vec<pollfd>,
    /// Whether connections that are being made are among them.
    is_being_made: bool,
}

/// Whether any of these descriptors needs more than the kernel.
pub(crate) fn concerns(fds: &[pollfd]) -> bool {
    fds.iter().any(|at| table::has_locks(at.fd))
}

/// poll(2).
pub(crate) fn poll(
    fds: &mut [pollfd],
    time: Option<Duration>,
    mask: Option<&sigset_t>,
) -> Result<usize, Errno> {
    let until = time.and_then(|time| Instant::now().checked_add(time));
    let now = time == Some(Duration::ZERO);
    let waited = POLLER.try_with(|poller| match poller.0.try_borrow_mut() {
        Ok(mut poller) => {
            if poller.as_ref().is_some_and(|of| of.pid != config::pid()) {
                // The parent's.
                std::mem::forget(poller.take());
            }
            if poller.is_none() {
                *poller = Poller::new();
            }
            wait(fds, poller.as_mut(), (until, now), mask)
        }
        // A handler of a signal that came while this thread sleeps.
        Err(_) => wait(fds, None, (until, now), mask),
    });
    // A thread that ends has no loop any more.
    waited.unwrap_or_else(|_| wait(fds, None, (until, now), mask))
}

fn wait(
    fds: &mut [pollfd],
    mut poller: Option<&mut Poller>,
    (until, now): (Option<Instant>, bool),
    mask: Option<&sigset_t>,
) -> Result<usize, Errno> {
    let mut idle = 0_u32;
    loop {
        let Sorted {
            conns,
            mut polled,
            is_being_made,
        } = sort(fds);
        if let Some(poller) = poller.as_deref_mut() {
            conns.iter().for_each(|entry| poller.register(&entry.conn));
            poller.drive();
        }
        let found = report(fds, &conns);
        let others = polled.iter().any(|at| at.fd >= 0);
        if found > 0 {
            if others {
                ask(&mut polled, Some(Duration::ZERO), None)?;
                return Ok(merge(fds, &polled));
            }
            return Ok(merge(fds, &[]));
        }
        let sleeps = !now
            && poller.as_deref_mut().is_none_or(|poller| {
                let wait = poller.events.wait();
                wait.is_ok_and(|wait| wait == Wait::Sleep)
            });
        if !sleeps {
            idle += 1;
            if !now && !idle.is_multiple_of(IDLE_TURNS) {
                continue;
            }
        }
        let is_over = until.is_some_and(|until| until <= Instant::now());
        let time = match (sleeps && !is_over, until) {
            (false, _) => Some(Duration::ZERO),
            (true, Some(until)) => Some(until.saturating_duration_since(Instant::now())),
            (true, None) => None,
        };
        // Without a loop nothing wakes the thread for connections.
        let time = match poller {
            // Another thread may go on with it, and close what is polled here.
            _ if is_being_made => Some(time.map_or(conn::SLICE, |time| time.min(conn::SLICE))),
            None if !conns.is_empty() => Some(time.map_or(SLICE, |time| time.min(SLICE))),
            _ => time,
        };
        let count = polled.len();
        if let Some(poller) = poller.as_deref() {
            polled.push(pollfd {
                fd: poller.events.as_raw_fd(),
                events: POLLIN,
                revents: 0,
            });
        }
        if others || sleeps {
            ask(&mut polled, time, mask)?;
            polled.truncate(count);
            let found = merge(fds, &polled);
            if found > 0 {
                return Ok(found);
            }
        }
        if now || is_over {
            return Ok(0);
        }
    }
}

/// Sorts descriptors by what is asked for them.
fn sort(fds: &[pollfd]) -> Sorted {
    let (mut conns, mut is_being_made) = (Vec::new(), false);
    let mut polled = fds.to_vec();
    for (at, (fd, polled)) in fds.iter().zip(&mut polled).enumerate() {
        polled.revents = 0;
        match table::get(fd.fd) {
            Some(Object::Conn(conn)) => {
                let pending = (conn.advance() == Phase::Pending).then(|| conn.pollable());
                // Another thread may have gone on with it meanwhile.
                match conn.phase() {
                    Phase::Plain | Phase::Opening => {}
                    Phase::Pending => {
                        polled.fd = pending.flatten().unwrap_or(-1);
                        polled.events = POLLIN;
                        is_being_made = true;
                        conns.push(Entry { at, conn });
                    }
                    Phase::Smc | Phase::Failed => {
                        polled.fd = -1;
                        conns.push(Entry { at, conn });
                    }
                }
            }
            Some(Object::Set(set)) => {
                set.is_polled();
                set.update_readiness();
            }
            _ => {}
        }
    }
    Sorted {
        conns,
        polled,
        is_being_made,
    }
}

/// Sets the events of connections: how many have any.
fn report(fds: &mut [pollfd], conns: &[Entry]) -> usize {
    fds.iter_mut().for_each(|fd| fd.revents = 0);
    let mut found = 0;
    for entry in conns {
        let Some(fd) = fds.get_mut(entry.at) else {
            continue;
        };
        // The low bits of epoll's events are those of poll.
        let events = entry.conn.events().unwrap_or(0);
        let events = i16::try_from(events & 0x7fff).unwrap_or(0);
        fd.revents = events & (fd.events | POLLERR | POLLHUP);
        found += usize::from(fd.revents != 0);
    }
    found
}

/// Adds what the kernel has found to the events of the program's descriptors: how many have any.
fn merge(fds: &mut [pollfd], polled: &[pollfd]) -> usize {
    for (fd, polled) in fds.iter_mut().zip(polled) {
        // What stands for a connection that is being made has no events of its own.
        if polled.fd == fd.fd && polled.fd >= 0 {
            fd.revents |= polled.revents;
        }
    }
    fds.iter().filter(|fd| fd.revents != 0).count()
}

/// Bytes of the kernel's sets of signals.
pub(crate) const SIGNALS: i64 = 8;

/// A pointer as an argument of a system call.
pub(crate) fn number<T>(at: *const T) -> i64 {
    (at.expose_provenance() as u64).cast_signed()
}

/// ppoll(2) of the kernel.
#[allow(unsafe_code)]
fn ask(fds: &mut [pollfd], time: Option<Duration>, mask: Option<&sigset_t>) -> Result<(), Errno> {
    let time = time.map(|time| libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    let mask = mask.map_or(std::ptr::null(), std::ptr::from_ref);
    let count = fds.len() as libc::nfds_t;
    let fds = fds.as_mut_ptr();
    // Not by libc's function, which is a cancellation point. The kernel writes the time that is
    // left, to a copy.
    let mut time = time;
    let time = time
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: so many descriptors are valid; time and mask are null or valid.
    let found = cancel::sleep(|| unsafe {
        real::syscall(
            libc::SYS_ppoll,
            number(fds),
            count.cast_signed(),
            number(time),
            number(mask),
            SIGNALS,
            0,
        )
    });
    match found {
        None => Err(Errno::INTR),
        Some(0..) => Ok(()),
        Some(_) => {
            let error = std::io::Error::last_os_error().raw_os_error();
            Err(Errno::from_raw_os_error(error.unwrap_or(libc::EIO)))
        }
    }
}
