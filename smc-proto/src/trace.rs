//! Events of the engine as it works: each message, cursor, state, link, buffer and timer.
//!
//! Events are for people and tools that observe an engine, and decide nothing; what an application
//! has to act on is an [`Event`](crate::event::Event) of the endpoint. An [`Observer`] is
//! given each event with the time and its [`Subject`], in the order in which the engine did things.
//! Events are `Copy`, have no text and are made without an allocator.
//!
//! The storage of an endpoint hands the observer to the engine for the duration of each call, so
//! that the endpoint has no further type parameter: [`Observed`] puts any observer beside any
//! storage. The engine makes no event while [`Observer::is_on`] returns `false`, and has no code for
//! them without the feature `trace`.
//!
//! ```text
//!  engine ── TraceEvent ──► Observer ──► FlightRecorder: a ring of Records, 32 octets each
//!                         │                              │
//!                         └── log, defmt, tracing, …     └──► Entry: one line of text
//! ```
//!
//! A [`Record`] is an event with its time and its subject in a fixed form, and an [`Entry`] is a
//! record decoded, with the text of one line. [`Kind`] describes all events and their fields.

mod convert;
mod declare;
mod entry;
mod field;
mod hooks;
mod kinds;
mod marks;
mod names;
mod observed;
mod record;
mod recorder;
mod subject;
mod tap;
#[cfg(test)]
mod tests;
#[cfg(feature = "defmt")]
mod to_defmt;
#[cfg(feature = "log")]
mod to_log;
mod value;

pub(crate) use convert::{clc_received, clc_sent, deadline, llc_received, llc_sent};
pub use entry::Entry;
pub use field::Flags;
pub use kinds::{Kind, TraceEvent};
#[cfg(feature = "trace")]
pub(crate) use marks::Marks;
pub(crate) use marks::MarksBefore;
pub use names::{
    BufferStep, GroupStep, LinkStep, LlcKind, QpStep, RendezvousStep, Side, TcpAction, TimerKind,
};
pub use observed::Observed;
pub use record::Record;
pub use recorder::FlightRecorder;
pub use subject::Subject;
pub(crate) use tap::Tap;
#[cfg(feature = "defmt")]
pub use to_defmt::ToDefmt;
#[cfg(feature = "log")]
pub use to_log::ToLog;
pub use value::{FieldInfo, Value};

use crate::time::Instant;

/// Receives the events of an engine.
///
/// The engine calls it from within, so that it has to be quick, and cannot call the endpoint.
pub trait Observer {
    /// Takes in what happened to `subject` at a point in time, which is that of the call in
    /// which the engine did it.
    fn observe(&mut self, at: Instant, subject: Subject, event: &TraceEvent);

    /// Whether events are wanted. The engine asks once in each call.
    #[inline]
    fn is_on(&self) -> bool {
        true
    }
}

impl<O: Observer + ?Sized> Observer for &mut O {
    #[inline]
    fn observe(&mut self, at: Instant, subject: Subject, event: &TraceEvent) {
        (**self).observe(at, subject, event);
    }

    #[inline]
    fn is_on(&self) -> bool {
        (**self).is_on()
    }
}

/// No observer, while it is `None`.
impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn observe(&mut self, at: Instant, subject: Subject, event: &TraceEvent) {
        if let Some(observer) = self {
            observer.observe(at, subject, event);
        }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.as_ref().is_some_and(Observer::is_on)
    }
}

/// Two observers, each with all events.
impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn observe(&mut self, at: Instant, subject: Subject, event: &TraceEvent) {
        let (first, second) = self;
        first.observe(at, subject, event);
        second.observe(at, subject, event);
    }

    #[inline]
    fn is_on(&self) -> bool {
        let (first, second) = self;
        first.is_on() || second.is_on()
    }
}
