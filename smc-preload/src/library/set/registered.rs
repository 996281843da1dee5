//! What the program has registered in a set: connections, by the descriptors it named.

use std::sync::Arc;

use libc::{EPOLLET, EPOLLONESHOT, epoll_event};

use smc_sockets::Ready;

use super::state::{READ, WRITE};
use super::{ALWAYS, EVENTS, State};
use crate::library::conn::{CLOSED, Conn, ENDS};

/// A connection in a set, under one descriptor.
pub(super) struct Registered {
    pub(super) conn: Arc<Conn>,
    pub(super) fd: i32,
    /// Events that the program asked for: 0 when it is disarmed or removed.
    pub(super) events: u32,
    pub(super) data: u64,
    /// The program has it in the set.
    pub(super) is_in: bool,
    /// In the list of those that may have events.
    pub(super) is_active: bool,
    /// Events of what happened since it was last reported.
    pub(super) changed: u32,
    /// The ends among the events when it was last reported.
    pub(super) ends: u32,
    /// The loop lists it.
    pub(super) is_driven: bool,
    /// The kernel's set has what is polled while it is pending.
    pub(super) is_pending: bool,
    /// The loop lists it while it is pending.
    pub(super) is_awaited: bool,
    /// The set has noted when to check whether the connection is late.
    pub(super) is_early: bool,
}

/// No registration.
const NONE: u32 = u32::MAX;

impl State {
    pub(super) fn at(&mut self, token: usize) -> Option<&mut Registered> {
        self.registered.get_mut(token)?.as_mut()
    }

    /// Whether a registration is still that of a connection.
    pub(super) fn is_of(&mut self, token: usize, conn: u64) -> bool {
        self.at(token).is_some_and(|at| at.conn.id == conn)
    }

    pub(super) fn conn(&self, fd: i32) -> Option<Arc<Conn>> {
        let token = *self.by_fd.get(usize::try_from(fd).ok()?)?;
        let at = self.registered.get(token as usize)?.as_ref()?;
        Some(at.conn.clone())
    }

    /// The registration of a connection under this descriptor, and whether the program has it in
    /// the set.
    pub(super) fn find(&self, fd: i32, conn: &Arc<Conn>) -> Option<(usize, bool)> {
        let token = *self.by_fd.get(usize::try_from(fd).ok()?)? as usize;
        let at = self.registered.get(token)?.as_ref()?;
        Arc::ptr_eq(&at.conn, conn).then_some((token, at.is_in))
    }

    pub(super) fn insert(&mut self, fd: i32, conn: &Arc<Conn>) -> usize {
        self.has_duplicates |= conn.has_several();
        let new = Some(Registered {
            conn: conn.clone(),
            fd,
            events: 0,
            data: 0,
            is_in: false,
            is_active: false,
            changed: 0,
            ends: 0,
            is_driven: false,
            is_pending: false,
            is_awaited: false,
            is_early: false,
        });
        let token = match self.free.pop() {
            Some(token) => token,
            None => {
                self.registered.push(None);
                self.registered.len() - 1
            }
        };
        if let Some(place) = self.registered.get_mut(token) {
            *place = new;
        }
        let index = usize::try_from(fd).unwrap_or(0);
        if self.by_fd.len() <= index {
            self.by_fd.resize(index + 1, NONE);
        }
        if let Some(at) = self.by_fd.get_mut(index) {
            *at = u32::try_from(token).unwrap_or(NONE);
        }
        token
    }

    pub(super) fn remove(&mut self, token: usize) -> Option<Registered> {
        let was_awaited = self.at(token)?.is_awaited;
        self.end_pending(token);
        let at = self.registered.get_mut(token)?.take()?;
        let index = usize::try_from(at.fd).unwrap_or(0);
        if let Some(of) = self.by_fd.get_mut(index)
            && *of as usize == token
        {
            *of = NONE;
        }
        if at.is_in {
            self.count -= 1;
        }
        if at.is_active {
            self.active.retain(|of| *of != token);
        }
        if let Some(stream) = at.conn.smc().filter(|_| at.is_driven || was_awaited)
            && let Some(events) = &self.events
        {
            let is_other = |of: &Option<Registered>| {
                of.as_ref()
                    .is_some_and(|of| Arc::ptr_eq(&of.conn, &at.conn))
            };
            let _ = match self.registered.iter().position(is_other) {
                Some(other) if self.has_duplicates => events.register(stream, other),
                _ => events.deregister(stream),
            };
        }
        self.free.push(token);
        Some(at)
    }

    /// Changes a registration, if it is so that the operation can be done, and says whether it was.
    #[inline]
    pub(super) fn change(
        &mut self,
        token: usize,
        operation: i32,
        event: Option<epoll_event>,
    ) -> bool {
        let Some(at) = self.registered.get_mut(token).and_then(Option::as_mut) else {
            return false;
        };
        match (operation, at.is_in, event) {
            (libc::EPOLL_CTL_ADD, false, Some(event)) => {
                self.count += 1;
                at.arm(event);
            }
            (libc::EPOLL_CTL_MOD, true, Some(event)) if !at.is_exclusive() => at.arm(event),
            (libc::EPOLL_CTL_DEL, true, _) => {
                // The loop goes on listing it: programs that remove it add it again.
                (at.is_in, at.events) = (false, 0);
                self.count -= 1;
                return true;
            }
            _ => return false,
        }
        // It may have events already.
        self.activate(token);
        true
    }
}

impl Registered {
    /// Sets what the program asks for.
    #[inline]
    pub(super) fn arm(&mut self, event: epoll_event) {
        (self.events, self.data) = (event.events | ALWAYS, event.u64);
        (self.is_in, self.changed) = (true, EVENTS);
    }

    /// The events of what the loop reports of the connection. Bytes below the low-water mark are
    /// none.
    #[inline]
    pub(super) fn changed_by(&self, ready: &Ready) -> u32 {
        if self.ends & CLOSED != 0 {
            // Nothing arrives at a connection that is over.
            return 0;
        }
        let read = if ready.readable && self.conn.has_arrived() {
            READ
        } else {
            0
        };
        let write = if ready.writable { WRITE } else { 0 };
        read | write
    }

    /// Whether it was added with `EPOLLEXCLUSIVE`.
    pub(super) fn is_exclusive(&self) -> bool {
        self.events & libc::EPOLLEXCLUSIVE.cast_unsigned() != 0
    }

    pub(super) fn is_level(&self) -> bool {
        let edge_or_once = (EPOLLET | EPOLLONESHOT).cast_unsigned();
        self.events & edge_or_once == 0
    }

    /// Whether there is an event to be reported.
    pub(super) fn has_events(&self) -> bool {
        let is_armed = self.is_in && self.events & EVENTS != 0;
        let events = is_armed.then(|| self.conn.events()).flatten();
        events.is_some_and(|events| self.is_new(events) && events & self.events & EVENTS != 0)
    }

    /// Whether a wait that reports edges only reports these events of the connection: what happened
    /// is among those that were asked for, or the connection has come to an end since, which TCP
    /// reports to all.
    fn is_new(&self, events: u32) -> bool {
        self.events & EPOLLET.cast_unsigned() == 0
            || self.changed == EVENTS
            || self.changed & self.events & EVENTS != 0
            || events & ENDS & !self.ends != 0
    }

    /// The event to be reported now, if there is one.
    pub(super) fn report(&mut self) -> Option<epoll_event> {
        if !self.is_in || self.events & EVENTS == 0 {
            self.changed = 0;
            return None;
        }
        let all = self.conn.events()?;
        let is_new = self.is_new(all);
        (self.changed, self.ends) = (0, all & ENDS);
        let events = all & self.events & EVENTS;
        if !is_new || events == 0 {
            return None;
        }
        if self.events & EPOLLONESHOT.cast_unsigned() != 0 {
            self.events = 0;
        }
        let u64 = self.data;
        Some(epoll_event { events, u64 })
    }
}
