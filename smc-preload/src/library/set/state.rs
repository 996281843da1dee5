//! State of an epoll set with connections.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use libc::epoll_event;
use rustix::event::EventfdFlags;
use smc_sockets::{EventLoop, Ready, Wait, descriptors};

use super::registered::Registered;
use super::{ALWAYS, EVENTS, LOOP, LOW, Set, kernel_ctl, key};
use crate::library::conn::{Conn, LATE_AGAIN, Phase, SLICE};
use crate::library::table;
use crate::library::{config, hidden};

/// Events that the arrival of bytes brings, as the kernel names them for those that wait.
pub(crate) const READ: u32 =
    (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDNORM | libc::EPOLLRDBAND).cast_unsigned();
/// Events that room for bytes brings.
pub(super) const WRITE: u32 =
    (libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND).cast_unsigned();

#[derive(Default)]
pub(super) struct State {
    /// Descriptors of the program that refer to the set.
    pub(super) fds: Vec<i32>,
    pub(super) events: Option<EventLoop>,
    /// Raised when another thread has to take a turn.
    pub(super) kick: Option<OwnedFd>,
    pub(super) kicked: bool,
    pub(super) registered: Vec<Option<Registered>>,
    pub(super) free: Vec<usize>,
    /// The registration of a descriptor.
    pub(super) by_fd: Vec<u32>,
    pub(super) count: usize,
    /// Registrations that may have events.
    pub(super) active: VecDeque<usize>,
    pub(super) ready: Vec<Ready>,
    /// Registrations whose connections are being made and go on.
    pub(super) going_on: Vec<(usize, Arc<Conn>)>,
    /// Registrations for whose connections nothing wakes the thread that waits, as no descriptor is
    /// left for that: it polls them every now and then.
    pub(super) unwatched: Vec<usize>,
    pub(super) turns: u32,
    /// Threads that sleep in the kernel's set.
    pub(super) sleepers: usize,
    /// Connections of this side that are being made: when to check whether they are late, their
    /// tokens and their numbers, the first one first.
    pub(super) early: VecDeque<(Instant, usize, u64)>,
    /// Epoll sets that the kernel has in this one.
    pub(super) inner: Vec<Weak<Set>>,
    /// Something else polls the set: another set, or poll(2).
    pub(super) is_polled: bool,
    /// A connection may be in the set under several descriptors.
    pub(super) has_duplicates: bool,
    /// Threads may wait in the kernel's set that began before the set had connections: no other
    /// ones begin.
    pub(super) has_early_waiters: bool,
}

impl State {
    pub(super) fn activate(&mut self, token: usize) {
        if let Some(at) = self.at(token)
            && !std::mem::replace(&mut at.is_active, true)
        {
            self.active.push_back(token);
            self.kick_sleeper();
        }
    }

    /// Another thread that sleeps has to take a turn.
    pub(super) fn kick_sleeper(&mut self) {
        if !self.has_waiters() || self.kicked {
            return;
        }
        if self.kick.is_none() {
            self.kick = self.new_kick();
        }
        if let Some(kick) = &self.kick {
            descriptors::raise(kick);
            self.kicked = true;
        }
    }

    /// Whether anything waits for the kernel's set: a thread, one that began before the set had
    /// connections, or another set.
    pub(super) fn has_waiters(&mut self) -> bool {
        if self.has_early_waiters {
            self.has_early_waiters = self.fds.iter().any(|fd| table::waiters(*fd) > 0);
        }
        self.sleepers > 0 || self.is_polled || self.has_early_waiters
    }

    pub(super) fn new_kick(&self) -> Option<OwnedFd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let kick = hidden::keep(|| rustix::event::eventfd(0, flags)).ok()?;
        let event = epoll_event {
            events: libc::EPOLLIN.cast_unsigned(),
            u64: key() | LOOP,
        };
        let epoll = *self.fds.first()?;
        kernel_ctl(epoll, libc::EPOLL_CTL_ADD, kick.as_raw_fd(), Some(event)).ok()?;
        Some(kick)
    }

    /// Follows what has become of the connection of a registration.
    pub(super) fn follow(&mut self, token: usize) {
        let Some(at) = self.at(token) else {
            return;
        };
        let (conn, fd) = (at.conn.clone(), at.fd);
        match conn.phase() {
            Phase::Pending => {
                self.await_late(token, &conn);
                self.begin_pending(token, fd, &conn);
            }
            Phase::Failed => {
                self.end_pending(token);
                self.mark_changed(token, EVENTS);
            }
            Phase::Smc => {
                self.end_pending(token);
                self.drive(token, &conn);
                self.mark_changed(token, EVENTS);
            }
            Phase::Opening | Phase::Plain => {
                let Some(at) = self.remove(token) else {
                    return;
                };
                let event = epoll_event {
                    events: at.events & !ALWAYS,
                    u64: at.data,
                };
                let epoll = self.fds.first().copied().filter(|_| at.is_in);
                if let Some(epoll) = epoll {
                    let _ = kernel_ctl(epoll, libc::EPOLL_CTL_ADD, at.fd, Some(event));
                }
            }
        }
    }

    pub(super) fn mark_changed(&mut self, token: usize, events: u32) {
        if let Some(at) = self.at(token) {
            at.changed |= events;
        }
        self.activate(token);
    }

    /// The loop lists a connection once: it is in the set under several descriptors.
    #[cold]
    pub(super) fn activate_duplicates(&mut self, token: usize, changed: u32) {
        let Some(conn) = self.at(token).map(|at| at.conn.clone()) else {
            return;
        };
        for (token, at) in self.registered.iter_mut().enumerate() {
            if let Some(at) = at.as_mut().filter(|at| Arc::ptr_eq(&at.conn, &conn)) {
                at.changed |= changed;
                if !std::mem::replace(&mut at.is_active, true) {
                    self.active.push_back(token);
                }
            }
        }
    }

    /// Has the loop list a connection.
    pub(super) fn drive(&mut self, token: usize, conn: &Arc<Conn>) {
        let Some(stream) = conn.smc() else {
            return;
        };
        if self.has_duplicates && conn.has_several() && self.is_driven(conn) {
            // To register it again would be an edge for all of them.
            if let Some(at) = self.at(token) {
                at.is_driven = true;
            }
            return;
        }
        self.make_loop();
        let driven = self.events.as_ref().is_some_and(|events| {
            let registered = events.register(stream, token);
            registered.is_ok()
        });
        if !driven {
            self.is_unwatched(token);
        }
        if let Some(at) = self.at(token) {
            at.is_driven = driven;
        }
    }

    /// Whether the loop lists a connection already, under another descriptor.
    #[cold]
    fn is_driven(&self, conn: &Arc<Conn>) -> bool {
        let mut registered = self.registered.iter().flatten();
        registered.any(|at| at.is_driven && Arc::ptr_eq(&at.conn, conn))
    }

    pub(super) fn make_loop(&mut self) {
        if self.events.is_none() {
            self.events = self.new_loop();
        }
    }

    pub(super) fn new_loop(&self) -> Option<EventLoop> {
        let events = EventLoop::new(config::opened_stack()?).ok()?;
        let event = epoll_event {
            events: libc::EPOLLIN.cast_unsigned(),
            u64: key() | LOOP,
        };
        let epoll = *self.fds.first()?;
        kernel_ctl(epoll, libc::EPOLL_CTL_ADD, events.as_raw_fd(), Some(event)).ok()?;
        Some(events)
    }

    /// Has the loop, or the kernel's set, report when a connection that is being made goes on.
    pub(super) fn begin_pending(&mut self, token: usize, fd: i32, conn: &Conn) {
        self.make_loop();
        let events = self.events.as_ref();
        let is_awaited = events.is_some_and(|events| conn.watch(events, token));
        let Some(at) = self.at(token) else {
            return;
        };
        at.is_awaited = is_awaited;
        if is_awaited || at.is_pending {
            return;
        }
        if conn.phase() != Phase::Pending {
            return self.follow(token);
        }
        let (Some(polled), Some(epoll)) = (conn.pollable(), self.fds.first().copied()) else {
            self.is_unwatched(token);
            return;
        };
        let event = epoll_event {
            events: libc::EPOLLIN.cast_unsigned(),
            u64: key() | u64::from(fd.cast_unsigned()) & LOW,
        };
        let added = kernel_ctl(epoll, libc::EPOLL_CTL_ADD, polled, Some(event));
        if let Some(at) = self.at(token) {
            at.is_pending = added.is_ok();
        }
        if added.is_err() {
            self.is_unwatched(token);
        }
        if conn.phase() != Phase::Pending {
            // It was decided meanwhile.
            let _ = kernel_ctl(epoll, libc::EPOLL_CTL_DEL, polled, None);
            self.follow(token);
        }
    }

    /// What was polled is closed, or is not to be polled here any more.
    pub(super) fn end_pending(&mut self, token: usize) {
        let epoll = self.fds.first().copied();
        let Some(at) = self.at(token) else {
            return;
        };
        let was_awaited = std::mem::replace(&mut at.is_awaited, false);
        let was_pending = std::mem::replace(&mut at.is_pending, false);
        if !was_awaited && !was_pending {
            return;
        }
        let conn = at.conn.clone();
        if let Some(events) = self.events.as_ref().filter(|_| was_awaited) {
            conn.unwatch(events);
        }
        if let (Some(epoll), Some(polled)) = (epoll, conn.pollable().filter(|_| was_pending)) {
            let _ = kernel_ctl(epoll, libc::EPOLL_CTL_DEL, polled, None);
        }
    }

    /// Nothing wakes the thread for a registration.
    #[cold]
    fn is_unwatched(&mut self, token: usize) {
        if !self.unwatched.contains(&token) {
            self.unwatched.push(token);
        }
    }

    /// Notes when a connection that is being made is to be checked, as its server may be late.
    fn await_late(&mut self, token: usize, conn: &Conn) {
        let Some(at) = self.at(token).filter(|at| !at.is_early) else {
            return;
        };
        if let Some(late_at) = conn.late_at() {
            at.is_early = true;
            self.early.push_back((late_at, token, conn.id));
        }
    }

    /// Reports connections of which it is not decided in time what carries them.
    pub(super) fn check_early(&mut self) {
        if self.early.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((_, token, id)) = self.early.front().copied().filter(|(at, ..)| *at <= now) {
            self.early.pop_front();
            let Some(at) = self.at(token).filter(|at| at.conn.id == id) else {
                continue;
            };
            if at.conn.phase() != Phase::Pending {
                continue;
            }
            if at.conn.is_connected_late() {
                self.mark_changed(token, EVENTS);
            } else if at.conn.late_at().is_some() {
                // TCP connects still.
                self.early.push_back((now + LATE_AGAIN, token, id));
            }
        }
    }

    /// The longest sleep after which something is to be checked.
    pub(super) fn slice(&self) -> Option<Duration> {
        let unwatched = (!self.unwatched.is_empty()).then_some(SLICE);
        let early = self.early.front();
        let early = early.map(|(at, ..)| at.saturating_duration_since(Instant::now()));
        unwatched.into_iter().chain(early).min()
    }

    /// Polls connections for which nothing wakes the thread.
    pub(super) fn poll_unwatched(&mut self) {
        for token in std::mem::take(&mut self.unwatched) {
            let conn = self.at(token).map(|at| at.conn.clone());
            self.going_on.extend(conn.map(|conn| (token, conn)));
        }
    }

    /// Polls the peers, and has only registrations with events in the list of those that may have
    /// any.
    pub(super) fn poll(&mut self) {
        self.drive_loop();
        for _ in 0..self.active.len() {
            let Some(token) = self.active.pop_front() else {
                break;
            };
            if let Some(at) = self.at(token) {
                at.is_active = at.has_events();
                if at.is_active {
                    self.active.push_back(token);
                }
            }
        }
    }

    /// Polls the peers, and lists events of connections: how many.
    pub(super) fn collect(&mut self, into: &mut [epoll_event]) -> usize {
        self.drive_loop();
        self.list(into)
    }

    /// Polls the peers.
    fn drive_loop(&mut self) {
        if let Some(kick) = self.kick.as_ref().filter(|_| self.kicked) {
            let _ = rustix::io::read(kick, &mut [0_u8; 8]);
            self.kicked = false;
        }
        if let Some(events) = &mut self.events {
            let mut ready = std::mem::take(&mut self.ready);
            let _ = events.drive(&mut ready);
            for ready in ready.drain(..) {
                let Some(Some(at)) = self.registered.get(ready.token) else {
                    continue;
                };
                let changed = at.changed_by(&ready);
                if self.has_duplicates {
                    self.activate_duplicates(ready.token, changed);
                }
                if let Some(Some(at)) = self.registered.get_mut(ready.token) {
                    if at.is_awaited {
                        self.going_on.push((ready.token, at.conn.clone()));
                        continue;
                    }
                    at.changed |= changed;
                    if !std::mem::replace(&mut at.is_active, true) {
                        self.active.push_back(ready.token);
                    }
                }
            }
            self.ready = ready;
        }
    }

    /// Lists events of registrations that may have any: how many.
    fn list(&mut self, into: &mut [epoll_event]) -> usize {
        let mut found = 0;
        for _ in 0..self.active.len() {
            let Some(place) = into.get_mut(found) else {
                break;
            };
            let Some(token) = self.active.pop_front() else {
                break;
            };
            let Some(Some(at)) = self.registered.get_mut(token) else {
                continue;
            };
            at.is_active = false;
            if let Some(event) = at.report() {
                *place = event;
                found += 1;
                if at.is_level() {
                    at.is_active = true;
                    self.active.push_back(token);
                }
            }
        }
        found
    }

    /// Whether the thread is to sleep; the loop wakes it then.
    pub(super) fn sleeps(&mut self) -> bool {
        match &mut self.events {
            Some(events) => events.wait().is_ok_and(|wait| wait == Wait::Sleep),
            None => true,
        }
    }

    /// Whether what comes from now on wakes those that sleep in the kernel's set, or poll it.
    pub(super) fn parks(&mut self) -> bool {
        match &mut self.events {
            Some(events) => events.hand_over().is_ok_and(|wait| wait == Wait::Sleep),
            None => true,
        }
    }

    pub(super) fn leave_if(&mut self, leaves: bool) {
        if leaves {
            self.leave();
        }
    }

    /// A thread goes on with something else: those that sleep in the kernel's set, or poll it,
    /// are woken by what comes.
    pub(super) fn leave(&mut self) {
        if !self.has_waiters() {
            return;
        }
        if !self.parks() || !self.active.is_empty() || !self.going_on.is_empty() {
            self.kick_sleeper();
        }
    }
}
