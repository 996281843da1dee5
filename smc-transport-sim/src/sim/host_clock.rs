//! The clock of a host, which may be ahead, stand still, or ring late.

use std::hash::{Hash, Hasher};

use smc_proto::time::{Duration, Instant};

/// How a host's time differs from that of the fabric. It never runs backwards:
/// the engine is promised that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HostClock {
    ahead: Duration,
    /// What it shows, and until when.
    frozen: Option<(Instant, Instant)>,
    late_by: Duration,
    late_until: Instant,
    /// The fault that froze it or makes it late.
    fault: Option<usize>,
}

impl HostClock {
    /// What the clock shows when the fabric's time is `now`.
    pub(super) fn show(&self, now: Instant) -> Instant {
        match self.frozen {
            Some((shown, until)) if now < until => shown,
            _ => now.after(self.ahead),
        }
    }

    /// When, in the fabric's time, the timer for a deadline fires.
    pub(super) fn fires(&self, deadline: Instant) -> Instant {
        let due = Instant::from_nanos(0).after(deadline.since(Instant::ZERO.after(self.ahead)));
        let mut at = due;
        if due < self.late_until {
            at = due.after(self.late_by);
        }
        match self.frozen {
            Some((shown, until)) if at < until && deadline > shown => until,
            _ => at,
        }
    }

    /// The clock jumps; one that stands still does so farther ahead.
    pub(super) fn jump(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_add(by);
        if let Some((shown, _)) = &mut self.frozen {
            *shown = shown.after(by);
        }
    }

    pub(super) fn freeze(&mut self, fault: usize, now: Instant, time: Duration) {
        self.frozen = Some((self.show(now), now.after(time)));
        self.fault = Some(fault);
    }

    pub(super) fn delay(&mut self, fault: usize, now: Instant, by: Duration, time: Duration) {
        (self.late_by, self.late_until) = (by, now.after(time));
        self.fault = Some(fault);
    }

    /// A timer for this deadline fired now: the fault, if it was held up until now.
    pub(super) fn fired(&self, deadline: Instant, now: Instant) -> Option<usize> {
        let late = now.after(self.ahead) > deadline && self.fires(deadline) == now;
        self.fault.filter(|_| late)
    }

    /// The clock shows the right time, but never an earlier one than before, and
    /// rings in time.
    pub(super) fn repair(&mut self) {
        self.frozen = None;
        (self.late_by, self.late_until) = (Duration::ZERO, Instant::ZERO);
    }

    pub(super) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        self.frozen
            .map(|(shown, until)| (now.after(self.ahead).since(shown), until.since(now)))
            .hash(hasher);
        (self.late_by, self.late_until.since(now)).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanoseconds: u64) -> Instant {
        Instant::from_nanos(nanoseconds)
    }

    #[test]
    fn a_clock_that_jumped_rings_early() {
        let mut clock = HostClock::default();
        clock.jump(Duration::from_nanos(100));
        assert_eq!(clock.show(at(5)), at(105));
        assert_eq!(clock.fires(at(150)), at(50));
        assert_eq!(clock.fires(at(20)), at(0));
    }

    #[test]
    fn a_frozen_clock_rings_when_it_thaws() {
        let mut clock = HostClock::default();
        clock.freeze(3, at(10), Duration::from_nanos(40));
        assert_eq!((clock.show(at(30)), clock.show(at(50))), (at(10), at(50)));
        assert_eq!((clock.fires(at(20)), clock.fires(at(60))), (at(50), at(60)));
        assert_eq!(clock.fired(at(20), at(50)), Some(3));
        assert_eq!(clock.fired(at(50), at(50)), None);
    }

    #[test]
    fn a_clock_that_stands_still_jumps_at_once_and_stands_still_again() {
        let mut clock = HostClock::default();
        clock.freeze(3, at(10), Duration::from_nanos(40));
        clock.jump(Duration::from_nanos(100));
        assert_eq!((clock.show(at(20)), clock.show(at(49))), (at(110), at(110)));
        assert_eq!(clock.show(at(50)), at(150));
        // What is due by the jump does not wait for the thaw, nor is it late.
        assert!(clock.fires(at(110)) <= at(20));
        assert_eq!(clock.fired(at(110), at(20)), None);
        assert_eq!(clock.fires(at(111)), at(50));
        assert_eq!(clock.fired(at(111), at(50)), Some(3));
    }

    #[test]
    fn a_late_timer_rings_late_for_a_while() {
        let mut clock = HostClock::default();
        clock.delay(1, at(10), Duration::from_nanos(5), Duration::from_nanos(10));
        assert_eq!((clock.fires(at(15)), clock.fires(at(21))), (at(20), at(21)));
        assert_eq!(clock.fired(at(21), at(21)), None);
        assert_eq!(clock.fired(at(15), at(20)), Some(1));
        // It was set when it should have fired already.
        assert_eq!(clock.fired(at(15), at(22)), None);
        clock.repair();
        assert_eq!(clock.fires(at(15)), at(15));
    }
}
