//! A record decoded, and its line of text.

use core::fmt;

use super::{Record, Subject, TraceEvent};
use crate::time::Instant;

/// An event with its time and its subject.
///
/// Printed, it is one line: time in seconds, subject, group and name of the kind, and each field.
///
/// ```text
/// 0.000012500 conn0.1 cdc:sent sequence=1 producer=17 consumer=4 producer_flags=0x00 connection_flags=0x00
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When it happened, on the clock of the endpoint's embedder.
    pub at: Instant,
    /// To which object.
    pub subject: Subject,
    /// What happened.
    pub event: TraceEvent,
}

impl Entry {
    /// The record of the event.
    #[must_use]
    pub fn encode(&self) -> Record {
        Record::new(self.at, self.subject, &self.event)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(self.at, f)?;
        write!(f, " {} {}", self.subject, self.event)
    }
}

/// Prints group and name of the kind, and each field.
impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().full_name())?;
        let mut result = Ok(());
        self.each_field(|name, value| {
            if result.is_ok() {
                result = write!(f, " {name}={value}");
            }
        });
        result
    }
}

/// Prints a time in seconds with nine digits behind the point.
fn write_seconds(at: Instant, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut place = 1_000_000_000u64;
    let mut rest = at.as_nanos();
    write!(f, "{}.", rest / 1_000_000_000)?;
    while place > 1 {
        rest = rest.checked_rem(place).unwrap_or(0);
        place /= 10;
        write!(f, "{}", rest.checked_div(place).unwrap_or(0))?;
    }
    Ok(())
}
