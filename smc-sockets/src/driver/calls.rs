//! Calls of clients at the rendezvous of listeners: they are taken in as they come, so that no
//! user can fill the kernel's queue, and dropped when their clients have gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Driver;
use crate::listening::Listening;

/// Time until calls are first examined for clients that have gone.
const SWEEP: Duration = Duration::from_millis(250);
/// Longest time between two such examinations; it doubles each time.
const SWEEP_AT_MOST: Duration = Duration::from_secs(60);
/// Pause of a rendezvous whose calls could not be taken in: all descriptors are in use, for one.
const PAUSE: Duration = Duration::from_millis(100);

/// When to do what for calls.
#[derive(Default)]
pub(super) struct Calls {
    /// When calls are examined next, and the time since the last examination.
    sweep: Option<(Instant, Duration)>,
    /// Listeners whose rendezvous pause, and until when.
    paused: Vec<(Instant, u32)>,
}

impl Driver {
    /// Takes in calls that have come to a listener, whether connections follow or not.
    //= SHM-007
    pub(super) fn take_calls(&mut self, key: u32) {
        let Some(listening) = self.shard.listener(key) else {
            return;
        };
        if listening.takes_calls() {
            self.take_calls_of(&listening);
        }
    }

    fn take_calls_of(&mut self, listening: &Arc<Listening>) {
        let taken = match &mut *listening.rendezvous() {
            Some(rendezvous) => rendezvous.take_calls(),
            None => return,
        };
        self.calls_taken();
        listening.accept_ahead(true, &self.shard);
        match taken {
            Ok(()) => self.shard.await_calls(listening),
            // They would be readable all the time.
            Err(_) => self
                .calls
                .paused
                .push((Instant::now() + PAUSE, listening.key())),
        }
    }

    /// Calls may have been taken in: they are examined before long.
    pub(super) fn calls_taken(&mut self) {
        if !self.shard.callers.is_empty() {
            let first = (Instant::now() + SWEEP, SWEEP);
            self.calls.sweep.get_or_insert(first);
        }
    }

    /// Does what is due for calls; when something is due next.
    pub(super) fn calls_due(&mut self, now: Instant) -> Option<Instant> {
        if let Some((_, wait)) = self.calls.sweep.filter(|(at, _)| *at <= now) {
            let wait = (wait * 2).min(SWEEP_AT_MOST);
            //= SHM-036
            let remain = self.shard.callers.sweep();
            self.calls.sweep = remain.then_some((now + wait, wait));
        }
        let shard = &self.shard;
        self.calls.paused.retain(|(until, key)| {
            let waits = *until > now;
            if !waits && let Some(listening) = shard.listener(*key) {
                shard.await_calls(&listening);
            }
            waits
        });
        let sweep = self.calls.sweep.map(|(at, _)| at);
        let paused = self.calls.paused.iter().map(|(until, _)| *until);
        paused.chain(sweep).min()
    }
}
