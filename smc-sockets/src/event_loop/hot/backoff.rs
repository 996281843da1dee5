//! Times without polling, each of which is longer if it follows another one soon.

use std::time::{Duration, Instant};

/// A time without polling. Each one is twice as long as the one before if that ended less than
/// twice its length ago, and else starts again at `first`.
#[derive(Debug)]
pub(super) struct Backoff {
    until: Option<Instant>,
    time: Duration,
    first: Duration,
    most: Duration,
}

impl Backoff {
    pub(super) fn new((first, most): (Duration, Duration)) -> Self {
        let (until, time) = (None, first);
        Self {
            until,
            time,
            first,
            most,
        }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.time = match self.is_recent(now) {
            true => (2 * self.time).min(self.most),
            false => self.first,
        };
        self.until = Some(now + self.time);
    }

    fn is_recent(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until + 2 * self.time)
    }

    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}
