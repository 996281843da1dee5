//! The last events of each engine, for a run that failed.

use std::fmt;

use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::trace::{FlightRecorder, Observed, Observer, Record, Subject, TraceEvent};

use super::Simulation;

/// Events of an engine that are kept.
const EVENTS: usize = 256;

/// Boxed tables with a recorder, which is off at first.
pub type Tables = Observed<Owned, Recording>;

/// The last events of an engine, if they are recorded.
#[derive(Clone, Debug, Default)]
pub struct Recording(Option<FlightRecorder<Box<[Record]>>>);

impl Recording {
    /// Records events from now on.
    #[must_use]
    pub fn on() -> Self {
        let memory = vec![Record::EMPTY; EVENTS].into_boxed_slice();
        Self(Some(FlightRecorder::new(memory)))
    }

    /// The recorder, if it is on.
    #[must_use]
    pub const fn recorder(&self) -> Option<&FlightRecorder<Box<[Record]>>> {
        self.0.as_ref()
    }
}

impl Observer for Recording {
    #[inline]
    fn observe(&mut self, at: Instant, subject: Subject, event: &TraceEvent) {
        self.0.observe(at, subject, event);
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

/// A line for each event.
impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(recorder) => recorder.fmt(f),
            None => f.write_str("not recorded: set SMC_EVENTS"),
        }
    }
}

/// Tables of these sizes, without a record of events.
#[must_use]
pub fn tables(limits: Limits) -> Tables {
    Observed::new(Owned::new(limits), Recording::default())
}

/// Tables of these sizes, with a record of events.
#[must_use]
pub fn recorded_tables(limits: Limits) -> Tables {
    Observed::new(Owned::new(limits), Recording::on())
}

/// Tables of these sizes, with a record of events if the environment has `SMC_EVENTS`. Without
/// one the engine takes its fast path, which makes no events.
#[must_use]
pub fn tables_of_test(limits: Limits) -> Tables {
    match std::env::var_os("SMC_EVENTS") {
        Some(_) => recorded_tables(limits),
        None => tables(limits),
    }
}

impl Simulation<Tables> {
    /// Records the last events of all engines from now on.
    pub fn record_events(&mut self) {
        for host in &mut self.hosts {
            *host.endpoint.observer() = Recording::on();
            if let Some((make, _)) = &mut host.anew {
                *make = recorded_tables;
            }
        }
    }

    /// The last events of all engines, as lines of text below the name of each host.
    #[must_use]
    pub fn recorded_events(&self) -> String {
        let hosts = self.hosts.iter().map(|host| {
            let name = self.fabric.host_name(host.id);
            format!("events of {name}:\n{}", host.endpoint.observer_ref())
        });
        hosts.collect()
    }
}
