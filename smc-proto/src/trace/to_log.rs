//! Events for the crate `log`.

use super::{Observer, Subject, TraceEvent};
use crate::time::Instant;

/// Gives events to the logger of the crate `log`: each one is a line of the level `Trace` with the
/// target `smc`. The logger adds the time, of its own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToLog;

impl Observer for ToLog {
    fn observe(&mut self, _at: Instant, subject: Subject, event: &TraceEvent) {
        log::trace!(target: "smc", "{subject} {event}");
    }

    fn is_on(&self) -> bool {
        log::log_enabled!(target: "smc", log::Level::Trace)
    }
}
