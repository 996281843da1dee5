//! A fault that lasts: from when it strikes until its time is over.

use std::hash::{Hash, Hasher};

use smc_proto::time::{Duration, Instant};

use crate::fault::Phase;

/// Until when a fault lasts, and whether it was noted that it hit something.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultSpan {
    until: Instant,
    fault: usize,
    noted: bool,
    /// The phases in which it was noted, a bit for each.
    phases: u16,
}

impl FaultSpan {
    /// None.
    pub(super) const OVER: Self = Self {
        until: Instant::ZERO,
        fault: 0,
        noted: true,
        phases: u16::MAX,
    };

    pub(super) fn new(fault: usize, now: Instant, time: Duration) -> Self {
        Self {
            until: now.after(time),
            fault,
            noted: false,
            phases: 0,
        }
    }

    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.until > now
    }

    pub(super) const fn is_noted(&self) -> bool {
        self.noted
    }

    pub(super) const fn until(&self) -> Instant {
        self.until
    }

    /// Ends it; false if it was over.
    pub(super) fn end(&mut self, now: Instant) -> bool {
        let was_on = self.is_on(now);
        self.until = self.until.min(now);
        was_on
    }

    /// The fault, if it lasts and hits something for the first time.
    pub(super) fn hit(&mut self, now: Instant) -> Option<usize> {
        (self.is_on(now) && !std::mem::replace(&mut self.noted, true)).then_some(self.fault)
    }

    /// The fault, if it lasts and hits something for the first time in this phase:
    /// one that strikes a whole host may do so in several.
    pub(super) fn hit_in(&mut self, now: Instant, phase: Phase) -> Option<usize> {
        let bit = 1 << phase as u16;
        let first = self.phases & bit == 0;
        self.phases |= bit;
        self.noted = true;
        (self.is_on(now) && first).then_some(self.fault)
    }

    /// The fault, if its end is just now and shows for the first time that it
    /// held something up.
    pub(super) fn hit_by_ending(&mut self, now: Instant) -> Option<usize> {
        (self.until == now && !std::mem::replace(&mut self.noted, true)).then_some(self.fault)
    }

    /// Hashes what decides the future.
    pub(super) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        self.until.since(now).hash(hasher);
    }
}
