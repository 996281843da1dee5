//! The flight recorder: the last events of an engine, in memory that the caller gives.

use core::fmt;

use super::{Entry, Observer, Record, Subject, TraceEvent};
use crate::time::Instant;

/// Keeps the last events in a ring of records: a slice, an array, a box.
///
/// ```
/// use smc_proto::trace::{FlightRecorder, Record};
///
/// let mut memory = [Record::EMPTY; 64];
/// let recorder = FlightRecorder::new(&mut memory[..]);
/// assert_eq!(recorder.entries().count(), 0);
/// ```
#[derive(Clone)]
pub struct FlightRecorder<M> {
    records: M,
    /// Where the next event goes.
    next: usize,
    observed: u64,
}

impl<M> FlightRecorder<M> {
    /// A recorder that keeps as many events as there are records. With none it only counts.
    #[must_use]
    pub const fn new(records: M) -> Self {
        Self {
            records,
            next: 0,
            observed: 0,
        }
    }

    /// Events observed since the recorder was made or cleared.
    #[must_use]
    pub const fn observed(&self) -> u64 {
        self.observed
    }

    /// Forgets all events.
    pub const fn clear(&mut self) {
        self.next = 0;
        self.observed = 0;
    }
}

impl<M: AsRef<[Record]>> FlightRecorder<M> {
    /// Events that newer ones took the place of.
    #[must_use]
    pub fn overwritten(&self) -> u64 {
        let kept = u64::try_from(self.records.as_ref().len()).unwrap_or(u64::MAX);
        self.observed.saturating_sub(kept)
    }

    /// Records of the events kept, from the oldest to the newest.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        let records = self.records.as_ref();
        let (newer, older) = records.split_at_checked(self.next).unwrap_or_default();
        let full = usize::try_from(self.observed).map_or(true, |n| n >= records.len());
        let older = if full { older } else { &[] };
        older.iter().chain(newer)
    }

    /// Events kept, from the oldest to the newest.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.records().filter_map(Record::decode)
    }
}

impl<M: AsRef<[Record]> + AsMut<[Record]>> Observer for FlightRecorder<M> {
    #[inline]
    fn observe(&mut self, at: Instant, subject: Subject, event: &TraceEvent) {
        let records = self.records.as_mut();
        if let Some(record) = records.get_mut(self.next) {
            *record = Record::new(at, subject, event);
        }
        self.observed = self.observed.wrapping_add(1);
        self.next = self.next.wrapping_add(1);
        if self.next >= records.len() {
            self.next = 0;
        }
    }
}

/// Prints a line for each event kept, and before them how many were overwritten.
impl<M: AsRef<[Record]>> fmt::Display for FlightRecorder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overwritten = self.overwritten();
        if overwritten > 0 {
            writeln!(f, "({overwritten} earlier events overwritten)")?;
        }
        for record in self.records() {
            writeln!(f, "{record}")?;
        }
        Ok(())
    }
}

impl<M> fmt::Debug for FlightRecorder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightRecorder")
            .field("observed", &self.observed)
            .finish_non_exhaustive()
    }
}
