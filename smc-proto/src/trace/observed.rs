//! An observer beside the tables of an endpoint.

use super::Observer;
use crate::endpoint::Endpoint;
use crate::storage::{Storage, Tables, Views};

/// Storage of an endpoint whose events an observer gets.
///
/// ```
/// use smc_proto::config::Config;
/// use smc_proto::endpoint::{ConnOptions, Endpoint};
/// use smc_proto::storage::Fixed;
/// use smc_proto::time::Instant;
/// use smc_proto::trace::{FlightRecorder, Kind, Observed, Record};
/// use smc_proto::wire::clc::Subnets;
/// use smc_proto::wire::types::{Mac, PeerId};
///
/// let tables = Fixed::<1, 1, 1, 2, 2, 1>::new();
/// let storage = Observed::new(tables, FlightRecorder::new([Record::EMPTY; 16]));
/// let config = Config::new(PeerId::new(1, Mac([2; 6])));
/// let mut engine = Endpoint::new(config, 0x5eed, storage);
///
/// let mut options = ConnOptions::new(Subnets::default());
/// options.option_negotiated = false;
/// engine.connect(Instant::from_nanos(1), options, &[])?;
///
/// let kinds = engine.observer().entries().map(|entry| entry.event.kind());
/// assert!(kinds.eq([Kind::RendezvousStarted, Kind::TcpAction, Kind::FellBack]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Observed<S, O> {
    storage: S,
    observer: O,
}

impl<S, O> Observed<S, O> {
    /// Storage with an observer.
    pub const fn new(storage: S, observer: O) -> Self {
        Self { storage, observer }
    }

    /// The storage without the observer, for tests.
    #[cfg(feature = "allocation-failures")]
    pub const fn storage(&mut self) -> &mut S {
        &mut self.storage
    }
}

#[cfg(feature = "trace")]
impl<S: Storage, O: Observer> Storage for Observed<S, O> {
    #[inline]
    fn tables(&mut self) -> Tables<'_> {
        self.storage.tables()
    }

    #[inline]
    fn views(&self) -> Views<'_> {
        self.storage.views()
    }

    #[inline]
    fn observed(&mut self) -> (Tables<'_>, Option<&mut dyn Observer>) {
        let observer: Option<&mut dyn Observer> = match self.observer.is_on() {
            true => Some(&mut self.observer),
            false => None,
        };
        (self.storage.tables(), observer)
    }
}

#[cfg(feature = "trace")]
impl<S: Storage, O: Observer> Endpoint<Observed<S, O>> {
    /// The observer.
    pub const fn observer(&mut self) -> &mut O {
        &mut self.storage_mut().observer
    }

    /// The observer, for reading.
    pub const fn observer_ref(&self) -> &O {
        &self.storage_ref().observer
    }
}
