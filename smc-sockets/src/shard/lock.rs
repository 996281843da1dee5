//! The endpoint's lock.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::task::Waker;

use super::{Shard, State};
use crate::waiters::wake;

/// The endpoint, locked. Tasks that became ready meanwhile are woken when it is released, not
/// before: a waker may run code that uses a stream.
pub(crate) struct Locked<'a> {
    state: MutexGuard<'a, State>,
    /// Behind the guard, which is dropped first.
    wakes: Wakes,
}

/// Tasks that are woken when it is dropped.
#[derive(Default)]
struct Wakes(Vec<Waker>);

impl Drop for Wakes {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.0.is_empty() {
            mem::take(&mut self.0).into_iter().for_each(wake);
        }
    }
}

impl Shard {
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        // The engine has no panic, and what follows it here leaves nothing half done
        // that the next call would not take up again.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.follow(self);
        Locked::new(state)
    }

    /// Locks the endpoint unless another thread has it.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_>> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        state.follow(self);
        Some(Locked::new(state))
    }
}

impl<'a> Locked<'a> {
    #[inline(always)]
    fn new(state: MutexGuard<'a, State>) -> Self {
        Self {
            state,
            wakes: Wakes::default(),
        }
    }

    /// Whether tasks are woken when the lock is released.
    #[cfg(feature = "tokio")]
    pub(crate) fn wakes_tasks(&self) -> bool {
        !self.state.wakes.is_empty()
    }

    /// Releases the lock, then wakes the tasks; keeps the memory of their list in `list`.
    pub(crate) fn release_with(mut self, list: &mut Vec<Waker>) {
        mem::swap(&mut self.state.wakes, list);
        drop(self);
        list.drain(..).for_each(wake);
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    #[inline(always)]
    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.state.wakes.is_empty() {
            self.wakes.0 = mem::take(&mut self.state.wakes);
        }
    }
}
