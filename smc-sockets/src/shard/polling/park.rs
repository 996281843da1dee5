//! When the device is parked, and when it stays awake: rings of peers, and the idle timer.

use std::sync::Arc;
use std::time::Duration;

use smc_proto::time::Instant;

use super::super::{Shard, State};
use super::ATTEMPTS;
use crate::waiting::Direction;

/// Longest time that the device stays awake while no thread polls it: only bytes for a program
/// that does not ask for them are reported late by this.
pub(in crate::shard) const IDLE_TIME: Duration = Duration::from_millis(5);

/// Longest time that the device stays awake while event loops wait: what arrives for them waits
/// this long at most if the thread that kept the device awake does something else.
const SHORT_IDLE_TIME: Duration = Duration::from_micros(200);

impl State {
    /// Handles all completions and commands, then parks the device: from then on peers wake a
    /// thread by ringing. If peers ring without end, wakes the driver to continue instead.
    pub(crate) fn drain_and_park(&mut self, shard: &Arc<Shard>, now: Instant) {
        for _ in 0..ATTEMPTS {
            if !self.drain_completions(shard, now) {
                break;
            }
            if self.transports.ism.device_mut().park() {
                self.polling.idle_timer = None;
                self.assign_device(shard);
                return self.arm(shard, now);
            }
        }
        // The driver does the rest.
        shard.ring();
    }

    /// Releases the device after a call of the program has used it: starts the idle timer and
    /// leaves the device awake, or parks it if a waiter that does not poll has to be woken.
    #[inline(always)]
    pub(crate) fn release_device(&mut self, shard: &Arc<Shard>, now: Instant) {
        let polling = &mut self.polling;
        if self.transports.ism.device().is_parked() {
            self.arm(shard, now);
        } else if polling.must_park() {
            self.drain_and_park(shard, now);
        } else {
            polling.used = true;
            let idle_time = match polling.parked_loops {
                0 => IDLE_TIME,
                _ => SHORT_IDLE_TIME,
            };
            let expires = now.after(idle_time);
            if polling.idle_timer.is_none_or(|at| expires < at) {
                polling.idle_timer = Some(expires);
            }
            self.suppress_rings();
            self.arm(shard, now);
        }
    }

    /// Asks the peers not to ring, if only threads wait that poll the heads of their DMBs.
    //= SHM-075
    #[inline]
    fn suppress_rings(&mut self) {
        self.polling.update_lanes();
        if self.polling.only_heads_polled() {
            self.transports.ism.device_mut().suppress_rings();
        }
    }

    /// Asks the peers to ring again: something waits for rings.
    //= SHM-075
    pub(in crate::shard) fn restore_rings(&mut self) {
        self.polling.update_lanes();
        self.transports.ism.device_mut().restore_rings();
    }

    /// Releases the device after a thread has polled it for a while in vain: parks it for any
    /// waiter, also for an event loop that sleeps.
    pub(crate) fn stop_spinning(&mut self, shard: &Arc<Shard>, now: Instant) {
        if self.polling.is_urgent() {
            self.drain_and_park(shard, now);
        } else {
            self.release_device(shard, now);
        }
    }

    /// Ends a turn of the driver, which has handled its events: parks the device if it was not used
    /// since the idle timer was set or if a waiter needs it, else polls it and sets the timer anew.
    pub(crate) fn finish_driver_turn(&mut self, shard: &Arc<Shard>, now: Instant) {
        if self.transports.is_due() {
            self.poll_rnics(shard, now);
        }
        // An event loop that never sleeps does not pass the device on by itself.
        self.assign_device(shard);
        self.recall_traced(shard, now);
        self.recall_put_off(shard, now);
        let expired = self.polling.idle_timer.is_none_or(|at| at <= now);
        let polling = &mut self.polling;
        polling.used |= expired && polling.lanes.take_use();
        if expired && !std::mem::take(&mut polling.used) || polling.is_urgent() {
            return self.drain_and_park(shard, now);
        }
        if expired {
            polling.idle_timer = Some(now.after(IDLE_TIME));
        }
        self.drain_completions(shard, now);
        self.suppress_rings();
        self.arm(shard, now);
    }

    /// When the device is to be polled, if no thread does before.
    pub(in crate::shard) fn idle_timer(&self) -> Option<Instant> {
        self.polling.idle_timer
    }

    /// Notes that an event loop has polled the device: as long as one does, the device stays awake.
    /// If nothing else waits, only the loop parks the device, unless the loop is `guarded`: then
    /// the idle timer does, too.
    #[inline]
    pub(in crate::shard) fn used_by_loop(&mut self, shard: &Shard, now: Instant, guarded: bool) {
        let polling = &mut self.polling;
        polling.used = true;
        polling.polls = polling.polls.wrapping_add(1);
        let others = polling.loops > 1 || polling.must_park();
        if polling.idle_timer.is_none() && (guarded || others) {
            polling.idle_timer = Some(now.after(IDLE_TIME));
            self.arm(shard, now);
        }
    }

    /// Whether an attempt in this direction can leave polling to an event loop: one sleeps until the
    /// device wakes it; or one polls, and the attempt is a read, which has just polled by itself.
    #[inline]
    pub(crate) fn is_polled_by_loop(&self, direction: Direction) -> bool {
        let parked = self.polling.parked_loops > 0 && self.transports.ism.device().is_parked();
        parked || direction == Direction::Read && self.polling.loops > 0
    }
}
