//! An epoll set that has connections: their registrations are here, all others in the kernel's
//! set of the same descriptor.
//!
//! ```text
//!   epoll_ctl of a connection ──► registrations: no system call
//!   epoll_wait:
//!     drive the loop ─► registrations with events ─► active ─► events of the program
//!     every tenth turn, and when there are none: the kernel's set, without waiting
//!     nothing for a while: sleep in the kernel's set, which has the loop's descriptor
//! ```
//!
//! The loop lists connections that are being made as well, as far as memory decides about them. Its
//! descriptor, and those of the other ones, are in the kernel's set under numbers that begin with
//! random bits: their events are taken out before the program sees any.

mod kernel;
mod registered;
mod state;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};

use libc::{EPOLLERR, EPOLLHUP, epoll_event, sigset_t};
use rustix::io::Errno;

use super::conn::{Conn, Phase, lock};
use super::table::{self, Object, Registration};
use super::{config, connecting};

pub(crate) use kernel::kernel_ctl;
pub(crate) use state::READ;

use kernel::kernel_wait;
use state::State;

/// Turns with events of connections after which the kernel is asked as well.
const TURNS: u32 = 10;
/// Turns without events, but without sleep, after which the kernel is asked.
const IDLE_TURNS: u32 = 8;
/// Turns in which a set that something else polls comes to rest.
const ROUNDS: u32 = 100;
/// What may be asked for together with `EPOLLEXCLUSIVE`; it is no bit that can be changed.
const EXCLUSIVE_OK: u32 = (libc::EPOLLIN
    | libc::EPOLLOUT
    | EPOLLERR
    | EPOLLHUP
    | libc::EPOLLWAKEUP
    | libc::EPOLLET
    | libc::EPOLLEXCLUSIVE)
    .cast_unsigned();
/// Low bits of a number of the library in a kernel's set: a descriptor, or [`LOOP`].
const LOW: u64 = (1 << 20) - 1;
/// The loop of the set, or its other wake-up.
const LOOP: u64 = LOW;

/// What epoll_wait(2) reports in any case.
const ALWAYS: u32 = (EPOLLERR | EPOLLHUP).cast_unsigned();
/// Events that can be asked for.
pub(crate) const EVENTS: u32 = 0xffff;

/// The high bits of the library's numbers in kernel's sets.
fn key() -> u64 {
    static KEY: OnceLock<u64> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without random bits, those of an address that the system chose.
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
        let address = std::ptr::from_ref(&KEY).addr() as u64;
        (u64::from_ne_bytes(bytes) ^ address.rotate_left(24)) & !LOW | (1 << 63)
    })
}

/// Whether an event of a kernel's set is the library's.
fn is_own(event: &epoll_event) -> bool {
    event.u64 & !LOW == key()
}

/// An epoll set with connections.
pub(crate) struct Set {
    id: u64,
    state: Mutex<State>,
    pid: i32,
}

impl Set {
    fn new(fd: i32) -> Self {
        let state = State {
            fds: vec![fd],
            has_early_waiters: true,
            ..State::default()
        };
        Self {
            id: table::new_number(),
            state: Mutex::new(state),
            pid: config::pid(),
        }
    }

    /// Number of the set, which no other set or connection has.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The set of a descriptor, from now on one with connections.
    ///
    /// # Errors
    /// The descriptor is no epoll set.
    fn of(epoll: i32, fd: i32) -> Result<Arc<Self>, Errno> {
        // That of a parent is of no use here.
        if let Some(set) = table::set(epoll).filter(|set| set.is_of_this_process()) {
            return Ok(set);
        }
        match kernel_ctl(epoll, libc::EPOLL_CTL_DEL, fd, None) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        Self::make(epoll).ok_or(Errno::NOMEM)
    }

    /// The set of a descriptor that is an epoll set of this process, made if there is none.
    fn make(epoll: i32) -> Option<Arc<Self>> {
        let new = Arc::new(Self::new(epoll));
        let set = table::set_or(epoll, new.clone())?;
        if Arc::ptr_eq(&set, &new) {
            // Other sets may have it already. The kernel allows few levels, and no circles.
            for at in table::registrations(epoll, connecting::registrations) {
                Self::nest(at.set, &set);
            }
        }
        Some(set)
    }

    /// Another set has this one from now on.
    fn nest(outer: i32, inner: &Arc<Self>) {
        inner.is_polled();
        let has_own = table::set(outer).filter(|set| set.is_of_this_process());
        let Some(outer) = has_own.or_else(|| Self::make(outer)) else {
            return;
        };
        let mut state = lock(&outer.state);
        state.inner.retain(|of| of.strong_count() > 0);
        if !state
            .inner
            .iter()
            .any(|of| of.as_ptr() == Arc::as_ptr(inner))
        {
            state.inner.push(Arc::downgrade(inner));
        }
    }

    /// Whether this process made it, and not one that this one was forked from.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.pid == config::pid()
    }

    /// The state, unless another process made the set: a thread of the parent may have had the lock at
    /// the fork.
    fn own_state(&self) -> Option<MutexGuard<'_, State>> {
        self.is_of_this_process().then(|| lock(&self.state))
    }

    /// Gives the set a further descriptor.
    pub(crate) fn add_fd(self: &Arc<Self>, fd: i32) {
        table::put(fd, Object::Set(self.clone()));
        if let Some(mut state) = self.own_state() {
            state.fds.push(fd);
            state.has_early_waiters = true;
        }
    }

    /// One of its descriptors is closed: the set ends with the last.
    pub(crate) fn remove_fd(&self, fd: i32) {
        let Some(mut state) = self.own_state() else {
            return;
        };
        state.fds.retain(|of| *of != fd);
        if !state.fds.is_empty() {
            return;
        }
        let ended = std::mem::take(&mut *state);
        drop(state);
        drop(ended);
    }

    /// Another set or poll(2) has it: it is to be readable whenever it has events.
    pub(crate) fn is_polled(&self) {
        let Some(mut state) = self.own_state() else {
            return;
        };
        state.is_polled = true;
        state.leave();
    }

    /// Makes the kernel's set readable if there are events, and not readable if there are none, for the
    /// thread that polls it.
    pub(crate) fn update_readiness(&self) {
        if !self.is_of_this_process() {
            return;
        }
        self.update_members_readiness();
        self.update_own_readiness();
    }

    /// Updates the readiness of the set itself, without the sets that it has.
    fn update_own_readiness(&self) {
        // Once, unless something comes meanwhile.
        for _ in 0..ROUNDS {
            let mut state = lock(&self.state);
            state.poll();
            if state.going_on.is_empty() {
                if !state.active.is_empty() || state.parks() {
                    break;
                }
                continue;
            }
            let going_on = std::mem::take(&mut state.going_on);
            drop(state);
            for (token, conn) in going_on {
                self.go_on(token, &conn);
            }
        }
        lock(&self.state).leave();
    }

    /// Updates the readiness of the sets that this one has, each once, the innermost first. A set that was removed
    /// from another one is still among those of that, and may have it now: there are circles.
    fn update_members_readiness(&self) {
        let mut seen = BTreeSet::from([self.id]);
        let mut found = Vec::new();
        let mut inner = self.inner();
        let mut next = 0;
        loop {
            found.extend(inner.into_iter().filter(|set| seen.insert(set.id)));
            let Some(set) = found.get(next) else {
                break;
            };
            inner = set.inner();
            next += 1;
        }
        for set in found.iter().rev() {
            set.update_own_readiness();
        }
    }

    /// The sets of this process that this one has, or had.
    fn inner(&self) -> Vec<Arc<Self>> {
        let inner = lock(&self.state).inner.clone();
        let inner = inner.iter().filter_map(Weak::upgrade);
        inner.filter(|set| set.is_of_this_process()).collect()
    }

    /// Changes the registration of a connection.
    pub(crate) fn control(
        self: &Arc<Self>,
        operation: i32,
        fd: i32,
        conn: &Arc<Conn>,
        event: Option<epoll_event>,
    ) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let known = state.find(fd, conn);
        let is_in = known.is_some_and(|at| at.1);
        match (operation, is_in, event) {
            (libc::EPOLL_CTL_ADD, true, Some(_)) => Err(Errno::EXIST),
            (libc::EPOLL_CTL_ADD, false, Some(_)) => {
                let token = match known {
                    Some((token, _)) => token,
                    None => state.insert(fd, conn),
                };
                state.change(token, operation, event);
                if known.is_none() {
                    conn.is_registered(self, token);
                }
                if state.at(token).is_some_and(|at| !at.is_driven) {
                    state.follow(token);
                }
                Ok(())
            }
            (libc::EPOLL_CTL_MOD, true, Some(_)) | (libc::EPOLL_CTL_DEL, true, _) => {
                let token = known.map_or(0, |at| at.0);
                let is_exclusive = state.at(token).is_some_and(|at| at.is_exclusive());
                if operation == libc::EPOLL_CTL_MOD && is_exclusive {
                    return Err(Errno::INVAL);
                }
                state.change(token, operation, event);
                if operation == libc::EPOLL_CTL_DEL {
                    state.end_pending(token);
                }
                Ok(())
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, false, _) => Err(Errno::NOENT),
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, _, None) => Err(Errno::FAULT),
            _ => Err(Errno::INVAL),
        }
    }

    /// Changes the registration of a connection that the loop lists already; `None` if there is
    /// more to do.
    fn change(
        &self,
        operation: i32,
        fd: i32,
        conn: u64,
        event: Option<epoll_event>,
    ) -> Option<Result<(), Errno>> {
        if !self.is_of_this_process() {
            return None;
        }
        let mut state = self.state.try_lock().ok()?;
        let token = *state.by_fd.get(usize::try_from(fd).ok()?)? as usize;
        let at = state.at(token)?;
        if at.conn.id != conn || !at.is_driven || at.is_pending || at.conn.phase() != Phase::Smc {
            return None;
        }
        state.change(token, operation, event).then_some(Ok(()))
    }

    /// Takes a registration over that the kernel has.
    pub(crate) fn take_over(conn: &Arc<Conn>, fd: i32, at: Registration) {
        let _ = kernel_ctl(at.set, libc::EPOLL_CTL_DEL, fd, None);
        let event = epoll_event {
            events: at.events,
            u64: at.data,
        };
        if let Ok(set) = Self::of(at.set, fd) {
            let _ = set.control(libc::EPOLL_CTL_ADD, fd, conn, Some(event));
        }
    }

    /// Notes that it is decided what carries a connection.
    pub(crate) fn decided(&self, token: usize, conn: u64) {
        let Some(mut state) = self.own_state() else {
            return;
        };
        if state.is_of(token, conn) {
            state.follow(token);
        }
    }

    /// Notes that a call has brought these events of a connection.
    pub(crate) fn has_changed(&self, token: usize, conn: u64, events: u32) {
        let Some(mut state) = self.own_state() else {
            return;
        };
        if state.is_of(token, conn) {
            state.mark_changed(token, events);
        }
    }

    /// Goes on with a connection that is being made, as the loop has listed it.
    fn go_on(&self, token: usize, conn: &Arc<Conn>) {
        let phase = conn.advance();
        let mut state = lock(&self.state);
        let is_of = state.is_of(token, conn.id);
        let is_driven = state.at(token).is_some_and(|at| at.is_driven);
        if is_of && (phase == Phase::Pending || phase == Phase::Smc && !is_driven) {
            state.follow(token);
        }
    }

    /// A connection has no descriptor any more.
    pub(crate) fn forget(&self, token: usize, conn: u64) {
        let Some(mut state) = self.own_state() else {
            return;
        };
        let is_of = state.is_of(token, conn);
        let removed = is_of.then(|| state.remove(token)).flatten();
        drop(state);
        drop(removed);
    }

    /// Waits for events.
    pub(crate) fn wait(
        &self,
        epoll: i32,
        into: &mut [epoll_event],
        time: Option<Duration>,
        mask: Option<&sigset_t>,
    ) -> Result<usize, Errno> {
        if into.is_empty() {
            return Err(Errno::INVAL);
        }
        if !self.is_of_this_process() {
            return self.wait_inherited(epoll, into, time, mask);
        }
        let mut state = lock(&self.state);
        let mut deadline = None;
        let mut idle = 0_u32;
        state.poll_unwatched();
        loop {
            if !state.inner.is_empty() {
                drop(state);
                self.update_members_readiness();
                state = lock(&self.state);
            }
            state.check_early();
            let found = state.collect(into);
            if !state.going_on.is_empty() {
                let going_on = std::mem::take(&mut state.going_on);
                drop(state);
                for (token, conn) in going_on {
                    self.go_on(token, &conn);
                }
                state = lock(&self.state);
                if found == 0 {
                    continue;
                }
            }
            if found > 0 {
                state.turns = state.turns.wrapping_add(1);
                let asks = state.turns.is_multiple_of(TURNS);
                state.leave();
                drop(state);
                let rest = into
                    .get_mut(found..)
                    .filter(|rest| asks && !rest.is_empty());
                let more = rest.map_or(0, |rest| self.ask(epoll, rest).unwrap_or(0));
                return Ok(found + more);
            }
            let now = time == Some(Duration::ZERO);
            let sleeps = !now && state.sleeps();
            if !sleeps {
                idle += 1;
                if !now && !idle.is_multiple_of(IDLE_TURNS) {
                    continue;
                }
                state.leave_if(now);
                drop(state);
                let found = self.ask(epoll, into)?;
                let mut is_over = || {
                    let until = *deadline.get_or_insert_with(|| end(time));
                    until.is_some_and(|until| until <= Instant::now())
                };
                if found > 0 || now || is_over() {
                    self.leave_if(found > 0);
                    return Ok(found);
                }
                state = lock(&self.state);
                continue;
            }
            let until = *deadline.get_or_insert_with(|| end(time));
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let slice = state.slice();
            let is_slice = slice.is_some_and(|slice| left.is_none_or(|left| left > slice));
            let left = if is_slice { slice } else { left };
            state.sleepers += 1;
            drop(state);
            let woken = kernel_wait(epoll, into, left, mask);
            state = lock(&self.state);
            state.sleepers -= 1;
            let woken = match woken {
                Ok(woken) => woken,
                Err(error) => {
                    state.leave();
                    return Err(error);
                }
            };
            let was_over = woken == 0 && !is_slice;
            state.poll_unwatched();
            drop(state);
            let found = self.keep(into, woken);
            state = lock(&self.state);
            if found > 0 || was_over {
                let rest = into.get_mut(found..).unwrap_or_default();
                let more = state.collect(rest);
                state.leave();
                return Ok(found + more);
            }
        }
    }

    /// In a child that has inherited the set, only the kernel's part is of use.
    fn wait_inherited(
        &self,
        epoll: i32,
        into: &mut [epoll_event],
        time: Option<Duration>,
        mask: Option<&sigset_t>,
    ) -> Result<usize, Errno> {
        let until = end(time);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let woken = kernel_wait(epoll, into, left, mask)?;
            let found = without_own(into, woken, |_| {});
            if found > 0 || woken == 0 {
                return Ok(found);
            }
            // What is the parent's stays ready for as long as the parent likes.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn leave_if(&self, leaves: bool) {
        if leaves {
            lock(&self.state).leave();
        }
    }

    /// Asks the kernel without waiting.
    fn ask(&self, epoll: i32, into: &mut [epoll_event]) -> Result<usize, Errno> {
        let found = kernel_wait(epoll, into, Some(Duration::ZERO), None)?;
        Ok(self.keep(into, found))
    }

    /// Takes the library's events out: how many of the program are left.
    fn keep(&self, events: &mut [epoll_event], count: usize) -> usize {
        let mut pending = Vec::new();
        let left = without_own(events, count, |low| {
            if low != LOOP {
                pending.push(i32::try_from(low).unwrap_or(-1));
            }
        });
        for fd in pending {
            let conn = lock(&self.state).conn(fd);
            if let Some(conn) = conn {
                conn.advance();
            }
        }
        left
    }
}

/// Takes events out that are not the program's.
fn without_own(events: &mut [epoll_event], count: usize, mut own: impl FnMut(u64)) -> usize {
    let mut left = 0;
    for at in 0..count {
        let Some(event) = events.get(at).copied() else {
            break;
        };
        if is_own(&event) {
            own(event.u64 & LOW);
        } else {
            if let Some(to) = events.get_mut(left) {
                *to = event;
            }
            left += 1;
        }
    }
    left
}

/// The events that a wait in the kernel's set returned while the set got its first connection.
pub(crate) fn filter(epoll: i32, events: &mut [epoll_event]) -> usize {
    match table::set(epoll) {
        Some(set) => set.keep(events, events.len()),
        None => events.len(),
    }
}

fn end(time: Option<Duration>) -> Option<Instant> {
    // A time without end has none.
    time.and_then(|time| Instant::now().checked_add(time))
}

/// The kernel has added a descriptor to an epoll set: it may be a set itself.
pub(crate) fn added(epoll: i32, fd: i32) {
    if let Some(inner) = table::set(fd).filter(|set| set.is_of_this_process()) {
        Set::nest(epoll, &inner);
    }
}

/// Whether these events may be asked for: `EPOLLEXCLUSIVE` only at first, and beside few others.
fn may_ask(operation: i32, events: u32) -> bool {
    if events & libc::EPOLLEXCLUSIVE.cast_unsigned() == 0 {
        return true;
    }
    match operation {
        libc::EPOLL_CTL_ADD => events & !EXCLUSIVE_OK == 0,
        operation => operation != libc::EPOLL_CTL_MOD,
    }
}

/// Registers descriptors as the program asks: `None` if the kernel does it.
pub(crate) fn control(
    epoll: i32,
    operation: i32,
    fd: i32,
    event: Option<epoll_event>,
) -> Option<Result<(), Errno>> {
    if event.is_some_and(|event| !may_ask(operation, event.events)) && table::conn_id(fd).is_some()
    {
        return Some(Err(Errno::INVAL));
    }
    // Most often.
    let changed = table::conn_id(fd)
        .and_then(|conn| table::with_set(epoll, |set| set.change(operation, fd, conn, event)));
    if changed.is_some() {
        return changed;
    }
    let done = match table::get(fd) {
        Some(Object::Conn(conn)) => {
            if conn.phase() == Phase::Pending {
                conn.advance();
            }
            match conn.phase() {
                Phase::Plain | Phase::Opening => {
                    // Another thread may be about to give it to the kernel's set.
                    conn.notify_sets();
                    return None;
                }
                _ => {}
            }
            if epoll == fd {
                return Some(Err(Errno::INVAL));
            }
            let set = match operation {
                libc::EPOLL_CTL_ADD => Set::of(epoll, fd),
                _ => table::set(epoll).ok_or(Errno::NOENT),
            };
            // One that has none of its connections: the kernel knows what is wrong.
            let Ok(set) = set else {
                return None;
            };
            set.control(operation, fd, &conn, event)
        }
        _ => return None,
    };
    Some(done)
}

#[cfg(test)]
mod tests;
