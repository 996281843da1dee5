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

    pub(super) fn perform(&mut self, now: Instant, cfg: &ConnectionConfig, act: Act) {
        if act.contains(Act::LINGER) {
            self.close = now.after(cfg.linger);
        }
        if act.contains(Act::CLOSE_WAIT) {
            *self = Self::NONE;
            self.close = now.after(cfg.close_wait);
        }
        if act.contains(Act::ABORT_WAIT) {
            *self = Self::NONE;
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

    /// Does what is due; early calls are harmless.
    pub fn on_timeout(&mut self, now: Instant, cfg: &ConnectionConfig) {
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
        if now >= self.timers.close {
            self.timers.close = Instant::MAX;
            let act = self.close.timeout();
            self.perform(now, cfg, act);
        }
    }

    /// Bounds the time for which data is held back.
    pub(super) fn arm_coalesce(&mut self, now: Instant, cfg: &ConnectionConfig) {
        //= FLOW-022
        if self.timers.coalesce == Instant::MAX && self.tx.is_held() {
            self.timers.coalesce = now.after(cfg.coalesce);
        }
    }

    /// Bounds the time for which an answer to R waits for further consumption.
    pub(super) fn arm_lag(&mut self, now: Instant, cfg: &ConnectionConfig) {
        //= FLOW-014
        if self.timers.lag == Instant::MAX
            && self.rx.is_update_requested()
            && self.rx.gain() > 0
            && !self.close.final_decided()
        {
            self.timers.lag = now.after(cfg.cursor_lag);
        }
    }
}
