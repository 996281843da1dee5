//! Storage of an endpoint whose events a flight recorder keeps.

use smc_proto::trace::{FlightRecorder, Observed, Record};

/// Events that a recorder keeps.
const KEPT: usize = 48;

/// Tables, and a flight recorder beside them.
pub type Stored<T> = Observed<T, FlightRecorder<[Record; KEPT]>>;

/// Storage of tables.
pub const fn stored<T>(tables: T) -> Stored<T> {
    Observed::new(tables, FlightRecorder::new([Record::EMPTY; KEPT]))
}
