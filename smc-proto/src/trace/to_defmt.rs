//! Events for the crate `defmt`.

use super::{Observer, Subject, TraceEvent};
use crate::time::Instant;

/// Gives events to the logger of the crate `defmt`, as lines of the level `trace` behind
/// nanoseconds on the clock of the endpoint's embedder.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToDefmt;

impl Observer for ToDefmt {
    fn observe(&mut self, at: Instant, subject: Subject, event: &TraceEvent) {
        let (subject, event) = (
            defmt::Display2Format(&subject),
            defmt::Display2Format(event),
        );
        defmt::trace!("{=u64} {} {}", at.as_nanos(), subject, event);
    }
}
