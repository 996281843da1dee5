//! The three deadlines of a connection.

use super::Connection;
use super::close::Act;
use super::work::Wants;
use crate::config::ConnectionConfig;
use crate::time::Instant;
use core::hash::Hasher;

/// Deadlines; [`Instant::MAX`] is none.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    /// Linger, close wait or abort wait, which exclude each other.
    pub(super) close: Instant,
    /// End of holding small writes back (FLOW-022).
    pub(super) coalesce: Instant,
    /// The peer asked for the consumer cursor (FLOW-014).
    pub(super) lag: Instant,
}

impl Timers {
    pub(super) const NONE: Self = Self {
        close: Instant::MAX,
        coalesce: Instant::MAX,
        lag: Instant::MAX,
    };

    fn next(&self) -> Instant {
        self.close.min(self.coalesce).min(self.lag)
    }

    /// Whether anything waits for a CDC message to go out.
    #[inline(always)]
    pub(super) fn wait_for_message(&self) -> bool {
        self.lag != Instant::MAX || self.coalesce != Instant::MAX
    }

    pub(super) fn perform(&mut self, now: Instant, cfg: &ConnectionConfig, act: Act) {
        if act.contains(Act::LINGER) {
            self.close = now.after(cfg.linger);
        }
        if act.contains(Act::CLOSE_WAIT) {
            *self = Self::NONE;
            //= TIMER-032
            self.close = now.after(cfg.close_wait);
        }
        if act.contains(Act::ABORT_WAIT) {
            *self = Self::NONE;
            //= TIMER-033
            self.close = now.after(cfg.abort_wait);
        }
        if act.contains(Act::CLOSED) {
            *self = Self::NONE;
        }
    }

    pub(super) fn hash(&self, now: Instant, h: &mut impl Hasher) {
        for deadline in [self.close, self.coalesce, self.lag] {
            if deadline == Instant::MAX {
                h.write_u8(0);
            } else {
                h.write_u8(1);
                h.write_u128(deadline.since(now).as_nanos());
            }
        }
    }
}

impl Connection {
    /// When [`Connection::on_timeout`] has to be called at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let next = self.timers.next();
        (next != Instant::MAX).then_some(next)
    }

    /// A deadline changed.
    #[inline(always)]
    pub(super) fn note_timers(&mut self) {
        self.waiting = self.timers.wait_for_message();
        self.moved_timeout = true;
    }

    /// [`Connection::next_timeout`], if it may have changed since the last call.
    #[inline]
    pub(crate) fn moved_deadline(&mut self) -> Option<Option<Instant>> {
        let moved = core::mem::take(&mut self.moved_timeout);
        moved.then(|| self.next_timeout())
    }

    /// Does what is due; early calls are harmless.
    pub fn on_timeout(&mut self, now: Instant, cfg: &ConnectionConfig) {
        self.moved_timeout = true;
        if now < self.timers.next() {
            return;
        }
        //= FLOW-022
        if now >= self.timers.coalesce {
            self.timers.coalesce = Instant::MAX;
            self.wants.insert(Wants::FLUSH);
        }
        //= FLOW-014
        if now >= self.timers.lag {
            self.timers.lag = Instant::MAX;
            self.wants.insert(Wants::NOTIFY);
        }
        self.note_timers();
        if now >= self.timers.close {
            self.timers.close = Instant::MAX;
            let act = self.close.timeout();
            self.perform(now, cfg, act);
        }
    }

    /// Bounds the time for which data is held back.
    #[inline(always)]
    pub(super) fn arm_coalesce(&mut self, now: Instant, cfg: &ConnectionConfig) {
        //= FLOW-022
        if self.tx.may_hold() && self.timers.coalesce == Instant::MAX && self.tx.is_held() {
            self.start_coalesce(now, cfg);
        }
    }

    #[inline(never)]
    fn start_coalesce(&mut self, now: Instant, cfg: &ConnectionConfig) {
        let most = match self.tx.corked {
            true => cfg.cork,
            false => cfg.coalesce,
        };
        self.timers.coalesce = now.after(most);
        self.note_timers();
    }

    /// Nothing is held back any more.
    pub(super) fn stop_coalesce(&mut self) {
        self.timers.coalesce = Instant::MAX;
        self.note_timers();
    }

    /// A CDC message goes out: nothing waits for one any more.
    #[inline(always)]
    pub(super) fn stop_waiting(&mut self) {
        debug_assert_eq!(self.waiting, self.timers.wait_for_message());
        if self.waiting {
            self.timers.lag = Instant::MAX;
            self.timers.coalesce = Instant::MAX;
            self.note_timers();
        }
    }

    /// Bounds the time for which an answer to R waits for further consumption.
    #[inline(always)]
    pub(super) fn arm_lag(&mut self, now: Instant, cfg: &ConnectionConfig) {
        //= FLOW-014
        if self.rx.is_update_requested()
            && self.timers.lag == Instant::MAX
            && self.rx.gain() > 0
            && !self.close.final_decided()
        {
            self.start_lag(now, cfg);
        }
    }

    #[inline(never)]
    fn start_lag(&mut self, now: Instant, cfg: &ConnectionConfig) {
        self.timers.lag = now.after(cfg.cursor_lag);
        self.note_timers();
    }
}
